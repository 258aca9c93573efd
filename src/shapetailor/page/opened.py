"""A picture that is open: its session, and its strokes drawn on the level that is worked on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array, Labels
from ..classes.names import ClassName
from ..io.picture import Picture
from ..segmentation.session import Session
from ..strokes.marks import Stroke


@dataclass(frozen=True, eq=False)
class Answer:
    """Classes of a picture's pixels after some revision of its strokes."""

    revision: int
    stage: str  # preview or refined
    labels: Array  # h×w bytes: values of classes, 255 outside
    unsure: Array  # bytes, smaller
    scale: int
    unsure_scale: int


@dataclass
class Opened:
    """A picture that is described, and the marks that are drawn on it."""

    key: Any
    session: Session
    level: int
    init: Labels | None  # places of classes
    doubt: Array | None = None  # bytes: where the model that gave `init` was unsure
    strokes: tuple[Stroke, ...] = ()
    drawn: Array | None = None
    answer: Answer | None = None


def give_marks(opened: Opened, strokes: tuple[Stroke, ...], classes: Sequence[ClassName]) -> Array | None:
    """Give a session the marks of all strokes; return the class of each of its regions, or None if there are too few.

    Classes that are marked are regions 0, 1, … in their order; where there is a result to mend, all classes are.
    """
    drawn = draw(opened, strokes)
    marked = np.unique(drawn[drawn > 0])
    values = np.array([each.value for each in classes] if opened.init is not None else marked, np.uint8)
    if not len(marked) or len(values) < 2:
        return None
    places = np.full(256, -1, np.int16)  # large arrays take time on their first use
    places[values] = np.arange(len(values))
    opened.session.marks = [places[drawn]]
    return values


def draw(opened: Opened, strokes: tuple[Stroke, ...]) -> Array:
    """Draw strokes on the level that is worked on: bytes, 0 where nothing is marked; only what is new, if possible."""
    count = len(opened.strokes)
    if opened.drawn is None or strokes[:count] != opened.strokes:
        opened.drawn, count = np.zeros(opened.session.shape, np.uint8), 0
    for stroke in strokes[count:]:
        opened.drawn[reduced(stroke, opened.level).mask(opened.session.shape)] = max(0, stroke.region)
    opened.strokes = strokes
    return opened.drawn


def reduced(stroke: Stroke, level: int) -> Stroke:
    """A stroke on a picture that was halved so many times.

    >>> reduced(Stroke(1, [(0.5, 2.5)], radius=3), 1)
    Stroke(region=1, points=((0.0, 1.0),), radius=1.5, kind='brush')
    """
    if not level:
        return stroke
    side = 2**level
    points = ((np.array(stroke.points) - (side - 1) / 2) / side).tolist()
    if stroke.kind == "box":  # one that is thinner than a pixel must not vanish
        points = np.rint(points).tolist()
    return Stroke(stroke.region, points, stroke.radius / side, stroke.kind)


def unsure_of(opened: Opened, labels: Labels, unsure: Array, step: int) -> Array:
    """Where it is unsure, as bytes of every `step`-th pixel.

    Where strokes have left a result as it was, the model's doubt stays.
    """
    some = np.s_[::step, ::step]
    found: Array = np.rint(255 * unsure[some].clip(0, 1)).astype(np.uint8)
    if opened.init is None or opened.doubt is None or opened.drawn is None:
        return found
    kept = (labels[some] == opened.init[some]) & (opened.drawn[some] == 0)
    return np.asarray(np.where(kept, np.maximum(found, opened.doubt[some]), found))


def reduced_map(values: Array, level: int, shape: tuple[int, int]) -> Array | None:
    """Every so many pixels of a map, as a level has them; None where it does not fit."""
    small = values[2**level // 2 :: 2**level, 2**level // 2 :: 2**level] if level else values
    small = np.pad(small, [(0, max(0, size - own)) for size, own in zip(shape, small.shape, strict=True)], mode="edge")
    return small if small.shape == shape else None


def places_of(applied: Labels, classes: Sequence[int], level: int, picture: Picture) -> Labels | None:
    """A map of classes' values as their places, on a level; None where it does not fit the picture or the classes."""
    height, width = picture.values.shape[:2]
    small = reduced_map(applied, level, (height, width))
    if small is None:
        return None
    places = np.full(256, -1, np.int64)
    places[list(classes)] = np.arange(len(classes))
    found: Labels = places[small.clip(0, 255)]
    known = found if picture.inside is None else found[picture.inside]
    return found if known.min() >= 0 else None
