"""Warps of pictures: rotations, smooth random deformations, their inverse, composition, valid area and norm.

A warp w takes each pixel x of the warped picture to the point w(x) of the picture it shows: (I∘w)(x) = I(w(x)). Points
are (row, column), in pixels, from the centre of the first pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, cos, isfinite, sin

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import map_coordinates

from ..arrays import Array, Floats, Labels, Mask

Shape = tuple[int, int]
Rectangle = tuple[slice, slice]

#: How far outside the outermost pixels' centres a point may lie, for rounding, and still count as inside.
SLACK = 1e-6
INVERSE_STEPS, INVERSE_TOL = 200, 1e-9


@dataclass(frozen=True, eq=False)
class Warp:
    """Where each pixel of a warped picture comes from.

    Attributes
    ----------
    source : ndarray, (2, H, W)
        w(x) for every pixel x of the warped picture; NaN where there is none.
    picture : (int, int)
        Height and width of the pictures that it warps.

    Examples
    --------
    >>> warp = rotation((2, 3), np.pi / 2)
    >>> warp.image(np.array([[1, 2, 3], [4, 5, 6]]))
    array([[3, 6],
           [2, 5],
           [1, 4]])
    """

    source: Floats
    picture: Shape

    def __post_init__(self) -> None:
        source = np.array(self.source, dtype=np.float64)
        if source.ndim != 3 or source.shape[0] != 2 or source.size == 0:
            raise ValueError(f"source must be of shape (2, H, W), rows and columns of points; got {source.shape}")
        source.flags.writeable = False
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "picture", _check_shape("picture", self.picture))

    @property
    def shape(self) -> Shape:
        """Height and width of the warped picture."""
        return self.source.shape[1], self.source.shape[2]

    @property
    def displacement(self) -> Floats:
        """v(x) = w(x) − x, (2, H, W)."""
        return self.source - _grid(self.shape)

    @property
    def valid(self) -> Mask:
        """Which pixels show a point of the picture."""
        last = np.array(self.picture, dtype=np.float64)[:, None, None] - 1
        inside: Mask = np.all((self.source >= -SLACK) & (self.source <= last + SLACK), axis=0)
        return inside

    @property
    def jacobian(self) -> Floats:
        """The determinant of ∇w by central differences, (H, W); a warp keeps orientation where it is positive."""
        if min(self.shape) < 2:
            raise ValueError(f"a Jacobian needs at least 2×2 pixels, this warp has {self.shape}")
        (yy, yx), (xy, xx) = (np.gradient(component) for component in self.source)
        determinant: Floats = yy * xx - yx * xy
        return determinant

    def image(self, image: Array) -> Array:
        """Warp a picture, H×W or H×W×C, bilinearly; its type stays, and what is not valid is 0."""
        image = np.asarray(image)
        if image.dtype.kind not in "uif" or image.ndim not in (2, 3):
            raise ValueError(f"image must be H×W or H×W×C numbers, got shape {image.shape} of {image.dtype}")
        self._check_size("image", image)
        planes = image[..., None] if image.ndim == 2 else image
        values = np.moveaxis(self._sample(np.moveaxis(planes, 2, 0).astype(np.float64)), 0, 2)
        values = np.where(self.valid[..., None], values, 0)
        if image.dtype.kind in "ui":
            values = np.rint(values)
        return values.astype(image.dtype).reshape(*self.shape, *image.shape[2:])

    def labels(self, labels: ArrayLike) -> Labels:
        """Warp a label map by the nearest pixel; what is not valid is −1."""
        labels = np.asarray(labels)
        if labels.dtype.kind not in "iub" or labels.ndim != 2:
            raise ValueError(f"labels must be H×W integers, got shape {labels.shape} of {labels.dtype}")
        self._check_size("labels", labels)
        # A half is rounded up everywhere: interpolation routines differ on it, and between platforms.
        row, column = (
            np.clip(np.floor(part + 0.5), 0, size - 1).astype(np.int64)
            for part, size in zip(np.where(self.valid, self.source, 0), self.picture, strict=True)
        )
        return np.where(self.valid, labels[row, column], -1).astype(np.int64)

    def then(self, other: Warp) -> Warp:
        """Return the warp of the warped picture, (I∘self)∘other = I∘(self∘other)."""
        if other.picture != self.shape:
            raise ValueError(f"other warps pictures of {other.picture}, this warp makes pictures of {self.shape}")
        # Displacements are interpolated, not points: exact between pixels for whatever is locally affine.
        moved = other.source + other._sample(self.displacement)
        return Warp(np.where(other.valid, moved, np.nan), self.picture)

    def crop(self, rectangle: Rectangle) -> Warp:
        """Return the part of the warp that makes these (rows, columns) of the warped picture."""
        part = self.source[:, rectangle[0], rectangle[1]]
        if part.size == 0:
            raise ValueError(f"rectangle {rectangle} holds no pixel of a warped picture of {self.shape}")
        return Warp(part, self.picture)

    def inverse(self) -> Warp:
        """Return the warp u with w(u(x)) = x, by the fixed-point iteration u ← x − v(u).

        It converges where v moves neighbours apart by less than their distance: for smooth deformations, not for
        rotations, whose inverse is `rotation` by the opposite angle. Points without a preimage are not valid.

        Raises
        ------
        ValueError
            The iteration does not settle.
        """
        if not np.isfinite(self.source).all():
            raise ValueError("a warp with undefined points (NaN) has no inverse; crop it to its valid area first")
        grid, field = _grid(self.picture), self.displacement
        found, change = grid, np.inf
        for _ in range(INVERSE_STEPS):
            moved = grid - np.stack([map_coordinates(part, found, order=1, mode="nearest") for part in field])
            found, change = moved, float(np.abs(moved - found).max())
            if change < INVERSE_TOL:
                return Warp(found, self.shape)
        raise ValueError(
            f"the inverse still changes by {change:.2g} pixels after {INVERSE_STEPS} steps: the displacement must "
            "change by less than 1 pixel a pixel (for a rotation, rotate by the opposite angle)"
        )

    def _check_size(self, name: str, array: Array) -> None:
        if array.shape[:2] != self.picture:
            raise ValueError(f"{name} must be of the size {self.picture} that this warp is for, got {array.shape[:2]}")

    def _sample(self, planes: Floats) -> Floats:
        """Interpolate (C, h, w) bilinearly at the source points; what is not valid has some value."""
        points = np.where(self.valid, self.source, 0)
        return np.stack([map_coordinates(plane, points, order=1, mode="nearest") for plane in planes])


def identity(shape: Shape) -> Warp:
    """Return the warp that leaves pictures of this height and width as they are."""
    shape = _check_shape("shape", shape)
    return Warp(_grid(shape), shape)


def rotation(shape: Shape, angle: float) -> Warp:
    """Turn pictures about their centre, counter-clockwise as one looks at them.

    The canvas grows to hold all of the turned picture. Quarter turns move pixels to pixels.

    Parameters
    ----------
    shape : (int, int)
        Height and width of the pictures.
    angle : float
        In radians.
    """
    height, width = _check_shape("shape", shape)
    if not isfinite(angle):
        raise ValueError(f"angle must be a finite number of radians, got {angle!r}")
    c, s = cos(angle), sin(angle)
    turn = np.array([[c, s], [-s, c]])  # of (row, column), from the turned picture back; rows point down
    sides = np.abs(turn) @ np.array([height - 1.0, width - 1.0])
    canvas = (ceil(sides[0] - SLACK) + 1, ceil(sides[1] - SLACK) + 1)
    offset = _grid(canvas) - (np.array(canvas)[:, None, None] - 1) / 2
    centre = np.array([height - 1, width - 1])[:, None, None] / 2
    return Warp(np.einsum("ij,jhw->ihw", turn, offset) + centre, (height, width))


def random_deformation(shape: Shape, squared_norm: float, rng: np.random.Generator, terms: int = 10) -> Warp:
    """Draw a smooth deformation w(x) = x + v(x) by a truncated Fourier series of a given norm.

    v(x) = Σ a_k exp(i 2π k·x) over k = (k₁, k₂), |k₁|, |k₂| ≤ N, with x from 0 to 1 along each side of the picture
    (text of `fig:defromExp`). The a_k are independent complex normal numbers, a_{−k} the conjugate of a_k so that v is
    real, all multiplied by the number that gives the norm of `squared_sobolev_norm`.

    v counts pixels. The paper does not say so, but in units of the side a squared norm of 10 would mean a root mean
    square gradient of 2π√10 ≈ 20, which folds the picture; in pixels of a 256² picture it is 0.08.

    Parameters
    ----------
    shape : (int, int)
        Height and width of the pictures, more than 2 `terms` each.
    squared_norm : float
        ‖v‖², pixels²; the paper takes 10 to 80 for 256² pictures.
    rng : numpy.random.Generator
    terms : int
        N, the highest frequency along a side.
    """
    shape = _check_shape("shape", shape)
    if not (isfinite(squared_norm) and squared_norm >= 0):
        raise ValueError(f"squared_norm must be a finite number from 0 on, got {squared_norm!r}")
    if not 0 < 2 * terms < min(shape):
        raise ValueError(f"terms must be at least 1 and less than half of each side of {shape}, got {terms}")
    count = 2 * terms + 1
    draws = rng.standard_normal((2, 2, count, count))
    raw = draws[0] + 1j * draws[1]
    coefficients = (raw + raw[:, ::-1, ::-1].conj()) / 2
    k = np.arange(-terms, terms + 1)
    coefficients *= np.sqrt(squared_norm / _norm(coefficients, k, k))
    rows, columns = (np.exp(2j * np.pi * np.outer(np.arange(size) / size, k)) for size in shape)
    displacement = np.einsum("hk,ckl,wl->chw", rows, coefficients, columns, optimize=True).real
    return Warp(_grid(shape) + displacement, shape)


def squared_sobolev_norm(displacement: ArrayLike) -> float:
    """Return ‖v‖² = |a₀|² + Σ |k|² |a_k|² of a displacement, (2, H, W), by its Fourier coefficients a_k.

    The norm of the text of `fig:defromExp`: |a₀| is the mean, and 4π²Σ|k|²|a_k|² is the mean of |∇v|² with x from 0 to
    1 along each side. The field is taken for periodic: a jump between opposite sides counts as a steep slope.
    """
    field = np.asarray(displacement, dtype=np.float64)
    if field.ndim != 3 or field.shape[0] != 2 or field.size == 0 or not np.isfinite(field).all():
        raise ValueError(f"displacement must be finite numbers of shape (2, H, W), got shape {field.shape}")
    height, width = field.shape[1:]
    coefficients = np.fft.fft2(field) / (height * width)
    return _norm(coefficients, np.fft.fftfreq(height, 1 / height), np.fft.fftfreq(width, 1 / width))


def largest_rectangle(mask: ArrayLike) -> Rectangle:
    """Return the (rows, columns) of the largest axis-aligned rectangle of True; the topmost, then leftmost of equals.

    Row by row, under the histogram of how far True reaches up, with a stack of bars that still grow [1]_.

    References
    ----------
    .. [1] D. Vandevoorde, "The Maximal Rectangle Problem", Dr. Dobb's Journal, April 1998.

    Examples
    --------
    >>> largest_rectangle(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]], dtype=bool))
    (slice(0, 2, None), slice(0, 2, None))
    """
    inside = np.asarray(mask)
    if inside.ndim != 2 or inside.dtype != np.bool_ or not inside.any():
        raise ValueError(f"mask must be H×W booleans, at least one True; got {inside.dtype} of shape {inside.shape}")
    best, found = 0, (slice(0, 0), slice(0, 0))
    reach = np.zeros(inside.shape[1], dtype=np.int64)
    for row, line in enumerate(inside):
        reach = np.where(line, reach + 1, 0)
        area, (height, left, right) = _largest_under(reach.tolist())
        if area > best:
            best, found = area, (slice(row + 1 - height, row + 1), slice(left, right))
    return found


def _largest_under(heights: list[int]) -> tuple[int, tuple[int, int, int]]:
    """Largest rectangle under a histogram: its area, and its height, left and right (exclusive)."""
    best, found = 0, (0, 0, 0)
    bars: list[tuple[int, int]] = []  # (where it began, height), heights growing
    for position, height in enumerate([*heights, 0]):
        left = position
        while bars and bars[-1][1] >= height:
            left, tall = bars.pop()
            if tall * (position - left) > best:
                best, found = tall * (position - left), (tall, left, position)
        bars.append((left, height))
    return best, found


def _norm(coefficients: Array, rows: Array, columns: Array) -> float:
    weight = rows[:, None] ** 2 + columns**2
    weight = np.where(weight == 0, 1, weight)
    return float((weight * np.abs(coefficients) ** 2).sum())


def _grid(shape: Shape) -> Floats:
    return np.indices(shape, dtype=np.float64)


def _check_shape(name: str, shape: Shape) -> Shape:
    if len(shape) != 2 or any(int(side) != side or side < 1 for side in shape):
        raise ValueError(f"{name} must be a height and a width from 1 on, got {shape!r}")
    return int(shape[0]), int(shape[1])
