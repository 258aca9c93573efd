"""Last iteration's solutions as first guesses for regions that have moved since (Alg. 2, step 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from torch import Tensor, from_numpy

from .regions import Box
from .shapes import Shape

#: Share of a region that may have changed.
CHANGED = 0.03


@dataclass(frozen=True)
class _Kept:
    """Solutions (1, ..., H, W) on a canvas, where on it a region lay, and whether it was alone there."""

    solutions: Sequence[Tensor]
    place: Box
    shape: Shape
    alone: bool


class Solved:
    """The solutions of each region's last pass through a network."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}

    def keep(self, shapes: Mapping[int, Shape], places: Sequence[Box], solutions: Sequence[Tensor]) -> None:
        """Keep the solutions, if there are any, of regions that were solved on one canvas."""
        if not solutions:
            return
        for (number, shape), place in zip(shapes.items(), places, strict=True):
            self._kept[number] = _Kept(solutions, place, shape, len(shapes) == 1)

    def guesses(self, shapes: Mapping[int, Shape], places: Sequence[Box], size: tuple[int, ...]) -> list[Tensor]:
        """Return what is known of regions on a canvas to come; nothing if nothing is known of any of them.

        Pixels that have come to a region since are given what their nearest pixel had.
        """
        known = [_of_use(self._kept.pop(number, None), shape) for number, shape in shapes.items()]
        model = next((each for each in known if each is not None), None)
        if model is None:
            return []
        if len(known) == 1 and model.alone and all(model.shape.box == shape.box for shape in shapes.values()):
            found = list(model.solutions)  # nobody else needs them
        else:
            found = [each.new_zeros(*each.shape[:-2], *size) for each in model.solutions]
        for old, shape, place in zip(known, shapes.values(), places, strict=True):
            if old is not None:
                _carry_over(old, shape, place, found)
        return found


def _of_use(old: _Kept | None, shape: Shape) -> _Kept | None:
    """Return it unless the region has changed too much for it to save more than it takes."""
    if old is None:
        return None
    had = _had(old, shape)
    changed = old.shape.dilated.sum() + shape.dilated.sum() - 2 * (had & shape.dilated).sum()
    return old if changed < CHANGED * shape.dilated.sum() else None


def _had(old: _Kept, shape: Shape) -> NDArray[np.bool_]:
    """What the region had before, in its box of now."""
    there, here = _overlap(old.shape.box, shape.box)
    had = np.zeros(shape.dilated.shape, bool)
    had[here] = old.shape.dilated[there]
    return had


def _carry_over(old: _Kept, shape: Shape, place: Box, out: Sequence[Tensor]) -> None:
    """Write an old region's solutions where the region lies now."""
    there, here = _overlap(old.shape.box, shape.box)
    had = _had(old, shape)
    fresh = shape.dilated & ~had
    nearest = distance_transform_edt(~had, return_distances=False, return_indices=True)[:, fresh].astype(np.int64)
    rows, columns, near_rows, near_columns = map(from_numpy, (*fresh.nonzero(), *nearest))
    inside = from_numpy(np.ascontiguousarray(had[here]))
    for solution, guess in zip(old.solutions, out, strict=True):
        target = guess[(..., *place)]
        if solution is not guess:
            part = target[(..., *here)]
            part.copy_(solution[(..., *old.place)][(..., *there)].where(inside, part))
        target[..., rows, columns] = target[..., near_rows, near_columns]


def _overlap(first: Box, second: Box) -> tuple[Box, Box]:
    """Return the part that two boxes have in common, as it lies in the one and in the other."""
    common = [(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(first, second, strict=True)]
    inside = [
        [slice(low - side.start, max(low, high) - side.start) for (low, high), side in zip(common, box, strict=True)]
        for box in (first, second)
    ]
    return (inside[0][0], inside[0][1]), (inside[1][0], inside[1][1])
