"""Ultrametric contour maps and boundary strengths, thresholded: iterators over one map a threshold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from scipy import ndimage

from ..arrays import Array, Floats, Ints, Mask


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
