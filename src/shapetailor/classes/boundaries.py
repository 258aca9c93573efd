"""Boundaries of classes along what is seen, where colours tell the classes apart.

Probabilities come from blocks of several pixels, so that boundaries are blurred. Near them the mean field of
`evolution.colour_crf` decides, with −log of the probabilities as costs. Where one colour is found in several classes,
as in micrographs, that can do harm; so the marked pixels decide whether it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

import numpy as np

from ..arrays import Floats32, Labels
from ..clustering import affinities
from ..evolution.colour_crf import ALIKE, ROUNDS, TEMPERATURE, WINDOW, Band, mean_field
from ..labels import dilate, edges, most_likely

#: Weight of the pairwise terms.
WEIGHT = 4.0
#: What `told_apart` must be on average.
LEAST_TOLD = 0.6
#: Pixels of a class in a picture that are compared, and of all classes: memory grows with the square of these.
COMPARED, COMPARED_IN_ALL = 400, 2400
#: Pixels so near a boundary are decided anew, among the classes that have this probability there.
REACH, LEAST_PROBABILITY = 8, 0.02
#: Side of the windows, and how far a window must look beyond itself to find what the whole picture gives.
SIDE, HALO = 768, ROUNDS * WINDOW


def told_apart(seen: Floats32, marks: Labels, rng: np.random.Generator) -> float | None:
    """Return how well the colour of a single pixel tells its class: 0 not at all, 1 always.

    Each marked pixel of `seen` (C, H, W) is given the class whose other pixels look most like it, and counted by class
    where that is right, less what a guess has right. None where all `marks` (< 0: no mark) are of one class.
    """
    present = np.unique(marks[marks >= 0])
    if len(present) < 2:
        return None
    places = [np.flatnonzero(marks == each) for each in present]
    most = min(COMPARED, COMPARED_IN_ALL // len(present))
    places = [rng.choice(each, most, replace=False) if len(each) > most else each for each in places]
    colours = seen.reshape(len(seen), -1)[:, np.concatenate(places)].T.astype(np.float64)
    owner = np.repeat(np.arange(len(present)), [len(each) for each in places])
    alike = affinities(colours, 2 * ALIKE**2)
    np.fill_diagonal(alike, 0)
    votes = np.stack([alike[:, owner == k].mean(axis=1) for k in range(len(present))])
    right = votes.argmax(axis=0) == owner
    guess = 1 / len(present)
    return float((np.mean([right[owner == k].mean() for k in range(len(present))]) - guess) / (1 - guess))


def colours_tell(told: Iterable[float | None]) -> bool:
    """Return whether boundaries shall follow the colours, from what `told_apart` found in each picture."""
    known = [each for each in told if each is not None]
    return bool(known) and float(np.mean(known)) >= LEAST_TOLD


def follow_colours(probabilities: Floats32, seen: Floats32, side: int = SIDE) -> Floats32:
    """Return probabilities (K, H, W) that follow the colours `seen` (C, H, W) near boundaries.

    Done in windows of this side, which give what the whole picture would.
    """
    labels = most_likely(probabilities)
    near = dilate(edges(labels), REACH)
    found = probabilities.copy()
    for inner, outer in _windows(labels.shape, side):
        if not near[inner].any():
            continue
        here, contested = labels[outer], near[outer]
        bands = {}
        for k, plane in enumerate(probabilities[:, *outer]):
            places = np.flatnonzero(contested & ((plane > LEAST_PROBABILITY) | (here == k)))
            bands[k] = Band(places, -np.float32(TEMPERATURE) * np.log(np.maximum(plane.ravel()[places], 1e-6)))
        field = mean_field(here, bands, seen[:, *outer], WEIGHT)
        decided = probabilities[:, *outer].copy().reshape(len(probabilities), -1)
        decided[:, field.contested] = 0
        for k, rows in field.rows.items():
            decided[k, field.contested[rows]] = field.shares[k]
        top, left = (a.start - b.start for a, b in zip(inner, outer, strict=True))
        height, width = (each.stop - each.start for each in inner)
        found[:, *inner] = decided.reshape(-1, *here.shape)[:, top : top + height, left : left + width]
    return found


def _windows(shape: tuple[int, ...], side: int) -> Iterator[tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """Yield windows that cover a picture, and the same with what they look at."""
    for start in product(*(range(0, end, side) for end in shape)):
        ends = [(first, min(first + side, end)) for first, end in zip(start, shape, strict=True)]
        rows, columns = (slice(*each) for each in ends)
        wide_rows, wide_columns = (slice(max(first - HALO, 0), last + HALO) for first, last in ends)
        yield (rows, columns), (wide_rows, wide_columns)
