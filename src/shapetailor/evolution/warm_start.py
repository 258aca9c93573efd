"""Warm start: the last iteration's solutions as first guesses for regions that have moved since (Alg. 2, step 5)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import distance_transform_edt
from torch import Tensor, from_numpy

from ..arrays import Box
from .region_shape import Shape

#: Share of a region that may have changed.
CHANGED = 0.03


@dataclass(frozen=True)
class _Kept:
    """Solutions (1, ..., h, w) in the box of a shape."""

    solutions: Sequence[Tensor]
    shape: Shape


class Solved:
    """The solutions of each region's last pass through a network, if it had a canvas of its own.

    Regions on one canvas take their steps together, as many as the one that needs most: nothing would be saved.
    """

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}

    def keep(self, number: int, shape: Shape, solutions: Sequence[Tensor]) -> None:
        """Keep the solutions for a region in its box, if there are any."""
        if solutions:
            self._kept[number] = _Kept(solutions, shape)

    def guesses(self, number: int, shape: Shape) -> list[Tensor]:
        """Return first guesses for a region and forget them; none if it has changed too much.

        Pixels that are new in the region take the value of their nearest old pixel.
        """
        old = self._kept.pop(number, None)
        if old is None:
            return []
        there, here = _overlap(old.shape.box, shape.box)
        had = np.zeros(shape.dilated.shape, bool)
        had[here] = old.shape.dilated[there]
        fresh = shape.dilated & ~had
        gone = old.shape.dilated.sum() - (had & shape.dilated).sum()
        if fresh.sum() + gone >= CHANGED * shape.dilated.sum():
            return []
        nearest = distance_transform_edt(~had, return_distances=False, return_indices=True)[:, fresh].astype(np.int64)
        rows, columns, near_rows, near_columns = map(from_numpy, (*fresh.nonzero(), *nearest))
        found = []
        for solution in old.solutions:
            guess = solution
            if old.shape.box != shape.box:
                guess = solution.new_zeros(*solution.shape[:-2], *shape.dilated.shape)
                guess[(..., *here)] = solution[(..., *there)]
            guess[..., rows, columns] = guess[..., near_rows, near_columns]
            found.append(guess)
        return found


def _overlap(first: Box, second: Box) -> tuple[Box, Box]:
    """Return the part that two boxes have in common, as it lies in the one and in the other."""
    common = [(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(first, second, strict=True)]
    inside = [
        [slice(low - side.start, max(low, high) - side.start) for (low, high), side in zip(common, box, strict=True)]
        for box in (first, second)
    ]
    return (inside[0][0], inside[0][1]), (inside[1][0], inside[1][1])
