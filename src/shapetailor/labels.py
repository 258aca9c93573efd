"""Label maps: H×W integer arrays that give every pixel the number of its region.

Tessellations to start from, dilations (step 4 of Alg. 2), distances, boxes and lengths.
Nothing here knows descriptors; a negative label means "in no region".
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from .arrays import Array, Box, Floats, Ints, Mask, as_array

#: What a partial label map holds where nothing is marked.
UNMARKED = -1

#: Rows that are gone through at once: they stay in the cache.
STRIP = 32


def boxes(shape: tuple[int, int], regions: int, per_side: int = 8) -> Ints:
    """Tessellate an image of this height and width by boxes that belong to the regions in turn.

    Two regions make a checkerboard. With more, a row of boxes runs through the regions in order, and the
    next row starts further on, so that columns run through all of them too. An image of fewer pixels than `per_side`
    gets a box a pixel.

    Examples
    --------
    >>> boxes((4, 4), 2, per_side=2)
    array([[0, 0, 1, 1],
           [0, 0, 1, 1],
           [1, 1, 0, 0],
           [1, 1, 0, 0]])
    """
    if min(shape) < 1:
        raise ValueError(f"shape must be a height and a width of at least 1, got {shape}")
    if regions < 1:
        raise ValueError(f"regions must be at least 1, got {regions}")
    if per_side < 1 or per_side**2 < regions:
        raise ValueError(f"per_side must give each of {regions} regions a box, got {per_side} boxes a side")
    row, column = (np.arange(side) * min(per_side, side) // side for side in shape)
    return (_row_offset(regions, min(per_side, shape[1])) * row[:, None] + column) % regions


def _row_offset(regions: int, columns: int) -> int:
    """How far on in the order of regions the next row of boxes starts."""
    if columns < regions:  # rows continue one another, or some regions would get no box
        return columns
    # Coprime with the number of regions: a column then meets all of them. About 0.38 of it: no diagonal stripes.
    coprime = (step for step in range(1, regions + 1) if math.gcd(step, regions) == 1)
    return min(coprime, key=lambda step: abs(step - 0.382 * regions))


def from_scribbles(scribbles: npt.ArrayLike) -> Ints:
    """Check a user's partial label map and return it as int64, with `UNMARKED` for every negative label."""
    marks = as_array(scribbles, "scribbles")
    if marks.dtype.kind not in "iu":
        raise TypeError(f"scribbles must hold integer labels, got dtype {marks.dtype}")
    if marks.ndim != 2:
        raise ValueError(f"scribbles must be H×W, got shape {marks.shape}")
    present = np.unique(marks[marks >= 0])
    if not len(present):
        raise ValueError("scribbles mark no pixel; expected labels 0, 1, ... for the regions, negative elsewhere")
    count = int(present[-1]) + 1
    if len(present) < count:
        missing = np.setdiff1d(np.arange(min(count, len(present) + 20)), present)
        raise ValueError(f"scribbles must mark every region 0..{count - 1}; none marks {', '.join(map(str, missing))}")
    return np.where(marks >= 0, marks, UNMARKED).astype(np.int64)


def dilate(mask: Mask, radius: float) -> Mask:
    """Return the pixels at most `radius` away (Euclidean, centre to centre) from `mask`: D(R), Alg. 2, step 4.

    Done by rows of the disk from its rim to its middle. A row of the disk is never shorter than the one before, so
    widening goes on from row to row: about four passes over the image for each pixel of the radius.
    """
    height, width = mask.shape
    result = mask.copy()
    widened, reach = mask.copy(), 0
    for dy in range(min(int(radius), height - 1), -1, -1):
        half = min(int(math.sqrt(radius**2 - dy**2)), width - 1)
        while reach < half:
            wider = widened.copy()
            wider[:, 1:] |= widened[:, :-1]
            wider[:, :-1] |= widened[:, 1:]
            widened, reach = wider, reach + 1
        result[dy:] |= widened[: height - dy]
        result[: height - dy] |= widened[dy:]
    return result


def edges(labels: Array) -> Mask:
    """Return the pixels that have a 4-neighbour in another region; < 0 is none."""
    found = np.zeros(labels.shape, bool)
    for a, b in ((np.s_[1:], np.s_[:-1]), (np.s_[:, 1:], np.s_[:, :-1])):
        unlike = (labels[a] != labels[b]) & (labels[a] >= 0) & (labels[b] >= 0)
        found[a] |= unlike
        found[b] |= unlike
    return found


def most_likely(planes: Array) -> Ints:
    """Return the number of the greatest of (K, H, W) at each pixel, the first of equal ones: `argmax`, faster.

    >>> most_likely(np.array([[[1.0, 3.0, 2.0]], [[2.0, 3.0, 1.0]]]))
    array([[1, 0, 0]])
    """
    found = np.zeros(planes.shape[1:], np.int64)
    for top in range(0, len(found), STRIP):
        rows = slice(top, top + STRIP)
        best, here = planes[0, rows].copy(), found[rows]
        for number in range(1, len(planes)):
            np.copyto(here, number, where=planes[number, rows] > best)
            np.maximum(best, planes[number, rows], out=best)
    return found


def signed_distance(mask: Mask, limit: float = math.inf) -> Floats:
    """Return the distance from the mask's edge in pixels: positive inside, negative outside, ±0.5 next to it.

    Infinite where the mask has no edge. Distances above `limit` may come out infinite, which saves the time of those.
    """
    far = np.where(mask, np.inf, -np.inf)
    unlike = np.zeros_like(mask)
    unlike[1:] = mask[1:] != mask[:-1]
    unlike[:, 1:] |= mask[:, 1:] != mask[:, :-1]
    if not unlike.any():
        return far
    # All pixels at the edge are in this box, so distances in it are right.
    box = bounding_box(unlike, 1 + min(int(limit), max(mask.shape))) if math.isfinite(limit) else (...,)
    here = mask[box]
    inside, outside = ndimage.distance_transform_edt(here), ndimage.distance_transform_edt(~here)
    far[box] = np.where(here, inside - 0.5, 0.5 - outside)
    return far


def bounding_box(mask: Mask, margin: int = 0) -> Box:
    """Return the slices of the smallest box around `mask`, with a margin, clipped to the image."""
    box = []
    for axis in (1, 0):
        hit = np.flatnonzero(mask.any(axis))
        if not len(hit):
            raise ValueError("mask must hold a pixel, got an empty one, which has no bounding box")
        box.append(slice(max(int(hit[0]) - margin, 0), min(int(hit[-1]) + 1 + margin, mask.shape[1 - axis])))
    return box[0], box[1]


def present(labels: Array) -> Array:
    """Return the numbers that occur, ascending; a large map is not copied.

    >>> present(np.array([[3, 0], [-1, 3]]))
    array([-1,  0,  3])
    """
    strips = [np.unique(labels[top : top + STRIP]) for top in range(0, max(1, len(labels)), STRIP)]
    return np.unique(np.concatenate(strips))


def boundary_length(labels: Array) -> float:
    """Estimate the length of all boundaries between regions, in pixels; the image's frame does not count.

    Cauchy–Crofton formula [1]_: pairs of unlike neighbours in the four directions of the 8-neighbourhood,
    weighted so that straight lines of any direction are measured within 6 %.

    References
    ----------
    .. [1] Y. Boykov and V. Kolmogorov, "Computing geodesics and minimal surfaces via graph cuts", ICCV 2003.
    """
    straight = np.count_nonzero(labels[1:] != labels[:-1]) + np.count_nonzero(labels[:, 1:] != labels[:, :-1])
    down, up = labels[1:, 1:] != labels[:-1, :-1], labels[1:, :-1] != labels[:-1, 1:]
    diagonal = np.count_nonzero(down) + np.count_nonzero(up)
    return math.pi / 8 * float(straight + diagonal / math.sqrt(2))


def smooth_boundaries(labels: Ints, radius: float) -> Ints:
    """Give every pixel the label that weighs most in a Gaussian of this radius around it: steps become curves.

    Pixels with a negative label neither change nor count.
    """
    inside = labels >= 0
    numbers = np.unique(labels[inside])
    if len(numbers) < 2:
        return labels
    weights = np.stack(
        [ndimage.gaussian_filter((labels == i).astype(np.float32), radius, mode="nearest") for i in numbers]
    )
    return np.where(inside, numbers[weights.argmax(axis=0)], labels)


def relabel(labels: Ints) -> tuple[Ints, Ints]:
    """Number the regions that exist 0, 1, ... in their order; also return their former numbers."""
    former, renumbered = np.unique(labels, return_inverse=True)
    return renumbered.reshape(labels.shape).astype(np.int64), former.astype(np.int64)


def in_order(labels: Ints) -> Ints:
    """Number regions 0, 1, … by where they first appear, row by row; negative labels stay.

    Numbers by clusters would depend on rounding, and so on the number of threads.

    >>> in_order(np.array([[-1, 2, 2], [0, 0, 2]]))
    array([[-1,  0,  0],
           [ 1,  1,  0]])
    """
    values, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    ranks = np.argsort(np.argsort(np.where(values < 0, labels.size, first)))
    ordered: Ints = np.where(values < 0, values, ranks)[inverse].reshape(labels.shape)
    return ordered


def resize_labels(labels: Ints, shape: tuple[int, int]) -> Ints:
    """Return a label map at another size, by the nearest pixel."""
    rows, columns = ((2 * np.arange(n) + 1) * m // (2 * n) for n, m in zip(shape, labels.shape, strict=True))
    return labels[np.ix_(rows, columns)]


def largest_rectangle(mask: Mask) -> Box:
    """Return rows and columns of the largest rectangle of True, empty where nothing is True.

    Of several the one of least height, then the topmost, then the leftmost. Row by row, under the histogram of how far
    True reaches up, with a stack of the bars that still grow [1]_.

    References
    ----------
    .. [1] D. Vandevoorde, "The Maximal Rectangle Problem", Dr. Dobb's Journal, April 1998.

    Examples
    --------
    >>> largest_rectangle(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]], dtype=bool))
    (slice(0, 2, None), slice(0, 2, None))
    """
    best = (0, 0, 0, 0, 0)  # minus area, height, top, left, right
    reach = np.zeros(mask.shape[1], dtype=np.int64)
    for bottom, line in enumerate(mask, start=1):
        reach = np.where(line, reach + 1, 0)
        bars: list[tuple[int, int]] = []  # left end and height, heights growing
        for right, height in enumerate([*reach.tolist(), 0]):
            left = right
            while bars and bars[-1][1] >= height:
                left, tall = bars.pop()
                area = tall * (right - left)
                if area >= -best[0]:
                    best = min(best, (-area, tall, bottom - tall, left, right))
            bars.append((left, height))
    _, height, top, left, right = best
    return slice(top, top + height), slice(left, right)
