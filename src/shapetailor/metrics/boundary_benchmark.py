"""Boundary benchmark of a whole dataset: the precision–recall curve, its ODS, OIS and average precision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Ints, Mask
from .boundary import TOLERANCE, BoundaryScore, boundary_counts, f_measure


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

    The maps are thin and boolean: `label_boundaries` of a segmentation, or `strength_boundaries`.

    Returns
    -------
    ndarray, thresholds × 4
        The counts of `BoundaryCounts`: matched true, true, matched predicted and predicted pixels.
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
    """Collect the images' counts into the figures of the BSDS boundary benchmark.

    Parameters
    ----------
    curves : iterable of ndarray, thresholds × 4
        One an image, from `boundary_curve`.
    thresholds : sequence of float
        Of the curves' rows; 1, 2, … for a list of segmentations.
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
