"""Maps of classes for the eye: overlays with a legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..arrays import RGB8, Array, Ints
from .overlay import overlay

RGB = tuple[int, int, int]


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
