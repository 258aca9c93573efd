"""Where a picture lies on the Earth: the tags of a GeoTIFF file, kept as they are; rasterio says what they mean."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from io import BytesIO
from math import sqrt
from typing import Any

import numpy as np

from ..arrays import Array

#: GeoTIFF 1.1: ModelPixelScale, ModelTiepoint, ModelTransformation, GeoKeyDirectory, GeoDoubleParams, GeoAsciiParams.
TAGS = {33550: "d", 33922: "d", 34264: "d", 34735: "H", 34736: "d", 34737: "s"}
#: What polygons are written in where nothing else is asked for, as RFC 7946 has it.
WGS84 = "EPSG:4326"
#: Asks for polygons in pixels, wherever the picture lies.
PIXELS = "pixels"
#: Digits after the point: a tenth of a millimetre, in degrees and in metres.
DEGREE_DIGITS, METRE_DIGITS = 9, 4

Tag = tuple[int, str, int, Any, bool]


@dataclass(frozen=True)
class Georeference:
    """Coordinate system and transform of a picture, and the system that polygons are asked for in."""

    tags: tuple[Tag, ...]  # as tifffile's `extratags` takes them
    target: str = WGS84

    @cached_property
    def _dataset(self) -> tuple[Any, Any]:
        import tifffile

        memory = BytesIO()
        tifffile.imwrite(memory, np.zeros((1, 1), np.uint8), extratags=self.tags, metadata=None)
        with warnings.catch_warnings(), quiet(), rasterio().MemoryFile(memory.getvalue()) as file:
            warnings.simplefilter("ignore", rasterio("errors").NotGeoreferencedWarning)  # tags that mean nothing
            with file.open() as dataset:
                return dataset.crs, dataset.transform

    @property
    def crs(self) -> Any:
        """The coordinate system, as rasterio has it."""
        return self._dataset[0]

    @property
    def transform(self) -> Any:
        """The affine map from (column, row) of pixel corners to coordinates."""
        return self._dataset[1]

    @property
    def target_name(self) -> str:
        """The target as GIS programs name it, such as urn:ogc:def:crs:EPSG::25832."""
        authority = checked_crs(self.target).to_authority()
        return self.target if authority is None else f"urn:ogc:def:crs:{authority[0]}::{authority[1]}"

    def points(self, corners: Array) -> Array:
        """Return coordinates in the target of (x, y) in pixels, N×2; longitude or easting first."""
        if self.crs is None:
            raise ValueError("the picture has a transform but no coordinate system; --crs pixels writes pixels")
        target = checked_crs(self.target)
        column, row = corners.T.astype(np.float64)
        a, b, c, d, e, f = self.transform[:6]
        x, y = a * column + b * row + c, d * column + e * row + f
        try:
            with quiet():
                there = np.stack(rasterio("warp").transform(self.crs, target, x, y), axis=1)
        except Exception as error:  # GDAL's own kinds
            raise ValueError(f"it cannot be brought to {self.target} ({error}); --crs pixels writes pixels") from error
        if not np.isfinite(there).all():
            raise ValueError(f"it cannot be brought to {self.target}: no such place; --crs pixels writes pixels")
        return there.round(DEGREE_DIGITS if target.is_geographic else METRE_DIGITS)

    def metres(self) -> float | None:
        """Return the side of a square with a pixel's area, in metres; None where the system has no such unit."""
        if self.crs is None or not self.crs.is_projected:
            return None
        _, factor = self.crs.linear_units_factor
        return sqrt(abs(self.transform.determinant)) * float(factor)


def rasterio(name: str = "io") -> Any:
    """Import a module of rasterio, or say how to get it."""
    try:
        return import_module(f"rasterio.{name}")
    except ImportError as error:
        raise ValueError("georeferences need rasterio: pip install shapetailor[geo]") from error


def quiet() -> Any:
    """Keep GDAL and PROJ from the screen: what is wrong they also raise."""
    return rasterio("env").Env()


def checked_crs(text: str) -> Any:
    """Return a coordinate system by its name, such as EPSG:25832."""
    module = rasterio("crs")
    try:
        with quiet():
            return module.CRS.from_user_input(text)
    except rasterio("errors").CRSError as error:
        raise ValueError(f"--crs must name a coordinate system, such as EPSG:25832, got {text!r} ({error})") from error


def check_crs(target: str) -> None:
    """Raise unless polygons can be written in a system; the default needs no rasterio before a picture does."""
    if target not in (WGS84, PIXELS):
        checked_crs(target)


def tiff_georeference(page: Any) -> Georeference | None:
    """Return what the first page of a TIFF file says; None if nothing, or if the picture is stored turned."""
    tags = [page.tags.get(code) for code in TAGS]
    found: list[Tag] = []
    for tag in tags:
        if tag is not None:
            values = tag.value if isinstance(tag.value, (tuple, str)) else (tag.value,)
            found.append((tag.code, TAGS[tag.code], 0 if TAGS[tag.code] == "s" else len(values), values, True))
    placed = any(tag[0] in (33922, 34264) for tag in found)
    return Georeference(tuple(found)) if placed and page.tags.valueof(274, 1) == 1 else None


def dataset_georeference(dataset: Any) -> Georeference | None:
    """Return what a file that rasterio has opened says."""
    import tifffile

    if dataset.crs is None or dataset.transform.is_identity:
        return None
    with quiet(), rasterio().MemoryFile() as file:
        profile = {"driver": "GTiff", "width": 1, "height": 1, "count": 1, "dtype": "uint8"}
        with file.open(**profile, crs=dataset.crs, transform=dataset.transform):
            pass
        with tifffile.TiffFile(BytesIO(file.read())) as tiff:
            return tiff_georeference(tiff.pages[0])
