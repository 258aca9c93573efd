"""Rectangles side by side on one canvas, so that many small boxes cost one call instead of many."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import NamedTuple

Size = tuple[int, int]

#: Widths of the canvas that are tried, over the side of a square of the rectangles' area.
WIDTHS = (1.0, 1.15, 1.3, 1.5, 2.0)


class Layout(NamedTuple):
    """Where rectangles lie: their upper left corners, in the order they came, and the canvas around them."""

    corners: list[Size]
    height: int
    width: int

    @property
    def area(self) -> int:
        """Area of the canvas."""
        return self.height * self.width


def pack(sizes: Sequence[Size]) -> Layout:
    """Lay rectangles (height, width) on shelves: the tallest first, from the left, a new shelf where a row is full.

    Of a few canvas widths, the one of the smallest canvas is kept.

    Examples
    --------
    >>> pack([(2, 2), (4, 3), (2, 2)])
    Layout(corners=[(0, 3), (0, 0), (0, 5)], height=4, width=7)
    """
    side = isqrt(sum(height * width for height, width in sizes))
    widest = max(width for _, width in sizes)
    candidates = {max(widest, int(side * factor)) for factor in WIDTHS}
    return min((_shelves(sizes, width) for width in sorted(candidates)), key=lambda layout: layout.area)


def _shelves(sizes: Sequence[Size], limit: int) -> Layout:
    corners: list[Size] = [(0, 0)] * len(sizes)
    top = height = left = width = 0
    for k in sorted(range(len(sizes)), key=lambda k: (-sizes[k][0], -sizes[k][1], k)):
        if left + sizes[k][1] > limit:
            top, height, left = top + height, 0, 0
        corners[k] = top, left
        left, height = left + sizes[k][1], max(height, sizes[k][0])
        width = max(width, left)
    return Layout(corners, top + height, width)


def group(sizes: Sequence[Size], overhead: int, largest: int) -> list[list[int]]:
    """Divide rectangles into canvases.

    Parameters
    ----------
    sizes : (height, width) of each
    overhead : int
        Area that costs as much as a further canvas does: the largest rectangle gets one of its own as long as the
        others pack tighter for it.
    largest : int
        No canvas of several rectangles has more area.

    Returns
    -------
    list of lists of the rectangles' numbers
    """
    left = sorted(range(len(sizes)), key=lambda k: (-sizes[k][0] * sizes[k][1], k))
    alone = []
    while len(left) > 1:
        whole, rest = pack([sizes[k] for k in left]), pack([sizes[k] for k in left[1:]])
        height, width = sizes[left[0]]
        if whole.area <= min(rest.area + height * width + overhead, largest):
            break
        alone.append([left.pop(0)])
    return [*alone, left] if left else alone
