"""Pictures that are read in windows, so that a large one is never whole in memory."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from ..arrays import Array, Floats32, Mask
from .georeference import Georeference, tiff_georeference
from .images import as_picture, check_range, named, open_with_pillow, read_picture
from .picture import Picture, UnfitError, both, chosen, finite_pixels
from .pixel_size import PixelSize, geographic_size, tiff_pixel_size
from .raster import RasterWindows, rasterio_knows
from .tiff import gdal_means_the_same, is_tiff
from .tiff_windows import TiffWindows, open_tiff
from .zarr_windows import ZarrWindows, is_zarr

#: Pixels that are read at once where a whole picture is gone through.
STRIP_PIXELS = 2**22
#: Pixels of a picture that is decoded whole, because its format knows no windows; larger ones need rasterio.
MOST_WHOLE = 2**27

#: Reads rows top to bottom and columns left to right, the last ones exclusive.
Window = Callable[[int, int, int, int], Picture]


class Source:
    """A picture that is read in windows. Values are those that `read_image` returns.

    Attributes
    ----------
    name : str
        The file's path, for messages.
    shape : (int, int)
        Height and width.
    channels : int
        1 for gray, whose windows are H×W; else windows are H×W×C.
    dtype : numpy.dtype
        Of the stored values.
    georeference : Georeference, optional
        Where it lies on the Earth.
    pixel_size : PixelSize, optional
        How large a pixel is.

    Examples
    --------
    >>> source = open_source(np.arange(12, dtype=np.uint8).reshape(3, 4))
    >>> source.read(0, 2, 1, 3)
    array([[1, 2],
           [5, 6]], dtype=uint8)
    >>> source.reduced(2)
    array([[ 2.5,  4.5],
           [ 8.5, 10.5]], dtype=float32)
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, int],
        channels: int,
        dtype: np.dtype[Any],
        window: Window,
        close: Callable[[], None] = lambda: None,
        georeference: Georeference | None = None,
        pixel_size: PixelSize | None = None,
    ) -> None:
        self.name, self.shape, self.channels, self.dtype = name, shape, channels, dtype
        self.georeference, self.pixel_size = georeference, pixel_size
        self._window = window
        self.close = weakref.finalize(self, close)  # once: when it is called, or when nobody needs the source any more
        self._last: tuple[tuple[int, ...], Picture] | None = None  # `valid` follows `read`

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, top: int, bottom: int, left: int, right: int) -> Array:
        """Return the values of rows top to bottom and columns left to right, the last ones exclusive."""
        return self._picture(top, bottom, left, right).values

    def valid(self, top: int, bottom: int, left: int, right: int) -> Mask | None:
        """Return which pixels of a window are inside the picture; None: all of them."""
        return self._picture(top, bottom, left, right).inside

    def whole(self) -> Picture:
        """Return all of it."""
        return self._picture(0, self.shape[0], 0, self.shape[1])

    def reduced(self, factor: int) -> Floats32:
        """Return the means of blocks of factor × factor pixels, those at the far edges smaller.

        Pixels outside the picture do not count; a block without any inside is NaN.
        """
        if factor < 1:
            raise ValueError(f"factor must be at least 1, got {factor}")
        height, width = self.shape
        rows = factor * max(1, STRIP_PIXELS // width // factor)
        strips = [
            _block_means(*self._picture(top, min(height, top + rows), 0, width), factor)
            for top in range(0, height, rows)
        ]
        self._last = None
        return np.concatenate(strips)

    def _picture(self, *window: int) -> Picture:
        top, bottom, left, right = window
        if not (0 <= top < bottom <= self.shape[0] and 0 <= left < right <= self.shape[1]):
            raise ValueError(
                f"{self.name}: a window must lie in the picture of {self.shape[0]}×{self.shape[1]} pixels, "
                f"got rows {top} to {bottom}, columns {left} to {right}"
            )
        last = self._last  # another thread may replace it
        if last is not None and last[0] == window:
            return last[1]
        with named(f"{self.name}, rows {top} to {bottom}, columns {left} to {right}"):
            values, inside = self._window(top, bottom, left, right)
            inside = both(inside, finite_pixels(values))
        picture = Picture(values, None if inside is None or inside.all() else inside)
        check_range(*picture)
        self._last = window, picture
        return picture


def open_source(image: Any, page: int | None = None, channels: Sequence[int] | None = None) -> Source:
    """Open a picture to be read in windows.

    Parameters
    ----------
    image : path, or whatever `as_picture` takes
        What is in memory, or a file.
    page : int, optional
        Which page, from 0, of a file that holds several.
    channels : sequence of int, optional
        Which channels, from 0, in this order; of a TIFF file with pages, which pages are the channels.
    """
    if isinstance(image, Source):
        return image
    if isinstance(image, (str, os.PathLike)):
        return _open_file(Path(image), page, channels)
    values, inside = as_picture(image)
    return in_memory(Picture(values if channels is None else chosen(values, channels), inside))


def _open_file(path: Path, page: int | None, channels: Sequence[int] | None) -> Source:
    with named(path):
        if path.is_dir() and is_zarr(path):
            array = ZarrWindows(path, page, channels)
            return _source(path, array, pixel_size=array.pixel_size)
        if is_tiff(path):
            return _open_tiff(path, page, channels)
        if _needs_rasterio(path):
            raster = RasterWindows(path, page, channels)
            place = raster.georeference
            return _source(path, raster, close=raster.close, georeference=place, pixel_size=geographic_size(place))
    return in_memory(as_picture(read_picture(path, page, channels)), str(path))


def _open_tiff(path: Path, page: int | None, channels: Sequence[int] | None) -> Source:
    """Open a TIFF file; what its tags say is known whoever decodes it."""
    with ExitStack() as stack:
        file, windows = open_tiff(path, page, channels)
        stack.callback(file.close)
        tags = {"georeference": tiff_georeference(file.pages[0]), "pixel_size": tiff_pixel_size(file)}
        if windows is not None:
            return _source(path, windows, close=stack.pop_all().close, **tags)
        by_rasterio = page is None and gdal_means_the_same(file.series[0]) and rasterio_knows(path)
    if by_rasterio or _needs_rasterio(path):
        raster = RasterWindows(path, page, channels)
        return _source(path, raster, close=raster.close, **tags)
    return in_memory(as_picture(read_picture(path, page, channels)), str(path), **tags)


def _source(path: Path, windows: TiffWindows | RasterWindows | ZarrWindows, **known: Any) -> Source:
    if windows.dtype.kind not in "uif":
        known.get("close", bool)()
        raise UnfitError(f"holds {windows.dtype}, expected numbers")
    return Source(str(path), windows.shape, windows.channels, windows.dtype, windows.window, **known)


def _needs_rasterio(path: Path) -> bool:
    """Whether a file is unknown to Pillow, or too large to be decoded whole, and rasterio knows it."""
    try:
        with open_with_pillow(path) as file:
            return file.width * file.height > MOST_WHOLE and rasterio_knows(path)
    except UnidentifiedImageError:
        return rasterio_knows(path)
    except Image.DecompressionBombError as error:
        if rasterio_knows(path):
            return True
        raise UnfitError(f"{error}; rasterio may read it in windows: pip install shapetailor[geo]") from error


def in_memory(picture: Picture, name: str = "image", **known: Any) -> Source:
    """Open a picture that is whole in memory."""
    values, inside = picture

    def window(top: int, bottom: int, left: int, right: int) -> Picture:
        box = slice(top, bottom), slice(left, right)
        return Picture(values[box], None if inside is None else inside[box])

    height, width = values.shape[:2]
    return Source(name, (height, width), prod(values.shape[2:]), values.dtype, window, **known)


def _block_means(values: Array, inside: Mask | None, factor: int) -> Floats32:
    """Return the means of blocks; NaN where nothing is inside."""
    if inside is None:
        sides = [np.minimum(factor, n - np.arange(0, n, factor)) for n in values.shape[:2]]
        counts = np.multiply.outer(*sides).astype(np.float64)
    else:
        values = np.where(inside if values.ndim == 2 else inside[..., None], values, values.dtype.type(0))
        counts = _block_sums(inside, factor)
    counts = np.where(counts == 0, np.nan, counts)
    return (_block_sums(values, factor) / (counts if values.ndim == 2 else counts[..., None])).astype(np.float32)


def _block_sums(values: Array, factor: int) -> Array:
    rows, columns = (np.arange(0, n, factor) for n in values.shape[:2])
    sums: Array = np.add.reduceat(np.add.reduceat(values, rows, axis=0, dtype=np.float64), columns, axis=1)
    return sums
