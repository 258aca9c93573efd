"""TIFF files in windows: only the strips or tiles that a window meets are decoded; plain ones are mapped."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from .picture import Picture, UnfitError, both, check_channels, chosen
from .tiff import (
    ORIENTATION,
    PILLOW_COLOURS,
    Complaints,
    channel_last,
    checked_series,
    colour_map,
    finished,
    has_codecs,
    mask_series,
    turned,
)

#: Bytes of decoded strips or tiles that are kept for the next window.
CACHE = 2**28


class TiffWindows:
    """One picture of a TIFF file.

    Attributes
    ----------
    shape : (int, int)
    channels : int
    dtype : numpy.dtype
    """

    def __init__(self, file: Any, series: Any, page: int | None = None, channels: Sequence[int] | None = None) -> None:
        self.frame: Any = series.keyframe
        self._file, self._series = file, series
        lead = len(series.shape) - len(self.frame.shape)
        self._rows, self._columns = (series.axes.find(axis) - lead for axis in "YX")
        blank = np.broadcast_to(np.zeros(1, series.dtype), series.shape)
        laid = channel_last(blank, series.axes, page, channels is not None)
        self._pages = _pages(series, lead, page)
        self._chosen = channels
        if channels is not None and len(self._pages) > 1:  # other pages need not be read
            chosen(laid[:1, :1], channels)
            self._pages, self._chosen = [self._pages[channel] for channel in channels], None
        self._orientation = int(self.frame.tags.valueof(ORIENTATION, 1))
        self._gray = bool(np.ptp(colour_map(self.frame), axis=1).max() == 0) if self.frame.photometric == 3 else None
        example = self._meaning(np.zeros((1, 1, *((len(self._pages),) if len(self._pages) > 1 else laid.shape[2:]))))
        self.dtype, self.channels = example.dtype, prod(example.shape[2:])
        height, width = laid.shape[:2]
        self._stored = height, width
        self.shape = (width, height) if self._orientation > 4 else (height, width)
        self._contiguous = self._mapped()
        self._kept: OrderedDict[tuple[int, int], Array | None] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()
        mask = mask_series(file) if series is file.series[0] else None
        self._mask = None if mask is None else TiffWindows(file, mask)

    def window(self, top: int, bottom: int, left: int, right: int) -> Picture:
        """Read a window of the upright picture."""
        height, width = self.shape
        if self._orientation in (2, 3, 6, 7):
            left, right = width - right, width - left
        if self._orientation in (3, 4, 7, 8):
            top, bottom = height - bottom, height - top
        if self._orientation > 4:
            top, bottom, left, right = left, right, top, bottom
        parts = [self._page_window(page, top, bottom, left, right) for page in self._pages]
        found = self._meaning_of(turned(parts[0] if len(parts) == 1 else np.dstack(parts), self._orientation))
        if self._mask is None:
            return found
        mask = turned(self._mask._page_window(0, top, bottom, left, right), self._orientation)
        return Picture(found.values, both(found.inside, mask != 0))

    def _meaning_of(self, samples: Array) -> Picture:
        found = finished(samples, self.frame, self._gray)
        values = found.values if self._chosen is None else chosen(found.values, self._chosen)
        check_channels(values)
        return Picture(values, found.inside)

    def _meaning(self, samples: Array) -> Array:
        return self._meaning_of(samples.astype(self._series.dtype)).values

    def _mapped(self) -> Array | None:
        """Return the samples of all pages, mapped, where they lie in the file as they are."""
        offset = self._series.dataoffset
        if offset is None:
            return None
        dtype = self._series.dtype.newbyteorder(self._file.byteorder)
        held = self._file.filehandle.size - offset
        if held < prod(self._series.shape) * dtype.itemsize:
            raise UnfitError(f"truncated: {prod(self._series.shape) * dtype.itemsize:,} bytes are missing but {held:,}")
        mapped = np.memmap(self._file.filehandle.path, dtype, "r", offset, self._series.shape)
        return mapped.reshape(-1, *self.frame.shape)

    def _page_window(self, page: int, top: int, bottom: int, left: int, right: int) -> Array:
        if self._contiguous is not None:
            box: list[Any] = [slice(None)] * len(self.frame.shape)
            box[self._rows], box[self._columns] = slice(top, bottom), slice(left, right)
            stored = self._contiguous[(page, *box)]
            native = np.ascontiguousarray(stored, stored.dtype.newbyteorder("="))
            return np.moveaxis(native, 0, -1) if self._rows == 1 else native
        planes = self._decoded(page, top, bottom, left, right)
        if len(planes) > 1:
            return np.ascontiguousarray(np.moveaxis(planes[..., 0], 0, -1))
        return planes[0, ..., 0] if planes.shape[3] == 1 else planes[0]

    def _decoded(self, page: int, top: int, bottom: int, left: int, right: int) -> Array:
        """Return (separate samples, h, w, interleaved samples) of the strips or tiles that a window meets."""
        frame = self.frame
        separate, _, height, width, together = frame.shaped
        high = frame.tilelength if frame.is_tiled else min(frame.rowsperstrip, height)
        wide = frame.tilewidth if frame.is_tiled else width
        down, across = -(-height // high), -(-width // wide)
        window = np.full((separate, bottom - top, right - left, together), frame.nodata, self._series.dtype)
        for plane in range(separate):
            for row in range(top // high, -(-bottom // high)):
                for column in range(left // wide, -(-right // wide)):
                    part = self._segment(page, (plane * down + row) * across + column)
                    if part is None:  # a hole: nothing is stored
                        continue
                    y, x = row * high, column * wide
                    rows = slice(max(top, y), min(bottom, y + part.shape[0]))
                    columns = slice(max(left, x), min(right, x + part.shape[1]))
                    window[plane, rows.start - top : rows.stop - top, columns.start - left : columns.stop - left] = (
                        part[rows.start - y : rows.stop - y, columns.start - x : columns.stop - x]
                    )
        return window

    def _segment(self, page: int, index: int) -> Array | None:
        """Return a decoded strip or tile as (h, w, samples)."""
        key = page, index
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            part = self._decode(self._series.pages[page], index)
            self._kept[key] = part
            self._held += 0 if part is None else part.nbytes
            while self._held > CACHE and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._held -= 0 if oldest is None else oldest.nbytes
            return part

    def _decode(self, page: Any, index: int) -> Array | None:
        length, offset = page.databytecounts[index], page.dataoffsets[index]
        if not length:
            return None
        handle = self._file.filehandle
        handle.seek(offset)
        data = handle.read(length)
        if len(data) < length:
            raise UnfitError(f"truncated: {len(data):,} of {length:,} bytes of strip or tile {index} are there")
        extra = {"jpegtables": page.jpegtables, "jpegheader": self.frame.jpegheader} if self._is_jpeg else {}
        part, _, _ = self.frame.decode(data, index, **extra)
        return None if part is None else np.asarray(part[0])

    @property
    def _is_jpeg(self) -> bool:
        return int(self.frame.compression) in (6, 7, 34892, 33007)


def _pages(series: Any, lead: int, page: int | None) -> list[int]:
    """Return the pages whose samples are the picture's channels."""
    numbers = np.arange(prod(series.shape[:lead])).reshape(series.shape[:lead])
    order = sorted(range(lead), key=lambda axis: series.axes[axis] in "SC")
    stacks = prod(series.shape[axis] for axis in range(lead) if series.axes[axis] not in "SC")
    numbers = numbers.transpose(order).reshape(stacks, -1)
    if page is not None:
        numbers = numbers[page : page + 1]
    return [int(number) for number in numbers.ravel()]


class OpenTiff(NamedTuple):
    """An open TIFF file, and its windows; None where others have to read it: its codec, its colours, its axes."""

    file: Any
    windows: TiffWindows | None


def open_tiff(path: Path, page: int | None, channels: Sequence[int] | None) -> OpenTiff:
    """Open a TIFF file."""
    import tifffile

    Complaints.count.value = 0
    file = tifffile.TiffFile(path)
    try:
        series = checked_series(file)
        return OpenTiff(file, TiffWindows(file, series, page, channels) if _decodable(series) else None)
    except BaseException:
        file.close()
        raise


def _decodable(series: Any) -> bool:
    frame = series.keyframe
    if not has_codecs(frame):
        return False
    lead = len(series.shape) - len(frame.shape)
    pages = series.shape[lead:] == frame.shape and {"Y", "X"} <= set(series.axes[lead:])
    one_by_one = prod(series.shape[:lead]) == len(series.pages) or series.dataoffset is not None
    rows = lead == 1 and series.axes[1:] == "YX" and series.shape[0] > 16 >= series.shape[2]  # stored as pages
    depth = frame.shaped[1] > 1
    return int(frame.photometric) not in PILLOW_COLOURS and pages and one_by_one and not rows and not depth
