"""Shapes side by side on one canvas, so that many small regions cost one call of a network instead of many."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

BoolArray = npt.NDArray[np.bool_]

#: Widths of the canvas that are tried, over the side of a square of the shapes' area.
WIDTHS = (1.05, 1.15, 1.25, 1.4)
#: Cells along a side of such a square: finer cells pack tighter and take longer.
CELLS = 48


class Layout(NamedTuple):
    """Where shapes lie: the upper left corners of their boxes, in the order they came, and the canvas around them."""

    corners: list[tuple[int, int]]
    height: int
    width: int

    @property
    def area(self) -> int:
        """Area of the canvas."""
        return self.height * self.width


def pack(masks: Sequence[BoolArray], multiple: int = 1) -> Layout:
    """Lay shapes on a canvas, each as high up as it fits, the largest first; their boxes may overlap, they do not.

    Parameters
    ----------
    masks : the shapes, each in its box
    multiple : int
        Corners, height and width are multiples of it.

    Examples
    --------
    Two hooks fit into each other:

    >>> hook = np.array([[1, 1, 1], [1, 0, 0], [1, 0, 0]], bool)
    >>> pack([hook, hook[::-1, ::-1]]).area
    12
    """
    area = sum(int(mask.sum()) for mask in masks)
    cell = multiple * max(1, isqrt(area) // (CELLS * multiple))
    coarse = [_cells(mask, cell) for mask in masks]
    side = isqrt(sum(int(each.sum()) for each in coarse))
    widest = max(each.shape[1] for each in coarse)
    layouts = [_first_fit(coarse, width) for width in sorted({max(widest, int(side * factor)) for factor in WIDTHS})]
    best = min(layouts, key=lambda layout: layout.area)
    return Layout([(cell * y, cell * x) for y, x in best.corners], cell * best.height, cell * best.width)


def _cells(mask: BoolArray, cell: int) -> BoolArray:
    """Which cells of a grid hold pixels of the shape."""
    rows, columns = (-(-side // cell) for side in mask.shape)
    framed = np.pad(mask, [(0, n * cell - side) for n, side in zip((rows, columns), mask.shape, strict=True)])
    return np.asarray(framed.reshape(rows, cell, columns, cell).any(axis=(1, 3)))


def _first_fit(masks: Sequence[BoolArray], width: int) -> Layout:
    taken = np.zeros((sum(mask.shape[0] for mask in masks), width), bool)
    corners = [(0, 0)] * len(masks)
    used = [0, 0]
    for k in sorted(range(len(masks)), key=lambda k: (-masks[k].size, k)):
        height, breadth = masks[k].shape
        top, left = _place(taken, masks[k])
        taken[top : top + height, left : left + breadth] |= masks[k]
        corners[k] = top, left
        used = [max(used[0], top + height), max(used[1], left + breadth)]
    return Layout(corners, used[0], used[1])


@njit(nogil=True, cache=True)
def _place(taken: BoolArray, mask: BoolArray) -> tuple[int, int]:
    """First corner, row by row, at which the shape meets nothing; there is one under all that is taken."""
    height, breadth = mask.shape
    for top in range(taken.shape[0] - height + 1):
        for left in range(taken.shape[1] - breadth + 1):
            if not _meets(taken, mask, top, left):
                return top, left
    return 0, 0


@njit(nogil=True, cache=True)
def _meets(taken: BoolArray, mask: BoolArray, top: int, left: int) -> bool:
    for y in range(mask.shape[0]):
        for x in range(mask.shape[1]):
            if mask[y, x] and taken[top + y, left + x]:
                return True
    return False


def group(masks: Sequence[BoolArray], overhead: int, largest: int, multiple: int = 1) -> list[tuple[list[int], Layout]]:
    """Divide shapes among canvases.

    Parameters
    ----------
    masks : the shapes, each in its box
    overhead : int
        Area that costs as much as a further canvas does. The shape of the largest box gets a canvas of its own as long
        as the boxes together take less, counting this, than a canvas for all.
    largest : int
        No canvas of several shapes has more area.
    multiple : int
        As for `pack`.

    Returns
    -------
    list
        For each canvas the numbers of its shapes, and its layout.
    """
    left = sorted(range(len(masks)), key=lambda k: (-masks[k].size, k))
    found = []
    while left:
        boxes = sum(masks[k].size for k in left)
        if len(left) == 1 or sum(int(masks[k].sum()) for k in left) <= largest:
            layout = pack([masks[k] for k in left], multiple)
            if len(left) == 1 or layout.area <= min(boxes + overhead * (len(left) - 1), largest):
                found.append((left, layout))
                break
        alone = left.pop(0)
        found.append(([alone], pack([masks[alone]], multiple)))
    return found
