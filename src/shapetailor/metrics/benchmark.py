"""The BSDS benchmark of a whole dataset: segmentations or contour maps of every image, over a range of thresholds.

ODS (optimal dataset scale) takes the one threshold that is best for all images together, OIS (optimal image scale) the
best threshold of each image.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy import ndimage

from ..arrays import Array, Floats, Ints, Mask
from .boundary import TOLERANCE, BoundaryScore, boundary_counts, f_measure
from .contingency import Contingency, LabelMap, Truth, as_labels, as_truths, contingency, mean, partition


def benchmark_thresholds(count: int = 99) -> Floats:
    """Return the benchmark's `count` thresholds, evenly spaced inside (0, 1)."""
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    return np.linspace(1 / (count + 1), 1 - 1 / (count + 1), count)


def ucm_segmentations(ucm: Array, thresholds: Iterable[float]) -> Iterator[Ints]:
    """Segment an ultrametric contour map of double size (`ucm2`, (2H+1)×(2W+1)) at each threshold.

    Regions are the 8-connected components where the contour is at most the threshold; pixel (i, j) of the image is
    (2i+1, 2j+1) of the map.
    """
    contour = _double_size(ucm)
    for threshold in thresholds:
        regions, _ = ndimage.label(contour <= threshold, structure=np.ones((3, 3)))
        yield regions[1::2, 1::2]


def ucm_strength(ucm: Array) -> Array:
    """Return the boundary strength at image size of an ultrametric contour map of double size."""
    return _double_size(ucm)[2::2, 2::2]


def strength_boundaries(strength: Array, thresholds: Iterable[float]) -> Iterator[Mask]:
    """Return the thinned boundary where the strength (H×W, in [0, 1]) reaches each threshold."""
    from skimage.morphology import thin  # imported here as in `boundary`

    if strength.ndim != 2:
        raise ValueError(f"strength must be H×W, got shape {strength.shape}")
    for threshold in thresholds:
        yield thin(strength >= threshold)


def _double_size(ucm: Array) -> Array:
    if ucm.ndim != 2 or not all(side % 2 and side >= 3 for side in ucm.shape):
        raise ValueError(f"ucm must be of double size, (2H+1)×(2W+1), got shape {ucm.shape}")
    return ucm


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
        counted = [contingency(predicted, annotator) for annotator in annotators]
        matches = np.concatenate([table.best_iou_of_true for table in counted])
        best = np.maximum(best, matches)
        reverse = counted[0].predicted_sizes @ np.max([each.best_iou_of_predicted for each in counted], axis=0)
        measures = (mean(each, counted) for each in (Contingency.rand_index, Contingency.variation_of_information))
        rows.append((sizes @ matches, reverse / labels.size, *measures))
    covered, *others = np.array(rows).T
    return RegionCurve(covered, int(sizes.sum()), float(sizes @ best), *others)


def region_benchmark(curves: Iterable[RegionCurve], thresholds: Sequence[float] | Floats) -> RegionBenchmark:
    """Collect the images' curves, all over the same thresholds, into the figures of the BSDS region benchmark.

    `thresholds` are those of the curves' entries; 1, 2, … for a list of segmentations. Covering pools the pixels of all
    images and annotators; the Rand index and the variation of information are averaged over the images.
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
    covering_ois = sum(float(curve.covered.max()) for curve in images) / area
    return RegionBenchmark(
        thresholds=levels,
        covering_curve=covering,
        rand_index_curve=rand.mean(axis=0),
        variation_of_information_curve=information.mean(axis=0),
        images=tuple(_best_of_image(curve, levels) for curve in images),
        covering=Optimum(float(levels[covering.argmax()]), float(covering.max()), covering_ois),
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


class BestBoundary(NamedTuple):
    """The best F along a curve, interpolated between thresholds, and where it is."""

    threshold: float
    recall: float
    precision: float
    f: float


@dataclass(frozen=True)
class BoundaryBenchmark:
    """The dataset's figures.

    `ods` is the best point of the pooled curve, `images` each image's best, `ois` the score of all images pooled at
    their best thresholds, `average_precision` the area under the pooled curve.
    """

    thresholds: Floats
    recall: Floats
    precision: Floats
    f: Floats
    images: tuple[BestBoundary, ...]
    ods: BestBoundary
    ois: BoundaryScore
    average_precision: float


def boundary_curve(predicted: Iterable[Mask], true: Sequence[Mask], tolerance: float = TOLERANCE) -> Ints:
    """Match one image's boundary maps, one a threshold, with those of its annotators.

    The maps are thin and boolean: `label_boundaries` of a segmentation, or `strength_boundaries`. Returns counts,
    thresholds × 4: matched true, true, matched predicted and predicted pixels.
    """
    if not len(true):
        raise ValueError("true is empty, expected at least one boundary map")
    rows = []
    for number, boundary in enumerate(predicted):
        maps = {f"predicted[{number}]": boundary} | {f"true[{i}]": each for i, each in enumerate(true)}
        for name, each in maps.items():
            if each.dtype != bool or each.shape != true[0].shape:
                raise ValueError(f"{name} is {each.dtype} {each.shape}, expected bool {true[0].shape}")
        rows.append(boundary_counts([(boundary, each) for each in true], tolerance))
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def boundary_benchmark(curves: Iterable[Ints], thresholds: Sequence[float] | Floats) -> BoundaryBenchmark:
    """Collect the images' counts, from `boundary_curve`, into the figures of the BSDS boundary benchmark.

    `thresholds` are those of the curves' rows; 1, 2, … for a list of segmentations.
    """
    levels = np.asarray(thresholds, dtype=float)
    counts = list(curves)
    if not counts:
        raise ValueError("curves is empty, expected one for each image")
    for number, curve in enumerate(counts):
        if curve.shape != (len(levels), 4):
            raise ValueError(f"curves[{number}] has shape {curve.shape}, expected {(len(levels), 4)}")
    recall, precision = _rates(np.sum(counts, axis=0))
    chosen = np.sum([curve[f_measure(*_rates(curve)).argmax()] for curve in counts], axis=0)
    ois_recall, ois_precision = (float(rate) for rate in _rates(chosen))
    return BoundaryBenchmark(
        thresholds=levels,
        recall=recall,
        precision=precision,
        f=f_measure(precision, recall),
        images=tuple(_best(levels, *_rates(curve)) for curve in counts),
        ods=_best(levels, recall, precision),
        ois=BoundaryScore(ois_precision, ois_recall, float(f_measure(ois_precision, ois_recall))),
        average_precision=_area(recall, precision),
    )


def _rates(counts: Ints) -> tuple[Floats, Floats]:
    """Recall and precision, 0 where there is nothing to recall or nothing predicted."""
    matched_true, true, matched_predicted, predicted = np.moveaxis(counts, -1, 0)
    return matched_true / np.maximum(true, 1), matched_predicted / np.maximum(predicted, 1)


def _best(thresholds: Floats, recall: Floats, precision: Floats) -> BestBoundary:
    """Best F on the curve, linear between neighbouring thresholds, at 100 points each."""
    points = np.stack([thresholds, recall, precision])
    step = np.linspace(0, 1, 100)
    between = points[:, 1:, None] * step + points[:, :-1, None] * (1 - step)
    path = np.concatenate([points[:, :1], between.reshape(3, -1)], axis=1)
    f = f_measure(path[2], path[1])
    at = int(f.argmax())
    threshold, recall_there, precision_there = path[:, at].tolist()
    return BestBoundary(threshold, recall_there, precision_there, float(f[at]))


def _area(recall: Floats, precision: Floats) -> float:
    """Area under precision over recall at recall 0, 0.01, …, 1; outside the curve's recalls it is 0."""
    levels, first = np.unique(recall, return_index=True)
    if len(levels) < 2:
        return 0.0
    grid = np.linspace(0, 1, 101)
    return float(np.interp(grid, levels, precision[first], left=0.0, right=0.0).sum() * 0.01)
