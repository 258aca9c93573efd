"""How the regions of two label maps overlap: the one table behind every region metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Array, Floats, Ints
from .labels import LabelMap, as_labels, as_truths


class Partition(NamedTuple):
    """A label map's pixels, flat, with its labels renamed to 0 … regions-1."""

    codes: Ints
    regions: int


class Contingency(NamedTuple):
    """The overlapping pairs of regions, each named once, and the regions' sizes in pixels.

    Kept sparse: there are at most as many overlapping pairs as pixels, however many regions.
    """

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
    """Rename any labels to 0 … regions-1, in ascending order."""
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


def contingency_tables(
    prediction: LabelMap, truth: LabelMap | Sequence[LabelMap], ignore: int | None = None
) -> list[Contingency]:
    """Check the arguments and return one table an annotator, over the pixels it does not ignore."""
    labels = as_labels("prediction", prediction)
    tables = []
    for annotator in as_truths(truth, labels.shape, ignore):
        keep = slice(None) if ignore is None else annotator != ignore
        tables.append(contingency(partition(labels[keep]), partition(annotator[keep])))
    return tables
