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
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate

from ..arrays import Array, Box, Floats, Floats32, Labels, Mask
from ..io.images import NO_PIXEL
from ..io.intensity import Intensity
from ..io.source import Source, open_source
from .colours import Colours

Scalar = TypeVar("Scalar", bound=np.generic)

#: Pixels that are read at once.
STRIP = 2**21
#: Pixels that say which stored numbers become 0 and 1, at most.
SAMPLE = 2**24
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

    source: Source
    values: Floats32  # (c, h, w) in [0, 1]: reduced, in its pose, enlarged
    factor: int  # pixels of the original, a side, that are averaged to one
    pose: Pose
    zoom: int  # pixels of `values`, a side, that one such pixel is enlarged to
    colours: Colours
    valid: Mask | None = None  # (H, W), the original's pixels that are inside the picture; None: all
    inside: Mask | None = None  # (h, w), the same of `values`; what is outside has the value of a pixel nearby

    @property
    def original(self) -> Array:
        """The whole picture as it came, (H, W) or (H, W, C)."""
        height, width = self.source.shape
        return self.source.read(0, height, 0, width)

    def labels_in(self, labels: Labels, name: str) -> Labels:
        """Bring a label map of the original's size to the canvas, by the blocks' central pixels; −1 outside."""
        self._check_size(labels, name)
        if self.factor == 1:
            known = labels if self.valid is None else labels[_nearest(self.valid)]
            return self.masked(self._enlarged(known))
        centres = np.ix_(
            *(np.minimum(np.arange(0, n, self.factor) + self.factor // 2, n - 1) for n in labels.shape),
        )
        central = labels[centres]
        if self.valid is not None:  # a block whose centre is outside has the highest label inside
            highest = _highest(labels, self.factor, self.valid)
            central = np.where(self.valid[centres], central, highest)
        return self.masked(self._enlarged(central))

    def marks_in(self, marks: Labels, name: str) -> Labels:
        """Bring marks (negative is unmarked) to the canvas; a block with any mark is marked, however thin."""
        self._check_size(marks, name)
        return self._enlarged(_highest(marks, self.factor, self.valid))

    def marks_at(self, marks: Labels, factor: int, box: Box) -> Labels:
        """Marks of the original's size in a box of blocks of `factor` pixels a side; −1 is unmarked."""
        rows, columns = (slice(factor * side.start, factor * side.stop) for side in box)
        return _highest(marks[rows, columns], factor, None if self.valid is None else self.valid[rows, columns])

    def inside_at(self, factor: int) -> Mask:
        """Blocks of `factor` pixels a side with a pixel inside."""
        assert self.valid is not None
        return self.valid if factor == 1 else _highest(self.valid.view(np.int8), factor, None) > 0

    def window(self, factor: int, box: Box) -> Floats32:
        """The picture averaged over blocks of `factor` pixels a side, in a box of blocks, as it lies; (c, h, w).

        Infinity outside, which is unlike every colour.
        """
        stored, inside = block_means(self.source, factor, box)
        values = self.colours(stored)
        return values if inside is None else np.where(inside, values, np.float32(np.inf))

    def upright(self, framed: NDArray[Scalar]) -> NDArray[Scalar]:
        """Bring (..., h, w) back to the picture's own pose and size, but for `factor`; by the pixels' centres."""
        centres = slice(self.zoom // 2, None, self.zoom)
        return self.pose.undo(framed[..., centres, centres])

    def labels_out(self, labels: Labels) -> Labels:
        """Bring a label map of the canvas to the original's size."""
        height, width = self.source.shape
        full = self.upright(labels)
        if self.factor > 1:
            full = full.repeat(self.factor, axis=0).repeat(self.factor, axis=1)
        full = np.ascontiguousarray(full[:height, :width])
        return full if self.valid is None else np.where(self.valid, full, -1)

    def planes_out(self, planes: Floats32) -> Floats32:
        """Bring (K, h, w) of the canvas to the original's size, linearly between the pixels."""
        height, width = self.source.shape
        upright = self.upright(planes)
        if self.factor == 1:
            return np.ascontiguousarray(upright)
        found = np.empty((len(planes), height, width), np.float32)
        for plane, out in zip(upright, found, strict=True):  # one by one, for the sake of memory
            out[:] = enlarged(torch.from_numpy(plane)[None, None], self.factor)[0, 0, :height, :width].numpy()
        return found

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
        if labels.shape != self.source.shape:
            raise ValueError(f"{name} must have the picture's size {self.source.shape}, got {labels.shape}")


def canvas_of(image: Any, channels: int, stride: int, max_pixels: int, intensity: Intensity | None = None) -> Canvas:
    """Read and check a picture, and bring it to its canvas.

    Parameters
    ----------
    image : H×W or H×W×C array, tensor (the same, or C×H×W), PIL image, path, Picture or Source
    channels : int
        Of the network; see `Colours`.
    stride : int
        Side of the blocks of pixels that the network works on.
    max_pixels : int
        Larger pictures are averaged over blocks of 2×2, 3×3, … pixels.
    intensity : Intensity, optional
        The way from stored numbers to 0..1.
    """
    source = open_source(image)
    height, width = source.shape
    factor = max(1, ceil(sqrt(height * width / max_pixels)))
    everything = slice(0, -(-height // factor)), slice(0, -(-width // factor))
    stored, inside = block_means(source, factor, everything)
    if inside is not None and not inside.any():
        raise ValueError(f"{source.name} {NO_PIXEL.format(height * width)}")
    valid = None if inside is None else source.valid(0, height, 0, width)
    colours = Colours.of(stored, _limits(source, intensity or Intensity()), channels, inside)
    values = colours(stored)
    wanted = FEWEST_BLOCKS * stride if stride > 1 else 1
    zoom = min(LARGEST, ceil(wanted / max(values.shape[1:])))
    pose = pose_of(values if inside is None else values * inside)
    posed = pose.apply(values)
    if inside is not None:
        inside = pose.apply(inside)
        posed = posed[(slice(None), *_nearest(inside))]
        inside = inside.repeat(zoom, axis=0).repeat(zoom, axis=1)
    if zoom > 1:
        posed = enlarged(torch.from_numpy(posed)[None], zoom)[0].numpy().clip(0, 1)
    return Canvas(source, posed, factor, pose, zoom, colours, valid, inside)


def enlarged(planes: Tensor, factor: int) -> Tensor:
    """Enlarge (B, C, h, w) linearly between the pixels.

    `antialias` changes nothing but the kernel: without it the last bits depend on the number of threads.
    """
    return interpolate(planes, scale_factor=factor, mode="bilinear", antialias=True)


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


def block_means(source: Source, factor: int, box: Box) -> tuple[Floats32, Mask | None]:
    """Average a picture's pixels over blocks, in a box of blocks: (C, h, w), and the blocks with a pixel inside.

    Only pixels inside count, where there are any; None: all are inside. Strip by strip, so that a large picture is
    never there in float32.
    """
    rows, columns = box
    left, right = (min(source.shape[1], factor * each) for each in (columns.start, columns.stop))
    step = max(1, STRIP // (factor * (right - left)))
    means = np.empty((source.channels, rows.stop - rows.start, columns.stop - columns.start), np.float32)
    shares = np.ones(means.shape[1:], np.float32)
    for first in range(rows.start, rows.stop, step):
        window = factor * first, min(source.shape[0], factor * min(first + step, rows.stop)), left, right
        stored, valid = source.read(*window), source.valid(*window)
        planes = stored[None] if stored.ndim == 2 else np.moveaxis(stored, 2, 0)
        here = slice(first - rows.start, first - rows.start + step)
        if valid is None:
            means[:, here] = _pooled(planes, factor)
            continue
        shares[here] = share = _pooled(valid[None], factor)[0]
        total = _pooled(np.where(valid, planes, planes.dtype.type(0)), factor)
        means[:, here] = np.divide(total, share, out=total, where=share > 0)
    return means, None if (shares == 1).all() else shares > 0


def _pooled(planes: Array, factor: int) -> Floats32:
    """Average (C, H, W) over blocks."""
    values: Floats32 = np.ascontiguousarray(planes).astype(np.float32)
    if factor == 1:
        return values
    pooled: Floats32 = avg_pool2d(torch.from_numpy(values)[None], factor, ceil_mode=True, count_include_pad=False)[
        0
    ].numpy()
    return pooled


def _highest(marks: Labels, factor: int, valid: Mask | None) -> Labels:
    """The highest number in each block; pixels outside count as unmarked."""
    found = marks if valid is None else np.where(valid, marks, np.minimum(marks, -1))
    return np.ascontiguousarray(_highest_row(_highest_row(found, factor).T, factor).T)


def _highest_row(marks: Labels, factor: int) -> Labels:
    """The highest number of each `factor` rows."""
    found = marks[::factor].copy()
    for row in range(1, factor):
        lines = marks[row::factor]
        np.maximum(found[: len(lines)], lines, out=found[: len(lines)])
    return found


def _limits(source: Source, intensity: Intensity) -> tuple[float, float]:
    """The stored numbers that become 0 and 1; of a large picture by rows that are spread over it."""
    height, width = source.shape
    if source.dtype == np.uint8:
        return 0.0, 255.0
    if height * width <= SAMPLE:
        return intensity.limits(source.read(0, height, 0, width), source.valid(0, height, 0, width))
    lines = [(row, row + 1, 0, width) for row in range(0, height, -(-height * width // SAMPLE))]
    values, valid = [source.read(*line) for line in lines], [source.valid(*line) for line in lines]
    known = [np.ones((1, width), bool) if mask is None else mask for mask in valid]
    return intensity.limits(np.concatenate(values), np.concatenate(known))
