"""OME-Zarr pictures in windows, of Zarr 2 and 3; and plain Zarr arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .picture import MAX_CHANNELS, Picture, UnfitError, check_channels, chosen
from .pixel_size import PixelSize, square_size
from .tiff import channel_last

#: Units of OME-Zarr, and what tables call them.
UNITS = {"micrometer": "µm", "nanometer": "nm", "millimeter": "mm", "meter": "m", "centimeter": "cm"}


def zarr_library() -> ModuleType:
    """Import zarr, or say how to get it."""
    try:
        import zarr
    except ImportError as error:
        raise ValueError("Zarr pictures need zarr: pip install shapetailor[zarr]") from error
    return zarr


def is_zarr(path: Path) -> bool:
    """Whether a folder is a Zarr group or array."""
    return any((path / name).is_file() for name in ("zarr.json", ".zgroup", ".zarray"))


class ZarrWindows:
    """The full size of one picture; attributes as `TiffWindows` has them."""

    def __init__(self, path: Path, page: int | None, channels: Sequence[int] | None) -> None:
        self._array, axes, self.pixel_size = _full_size(path)
        shape = self._array.shape
        blank = np.broadcast_to(np.zeros(1, self._array.dtype), shape)
        laid = channel_last(blank, axes, page, channels is not None)
        stacked = [axis for axis, letter in enumerate(axes) if letter not in "YXC"]
        pages = list(np.ndindex(*(shape[axis] for axis in stacked)))
        self._pages = pages if page is None else [pages[page]]
        self._axes, self._stacked, self._chosen = axes, stacked, channels
        if channels is not None and len(self._pages) > 1:
            chosen(laid[:1, :1], channels)
            self._pages, self._chosen = [self._pages[channel] for channel in channels], None
        self.shape: tuple[int, int] = (laid.shape[0], laid.shape[1])
        depth = (len(self._pages),) if len(self._pages) > 1 else laid.shape[2:]
        example = self._meaning(np.zeros((1, 1, *depth), self._array.dtype))
        self.dtype, self.channels = example.dtype, prod(example.shape[2:])

    def window(self, top: int, bottom: int, left: int, right: int) -> Picture:
        """Read a window."""
        slices = {"Y": slice(top, bottom), "X": slice(left, right), "C": slice(None)}
        parts = []
        for page in self._pages:
            numbers = dict(zip(self._stacked, page, strict=True))
            box = tuple(numbers.get(axis, slices.get(letter)) for axis, letter in enumerate(self._axes))
            part = np.asarray(self._array[box])
            left_over = [letter for letter in self._axes if letter in "YXC"]
            part = part.transpose([left_over.index(letter) for letter in "YXC" if letter in left_over])
            parts.append(part[..., 0] if part.ndim == 3 and part.shape[2] == 1 else part)
        return Picture(self._meaning(parts[0] if len(parts) == 1 else np.dstack(parts)))

    def _meaning(self, values: Any) -> Any:
        if values.dtype.kind == "b":
            values = values.astype(np.uint8) * 255
        values = values if self._chosen is None else chosen(values, self._chosen)
        check_channels(values)
        return values


def _full_size(path: Path) -> tuple[Any, str, PixelSize | None]:
    """Return the largest array of a picture, its axes, and the side of a pixel."""
    zarr = zarr_library()
    node = zarr.open(path, mode="r")
    if not hasattr(node, "group_keys"):
        return node, _guessed_axes(node.shape), None
    attributes = dict(node.attrs)
    try:
        scales = attributes.get("ome", attributes).get("multiscales")
        if not scales:
            raise UnfitError("is a Zarr group without multiscales: no OME-Zarr picture")
        array = node[scales[0]["datasets"][0]["path"]]
        axes = [axis if isinstance(axis, str) else axis["name"] for axis in scales[0].get("axes", "tczyx")]
        letters = "".join(axis.upper()[:1] for axis in axes)
        if len(letters) != array.ndim or "Y" not in letters or "X" not in letters or 0 in array.shape:
            raise UnfitError(f"has axes {axes} for an array of shape {array.shape}")
        return array, letters, _pixel_size(scales[0], letters)
    except (AttributeError, LookupError, TypeError) as error:
        raise UnfitError("its multiscales do not name axes and datasets as those of an OME-Zarr picture do") from error


def _guessed_axes(shape: tuple[int, ...]) -> str:
    if len(shape) not in (2, 3):
        raise UnfitError(f"is an array of shape {shape}, expected H×W, H×W×C or C×H×W")
    return "YX" if len(shape) == 2 else "YXC" if shape[2] <= MAX_CHANNELS else "CYX"


def _pixel_size(scale: dict[str, Any], letters: str) -> PixelSize | None:
    factors = np.ones(len(letters))
    steps = [*scale["datasets"][0].get("coordinateTransformations", []), *scale.get("coordinateTransformations", [])]
    for step in steps:
        if step.get("type") == "scale" and "scale" in step:
            factors = factors * step["scale"]
    axis = scale["axes"][letters.index("X")] if "axes" in scale else "x"
    unit = axis.get("unit") if isinstance(axis, dict) else None
    if not unit:
        return None
    sides = [float(factors[letters.index(axis)]) for axis in "YX"]
    return square_size(sides, UNITS.get(unit, str(unit)))
