"""The contingency table of two label maps, and every region metric as a function of it.

`n_ij` is the number of pixels that the predicted region i and the true region j share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Array, Floats, Ints
from .assignment import cheapest_pairs
from .labels import LabelMap, Truth, as_labels, as_truths


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
    return Contingency(
        predicted=pairs // true.regions,
        true=pairs % true.regions,
        overlap=overlap,
        predicted_sizes=np.bincount(predicted.codes, minlength=predicted.regions),
        true_sizes=np.bincount(true.codes, minlength=true.regions),
    )


def contingency_tables(prediction: LabelMap, truth: Truth, ignore: int | None = None) -> list[Contingency]:
    """Check the arguments and return one table an annotator, over the pixels that are not ignored."""
    labels = as_labels("prediction", prediction)
    tables = []
    for annotator in as_truths(truth, labels.shape, ignore):
        keep = slice(None) if ignore is None else annotator != ignore
        tables.append(contingency(partition(labels[keep]), partition(annotator[keep])))
    return tables


def best_iou_of_true(table: Contingency) -> Floats:
    """For every true region, max_i IoU(i, j)."""
    return _largest(table.iou, table.true, len(table.true_sizes))


def best_iou_of_predicted(table: Contingency) -> Floats:
    """For every predicted region, max_j IoU(i, j)."""
    return _largest(table.iou, table.predicted, len(table.predicted_sizes))


def rand_index(table: Contingency) -> float:
    """1 - (Σ_i a_i²/2 + Σ_j b_j²/2 - Σ_ij n_ij²) / (N choose 2), with the region sizes a and b."""
    total = table.pixels * (table.pixels - 1) // 2
    if total == 0:
        return 1.0
    together, predicted, true = _pairs_together(table)
    return (total - predicted - true + 2 * together) / total


def adjusted_rand(table: Contingency) -> float:
    """(index - expected) / (mean - expected) of the pairs together; Hubert & Arabie (1985)."""
    total = table.pixels * (table.pixels - 1) // 2
    together, predicted, true = _pairs_together(table)
    # Over the common denominator 2·total, in exact integers: the differences cancel heavily.
    expected = 2 * predicted * true
    largest = total * (predicted + true)
    if largest == expected:  # one region in both, or every pixel its own region in both
        return 1.0
    return (2 * total * together - expected) / (largest - expected)


def variation_of_information(table: Contingency) -> float:
    """-Σ_ij p_ij (log2 p_ij/p_i + log2 p_ij/q_j), the two conditional entropies; Meilă (2005)."""
    share = table.overlap / table.pixels
    of_predicted = table.overlap / table.predicted_sizes[table.predicted]
    of_true = table.overlap / table.true_sizes[table.true]
    return float(np.sum(share * -(np.log2(of_predicted) + np.log2(of_true)))) + 0.0


def best_pairing(table: Contingency) -> tuple[Ints, Ints]:
    """Return the one-to-one pairs of predicted and true regions whose sum of IoU is largest."""
    shape = len(table.predicted_sizes), len(table.true_sizes)
    # A pair costs 1 - IoU; no pair costs as much as a pair of IoU 0.
    return cheapest_pairs(table.predicted, table.true, 1.0 - table.iou, shape, alone=1.0)


def mean_iou(table: Contingency) -> float:
    """Σ IoU of the best pairing / number of true regions."""
    width = len(table.true_sizes)
    predicted, true = best_pairing(table)
    chosen = np.isin(table.predicted * width + table.true, predicted * width + true)
    return float(table.iou[chosen].sum()) / width


def _largest(values: Floats, groups: Ints, count: int) -> Floats:
    largest = np.zeros(count)
    np.maximum.at(largest, groups, values)
    return largest


def _pairs_together(table: Contingency) -> list[int]:
    """Pixel pairs together in both partitions, in the prediction, in the truth."""
    sizes = (table.overlap, table.predicted_sizes, table.true_sizes)
    return [int((each * (each - 1) // 2).sum()) for each in sizes]
