"""Boundaries carried from the size at which regions were found up to the picture's own.

Level by level the blocks become smaller, and pixels near a boundary are decided anew by the conditional random field of
`colour_crf`: its unary terms are the distances to the regions as they come from the level below, its pairwise terms the
colours of this level. Only windows with a boundary are read, and in them only the pixels near it are computed, so that
the cost follows the boundaries' length.

The mean field sees `WINDOW` pixels far in each of its `ROUNDS`, the smoothing a few more: what a window says about its
core depends on nothing further than `HALO` away. So windows give the same labels as the whole, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha1
from itertools import product
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Box, Floats32, Ints, Labels, Mask
from ..evolution.colour_crf import ROUNDS, TEMPERATURE, WINDOW, follow
from ..labels import dilate, smooth_boundaries
from ..parallel import compiled
from .canvas import Canvas

#: What windows looked like and what came of them, by level and corner: a window that looks the same is not done again.
Known = dict[tuple[int, int, int], tuple[bytes, Array]]
#: Numbers of regions while boundaries are refined: a fourth of what int64 takes.
Short = NDArray[np.int16]

#: Side of a window's core, and how much it looks beyond.
CORE, SMOOTHED = 512, 8
HALO = ROUNDS * WINDOW + SMOOTHED
#: How far from a boundary pixels are decided anew: twice the side of the blocks it came in, in pixels of its level.
REACH = 4
#: What speaks against a region at the far end of the band, and for pixels of similar colour, in units of the costs'
#: temperature.
PRIOR, LIKENESS = 3.0, 6.0
#: Deviation of the Gaussian that smooths boundaries, in pixels; SciPy cuts it off at four times that.
RADIUS = 2.0
#: Levels of at most so many pixels are averaged once and kept.
KEPT = 2**22


class Band(NamedTuple):
    """A region's costs at pixels near its boundary; `band` are their flat numbers."""

    band: Ints
    cost: Floats32


def sharpened(
    labels: Labels,
    canvas: Canvas,
    marks: Labels | None = None,
    known: Known | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Short:
    """Bring a label map of the canvas to the picture's size, with boundaries to the pixel.

    Parameters
    ----------
    labels : (h, w) integers
        On the canvas: in its pose; −1 outside the picture.
    canvas : Canvas
    marks : (H, W) integers, optional
        Pixels of the picture that keep their region; −1 elsewhere.
    known : dict, optional
        Kept by the caller from one call to the next for the same picture.
    stop : callable, optional
        Asked before each window; True leaves the others as they are.
    """
    found: Short = canvas.upright(labels).astype(np.int16)
    for coarse, fine in levels(canvas.factor):
        found = _carried(found, coarse, fine, canvas)
        found = refined(found, canvas, fine, marks, known=known, stop=stop)
    return found


def levels(factor: int) -> Iterator[tuple[int, int]]:
    """Sides of the blocks, from one level to the next: half, or a little more, down to one pixel.

    >>> list(levels(13))
    [(13, 7), (7, 4), (4, 2), (2, 1)]
    """
    while factor > 1:
        smaller = -(-factor // 2)
        yield factor, smaller
        factor = smaller


def refined(
    labels: Short,
    canvas: Canvas,
    factor: int,
    marks: Labels | None,
    core: int = CORE,
    known: Known | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Short:
    """Decide the pixels within `REACH` of a boundary anew, on blocks of `factor` pixels a side."""
    found = labels.copy()
    height, width = labels.shape
    whole = canvas.window(factor, (slice(0, height), slice(0, width))) if factor > 1 and labels.size <= KEPT else None
    for top, left in product(range(0, height, core), range(0, width, core)):
        if stop():
            break
        inner = slice(top, min(height, top + core)), slice(left, min(width, left + core))
        if not _has_boundary(labels[_widened(inner, REACH + SMOOTHED, labels.shape)]):
            continue
        box = _widened(inner, HALO, labels.shape)
        fixed = None if marks is None else canvas.marks_at(marks, factor, box)
        key, looks = (factor, top, left), labels[box].tobytes() + (b"" if fixed is None else fixed.tobytes())
        digest = sha1(looks, usedforsecurity=False).digest()
        if known is not None and key in known and known[key][0] == digest:
            found[inner] = known[key][1]
            continue
        seen = canvas.window(factor, box) if whole is None else whole[(slice(None), *box)]
        place = tuple(slice(a.start - b.start, a.stop - b.start) for a, b in zip(inner, box, strict=True))
        turn = canvas.pose
        here = refine(turn.apply(labels[box]), turn.apply(seen), None if fixed is None else turn.apply(fixed))
        found[inner] = turn.undo(here)[place]
        if known is not None:
            known[key] = digest, found[inner].copy()
    return found


def refine(labels: Array, seen: Floats32, fixed: Array | None = None) -> Array:
    """Decide the pixels within `REACH` of a boundary by the mean field and smooth them; `seen` is (c, h, w)."""
    bands = bands_of(labels, REACH)
    decided = follow(labels, bands, seen, LIKENESS, fixed)
    near = np.zeros(labels.size, bool)
    for band in bands.values():
        near[band.band] = True
    smooth = np.where(near.reshape(labels.shape), smooth_boundaries(decided, RADIUS), decided)
    return smooth if fixed is None else np.where(fixed >= 0, fixed, smooth)


def bands_of(labels: Array, reach: int) -> dict[int, Band]:
    """For each region, the costs of all pixels within `reach` of it and of another: by their distance from it."""
    places = np.flatnonzero(dilate(_edges(labels), reach) & (labels >= 0))
    numbers = np.unique(labels.ravel()[places])
    index = np.full(int(numbers.max(initial=0)) + 1, -1)
    index[numbers] = np.arange(len(numbers))
    square = np.array(list(product(range(-reach, reach + 1), repeat=2)))
    steps = square[np.hypot(square[:, 0], square[:, 1]) <= reach]
    distance = np.hypot(steps[:, 0], steps[:, 1])
    order = np.argsort(distance, kind="stable")
    away = np.full((len(places), len(numbers)), np.inf, np.float32)
    _measure(labels, places, steps[order], distance[order].astype(np.float32), index, away)
    contested = (away < inf).sum(axis=1) > 1
    places, away = places[contested], away[contested]
    found = {}
    for k, number in enumerate(numbers.tolist()):
        there = away[:, k] < inf
        cost = np.maximum(away[there, k] - np.float32(0.5), 0) * np.float32(TEMPERATURE * PRIOR / reach)
        found[number] = Band(places[there], cost)
    return found


@compiled()
def _measure(labels: Array, places: Ints, steps: Ints, distance: Floats32, index: Ints, away: Floats32) -> None:
    """Fill `away` (places, regions) with the distance of the nearest pixel of each region, steps sorted by distance."""
    height, width = labels.shape
    for n in range(len(places)):
        y, x = places[n] // width, places[n] % width
        for k in range(len(steps)):
            row, column = y + steps[k, 0], x + steps[k, 1]
            if 0 <= row < height and 0 <= column < width and labels[row, column] >= 0:
                i = index[labels[row, column]]
                if i >= 0 and distance[k] < away[n, i]:
                    away[n, i] = distance[k]


def _carried(labels: Short, coarse: int, fine: int, canvas: Canvas) -> Short:
    """Bring a label map from blocks of one side to smaller ones, by their centres; −1 outside."""
    size = canvas.source.shape
    rows, columns = (
        np.minimum((np.arange(-(-full // fine)) * fine + fine // 2) // coarse, side - 1)
        for full, side in zip(size, labels.shape, strict=True)
    )
    found: Short = labels[rows[:, None], columns]
    return found if canvas.valid is None else np.where(canvas.inside_at(fine), found, np.int16(-1))


def _edges(labels: Array) -> Mask:
    """Pixels with a 4-neighbour in another region."""
    found = np.zeros(labels.shape, bool)
    for a, b in ((np.s_[1:], np.s_[:-1]), (np.s_[:, 1:], np.s_[:, :-1])):
        unlike = (labels[a] != labels[b]) & (labels[a] >= 0) & (labels[b] >= 0)
        found[a] |= unlike
        found[b] |= unlike
    return found


def _has_boundary(labels: Array) -> bool:
    return bool(labels.min() != labels.max()) and bool(_edges(labels).any())


def _widened(box: Box, margin: int, shape: tuple[int, ...]) -> Box:
    rows, columns = (
        slice(max(0, side.start - margin), min(end, side.stop + margin)) for side, end in zip(box, shape, strict=True)
    )
    return rows, columns
