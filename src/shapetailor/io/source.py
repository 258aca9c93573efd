"""Pictures that are read in windows, so that a large one is never whole in memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..arrays import Array, Mask
from .images import as_picture


@dataclass(frozen=True)
class Source:
    """A picture in memory that is read in windows: rows top to bottom, columns left to right, the last exclusive."""

    values: Array  # H×W or H×W×C, of the stored type
    inside: Mask | None = None  # H×W; None: all

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return self.values.shape[0], self.values.shape[1]

    @property
    def channels(self) -> int:
        """1 for gray, whose windows are H×W; else windows are H×W×C."""
        return prod(self.values.shape[2:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the stored values."""
        return self.values.dtype

    def read(self, top: int, bottom: int, left: int, right: int) -> Array:
        """Return the values of a window."""
        return self.values[top:bottom, left:right]

    def valid(self, top: int, bottom: int, left: int, right: int) -> Mask | None:
        """Return which pixels of a window are inside the picture; None: all of them."""
        inside = None if self.inside is None else self.inside[top:bottom, left:right]
        return None if inside is None or inside.all() else inside


def open_source(image: Any) -> Source:
    """Open whatever `as_picture` takes."""
    return image if isinstance(image, Source) else Source(*as_picture(image))
