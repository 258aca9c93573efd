"""A picture's classes: label map, probabilities, uncertainty, and its rows of the table."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import NamedTuple

import numpy as np
from skimage.measure import label as connected_components

from ..arrays import RGB8, Array, Floats32, Labels
from ..drawing.class_pictures import class_overlay
from ..drawing.overlay import notebook_png
from ..io.georeference import Georeference
from ..io.images import write_image, write_labels
from ..io.pixel_size import PixelSize as PixelSize
from ..labels import boundary_length
from .names import IGNORE, UNLABELLED, ClassName


class TableRow(NamedTuple):
    """A class in a picture: a row of `table.csv`, less the picture's name.

    `fraction_without_ignored` is the fraction among the classes that are not ignored, and empty for those that are.
    `boundary_length` is in pixels; `area` is in the square of the pixel's `unit`, where that is known.
    """

    name: str
    value: int
    pixels: int
    fraction: float
    fraction_without_ignored: float | None
    pieces: int
    boundary_length: float
    area: float | None
    unit: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Classification:
    """What `Classifier.apply` returns.

    Attributes
    ----------
    labels : ndarray, (H, W) of uint8
        The value of each pixel's class.
    probabilities : ndarray, (K, H, W)
        Of the classes, in the order of `classes`.
    image : ndarray
        What was classified, as it was given.
    classes : tuple of ClassName
    pixel_size : PixelSize, optional
    georeference : Georeference, optional
        Where the picture lies on the Earth.
    """

    labels: Labels
    probabilities: Floats32
    image: Array
    classes: tuple[ClassName, ...]
    pixel_size: PixelSize | None = None
    georeference: Georeference | None = None

    def __repr__(self) -> str:
        height, width = self.labels.shape
        counts = np.bincount(self.labels.ravel(), minlength=256)
        inside = max(1, self.labels.size - int(counts[IGNORE]))
        shares = ", ".join(f"{each.name}: {counts[each.value] / inside:.1%}" for each in self.classes)
        return f"<Classification of {height}×{width} pixels: {shares}>"

    def _repr_png_(self) -> bytes:
        return notebook_png(self.overlay())

    @cached_property
    def uncertainty(self) -> Floats32:
        """Entropy of the probabilities over that of a uniform guess: 0 is certain, 1 is no idea; (H, W)."""
        p = self.probabilities
        total: Floats32 = -(p * np.log(np.maximum(p, 1e-12))).sum(axis=0) / np.float32(log(len(p)))
        return total

    @cached_property
    def table(self) -> list[TableRow]:
        """A row for each class, those without a pixel included."""
        return measure(self.labels, self.classes, self.pixel_size)

    def overlay(self) -> RGB8:
        """Return the picture tinted in the classes' colours, with a legend below."""
        return class_overlay(self.image, self.labels, self.classes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the classes' values: PNG with a palette of their colours, or TIFF."""
        write_map(path, self.labels, self.classes)

    def save_overlay(self, path: str | os.PathLike[str]) -> None:
        """Write the overlay as a picture."""
        write_image(path, self.overlay())

    def save_uncertainty(self, path: str | os.PathLike[str]) -> None:
        """Write the uncertainty as an 8-bit picture; white is 1."""
        write_image(path, np.rint(255 * self.uncertainty.clip(0, 1)).astype(np.uint8))


def write_map(path: str | os.PathLike[str], labels: Labels, classes: tuple[ClassName, ...]) -> None:
    """Write a map of classes' values, as PNG with a palette or as TIFF."""
    colours = {UNLABELLED: (0, 0, 0), IGNORE: (128, 128, 128)} | {each.value: each.rgb for each in classes}
    write_labels(path, labels, colours)


def measure(labels: Labels, classes: tuple[ClassName, ...], pixel_size: PixelSize | None = None) -> list[TableRow]:
    """Measure a map of classes; pixels outside the picture do not count."""
    counts = np.bincount(labels.ravel(), minlength=256)
    inside = labels.size - int(counts[IGNORE])
    judged = sum(int(counts[each.value]) for each in classes if not each.ignored)
    rows = []
    for each in classes:
        pixels, mask = int(counts[each.value]), labels == each.value
        rows.append(
            TableRow(
                each.name,
                each.value,
                pixels,
                pixels / max(1, inside),
                None if each.ignored or not judged else pixels / judged,
                int(connected_components(mask, connectivity=1).max()) if pixels else 0,
                boundary_length(mask.astype(np.int64)),
                pixels * pixel_size.side**2 if pixel_size else None,
                f"{pixel_size.unit}²" if pixel_size else "",
            )
        )
    return rows
