"""Marks: what a person draws to say which region is which, and the one function that turns them into pixels.

A mark is a brush stroke, a filled outline (lasso), a box, or a partial label map. Points are (x, y) in pixels, x to the
right and y down, counted from the centre of the upper left pixel: (3, 0) is the centre of the fourth pixel of the first
row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from skimage.draw import polygon2mask

from ..arrays import Array, Floats, Labels, Mask, as_array
from ..labels import UNMARKED

Kind = Literal["brush", "lasso", "box"]

#: Most points of one stroke, and the largest number a region may have.
MOST_POINTS, MOST_REGIONS = 100_000, 65_535
#: Points needed for each kind.
FEWEST_POINTS = {"brush": 1, "lasso": 3, "box": 2}
#: A thinner brush could pass between the pixels' centres.
THINNEST = math.sqrt(0.5)


@dataclass(frozen=True)
class Stroke:
    """A brush stroke, an outline or a box.

    Attributes
    ----------
    region : int
        The region (from 0) or class that is marked; −1 erases what earlier strokes have marked.
    points : tuple of (x, y)
        Of a brush its path, of a lasso the corners of its outline, of a box two opposite corners.
    radius : float
        Of the brush, in pixels; a lasso and a box have none.
    kind : {"brush", "lasso", "box"}

    Examples
    --------
    >>> rasterise([Stroke(0, [(1, 1)], radius=1), Stroke(1, [(3, 0), (4, 2)], kind="box")], (3, 5))
    array([[-1,  0, -1,  1,  1],
           [ 0,  0,  0,  1,  1],
           [-1,  0, -1,  1,  1]])
    """

    region: int
    points: tuple[tuple[float, float], ...]
    radius: float = 4.0
    kind: Kind = "brush"

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {get_args(Kind)}, got {self.kind!r}")
        if not isinstance(self.region, (int, np.integer)) or isinstance(self.region, bool):
            raise TypeError(f"region must be a whole number, got {self.region!r}")
        if not UNMARKED <= self.region <= MOST_REGIONS:
            raise ValueError(f"region must be 0 to {MOST_REGIONS}, or −1 to erase; got {self.region}")
        if not _is_number(self.radius) or not 0 < self.radius < 1e6:
            raise ValueError(f"radius must be a positive number of pixels, got {self.radius!r}")
        object.__setattr__(self, "region", int(self.region))
        object.__setattr__(self, "radius", float(self.radius))
        object.__setattr__(self, "points", _points(self.points, self.kind))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        drawn: dict[str, Any] = {"region": self.region, "kind": self.kind, "points": [list(p) for p in self.points]}
        return drawn | ({"radius": self.radius} if self.kind == "brush" else {})

    @classmethod
    def from_dict(cls, values: Any) -> Stroke:
        """Make a stroke of JSON values, as `to_dict` returns them."""
        if not isinstance(values, Mapping):
            raise TypeError(f"a stroke must be an object with region and points, got {type(values).__name__}")
        unknown = sorted(map(str, set(values) - {"region", "kind", "points", "radius"}))
        missing = sorted({"region", "points"} - set(values))
        if unknown or missing:
            raise ValueError(f"a stroke has region, points, radius and kind; unknown {unknown}, missing {missing}")
        return cls(**values)

    def mask(self, shape: tuple[int, int]) -> Mask:
        """Return the pixels it covers in a picture of this height and width."""
        points = np.array(self.points)
        if self.kind == "brush":
            return _brushed(points, max(self.radius, THINNEST), shape)
        if self.kind == "lasso":
            filled: Mask = polygon2mask(shape, points[:, ::-1])
            return filled | _brushed(np.concatenate([points, points[:1]]), THINNEST, shape)
        mask = np.zeros(shape, bool)
        (left, top), (right, bottom) = points.min(axis=0), points.max(axis=0)
        mask[max(0, math.ceil(top)) : max(0, math.floor(bottom) + 1), max(0, math.ceil(left)) :][
            :, : max(0, math.floor(right) + 1 - max(0, math.ceil(left)))
        ] = True
        return mask


#: What can be drawn: strokes, and partial label maps (H×W integers, negative where nothing is marked).
Mark = Stroke | Array


def as_mark(mark: Any) -> Mark:
    """Check a mark: a `Stroke`, the same as a mapping, or a partial label map."""
    if isinstance(mark, Stroke):
        return mark
    if isinstance(mark, Mapping):
        return Stroke.from_dict(mark)
    return partial_labels(mark)


def partial_labels(marks: Any, name: str = "scribbles") -> Labels:
    """Check a partial label map and return it as int64, with −1 for every negative label."""
    array = as_array(marks, name)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integer labels, got dtype {array.dtype}")
    if array.ndim != 2:
        raise ValueError(f"{name} must be H×W, got shape {array.shape}")
    if array.size and array.max() > MOST_REGIONS:
        raise ValueError(f"{name} may name regions 0 to {MOST_REGIONS}, got {int(array.max())}")
    return np.where(array >= 0, array, UNMARKED).astype(np.int64)


def rasterise(marks: Iterable[Mark], shape: tuple[int, int], regions: int | None = None) -> Labels:
    """Draw marks into a label map of this height and width: the region where one is marked, −1 elsewhere.

    A pixel that several marks cover belongs to the last of them; what lies outside the picture is cut off.

    Raises
    ------
    ValueError
        A mark lies outside the picture entirely, has another size than it, or names a region beyond `regions`.
    """
    drawn = np.full(shape, UNMARKED, np.int64)
    for number, mark in enumerate(marks):
        if isinstance(mark, Stroke):
            mask, highest = mark.mask(shape), mark.region
            if not mask.any():
                raise ValueError(f"stroke {number} lies outside the picture of {shape[1]}×{shape[0]} pixels")
            drawn[mask] = mark.region
        else:
            if mark.shape != shape:
                raise ValueError(f"scribbles must have the picture's size {shape}, got {mark.shape}")
            highest = int(mark.max(initial=UNMARKED))
            np.copyto(drawn, mark, where=mark >= 0)
        if regions is not None and highest >= regions:
            raise ValueError(
                f"mark {number} is of region {highest}, but {regions} regions are numbered 0 to {regions - 1}"
            )
    return drawn


def _brushed(path: Floats, radius: float, shape: tuple[int, int]) -> Mask:
    """Return the pixels whose centres are at most `radius` away from a path, (n, 2) of x and y."""
    mask = np.zeros(shape, bool)
    ends = path[1:] if len(path) > 1 else path
    for start, end in zip(path, ends, strict=False):
        low, high = np.minimum(start, end) - radius, np.maximum(start, end) + radius
        left, top = np.clip(np.ceil(low), 0, [shape[1], shape[0]]).astype(int)
        right, bottom = np.clip(np.floor(high) + 1, 0, [shape[1], shape[0]]).astype(int)
        if left >= right or top >= bottom:
            continue
        y, x = np.mgrid[top:bottom, left:right]
        along = end - start
        length2 = float(along @ along)
        t = np.clip(((x - start[0]) * along[0] + (y - start[1]) * along[1]) / length2, 0, 1) if length2 else 0.0
        distance2 = (x - start[0] - t * along[0]) ** 2 + (y - start[1] - t * along[1]) ** 2
        mask[top:bottom, left:right] |= distance2 <= radius**2
    return mask


def _points(points: Any, kind: Kind) -> tuple[tuple[float, float], ...]:
    pairs = list(points) if isinstance(points, (Sequence, np.ndarray)) and not isinstance(points, str) else None
    if pairs is None or not all(isinstance(p, (Sequence, np.ndarray)) and len(p) == 2 for p in pairs):
        raise TypeError(f"points must be a list of (x, y), got {points!r:.80}")
    if not FEWEST_POINTS[kind] <= len(pairs) <= (2 if kind == "box" else MOST_POINTS):
        expected = "two corners" if kind == "box" else f"{FEWEST_POINTS[kind]} to {MOST_POINTS} points"
        raise ValueError(f"a {kind} has {expected}, got {len(pairs)}")
    if not all(_is_number(value) and abs(value) < 1e7 for pair in pairs for value in pair):
        raise ValueError(f"points must be finite numbers of pixels, got {pairs!r:.80}")
    return tuple((float(x), float(y)) for x, y in pairs)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
