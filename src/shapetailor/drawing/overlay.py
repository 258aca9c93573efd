"""Overlays: the image with its regions tinted and their boundaries drawn."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping

import numpy as np

from ..arrays import RGB8, Array, Ints, Mask
from ..io.intensity import Intensity
from ..labels import dilate

#: Colours for colour-blind people too (Okabe and Ito, "Color universal design", 2008), without black.
COLOURS = (
    (0, 114, 178),  # blue
    (230, 159, 0),  # orange
    (0, 158, 115),  # bluish green
    (204, 121, 167),  # reddish purple
    (240, 228, 66),  # yellow
    (213, 94, 0),  # vermilion
    (86, 180, 233),  # sky blue
)
TINT = 0.36
LINE = 255
#: Pixels of the shorter side for each pixel of the line's width.
PER_LINE_PIXEL = 400
#: Rows that are tinted at once.
STRIP = 256


def overlay(image: Array, labels: Ints, colours: Mapping[int, tuple[int, int, int]] | None = None) -> RGB8:
    """Tint the regions of an image and draw their boundaries, as H×W×3 of uint8.

    A boundary is a white line with a dark rim, visible on light and dark; both widen with the image.

    Parameters
    ----------
    image : ndarray, (H, W) or (H, W, C)
    labels : ndarray, (H, W)
        Negative labels are not tinted.
    colours : mapping, optional
        Label → red, green, blue; else those of `region_colour`.
    """
    if image.shape[:2] != labels.shape:
        raise ValueError(f"labels must have the image's shape {image.shape[:2]}, got {labels.shape}")
    picture = as_rgb8(image)
    present = np.unique(labels)
    tints = np.array([(colours or {}).get(int(n)) or region_colour(int(n)) for n in present], dtype=np.uint16)
    strength = np.where(present >= 0, round(256 * TINT), 0).astype(np.uint16)
    tinted = np.empty_like(picture)
    for first in range(0, len(labels), STRIP):  # in strips, to save memory
        rows = slice(first, first + STRIP)
        index = np.searchsorted(present, labels[rows])
        weight = strength[index][..., None]
        tinted[rows] = (picture[rows] * (256 - weight) + tints[index] * weight) >> 8
    picture = tinted
    width = max(1, round(min(labels.shape) / PER_LINE_PIXEL))
    line = _boundary(labels, width)
    rim = dilate(line, width) & ~line
    picture[rim] = picture[rim] // 3
    picture[line] = LINE
    return picture


def as_rgb8(image: Array) -> RGB8:
    """Return an image of any kind as H×W×3 of uint8, to be looked at.

    Values become 0..255 as `Intensity` says. Of three or more channels the first three are taken for red, green and
    blue; two are averaged.
    """
    if image.ndim == 3:
        image = image[..., :3] if image.shape[2] >= 3 else image.mean(axis=2).astype(image.dtype)
    shown = Intensity().bytes(image)
    return np.repeat(shown[..., None], 3, axis=2) if shown.ndim == 2 else shown


def _boundary(labels: Ints, width: int) -> Mask:
    """Return a line of the given width along pixels unlike the next one to the right or below."""
    line = np.zeros(labels.shape, dtype=bool)
    line[:-1] |= labels[1:] != labels[:-1]
    line[:, :-1] |= labels[:, 1:] != labels[:, :-1]
    return dilate(line, (width - 1) / 2) if width > 1 else line


def region_colour(number: int) -> tuple[int, int, int]:
    """Return the colour of a region: of `COLOURS`, beyond them hues a golden angle apart."""
    if 0 <= number < len(COLOURS):
        return COLOURS[number]
    red, green, blue = colorsys.hls_to_rgb(0.618034 * number % 1.0, (0.45, 0.65)[number % 2], 0.7)
    return round(255 * red), round(255 * green), round(255 * blue)
