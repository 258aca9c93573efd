"""Overlays: the image with its regions tinted and their boundaries drawn."""

from collections.abc import Mapping
from io import BytesIO

import numpy as np
from PIL import Image

from ..arrays import RGB8, Array, Ints, Mask
from ..io.intensity import Intensity
from ..io.palette import region_colour
from ..labels import dilate, present

TINT = 0.36
LINE = 255
#: Pixels of the shorter side for each pixel of the line's width.
PER_LINE_PIXEL = 400
#: Rows that are tinted at once.
STRIP = 256
#: Longest side of what notebooks show.
SHOWN_SIDE = 1024


def overlay(image: Array, labels: Ints, colours: Mapping[int, tuple[int, int, int]] | None = None) -> RGB8:
    """Tint the regions of an image and draw their boundaries, as H×W×3 of uint8.

    A boundary is a white line with a dark rim, visible on light and dark; both widen with the image. Negative labels
    are not tinted. `colours` maps labels to red, green and blue; else `region_colour` does.
    """
    if image.shape[:2] != labels.shape:
        raise ValueError(f"labels must have the image's shape {image.shape[:2]}, got {labels.shape}")
    picture = as_rgb8(image, labels >= 0)
    numbers = present(labels)
    tints = np.array([(colours or {}).get(int(n)) or region_colour(int(n)) for n in numbers], dtype=np.uint16)
    strength = np.where(numbers >= 0, round(256 * TINT), 0).astype(np.uint16)
    tinted = np.empty_like(picture)
    for first in range(0, len(labels), STRIP):  # in strips, to save memory
        rows = slice(first, first + STRIP)
        index = np.searchsorted(numbers, labels[rows])
        weight = strength[index][..., None]
        tinted[rows] = (picture[rows] * (256 - weight) + tints[index] * weight) >> 8
    width = max(1, round(min(labels.shape) / PER_LINE_PIXEL))
    line = _boundary(labels, width)
    rim = dilate(line, width) & ~line
    tinted[rim] //= 3
    tinted[line] = LINE
    return tinted


def as_rgb8(image: Array, inside: Mask | None = None) -> RGB8:
    """Return an image of any kind as H×W×3 of uint8, to be looked at.

    Values become 0..255 as `Intensity` says, by the pixels inside. Of three or more channels the first three are taken
    for red, green and blue; two are averaged.
    """
    if image.ndim == 3:
        image = image[..., :3] if image.shape[2] >= 3 else image.mean(axis=2).astype(image.dtype)
    shown = Intensity().bytes(image, inside)
    return np.repeat(shown[..., None], 3, axis=2) if shown.ndim == 2 else shown


def _boundary(labels: Ints, width: int) -> Mask:
    """Return a line of the given width along pixels unlike the next one to the right or below."""
    line = np.zeros(labels.shape, dtype=bool)
    line[:-1] |= labels[1:] != labels[:-1]
    line[:, :-1] |= labels[:, 1:] != labels[:, :-1]
    return dilate(line, (width - 1) / 2) if width > 1 else line


def notebook_png(picture: RGB8) -> bytes:
    """Return a PNG file as notebooks show it; large pictures are reduced."""
    shown = Image.fromarray(picture)
    shown.thumbnail((SHOWN_SIDE, SHOWN_SIDE), Image.Resampling.BOX)
    content = BytesIO()
    shown.save(content, "PNG")
    return content.getvalue()
