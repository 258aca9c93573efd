"""Warps of images: rotations and smooth random deformations.

A warp w takes each pixel x of the warped image to the point w(x) of the image it shows: (I∘w)(x) = I(w(x)). Points
are (row, column), in pixels, from the centre of the first pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, cos, isfinite, sin

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import map_coordinates

from ..arrays import Array, Box, Floats, Labels, Mask

Shape = tuple[int, int]

#: How far outside the outermost pixels' centres a point may lie, for rounding, and still count as inside.
SLACK = 1e-6


@dataclass(frozen=True, eq=False)
class Warp:
    """Where each pixel of a warped image comes from.

    Examples
    --------
    >>> warp = rotation((2, 3), np.pi / 2)
    >>> warp.image(np.array([[1, 2, 3], [4, 5, 6]]))
    array([[3, 6],
           [2, 5],
           [1, 4]])
    """

    #: w(x) for every pixel x of the warped image, (2, H, W).
    source: Floats
    #: Height and width of the images that it warps.
    original: Shape

    @property
    def shape(self) -> Shape:
        """Height and width of the warped image."""
        return self.source.shape[1], self.source.shape[2]

    @property
    def displacement(self) -> Floats:
        """v(x) = w(x) − x, (2, H, W)."""
        return self.source - _grid(self.shape)

    @property
    def valid(self) -> Mask:
        """Which pixels show a point of the original."""
        last = np.array(self.original, dtype=np.float64)[:, None, None] - 1
        inside: Mask = np.all((self.source >= -SLACK) & (self.source <= last + SLACK), axis=0)
        return inside

    @property
    def jacobian(self) -> Floats:
        """The determinant of ∇w by central differences, (H, W); a warp keeps orientation where it is positive."""
        (yy, yx), (xy, xx) = (np.gradient(component) for component in self.source)
        determinant: Floats = yy * xx - yx * xy
        return determinant

    def image(self, image: Array) -> Array:
        """Warp an image, H×W or H×W×C, bilinearly; its type stays, and what is not valid is 0."""
        image = np.asarray(image)
        if image.dtype.kind not in "uif" or image.ndim not in (2, 3):
            raise ValueError(f"image must be H×W or H×W×C numbers, got shape {image.shape} of {image.dtype}")
        self._check_size("image", image)
        planes = image[..., None] if image.ndim == 2 else image
        points = np.where(self.valid, self.source, 0)
        channels = np.moveaxis(planes, 2, 0).astype(np.float64)
        values = np.stack([map_coordinates(each, points, order=1, mode="nearest") for each in channels], axis=2)
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
            for part, size in zip(np.where(self.valid, self.source, 0), self.original, strict=True)
        )
        return np.where(self.valid, labels[row, column], -1).astype(np.int64)

    def crop(self, box: Box) -> Warp:
        """Return the part of the warp that makes these (rows, columns) of the warped image."""
        part = self.source[:, box[0], box[1]]
        if part.size == 0:
            raise ValueError(f"box {box} holds no pixel of a warped image of {self.shape}")
        return Warp(part, self.original)

    def _check_size(self, name: str, array: Array) -> None:
        if array.shape[:2] != self.original:
            raise ValueError(f"{name} must be of the size {self.original} that this warp is for, got {array.shape[:2]}")


def rotation(shape: Shape, angle: float) -> Warp:
    """Turn images of this height and width about their centre, by `angle` radians counter-clockwise.

    The canvas grows to hold all of the turned image. Quarter turns move pixels to pixels.
    """
    if not isfinite(angle):
        raise ValueError(f"angle must be a finite number of radians, got {angle!r}")
    height, width = shape
    c, s = cos(angle), sin(angle)
    turn = np.array([[c, s], [-s, c]])  # of (row, column), from the turned image back; rows point down
    sides = np.abs(turn) @ np.array([height - 1.0, width - 1.0])
    canvas = (ceil(sides[0] - SLACK) + 1, ceil(sides[1] - SLACK) + 1)
    offset = _grid(canvas) - (np.array(canvas)[:, None, None] - 1) / 2
    centre = np.array([height - 1, width - 1])[:, None, None] / 2
    return Warp(np.einsum("ij,jhw->ihw", turn, offset) + centre, (height, width))


def random_deformation(shape: Shape, squared_norm: float, rng: np.random.Generator, terms: int = 10) -> Warp:
    """Draw a smooth deformation w(x) = x + v(x) by a truncated Fourier series of a given Sobolev norm.

    v(x) = Σ a_k exp(i 2π k·x) over k = (k₁, k₂), |k₁|, |k₂| ≤ N, with x from 0 to 1 along each side, and
    ‖v‖² = |a₀|² + Σ |k|² |a_k|² (text of `fig:defromExp`). The a_k are independent complex normal numbers, a_{−k} the
    conjugate of a_k so that v is real, scaled to the norm.

    v counts pixels. The paper does not say so, but in units of the side a squared norm of 10 would mean a root mean
    square gradient of 2π√10 ≈ 20, which folds the image; in pixels of a 256² image it is 0.08. The paper takes squared
    norms of 10 to 80, and N = 10 `terms`.
    """
    if not (isfinite(squared_norm) and squared_norm >= 0):
        raise ValueError(f"squared_norm must be a finite number from 0 on, got {squared_norm!r}")
    if not 0 < 2 * terms < min(shape):
        raise ValueError(f"terms must be at least 1 and less than half of each side of {shape}, got {terms}")
    count = 2 * terms + 1
    draws = rng.standard_normal((2, 2, count, count))
    raw = draws[0] + 1j * draws[1]
    coefficients = (raw + raw[:, ::-1, ::-1].conj()) / 2
    k = np.arange(-terms, terms + 1)
    weight = np.maximum(k[:, None] ** 2 + k**2, 1)
    coefficients *= np.sqrt(squared_norm / (weight * np.abs(coefficients) ** 2).sum())
    rows, columns = (np.exp(2j * np.pi * np.outer(np.arange(size) / size, k)) for size in shape)
    displacement = np.einsum("hk,ckl,wl->chw", rows, coefficients, columns, optimize=True).real
    return Warp(_grid(shape) + displacement, shape)


def _grid(shape: Shape) -> Floats:
    return np.indices(shape, dtype=np.float64)
