"""An atlas: regions packed side by side on one canvas, so that a network is called once for many of them."""

from collections.abc import Sequence
from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Mask
from ..parallel import compiled

Words = npt.NDArray[np.uint64]

#: Widths of the canvas that are tried, over the side of a square of the shapes' area.
WIDTHS = (1.05, 1.1, 1.2, 1.3)
#: Cells along a side of such a square: finer cells pack tighter and take longer.
CELLS = 96


class Layout(NamedTuple):
    """Where shapes lie: the upper left corners of their boxes, in the order they came, and the canvas around them."""

    corners: list[tuple[int, int]]
    height: int
    width: int

    @property
    def area(self) -> int:
        """Area of the canvas."""
        return self.height * self.width


def pack(masks: Sequence[Mask], multiple: int = 1) -> Layout:
    """Lay shapes, each in its box, on a canvas: each as high up as it fits, the largest first.

    Boxes may overlap, shapes do not. Corners and sides are multiples of `multiple`. Two hooks fit into each other:

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


def _cells(mask: Mask, cell: int) -> Mask:
    """Which cells of a grid hold pixels of the shape."""
    rows, columns = (-(-side // cell) for side in mask.shape)
    framed = np.pad(mask, [(0, n * cell - side) for n, side in zip((rows, columns), mask.shape, strict=True)])
    return np.asarray(framed.reshape(rows, cell, columns, cell).any(axis=(1, 3)))


def _first_fit(masks: Sequence[Mask], width: int) -> Layout:
    taken = np.zeros((sum(mask.shape[0] for mask in masks), width // 64 + 2), np.uint64)
    corners = [(0, 0)] * len(masks)
    used = [0, 0]
    for k in sorted(range(len(masks)), key=lambda k: (-masks[k].size, k)):
        height, breadth = masks[k].shape
        top, left = _place(taken, _bits(masks[k]), width - breadth)
        corners[k] = top, left
        used = [max(used[0], top + height), max(used[1], left + breadth)]
    return Layout(corners, used[0], used[1])


def _bits(mask: Mask) -> Words:
    """Return the rows as words of 64 cells, the first in the lowest bit, and a word of zeros after them."""
    rows, columns = mask.shape
    framed = np.zeros((rows, 64 * (-(-columns // 64) + 1)), np.uint8)
    framed[:, :columns] = mask
    return np.packbits(framed, axis=1, bitorder="little").view(np.uint64)


@compiled()
def _place(taken: Words, mask: Words, last: int) -> tuple[int, int]:
    """Take the first corner, row by row and up to the `last` column, at which the shape meets nothing."""
    rows, words = mask.shape
    moved = np.zeros((64, rows, words), np.uint64)
    for shift in range(min(64, last + 1)):
        for y in range(rows):
            for k in range(words):
                moved[shift, y, k] = mask[y, k] << np.uint64(shift)
                if shift and k:
                    moved[shift, y, k] |= mask[y, k - 1] >> np.uint64(64 - shift)
    for top in range(taken.shape[0] - rows + 1):  # there is room under all that is taken
        for left in range(last + 1):
            here, first = moved[left % 64], left // 64
            if not _meets(taken, here, top, first):
                for y in range(rows):
                    for k in range(min(words, taken.shape[1] - first)):
                        taken[top + y, first + k] |= here[y, k]
                return top, left
    return 0, 0


@compiled()
def _meets(taken: Words, mask: Words, top: int, first: int) -> bool:
    for y in range(mask.shape[0]):
        for k in range(min(mask.shape[1], taken.shape[1] - first)):
            if mask[y, k] & taken[top + y, first + k]:
                return True
    return False


def group(masks: Sequence[Mask], overhead: int, largest: int, multiple: int = 1) -> list[tuple[list[int], Layout]]:
    """Divide shapes among canvases; return the numbers of each canvas's shapes, and its layout.

    The shape of the largest box gets a canvas of its own as long as the boxes together, and `overhead` for each
    further canvas, take less area than a canvas for all. No canvas of several shapes has more area than `largest`.
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
