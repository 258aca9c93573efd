"""Any picture a user may hand in, as what a network takes: (C, H, W) values in [0, 1] of a workable size."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import avg_pool2d

from ..arrays import Array, Floats32, Ints
from ..io.images import read_image

MOST_CHANNELS = 16
#: Shares of the values of a 16-bit or float picture that become black and white.
BLACK, WHITE = 0.1, 99.9
#: Rows of a reduced picture that are made at once.
STRIP = 64


@dataclass(frozen=True)
class Picture:
    """A picture in the form it came, and in the form the work is done on.

    Attributes
    ----------
    original : ndarray, (H, W) or (H, W, C)
    values : ndarray, (c, h, w), float32 in [0, 1]
    factor : int
        Pixels of the original, a side, that one of `values` stands for.
    """

    original: Array
    values: Floats32
    factor: int

    def reduce_labels(self, labels: Ints, name: str) -> Ints:
        """Bring a label map of the original's size to that of the work, by the blocks' central pixels."""
        if labels.shape != self.original.shape[:2]:
            raise ValueError(f"{name} must have the picture's size {self.original.shape[:2]}, got {labels.shape}")
        if self.factor == 1:
            return labels
        rows, columns = (
            np.minimum(np.arange(n) * self.factor + self.factor // 2, size - 1)
            for n, size in zip(self.values.shape[1:], labels.shape, strict=True)
        )
        return labels[np.ix_(rows, columns)]

    def reduce_marks(self, marks: Ints, name: str) -> Ints:
        """Bring scribbles (-1 is unmarked) to the size of the work; a block with any mark is marked, however thin."""
        if self.factor == 1 or marks.shape != self.original.shape[:2]:
            return self.reduce_labels(marks, name)
        height, width = self.values.shape[1:]
        rest = [(0, n * self.factor - size) for n, size in zip((height, width), marks.shape, strict=True)]
        blocks = np.pad(marks, rest, constant_values=-1).reshape(height, self.factor, width, self.factor)
        reduced: Ints = blocks.max(axis=(1, 3))
        return reduced

    def restore_labels(self, labels: Ints) -> Ints:
        """Bring a label map of the work's size to the original's."""
        height, width = self.original.shape[:2]
        full = labels.repeat(self.factor, axis=0).repeat(self.factor, axis=1) if self.factor > 1 else labels
        return np.ascontiguousarray(full[:height, :width])


def as_picture(image: Any, channels: int, max_pixels: int) -> Picture:
    """Read, check and convert a picture for a network of so many channels.

    Parameters
    ----------
    image : H×W or H×W×C array, tensor (the same, or C×H×W), PIL image or path
        Integers of 8 bits are divided by 255; wider integers, and floats that leave [0, 1], are stretched so that
        0.1 % of the values are black and 0.1 % white.
    channels : int
        A gray picture is repeated; a picture with other channels than these is expressed in its first principal
        components, or padded with its mean.
    max_pixels : int
        Larger pictures are averaged over blocks.
    """
    original = _as_array(image)
    planes = original[None] if original.ndim == 2 else np.moveaxis(original, 2, 0)
    factor = max(1, ceil(sqrt(planes[0].size / max_pixels)))
    values = np.stack([_reduced(plane, factor) for plane in planes])
    return Picture(original, _with_channels(_in_unit_range(values, original.dtype), channels), factor)


def _as_array(image: Any) -> Array:
    if isinstance(image, (str, os.PathLike)):
        array = read_image(image)
    elif isinstance(image, torch.Tensor):
        array = image.detach().cpu().numpy()
        if array.ndim == 3 and _channels_first(*array.shape):
            array = np.moveaxis(array, 0, 2)
    elif isinstance(image, Image.Image):
        array = _pil_array(image)
    else:
        array = np.asarray(image)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8) * 255
    if array.dtype.kind not in "uif":
        raise TypeError(f"image must hold numbers, got {array.dtype} from {type(image).__name__}")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or array.size == 0 or (array.ndim == 3 and array.shape[2] > MOST_CHANNELS):
        raise ValueError(f"image must be H×W or H×W×C with 1 to {MOST_CHANNELS} channels, got shape {array.shape}")
    if array.dtype.kind == "f":
        bad = int(np.count_nonzero(~np.isfinite(array)))
        if bad:
            raise ValueError(f"image must be finite; {bad} of {array.size} values are NaN or infinite")
    return array


def _channels_first(first: int, _: int, last: int) -> bool:
    """Whether a tensor is C×H×W: by the most channels there may be, and for small pictures by the lesser number."""
    return first <= MOST_CHANNELS and (last > MOST_CHANNELS or (first < last and last > 4))


def _pil_array(image: Image.Image) -> Array:
    """Apply palettes and drop alpha, as `read_image` does."""
    if image.mode in ("1", "LA", "La"):
        return np.asarray(image.convert("L"))
    plain = image.mode in ("L", "I", "F") or image.mode.startswith("I;16")
    return np.asarray(image if plain else image.convert("RGB"))


def _reduced(plane: Array, factor: int) -> Floats32:
    """Average blocks, strip by strip, so that a large plane is never there in float32."""
    if factor == 1:
        return plane.astype(np.float32)
    height, width = plane.shape
    reduced = np.empty((-(-height // factor), -(-width // factor)), np.float32)
    for first in range(0, len(reduced), STRIP):
        strip = torch.from_numpy(plane[first * factor : (first + STRIP) * factor].astype(np.float32))
        means = avg_pool2d(strip[None, None], factor, ceil_mode=True, count_include_pad=False)
        reduced[first : first + STRIP] = means[0, 0].numpy()
    return reduced


def _in_unit_range(values: Floats32, dtype: np.dtype[Any]) -> Floats32:
    if dtype == np.uint8:
        return values / np.float32(255)
    low, high = float(values.min()), float(values.max())
    if dtype.kind == "f" and low >= 0 and high <= 1:
        return values
    low, high = (float(q) for q in np.percentile(values, [BLACK, WHITE]))
    if high <= low:
        return np.zeros_like(values)
    stretched: Floats32 = np.clip((values - np.float32(low)) / np.float32(high - low), 0, 1)
    return stretched


def _with_channels(values: Floats32, channels: int) -> Floats32:
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
    centred = flat - flat.mean(1, keepdims=True)
    _, vectors = np.linalg.eigh(centred @ centred.T / centred.shape[1])
    vectors = vectors[:, ::-1][:, :channels]
    vectors *= np.where(vectors.sum(0) < 0, -1, 1)  # a sign that does not depend on the library
    parts = (vectors.T @ centred).reshape(channels, *values.shape[1:]).astype(np.float32)
    low, high = parts.min(), parts.max()
    return (parts - low) / (high - low) if high > low else np.zeros_like(parts)
