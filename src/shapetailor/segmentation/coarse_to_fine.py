"""Boundaries carried from the size at which regions were found up to the picture's own.

Level by level the blocks become smaller, and pixels near a boundary are decided anew by the conditional random field of
`colour_crf`: its unary terms are the distances to the regions as they come from the level below, its pairwise terms the
colours of this level. Where colours say little, `textures` adds to the unary terms. Only windows with a boundary are
read, and in them only the pixels near it are computed, so that the cost follows the boundaries' length. At the coarse
levels, where it is short, what moved is decided again.

Inside a texture, brightness varies much and hue little, or the other way round. So colours are first stretched in the
directions in which neighbours hardly differ: there, a small difference tells two textures apart.

The mean field sees `WINDOW` pixels far in each of its `ROUNDS`, the smoothing a few more: what a window says about its
core depends on nothing further than `HALO` away. So windows give the same labels as the whole, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha1
from itertools import product
from math import inf
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Box, Floats32, Ints, Labels, Mask
from ..evolution.colour_crf import ALIKE, ROUNDS, TEMPERATURE, VECTORISED, WINDOW, Band, follow
from ..labels import dilate, edges
from ..parallel import compiled, in_threads
from .canvas import Canvas
from .described import Described
from .textures import Textures

#: What windows looked like and what came of them, by level, pass and corner: one that looks the same is not done again.
Windows = dict[tuple[int, int, int, int], tuple[bytes, Array]]
#: Adds what else speaks against regions to their bands.
Costs = Callable[[dict[int, Band]], dict[int, Band]]
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
#: Passes, at most, of the first level and of those with blocks above two pixels; how far from a pixel that moved the
#: next one decides again. What a window's core depends on is decided at most `HALO` − `WINDOW` away, so this must be at
#: most `WINDOW`.
PASSES, ASTIR = 7, 8
#: The same of finer levels where textures are described; else these have one.
FEW = 3
#: Passes of a level, from the first on, in which textures count, at most: the last is always by colours alone. The two
#: that end `PASSES` bring home what textures pulled off.
TOLD = 5
#: Levels of more pixels are not described: that takes about a second for a million.
DESCRIBED = 2**21
#: Where neighbours' colours are compared: in a grid of so many patches a side; their side, and the step to a neighbour.
PATCHES, PATCH, APART = 6, 36, 6
#: Share of the neighbours' deviation that counts as similar, and the least deviation: what rounding to 8 bits leaves.
SIMILAR, LEAST = 0.5, 0.5 / 255


def sharpened(
    labels: Labels,
    canvas: Canvas,
    marks: Labels | None = None,
    kept: Kept | None = None,
    stop: Callable[[], bool] = lambda: False,
    described: Described | None = None,
) -> Short:
    """Bring a label map of the canvas to the picture's size, with boundaries to the pixel.

    Parameters
    ----------
    labels : (h, w) integers
        On the canvas: in its pose; −1 outside the picture.
    canvas : Canvas
    marks : (H, W) integers, optional
        Pixels of the picture that keep their region; −1 elsewhere.
    kept : Kept, optional
        Kept by the caller from one call to the next for the same picture.
    stop : callable, optional
        Asked before each window; True leaves the others as they are.
    described : Described, optional
        The canvas as a network sees it, which then describes the levels too.
    """
    found: Short = canvas.upright(labels).astype(np.int16)
    windows = None if kept is None else kept.windows
    for coarse, fine in levels(canvas.factor):
        found = _carried(found, coarse, fine, canvas)
        seen = Seen.of(canvas, fine) if kept is None else kept.seen(canvas, fine)
        textures = None
        if described is not None and found.size <= DESCRIBED:
            textures = Textures.of(described, seen.read, found.shape)
        passes = PASSES if coarse == canvas.factor or fine > 2 else 1 if textures is None else FEW
        moved = None
        for number in range(passes):
            told = textures if number < min(TOLD, passes - 1) else None
            before, found = found, refined(found, seen, marks, moved, number, windows, stop=stop, textures=told)
            moved = found != before
            if not moved.any():
                break
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


@dataclass(frozen=True)
class Seen:
    """A picture's colours at one level, stretched in the directions in which neighbours hardly differ."""

    canvas: Canvas
    factor: int
    whole: Floats32 | None  # as they are, where the level is small
    stretch: Floats32  # (c, c)
    reading: Lock = field(default_factory=Lock)  # libraries that read files do not like two threads

    @classmethod
    def of(cls, canvas: Canvas, factor: int) -> Seen:
        """Find the directions: they depend on the picture alone, not on regions or windows."""
        height, width = (-(-side // factor) for side in canvas.source.shape)
        kept = factor > 1 and height * width <= KEPT
        whole = canvas.window(factor, (slice(0, height), slice(0, width))) if kept else None
        read = cls(canvas, factor, whole, np.zeros((0, 0), np.float32)).read
        boxes = product(_spread(height), _spread(width))
        return cls(canvas, factor, whole, stretched([read(box) for box in boxes]))

    def __getitem__(self, box: Box) -> Floats32:
        """The colours in a box, (c, h, w); infinity outside the picture."""
        values = self.read(box)
        inside = np.isfinite(values[:1])
        known = np.where(inside, values, np.float32(0)).reshape(len(values), -1)
        return np.where(inside, (self.stretch @ known).reshape(values.shape), np.float32(inf))

    def read(self, box: Box) -> Floats32:
        """The colours in a box as they are."""
        if self.whole is not None:
            return self.whole[(slice(None), *box)]
        with self.reading:
            return self.canvas.window(self.factor, box)


@dataclass
class Kept:
    """What is kept of a picture from one call to the next: its colours at each level, and what came of windows."""

    windows: Windows = field(default_factory=dict)
    levels: dict[int, Seen] = field(default_factory=dict)

    def seen(self, canvas: Canvas, factor: int) -> Seen:
        """The colours at a level, read once."""
        if factor not in self.levels:
            self.levels[factor] = Seen.of(canvas, factor)
        return self.levels[factor]


def stretched(patches: Sequence[Floats32]) -> Floats32:
    """The map of colours under which `ALIKE` is at most `SIMILAR` times the deviation of neighbours, in any direction.

    `patches` are (c, h, w). Directions of more deviation stay as they are.
    """
    count, total = 1, np.zeros((len(patches[0]), len(patches[0])))
    for values in patches:
        for near, far in ((values[:, :-APART], values[:, APART:]), (values[..., :-APART], values[..., APART:])):
            known = np.isfinite(near[0]) & np.isfinite(far[0])
            unlike = (far[:, known] - near[:, known]).astype(np.float64)
            total += unlike @ unlike.T
            count += unlike.shape[1]
    variance, directions = np.linalg.eigh(total / (2 * count))
    similar = SIMILAR * np.sqrt(np.maximum(variance, 0) + LEAST**2)
    found: Floats32 = ((directions * np.maximum(1, ALIKE / similar)) @ directions.T).astype(np.float32)
    return found


def _spread(side: int) -> list[slice]:
    """Patches along a side, the same from both ends."""
    room = max(0, side - PATCH)
    starts = [number * room // (PATCHES - 1) for number in range(PATCHES // 2)]
    return [slice(start, min(side, start + PATCH)) for start in [*starts, *(room - start for start in starts)]]


def refined(
    labels: Short,
    seen: Seen,
    marks: Labels | None,
    moved: Mask | None = None,
    number: int = 0,
    known: Windows | None = None,
    core: int = CORE,
    stop: Callable[[], bool] = lambda: False,
    textures: Textures | None = None,
) -> Short:
    """Decide the pixels within `REACH` of a boundary anew; of pass `number` only those near what the last one moved."""
    found = labels.copy()
    cores = product(*(range(0, side, core) for side in labels.shape))
    inners = [(slice(top, top + core), slice(left, left + core)) for top, left in cores]
    if textures is not None and not stop():
        textures.cover(labels)
    in_threads(
        partial(_decide, found, labels, seen, marks, moved, number, inner, known, stop, textures) for inner in inners
    )
    return found


def _decide(
    found: Short,
    labels: Short,
    seen: Seen,
    marks: Labels | None,
    moved: Mask | None,
    number: int,
    inner: Box,
    known: Windows | None,
    stop: Callable[[], bool],
    textures: Textures | None,
) -> None:
    """Write to `found` what a window gives; parameters as for `refined`."""
    around = _widened(inner, ASTIR + SMOOTHED, labels.shape)
    if stop() or not _has_boundary(labels[around]) or (moved is not None and not moved[around].any()):
        return
    box = _widened(inner, HALO, labels.shape)
    fixed = None if marks is None else seen.canvas.marks_at(marks, seen.factor, box)
    if moved is not None:
        at_rest = np.where(dilate(moved[box], ASTIR), np.int16(-1), labels[box])
        fixed = at_rest if fixed is None else np.where(fixed >= 0, fixed, at_rest)
    key = seen.factor, number, inner[0].start, inner[1].start
    read = box if textures is None else _widened(box, textures.margin + textures.cell, labels.shape)
    looks = labels[read].tobytes() + (b"" if fixed is None else fixed.tobytes())
    digest = sha1(looks, usedforsecurity=False).digest()
    if known is not None and key in known and known[key][0] == digest:
        found[inner] = known[key][1]
        return
    top, left = (a.start - b.start for a, b in zip(inner, box, strict=True))
    height, width = found[inner].shape
    found[inner] = _decided(labels, seen, box, fixed, textures)[top : top + height, left : left + width]
    if known is not None:
        known[key] = digest, found[inner].copy()


def _decided(labels: Short, seen: Seen, box: Box, fixed: Array | None, textures: Textures | None) -> Array:
    """Decide the pixels of a box near a boundary; only the part that this needs is read."""
    here: Array = labels[box] if fixed is None else np.where(fixed >= 0, fixed, labels[box])
    active = dilate(edges(labels[box]), REACH)
    if fixed is not None:
        active &= fixed < 0
    if not active.any():
        return here
    down, across = _widened(_bounds(active), WINDOW, active.shape)
    there = (
        slice(box[0].start + down.start, box[0].start + down.stop),
        slice(box[1].start + across.start, box[1].start + across.stop),
    )
    turn = seen.canvas.pose
    costs = None if textures is None else partial(textures.costs, labels, there)
    known = None if fixed is None else turn.apply(fixed[down, across])
    here = here.copy()
    here[down, across] = turn.undo(refine(turn.apply(labels[there]), turn.apply(seen[there]), known, costs))
    return here


def refine(labels: Array, seen: Floats32, fixed: Array | None = None, costs: Costs | None = None) -> Array:
    """Decide the pixels within `REACH` of a boundary by the mean field and smooth them; `seen` is (c, h, w)."""
    bands = bands_of(labels, REACH)
    if costs is not None:
        bands = costs(bands)
    decided = follow(labels, bands, seen, LIKENESS, fixed)
    near = np.zeros(labels.size, bool)
    for band in bands.values():
        near[band.band] = True
    if fixed is not None:
        near &= fixed.ravel() < 0
    smooth = decided.copy() if fixed is None else np.where(fixed >= 0, fixed, decided)
    smooth[near.reshape(smooth.shape)] = smoothed(decided, np.flatnonzero(near))
    return smooth


def smoothed(labels: Array, places: Ints) -> Array:
    """What `labels.smooth_boundaries` makes of the pixels at flat `places`, inside the picture, computed only there."""
    numbers = np.flatnonzero(np.bincount(labels[labels >= 0]))
    found = np.zeros(len(places), labels.dtype)
    if len(numbers):
        index = np.zeros(int(numbers[-1]) + 1, np.int64)
        index[numbers] = np.arange(len(numbers))
        line = np.exp(-(np.arange(-SMOOTHED, SMOOTHED + 1) ** 2) / (2 * RADIUS**2))
        weight = np.outer(line, line).astype(np.float32)
        _smooth(np.pad(labels, SMOOTHED, mode="edge"), places, weight, index, numbers, found)
    return found


def bands_of(labels: Array, reach: int) -> dict[int, Band]:
    """For each region, the costs of all pixels within `reach` of it and of another: by their distance from it."""
    places = np.flatnonzero(dilate(edges(labels), reach) & (labels >= 0))
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


@compiled(fastmath=VECTORISED)
def _smooth(around: Array, places: Ints, weight: Floats32, index: Ints, numbers: Array, found: Array) -> None:
    """Fill `found` with the label that weighs most around each place.

    `around` are the labels with as many pixels beyond the frame as `weight` (side, side) reaches.
    """
    side = len(weight)
    reach, width = side // 2, around.shape[1] - side + 1
    least = weight.sum() * np.float32(0.5 + 1e-5)  # more than half, whatever the rounding
    votes = np.zeros(len(numbers))
    for n in range(len(places)):
        y, x = places[n] // width, places[n] % width
        own, mine = around[y + reach, x + reach], np.float32(0)
        for down in range(side):
            for across in range(side):
                mine += weight[down, across] if around[y + down, x + across] == own else np.float32(0)
        found[n] = own
        if mine > least:
            continue
        votes[:] = 0
        for down in range(side):
            for across in range(side):
                label = around[y + down, x + across]
                if label >= 0:
                    votes[index[label]] += weight[down, across]
        found[n] = numbers[votes.argmax()]


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


def _bounds(mask: Mask) -> Box:
    """The smallest box that holds a mask's pixels."""
    rows, columns = (np.flatnonzero(mask.any(axis=1 - axis)) for axis in (0, 1))
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def _has_boundary(labels: Array) -> bool:
    return bool(labels.min() != labels.max()) and bool(edges(labels).any())


def _widened(box: Box, margin: int, shape: tuple[int, ...]) -> Box:
    rows, columns = (
        slice(max(0, side.start - margin), min(end, side.stop + margin)) for side, end in zip(box, shape, strict=True)
    )
    return rows, columns
