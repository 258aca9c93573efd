"""Maps of classes for the eye: PNG with a palette, and overlays with a legend."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..arrays import RGB8, Array, Ints
from ..io.files import atomic
from .overlay import overlay

RGB = tuple[int, int, int]
#: Colours of the values 0 (unlabelled) and 255 (ignore).
UNLABELLED, IGNORED = (0, 0, 0), (128, 128, 128)


class Named(Protocol):
    """A class as it is drawn."""

    @property
    def value(self) -> int:
        """Its value in label maps."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def rgb(self) -> RGB:
        """Its colour."""


def write_palette(path: str | os.PathLike[str], labels: Ints, colours: Mapping[int, RGB]) -> None:
    """Write labels of 0..255 as PNG with a palette, atomically: the values are stored, the colours are seen."""
    if labels.min() < 0 or labels.max() > 255:
        raise ValueError(f"{path}: a palette has the values 0 to 255, got {int(labels.min())} to {int(labels.max())}")
    palette = np.zeros((256, 3), np.uint8)
    for value, colour in {0: UNLABELLED, 255: IGNORED, **colours}.items():
        palette[value] = colour
    picture = Image.fromarray(labels.astype(np.uint8), "L")
    indexed = Image.new("P", picture.size)
    indexed.putpalette(palette.tobytes())
    indexed.paste(picture)
    with atomic(path) as temporary:
        indexed.save(temporary, "PNG", optimize=False)


def class_overlay(image: Array, labels: Ints, classes: Sequence[Named]) -> RGB8:
    """Return the picture tinted in the classes' colours, with a legend of all classes below."""
    tinted = overlay(image, labels, {each.value: each.rgb for each in classes})
    return np.concatenate([tinted, legend(classes, tinted.shape[1])])


def legend(classes: Sequence[Named], width: int) -> RGB8:
    """Return names beside their colours on white, of a given width and as many rows as they need."""
    size = max(10, round(width / 45))
    font = ImageFont.load_default(size)
    step, gap = round(1.6 * size), size // 2
    places, x, y = [], gap, gap // 2
    for each in classes:
        needed = round(font.getlength(each.name)) + 2 * size + gap
        if x > gap and x + needed > width:
            x, y = gap, y + step
        places.append((x, y))
        x += needed
    strip = Image.new("RGB", (width, y + step), "white")
    draw = ImageDraw.Draw(strip)
    for each, (left, top) in zip(classes, places, strict=True):
        draw.rectangle((left, top, left + size, top + size), fill=each.rgb, outline="black")
        draw.text((left + round(1.4 * size), top - size // 8), each.name, fill="black", font=font)
    return np.asarray(strip)
