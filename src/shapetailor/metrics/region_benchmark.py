"""Region benchmark of a whole dataset: covering, Rand index and variation of information.

ODS (optimal dataset scale) takes the one threshold that is best for all images together, OIS (optimal
image scale) the best threshold of each image.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..arrays import Floats
from . import contingency as tables
from .contingency import Contingency, partition
from .labels import LabelMap, Truth, as_labels, as_truths


class RegionCurve(NamedTuple):
    """One image's results, an entry for each threshold (or segmentation)."""

    covered: Floats  #: Σ over all annotators' regions of size · best IoU
    true_area: int  #: pixels × annotators
    covered_at_best: float  #: the same sum, each true region at the threshold that suits it best
    reverse_covering: Floats  #: predicted regions covered by any annotator's regions
    rand_index: Floats
    variation_of_information: Floats

    @property
    def covering(self) -> Floats:
        """Covering of the truth at each threshold."""
        return self.covered / self.true_area


class ImageCovering(NamedTuple):
    """The best threshold of one image."""

    threshold: float
    covering: float
    reverse_covering: float


class Optimum(NamedTuple):
    """A measure at the best threshold for the dataset (ODS) and at each image's own (OIS)."""

    threshold: float
    ods: float
    ois: float


@dataclass(frozen=True)
class RegionBenchmark:
    """The dataset's figures."""

    thresholds: Floats
    covering_curve: Floats
    rand_index_curve: Floats
    variation_of_information_curve: Floats
    images: tuple[ImageCovering, ...]
    covering: Optimum
    best_covering: float
    rand_index: Optimum
    variation_of_information: Optimum


def region_curve(segmentations: Iterable[LabelMap], truth: Truth) -> RegionCurve:
    """Compare one image's segmentations, one a threshold, with its annotators' label maps."""
    maps = (as_labels(f"segmentations[{i}]", labels) for i, labels in enumerate(segmentations))
    first = next(maps, None)
    if first is None:
        raise ValueError("segmentations is empty, expected at least one label map")
    annotators = [partition(labels) for labels in as_truths(truth, first.shape, None)]
    sizes = np.concatenate([np.bincount(annotator.codes) for annotator in annotators])
    best = np.zeros(len(sizes))
    rows = []
    for number, labels in enumerate(chain([first], maps)):
        if labels.shape != first.shape:
            raise ValueError(f"segmentations[{number}] has shape {labels.shape}, the first {first.shape}")
        predicted = partition(labels)
        counted = [tables.contingency(predicted, annotator) for annotator in annotators]
        matches = np.concatenate([tables.best_iou_of_true(table) for table in counted])
        best = np.maximum(best, matches)
        rows.append((sizes @ matches, *_reverse_rand_information(counted)))
    covered, reverse, rand, information = np.array(rows).T
    return RegionCurve(covered, int(sizes.sum()), float(sizes @ best), reverse, rand, information)


def _reverse_rand_information(counted: list[Contingency]) -> tuple[float, float, float]:
    """Reverse covering, mean Rand index and mean variation of information of one segmentation."""
    best = np.max([tables.best_iou_of_predicted(table) for table in counted], axis=0)
    return (
        float(counted[0].predicted_sizes @ best) / counted[0].pixels,
        sum(tables.rand_index(table) for table in counted) / len(counted),
        sum(tables.variation_of_information(table) for table in counted) / len(counted),
    )


def region_benchmark(curves: Iterable[RegionCurve], thresholds: Sequence[float] | Floats) -> RegionBenchmark:
    """Collect the images' curves into the figures of the BSDS region benchmark.

    Parameters
    ----------
    curves : iterable of RegionCurve
        One an image, all over the same thresholds.
    thresholds : sequence of float
        Of the curves' entries; 1, 2, … for a list of segmentations.

    Notes
    -----
    Covering pools the pixels of all images and annotators; the Rand index and the variation of
    information are averaged over the images.
    """
    levels = np.asarray(thresholds, dtype=float)
    images = list(curves)
    if not images:
        raise ValueError("curves is empty, expected one for each image")
    for number, curve in enumerate(images):
        if len(curve.covered) != len(levels):
            raise ValueError(f"curves[{number}] has {len(curve.covered)} entries for {len(levels)} thresholds")
    area = sum(curve.true_area for curve in images)
    covering = np.sum([curve.covered for curve in images], axis=0) / area
    rand = np.array([curve.rand_index for curve in images])
    information = np.array([curve.variation_of_information for curve in images])
    return RegionBenchmark(
        thresholds=levels,
        covering_curve=covering,
        rand_index_curve=rand.mean(axis=0),
        variation_of_information_curve=information.mean(axis=0),
        images=tuple(_best_of_image(curve, levels) for curve in images),
        covering=Optimum(
            float(levels[covering.argmax()]),
            float(covering.max()),
            sum(float(curve.covered.max()) for curve in images) / area,
        ),
        best_covering=sum(curve.covered_at_best for curve in images) / area,
        rand_index=_optimum(rand, levels),
        variation_of_information=_optimum(-information, levels, sign=-1.0),
    )


def _best_of_image(curve: RegionCurve, thresholds: Floats) -> ImageCovering:
    at = int(curve.covering.argmax())
    return ImageCovering(float(thresholds[at]), float(curve.covering[at]), float(curve.reverse_covering[at]))


def _optimum(scores: Floats, thresholds: Floats, sign: float = 1.0) -> Optimum:
    """ODS and OIS of a measure given as images × thresholds, larger is better."""
    mean = scores.mean(axis=0)
    at = int(mean.argmax())
    return Optimum(float(thresholds[at]), sign * float(mean[at]), sign * float(scores.max(axis=1).mean()))
