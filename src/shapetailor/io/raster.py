"""Files that rasterio reads: TIFF with codecs that tifffile lacks, large JPEG 2000, virtual mosaics (VRT)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Array
from .georeference import Georeference, dataset_georeference, quiet, rasterio
from .picture import Picture, UnfitError, check_channels, chosen
from .tiff import checked_series, gdal_means_the_same


def opened(path: Path) -> Any:
    """Open a file; that it has no georeference is no matter."""
    rasterio()
    import rasterio as library
    from rasterio.errors import NotGeoreferencedWarning

    with warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        return library.open(path)


def rasterio_knows(path: Path) -> bool:
    """Whether rasterio is there and opens a file."""
    try:
        opened(path).close()
    except (ValueError, OSError):  # rasterio's own errors are OSErrors
        return False
    return True


def raster_picture(path: Path) -> Picture | None:
    """Read a TIFF file whole; None where rasterio is not there, or would not read it as it is meant."""
    import tifffile

    with tifffile.TiffFile(path) as file:
        if not gdal_means_the_same(checked_series(file)) or not rasterio_knows(path):
            return None
    windows = RasterWindows(path, None, None)
    try:
        return windows.window(0, windows.shape[0], 0, windows.shape[1])
    finally:
        windows.close()


class RasterWindows:
    """One picture of a file that rasterio reads; attributes as `TiffWindows` has them."""

    def __init__(self, path: Path, page: int | None, channels: Sequence[int] | None) -> None:
        if page is not None:
            raise UnfitError("is read by rasterio, which knows no pages; choose channels")
        self._dataset = opened(path)
        kinds = [kind.name for kind in self._dataset.colorinterp]
        self._bands = [band for band, kind in enumerate(kinds, start=1) if kind != "alpha"]
        self._colours = None
        if kinds == ["palette"]:
            entries = self._dataset.colormap(1)
            self._colours = np.array([entries.get(n, (0, 0, 0, 0))[:3] for n in range(max(entries) + 1)], np.uint8)
        self._chosen = channels
        self.shape: tuple[int, int] = (self._dataset.height, self._dataset.width)
        self.georeference: Georeference | None = dataset_georeference(self._dataset)
        example = self._values(np.zeros((len(self._bands), 1, 1), np.result_type(*self._dataset.dtypes)))
        self.dtype, self.channels = example.dtype, prod(example.shape[2:])

    def window(self, top: int, bottom: int, left: int, right: int) -> Picture:
        """Read a window."""
        box = (top, bottom), (left, right)
        with quiet():
            try:
                values = self._values(self._dataset.read(self._bands, window=box))
                return Picture(values, self._dataset.dataset_mask(window=box) != 0)
            except OSError as error:  # rasterio's own says only that GDAL's has the reason
                raise UnfitError(f"corrupt or truncated: {error.__cause__ or error}") from error

    def _values(self, planes: Array) -> Array:
        values = planes[0] if len(planes) == 1 else np.ascontiguousarray(np.moveaxis(planes, 0, -1))
        values = values if self._colours is None else self._colours[values]
        values = values if self._chosen is None else chosen(values, self._chosen)
        check_channels(values)
        return values

    def close(self) -> None:
        """Close the file."""
        self._dataset.close()
