"""How many regions a picture has: weakly linked parts of its affinity graph, those that are alike merged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Array, Floats, Ints, Mask
from ..clustering import ROUNDING, cut_by, spectrum
from ..labels import relabel
from .starts import SIGMA2, block_means, spread

#: Least distance of two regions, see `merge_alike`.
SEPARATION = 8.0
#: Parts of the graph whose eigenvalue is at least this are regions of their own.
LINKED = 0.99


def auto_start(
    descriptors: Array,
    kmax: int,
    rng: np.random.Generator,
    inside: Mask | None = None,
    threshold: float = SEPARATION,
    grid: int = 32,
) -> Ints:
    """Return starting regions 0..K−1 with K chosen, 1 to `kmax`: a normalised cut into weakly linked parts.

    A graph falls into as many parts as its normalised affinity has eigenvalues of 1, and parts that hang together by
    little have eigenvalues near 1: `LINKED` says how near. Of the regions that this gives, those whose descriptors are
    alike are merged (`merge_alike`), such as the two ends of a gradual change. Pixels that are not inside get −1.
    """
    points = block_means(descriptors, kmax, grid, inside)
    size = float(np.square(points).sum(axis=1).mean())
    if kmax == 1 or size == 0:
        return np.zeros(descriptors.shape[1:], np.int64)
    values, vectors = spectrum(points, kmax, SIGMA2 * size)
    clusters = cut_by(vectors[:, : max(1, int((values >= LINKED).sum()))], rng)
    labels = spread(descriptors, points, clusters)
    if inside is None:
        return relabel(merge_alike(descriptors, labels, threshold))[0]
    labels = merge_alike(descriptors, np.where(inside, labels, -1), threshold)
    return np.where(inside, np.searchsorted(np.unique(labels[inside]), labels), -1)


class _Moments(NamedTuple):
    area: int
    mean: Floats
    scatter: Floats  # Σ (F − a)(F − a)ᵀ


def merge_alike(descriptors: Array, labels: Ints, threshold: float = SEPARATION) -> Ints:
    """Merge regions, the most alike first, until every two are at least `threshold` apart.

    Regions i and j are ``(e·(a_i − a_j))² / (s_i² + s_j²)`` apart, with e the direction from one mean to the other and
    s² the variances along it: Fisher's ratio, which has no unit and so needs no knowledge of the descriptors' scale.
    A uniformly filled stretch of descriptors that is cut in two anywhere comes to at most 6, a Gaussian cut in the
    middle to 3.5; two Gaussians four standard deviations apart come to 8.

    Merged regions have the larger one's number; nothing is renumbered.
    """
    moments = {int(i): _moments_of(descriptors[:, labels == i]) for i in np.unique(labels[labels >= 0])}
    owner = np.arange(int(labels.max()) + 1)
    while len(moments) > 1:
        ratio, i, j = min((_separation(moments[i], moments[j]), i, j) for i in moments for j in moments if i < j)
        if ratio >= threshold:
            break
        kept, gone = (i, j) if moments[i].area >= moments[j].area else (j, i)
        moments[kept] = _union(moments[kept], moments.pop(gone))
        owner[owner == gone] = kept
    return np.where(labels >= 0, owner[labels], labels)


def _moments_of(points: Array) -> _Moments:
    mean = points.mean(axis=1, dtype=np.float64)
    centred = points - mean[:, None].astype(points.dtype)
    return _Moments(points.shape[1], mean, (centred @ centred.T).astype(np.float64))


def _union(a: _Moments, b: _Moments) -> _Moments:
    area = a.area + b.area
    step = b.mean - a.mean
    scatter = a.scatter + b.scatter + a.area * b.area / area * np.outer(step, step)
    return _Moments(area, a.mean + b.area / area * step, scatter)


def _separation(a: _Moments, b: _Moments) -> float:
    """Fisher's ratio of two regions along the line through their means."""
    step = b.mean - a.mean
    square = float(step @ step)
    # Rounding is no spread, and no distance either.
    floor = ROUNDING**2 * float(a.mean @ a.mean + b.mean @ b.mean)
    if square <= floor:
        return 0.0
    spread = float(step @ (a.scatter / a.area + b.scatter / b.area) @ step) / square
    return square / max(spread, floor)
