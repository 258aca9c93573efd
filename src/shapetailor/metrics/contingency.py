"""The contingency table of two label maps, and every region metric as a function of it.

`n_ij` is the number of pixels that the predicted region i and the true region j share.
"""

import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from ..arrays import Array, Floats, Ints, as_array

LabelMap: TypeAlias = Array | torch.Tensor
#: One label map, or a list with one an annotator.
Truth: TypeAlias = LabelMap | Sequence[LabelMap]


class Partition(NamedTuple):
    """The pixels of a label map, flat, with labels 0 … regions-1."""

    codes: Ints
    regions: int


class Contingency(NamedTuple):
    """The overlapping pairs of regions, each once (sparse), and the regions' sizes in pixels."""

    predicted: Ints
    true: Ints
    overlap: Ints
    predicted_sizes: Ints
    true_sizes: Ints

    @property
    def pixels(self) -> int:
        """Number of pixels judged."""
        return int(self.true_sizes.sum())

    @property
    def iou(self) -> Floats:
        """Intersection over union of every overlapping pair."""
        union = self.predicted_sizes[self.predicted] + self.true_sizes[self.true] - self.overlap
        return self.overlap / union

    @property
    def best_iou_of_true(self) -> Floats:
        """For every true region, max_i IoU(i, j)."""
        largest = np.zeros(len(self.true_sizes))
        np.maximum.at(largest, self.true, self.iou)
        return largest

    @property
    def best_iou_of_predicted(self) -> Floats:
        """For every predicted region, max_j IoU(i, j)."""
        largest = np.zeros(len(self.predicted_sizes))
        np.maximum.at(largest, self.predicted, self.iou)
        return largest

    @property
    def pairs_together(self) -> list[int]:
        """Pixel pairs together in both partitions, in the prediction, in the truth; and all pairs."""
        sizes = (self.overlap, self.predicted_sizes, self.true_sizes, np.array([self.pixels]))
        return [int((each * (each - 1) // 2).sum()) for each in sizes]

    def rand_index(self) -> float:
        """1 - (Σ_i a_i²/2 + Σ_j b_j²/2 - Σ_ij n_ij²) / (N choose 2), with the region sizes a and b."""
        together, predicted, true, total = self.pairs_together
        return (total - predicted - true + 2 * together) / total if total else 1.0

    def adjusted_rand(self) -> float:
        """(index - expected) / (mean - expected) of the pairs together; Hubert & Arabie (1985)."""
        together, predicted, true, total = self.pairs_together
        # Over the common denominator 2·total, in exact integers: the differences cancel heavily.
        expected = 2 * predicted * true
        largest = total * (predicted + true)
        if largest == expected:  # one region in both, or every pixel its own region in both
            return 1.0
        return (2 * total * together - expected) / (largest - expected)

    def variation_of_information(self) -> float:
        """-Σ_ij p_ij (log2 p_ij/p_i + log2 p_ij/q_j), the two conditional entropies; Meilă (2005)."""
        share = self.overlap / self.pixels
        of_predicted = self.overlap / self.predicted_sizes[self.predicted]
        of_true = self.overlap / self.true_sizes[self.true]
        return float(np.sum(share * -(np.log2(of_predicted) + np.log2(of_true)))) + 0.0

    def best_pairing(self) -> tuple[Ints, Ints]:
        """Return the one-to-one pairs of predicted and true regions whose sum of IoU is largest."""
        shape = len(self.predicted_sizes), len(self.true_sizes)
        # A pair costs 1 - IoU; no pair costs as much as a pair of IoU 0.
        return cheapest_pairs(self.predicted, self.true, 1.0 - self.iou, shape, alone=1.0)

    def mean_iou(self) -> float:
        """Σ IoU of the best pairing / number of true regions."""
        width = len(self.true_sizes)
        predicted, true = self.best_pairing()
        chosen = np.isin(self.predicted * width + self.true, predicted * width + true)
        return float(self.iou[chosen].sum()) / width


def as_labels(name: str, value: LabelMap) -> Array:
    """Return `value` as an H×W integer array; errors call it `name`."""
    array = as_array(value, name)
    if array.dtype.kind not in "iub":
        raise TypeError(f"{name} must hold integer labels, got dtype {array.dtype}")
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name} must be H×W with at least one pixel, got shape {array.shape}")
    return array


def as_truths(truth: Truth, shape: tuple[int, ...], ignore: int | None) -> list[Array]:
    """Return one label map an annotator, each of the prediction's `shape` and with a pixel to judge."""
    if ignore is not None:
        try:
            operator.index(ignore)
        except TypeError:
            raise TypeError(f"ignore must be an integer label or None, got {ignore!r}") from None
    several = isinstance(truth, list | tuple)
    if several and not len(truth):
        raise ValueError("truth is an empty list, expected at least one label map")
    names = [f"truth[{i}]" for i in range(len(truth))] if several else ["truth"]
    truths = [as_labels(n, t) for n, t in zip(names, truth if several else [truth], strict=True)]
    for name, array in zip(names, truths, strict=True):
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, but prediction has {shape}")
        if ignore is not None and np.all(array == ignore):
            raise ValueError(f"{name} is ignored everywhere: all its pixels carry the label {ignore}")
    return truths


def partition(labels: Array) -> Partition:
    """Renumber any labels to 0 … regions-1, in ascending order."""
    flat = labels.ravel()
    if flat.dtype.kind == "b":
        flat = flat.view(np.uint8)
    low, high = int(flat.min()), int(flat.max())
    if high - low < 4 * flat.size + 256 and high <= np.iinfo(np.int64).max:
        # Labels in a short range: counting is several times faster than sorting.
        offsets = flat.astype(np.int64) - low
        used = np.bincount(offsets) > 0
        return Partition((np.cumsum(used) - 1)[offsets], int(used.sum()))
    values, codes = np.unique(flat, return_inverse=True)
    return Partition(codes.reshape(-1).astype(np.int64), len(values))


def contingency(predicted: Partition, true: Partition) -> Contingency:
    """Count the pixels of every pair of a predicted and a true region."""
    joint = predicted.codes * true.regions + true.codes
    cells = predicted.regions * true.regions
    if cells <= 4 * joint.size + 256:
        table = np.bincount(joint, minlength=cells)
        pairs = np.flatnonzero(table)
        overlap = table[pairs]
    else:
        pairs, overlap = np.unique(joint, return_counts=True)
    predicted_sizes, true_sizes = (np.bincount(each.codes, minlength=each.regions) for each in (predicted, true))
    return Contingency(pairs // true.regions, pairs % true.regions, overlap, predicted_sizes, true_sizes)


def tables_of(prediction: LabelMap, truth: Truth, ignore: int | None = None) -> list[Contingency]:
    """Check the arguments and return one table an annotator, over the pixels that are not ignored."""
    labels = as_labels("prediction", prediction)
    tables = []
    for annotator in as_truths(truth, labels.shape, ignore):
        keep = slice(None) if ignore is None else annotator != ignore
        tables.append(contingency(partition(labels[keep]), partition(annotator[keep])))
    return tables


def mean(metric: Callable[[Contingency], float], counted: Sequence[Contingency]) -> float:
    """Average a metric over the annotators."""
    return sum(metric(table) for table in counted) / len(counted)


def cheapest_pairs(
    rows: Array, columns: Array, costs: Floats, shape: tuple[int, int], alone: float
) -> tuple[Ints, Ints]:
    """Pair rows with columns one to one at the least sum of the pairs' costs and of `alone` for every unpaired row.

    `rows`, `columns` and `costs` list the allowed pairs, each once; costs are not negative. Every row gets an extra
    column of its own at the cost `alone`. So a full matching of the rows exists, and SciPy's sparse Jonker–Volgenant
    solver finds the exact optimum.
    """
    count, width = shape
    if count > width:
        right, left = cheapest_pairs(columns, rows, costs, (width, count), alone)
        return left, right
    row = np.concatenate([rows, np.arange(count)])
    column = np.concatenate([columns, width + np.arange(count)])
    # The solver reads a stored zero as "no edge"; a constant on every edge does not change the optimum.
    cost = np.concatenate([costs, np.full(count, alone)]) + 1.0
    graph = csr_array((cost, (row, column)), shape=(count, width + count))
    left, right = min_weight_full_bipartite_matching(graph)
    paired = right < width
    return left[paired], right[paired]
