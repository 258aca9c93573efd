"""How many regions a picture has: normalised cuts into 1 to 16 parts, judged by nine measures.

The measures tell how likely each cut is. Taken is not the likeliest one, but the one that all of them cover best,
weighted by their likelihoods (to the power `SHARPENED`): where three, four and five regions are about as likely, four
lose least. Parts that are alike are merged in the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import adaptive_avg_pool2d, avg_pool2d

from ..arrays import Array, Floats, Floats32, Ints, Labels, Mask
from ..clustering import ROUNDING, affinities, cut_by, leading
from ..labels import relabel
from .opinions import Hypothesis, coverings
from .starts import GRID, SIGMA2, assign, block_means, region_means

#: Least distance of two regions, see `merge_alike`.
SEPARATION = 7.0
#: Cells along a side on which cuts are judged; how far apart cells are compared, and the window of stray cells.
CELLS, LAG, WINDOW = 64, 3, 7
#: Power of the likelihoods that cuts are weighted by.
SHARPENED = 2
#: Contrast of a picture whose parts do not meet.
APART = 3.0
#: What a cut into K parts is judged by; each with the range it was learnt in.
MEASURES = {
    "log of 1 − the K-th eigenvalue": (-6.908, -0.481),
    "log of 1 − the next": (-6.898, -0.444),
    "log of the least separation of two parts": (0.415, 4.944),
    "share of cells unlike most around them": (0.000, 0.274),
    "log K": (0.000, 2.773),
    "log of the smallest part's share": (-6.372, 0.000),
    "log of the contrast along boundaries": (0.224, 1.902),
    "log of the least contrast of two parts": (-0.783, 1.902),
    "boundary length for each part": (0.000, 3.516),
}
#: Hidden units score a cut by these, ``OUT · tanh(IN m + BIAS)``; learnt by `studies/learn_number.py`.
IN = np.array(
    [
        [-0.254, -0.468, 0.237, 1.783, -0.583, 0.077, 2.392, 0.767, -0.610],
        [-0.360, -0.480, 0.351, 0.411, -0.747, 0.025, 3.096, 1.088, -0.153],
        [0.118, -0.445, -0.427, 6.671, -0.328, 0.286, -2.809, -0.433, -0.383],
        [-0.168, -0.721, 0.042, 18.663, -0.058, 0.054, -0.980, -0.460, -0.978],
        [0.097, 0.133, -0.204, 2.811, 0.264, -0.062, 0.206, -0.097, 1.618],
        [0.025, 0.276, 0.015, -9.563, 0.039, -0.065, 1.196, 0.310, 0.725],
        [0.003, -0.314, -0.491, 1.019, -0.129, -0.307, 0.617, -1.086, -1.917],
        [0.240, 0.428, -0.314, -2.982, 0.203, -0.057, -0.265, -0.276, 0.547],
        [0.262, 0.419, -0.298, -3.465, 0.361, -0.029, -0.991, -0.475, 0.636],
        [0.103, 0.089, -0.289, 1.840, 0.262, -0.085, 0.559, -0.056, 1.270],
        [-0.073, -0.277, 0.040, 12.045, -0.052, 0.035, -1.163, -0.292, -0.739],
        [-0.099, 0.246, 0.304, -1.771, 0.400, -0.135, 2.303, 0.169, 0.230],
    ]
)
BIAS = np.array([-2.183, -3.546, 4.455, -2.731, -1.332, -0.518, 1.502, 1.668, 1.919, -1.194, -0.105, -3.923])
OUT = np.array([0.613, 0.572, -0.642, -0.893, -0.356, 0.324, -0.494, -0.499, -0.357, -0.238, -0.382, 0.456])


class Cut(NamedTuple):
    """A cut on cells, and what it is judged by."""

    means: Floats  # (K, D), the parts' mean descriptors
    labels: Labels  # (h, w); −1 outside the picture
    measured: Floats  # `MEASURES`


def auto_start(descriptors: Array, kmax: int, rng: np.random.Generator, inside: Mask | None = None) -> Ints:
    """Return starting regions 0..K−1 with K chosen, 1 to `kmax`: of the cut that agrees best with all.

    Of the regions that this gives, those whose descriptors are alike are merged (`merge_alike`), such as the two ends
    of a gradual change. Pixels that are not inside get −1.
    """
    found = list(cuts(descriptors, kmax, inside, rng))
    best = found[int(agreements(found, likelihoods(found) ** SHARPENED).argmax())]
    labels = assign(descriptors, best.means)
    if inside is None:
        return relabel(merge_alike(descriptors, labels))[0]
    labels = merge_alike(descriptors, np.where(inside, labels, -1))
    return np.where(inside, np.searchsorted(np.unique(labels[inside]), labels), -1)


def numbers(descriptors: Array, kmax: int, inside: Mask | None = None) -> list[Hypothesis]:
    """Return a hypothesis for each number of regions from 1 to `kmax`, weighted by how likely it is, 1 in all."""
    found = list(cuts(descriptors, kmax, inside, np.random.default_rng(0)))
    likely = likelihoods(found).tolist()
    return [Hypothesis(cut.means, np.arange(len(cut.means)), w) for cut, w in zip(found, likely, strict=True)]


def likelihoods(found: Sequence[Cut]) -> Floats:
    """How likely each cut of a picture is, 1 in all."""
    low, high = np.array(list(MEASURES.values())).T
    scores = np.array([OUT @ np.tanh(IN @ np.clip(cut.measured, low, high) + BIAS) for cut in found])
    likely: Floats = np.exp(scores - scores.max())
    likely /= likely.sum()
    return likely


def agreements(found: Sequence[Cut], weights: Floats) -> Floats:
    """How well all cuts, weighted, cover each one."""
    maps = np.stack([cut.labels.ravel() for cut in found])
    covered: Floats = weights @ coverings(maps[:, maps[0] >= 0])
    return covered


def cuts(descriptors: Array, kmax: int, inside: Mask | None, rng: np.random.Generator) -> Iterator[Cut]:
    """Yield the cuts into 1 to `kmax` parts."""
    cells, known = _cells(descriptors, inside)
    points = block_means(cells, kmax, GRID, known)
    size = float(np.square(points).sum(axis=1).mean()) or 1.0
    values, vectors = leading(affinities(points, SIGMA2 * size), min(kmax + 1, len(points)))
    for count in range(1, min(kmax, max(1, len(points) - 1)) + 1):
        clusters = cut_by(vectors[:, :count], rng)
        means = region_means(points.T[:, None], clusters[None], count)
        labels = np.where(known, assign(cells, means), -1)
        yield Cut(means, labels, measures(cells, labels, values))


def measures(cells: Floats32, labels: Labels, values: Floats) -> Floats:
    """Return the `MEASURES` of a cut of (D, h, w) cells; negative labels are outside the picture."""
    present = np.unique(labels[labels >= 0])
    moments = [_moments_of(cells[:, labels == i]) for i in present]
    apart = [_separation(a, b) for i, a in enumerate(moments) for b in moments[:i]]
    count = len(moments)
    least, overall = _contrasts(cells, labels, present)
    area = np.array([each.area for each in moments])
    rows, columns = labels.shape
    changes = sum(np.count_nonzero((a != b) & (a >= 0) & (b >= 0)) for a, b in _neighbours(labels, 1))
    return np.array(
        [
            np.log(1 - values[count - 1] + 1e-3),
            np.log(1 - values[min(count, len(values) - 1)] + 1e-3),
            np.log(max(min(apart, default=50.0), 0.1)),
            _stray(labels, present),
            np.log(count),
            np.log(area.min() / area.sum()),
            np.log(overall),
            np.log(least),
            changes / np.sqrt(rows * columns) / count,
        ]
    )


def _cells(descriptors: Array, inside: Mask | None) -> tuple[Floats32, Mask]:
    """Pool descriptors (D, H, W) to cells, and say which of them are inside the picture."""
    height, width = descriptors.shape[1:]
    scale = min(1.0, CELLS / max(height, width))
    size = (max(1, round(scale * height)), max(1, round(scale * width)))
    planes = torch.from_numpy(np.ascontiguousarray(descriptors, np.float32))
    if inside is None:
        return adaptive_avg_pool2d(planes, size).numpy(), np.ones(size, bool)
    weight = torch.from_numpy(inside.astype(np.float32))[None]
    share = adaptive_avg_pool2d(weight, size)
    means = adaptive_avg_pool2d(planes * weight, size) / share.clamp_min(1e-6)
    return means.numpy(), share[0].numpy() > 0


def _neighbours(planes: Array, lag: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Pairs of (..., h, w) that are `lag` cells apart, down and to the right."""
    return (planes[..., lag:, :], planes[..., :-lag, :]), (planes[..., lag:], planes[..., :-lag])


def _contrasts(cells: Floats32, labels: Labels, present: Ints) -> tuple[float, float]:
    """How much descriptors change over boundaries, in units of what they change inside: least of two parts, and all."""
    count = len(present)
    total, number = np.zeros((2, count, count))
    for (a, b), (p, q) in zip(_neighbours(labels, LAG), _neighbours(cells, LAG), strict=True):
        known = (a >= 0) & (b >= 0)
        pair = count * np.searchsorted(present, a[known]) + np.searchsorted(present, b[known])
        change = np.sqrt(np.square(p - q).sum(axis=0))[known]
        total += np.bincount(pair, change, count**2).reshape(count, count)
        number += np.bincount(pair, minlength=count**2).reshape(count, count)
    unit = max(total.trace() / max(number.trace(), 1), 1e-9)
    total, number = np.tril(total + total.T, -1), np.tril(number + number.T, -1)
    meet = number > 0
    if not meet.any():
        return APART, APART
    least = float((total[meet] / number[meet]).min()) / unit
    return max(least, 0.1), max(float(total.sum() / number.sum()) / unit, 0.1)


def _stray(labels: Labels, present: Ints) -> float:
    """The share of cells whose part is not the most frequent one around them."""
    hot = torch.from_numpy((labels == present[:, None, None]).astype(np.float32))
    around = avg_pool2d(hot, WINDOW, 1, WINDOW // 2, count_include_pad=False).numpy().argmax(axis=0)
    known = labels >= 0
    return float(np.mean(present[around][known] != labels[known]))


class _Moments(NamedTuple):
    area: int
    mean: Floats
    scatter: Floats  # Σ (F − a)(F − a)ᵀ


def merge_alike(descriptors: Array, labels: Ints) -> Ints:
    """Merge regions, the most alike first, until every two are at least `SEPARATION` apart.

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
        if ratio >= SEPARATION:
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
    width = float(step @ (a.scatter / a.area + b.scatter / b.area) @ step) / square
    return square / max(width, floor)
