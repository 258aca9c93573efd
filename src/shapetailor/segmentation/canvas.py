"""The canvas that a picture is worked on: picture and marks in, labels of the full size out.

On its way in, a picture is brought to values in 0..1, to the network's number of channels, to a workable size, and to a
canonical pose. A network whose weights were learnt treats a picture and its mirror image a little differently, and so
do tie-breaks in clustering. In the canonical pose all turned and mirrored versions of a picture are the same array, so
that their segmentations are the same but for the pose: a frame in the sense of frame averaging [1]_, of which one
member is enough here. A small picture is enlarged, because its regions would be a few blocks wide.

References
----------
.. [1] O. Puny et al., "Frame averaging for invariant and equivariant network design", ICLR 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from torch.nn.functional import avg_pool2d, interpolate

from ..arrays import Array, Floats, Floats32, Labels, Mask
from ..io.images import as_picture
from ..io.intensity import Intensity, scaled

Scalar = TypeVar("Scalar", bound=np.generic)

#: Rows of a reduced picture that are made at once.
STRIP = 64
#: Pictures of fewer blocks a side are enlarged, at most so many times.
FEWEST_BLOCKS, LARGEST = 32, 8
#: Moments below this share of their size are rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Pose:
    """How a picture is brought to its pose: mirrored up and down, left and right, and then across its diagonal."""

    rows: bool
    columns: bool
    diagonal: bool

    def apply(self, picture: NDArray[Scalar]) -> NDArray[Scalar]:
        """Bring (..., H, W) to the pose."""
        turned = picture[..., :: -1 if self.rows else 1, :: -1 if self.columns else 1]
        return np.ascontiguousarray(turned.swapaxes(-1, -2) if self.diagonal else turned)

    def undo(self, posed: NDArray[Scalar]) -> NDArray[Scalar]:
        """Bring (..., H, W) back from the pose."""
        turned = posed.swapaxes(-1, -2) if self.diagonal else posed
        return np.ascontiguousarray(turned[..., :: -1 if self.rows else 1, :: -1 if self.columns else 1])


@dataclass(frozen=True)
class Canvas:
    """A picture as it came, and as it is worked on."""

    original: Array  # (H, W) or (H, W, C)
    values: Floats32  # (c, h, w) in [0, 1]: reduced, in its pose, enlarged
    factor: int  # pixels of the original, a side, that are averaged to one
    pose: Pose
    zoom: int  # pixels of `values`, a side, that one such pixel is enlarged to
    valid: Mask | None = None  # (H, W), the original's pixels that are inside the picture; None: all
    inside: Mask | None = None  # (h, w), the same of `values`; what is outside has the value of a pixel nearby

    def labels_in(self, labels: Labels, name: str) -> Labels:
        """Bring a label map of the original's size to the canvas, by the blocks' central pixels; −1 outside."""
        self._check_size(labels, name)
        if self.valid is not None:
            labels = labels[_nearest(self.valid)]
        centres = np.ix_(
            *(np.minimum(np.arange(0, n, self.factor) + self.factor // 2, n - 1) for n in labels.shape),
        )
        return self.masked(self._enlarged(labels[centres] if self.factor > 1 else labels))

    def marks_in(self, marks: Labels, name: str) -> Labels:
        """Bring marks (negative is unmarked) to the canvas; a block with any mark is marked, however thin."""
        self._check_size(marks, name)
        if self.valid is not None:
            marks = np.where(self.valid, marks, np.minimum(marks, -1))
        if self.factor == 1:
            return self._enlarged(marks)
        rest = [(0, -size % self.factor) for size in marks.shape]
        whole = np.pad(marks, rest, constant_values=-1)
        height, width = (side // self.factor for side in whole.shape)
        blocks = whole.reshape(height, self.factor, width, self.factor)
        return self._enlarged(np.asarray(blocks.max(axis=(1, 3))))

    def upright(self, framed: NDArray[Scalar]) -> NDArray[Scalar]:
        """Bring (..., h, w) back to the picture's own pose and size, but for `factor`; by the pixels' centres."""
        centres = slice(self.zoom // 2, None, self.zoom)
        return self.pose.undo(framed[..., centres, centres])

    def labels_out(self, labels: Labels) -> Labels:
        """Bring a label map of the canvas to the original's size."""
        height, width = self.original.shape[:2]
        full = self.upright(labels)
        if self.factor > 1:
            full = full.repeat(self.factor, axis=0).repeat(self.factor, axis=1)
        full = np.ascontiguousarray(full[:height, :width])
        return full if self.valid is None else np.where(self.valid, full, -1)

    def masked(self, labels: Labels) -> Labels:
        """Take what is outside out of a label map of the canvas."""
        return labels if self.inside is None else np.where(self.inside, labels, -1)

    @property
    def seen(self) -> Floats32:
        """The values with infinity outside, which is unlike every colour."""
        return self.values if self.inside is None else np.where(self.inside, self.values, np.float32(np.inf))

    def _enlarged(self, labels: Labels) -> Labels:
        return self.pose.apply(labels).repeat(self.zoom, axis=0).repeat(self.zoom, axis=1)

    def _check_size(self, labels: Labels, name: str) -> None:
        if labels.shape != self.original.shape[:2]:
            raise ValueError(f"{name} must have the picture's size {self.original.shape[:2]}, got {labels.shape}")


def canvas_of(image: Any, channels: int, stride: int, max_pixels: int, intensity: Intensity | None = None) -> Canvas:
    """Read and check a picture, and bring it to its canvas.

    Parameters
    ----------
    image : H×W or H×W×C array, tensor (the same, or C×H×W), PIL image, path or Picture
    channels : int
        A gray picture is repeated; a picture with other channels than these is expressed in its first principal
        components, or padded with its mean.
    stride : int
        Side of the blocks of pixels that the network works on.
    max_pixels : int
        Larger pictures are averaged over blocks of 2×2, 3×3, … pixels.
    intensity : Intensity, optional
        The way from stored numbers to 0..1.
    """
    original, valid = as_picture(image)
    limits = (intensity or Intensity()).limits(original, valid)
    planes = original[None] if original.ndim == 2 else np.moveaxis(original, 2, 0)
    factor = max(1, ceil(sqrt(planes[0].size / max_pixels)))
    stored = np.stack([_reduced(plane, factor, valid) for plane in planes])
    inside = None if valid is None else _reduced(valid, factor) > 0
    values = _with_channels(scaled(stored, *limits), channels, inside)
    wanted = FEWEST_BLOCKS * stride if stride > 1 else 1
    zoom = min(LARGEST, ceil(wanted / max(values.shape[1:])))
    pose = pose_of(values if inside is None else values * inside)
    posed = pose.apply(values)
    if inside is not None:
        inside = pose.apply(inside)
        posed = posed[(slice(None), *_nearest(inside))]
        inside = inside.repeat(zoom, axis=0).repeat(zoom, axis=1)
    if zoom > 1:
        larger = interpolate(torch.from_numpy(posed)[None], scale_factor=zoom, mode="bilinear", align_corners=False)
        posed = larger[0].numpy().clip(0, 1)
    return Canvas(original, posed, factor, pose, zoom, valid, inside)


def pose_of(picture: Array) -> Pose:
    """Return the pose in which (C, H, W) is wide, and brighter on the right and at the bottom.

    A square is put so that it is brighter more to the right than to the bottom.

    Examples
    --------
    >>> picture = np.array([[[5.0, 1.0, 0.0], [2.0, 0.0, 0.0]]])
    >>> pose = pose_of(picture)
    >>> pose.apply(picture)
    array([[[0., 0., 2.],
            [0., 1., 5.]]])
    >>> all(np.array_equal(pose_of(turned).apply(turned), pose.apply(picture))
    ...     for turned in (picture[..., ::-1], picture.swapaxes(1, 2), np.rot90(picture, 1, (1, 2))))
    True
    """
    profile = picture.astype(np.float64).sum(axis=0)
    down, right = (_moment(profile.sum(axis=1 - axis)) for axis in (0, 1))
    height, width = profile.shape
    # The same picture turned has the same two numbers with other signs, or exchanged: up to rounding.
    tall = height > width or (height == width and abs(down) - abs(right) > ROUNDING * (abs(down) + abs(right)))
    return Pose(down < 0, right < 0, tall)


def _moment(profile: Floats) -> float:
    """How much more lies behind the middle than before it; 0 where that is rounding."""
    lever = np.arange(len(profile)) - (len(profile) - 1) / 2
    moment = float(lever @ profile)
    return moment if abs(moment) > ROUNDING * float(np.abs(lever) @ np.abs(profile)) else 0.0


def _nearest(inside: Mask) -> tuple[Array, Array]:
    """Rows and columns, (H, W) each, of the pixel inside that is nearest to each pixel."""
    rows, columns = distance_transform_edt(~inside, return_distances=False, return_indices=True)
    return rows, columns


def _reduced(plane: Array, factor: int, valid: Mask | None = None) -> Floats32:
    """Average the valid pixels of blocks, strip by strip, so that a large plane is never there in float32."""
    if valid is not None:
        share = _reduced(valid, factor)
        total = _reduced(np.where(valid, plane, plane.dtype.type(0)), factor)
        return np.divide(total, share, out=total, where=share > 0)
    if factor == 1:
        return plane.astype(np.float32)
    height, width = plane.shape
    reduced = np.empty((-(-height // factor), -(-width // factor)), np.float32)
    for first in range(0, len(reduced), STRIP):
        strip = torch.from_numpy(plane[first * factor : (first + STRIP) * factor].astype(np.float32))
        means = avg_pool2d(strip[None, None], factor, ceil_mode=True, count_include_pad=False)
        reduced[first : first + STRIP] = means[0, 0].numpy()
    return reduced


def _with_channels(values: Floats32, channels: int, inside: Mask | None = None) -> Floats32:
    count = len(values)
    if count == channels:
        return values
    if count == 1:
        return np.repeat(values, channels, axis=0)
    if count < channels:
        return np.concatenate([values, np.repeat(values.mean(0, keepdims=True), channels - count, axis=0)])
    if channels == 1:
        return np.asarray(values.mean(0, keepdims=True), np.float32)
    flat = values.reshape(count, -1)
    known = flat if inside is None else flat[:, inside.ravel()]
    centred = known - known.mean(1, keepdims=True)
    _, vectors = np.linalg.eigh(centred @ centred.T / centred.shape[1])
    centred = centred if inside is None else flat - known.mean(1, keepdims=True)
    vectors = vectors[:, ::-1][:, :channels]
    vectors *= np.where(vectors.sum(0) < 0, -1, 1)  # a sign that does not depend on the library
    parts = (vectors.T @ centred).reshape(channels, *values.shape[1:]).astype(np.float32)
    low, high = parts.min(), parts.max()
    return (parts - low) / (high - low) if high > low else np.zeros_like(parts)
