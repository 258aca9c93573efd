"""Label maps with a pyramid, so that viewers open large ones at once: tiled TIFF, GeoTIFF, OME-TIFF and OME-Zarr.

Labels are read in bands of rows: an array, or a `numpy.memmap` that never was whole in memory. Negative
labels are outside the picture. They are stored as the largest number of the type, or as −1 where there are more than
65535 labels; GDAL's nodata tag of a TIFF file names that number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from ..arrays import Array
from .files import atomic, atomic_folder
from .georeference import Georeference
from .palette import palette
from .pixel_size import PixelSize
from .zarr_windows import UNITS, zarr_library

#: Side of the tiles of a TIFF file and of the chunks of a Zarr array; larger maps have a pyramid.
TILE, CHUNK = 512, 1024
_NODATA = 42113

Colours = Mapping[int, tuple[int, int, int]]


def write_label_tiff(
    path: Path,
    labels: Array,
    colours: Colours | None = None,
    *,
    georeference: Georeference | None = None,
    pixel_size: PixelSize | None = None,
    ome: bool = False,
) -> None:
    """Write a label map as TIFF, atomically: tiles, and a pyramid where it is large.

    Up to 255 labels have a palette: the colours given, else those of regions. With a georeference it is a GeoTIFF file.
    The levels of a pyramid are subIFDs in OME-TIFF, and pages (GDAL's overviews) else.
    """
    import tifffile

    stored, outside = _stored_type(labels)
    options: dict[str, Any] = {"compression": "zlib", "photometric": "minisblack"}
    if stored == np.uint8:
        black = {} if outside is None else {outside: (0, 0, 0)}
        entries = np.array(palette(256, black | dict(colours or {})), np.uint16).reshape(256, 3)
        options |= {"photometric": "palette", "colormap": 257 * entries.T}
    tags = list(georeference.tags) if georeference is not None else []
    if outside is not None:
        tags.append((_NODATA, "s", 0, str(outside), True))
    metadata = _ome_metadata(pixel_size, _identity(labels, stored, outside)) if ome else None
    levels = _levels(labels.shape)
    if len(levels) > 1:
        options["tile"] = (TILE, TILE)
    large = labels.size * stored.itemsize > 2**31
    with atomic(path) as temporary, tifffile.TiffWriter(temporary, ome=ome, bigtiff=large) as file:
        for number, step in enumerate(levels):
            first = {"metadata": metadata, "extratags": tags, "subifds": len(levels) - 1 if ome else None}
            kind = first if number == 0 else {"metadata": None, "subfiletype": 1}
            shape = tuple(-(-side // step) for side in labels.shape)
            if len(levels) > 1:
                tiles = _tiles(labels, step, stored, outside)
                file.write(tiles, shape=shape, dtype=stored, **kind, **options)
            else:
                file.write(_as_stored(labels, stored, outside), **kind, **options)


def write_label_zarr(
    path: Path,
    labels: Array,
    colours: Colours | None = None,
    *,
    names: Mapping[int, str] | None = None,
    pixel_size: PixelSize | None = None,
) -> None:
    """Write a label map as OME-Zarr 0.5 (Zarr 3), atomically: one image with `image-label` and a pyramid.

    Parameters
    ----------
    colours, names : mapping, optional
        Of labels: the colours and the property "class" that viewers show.
    """
    zarr = zarr_library()
    stored, outside = _stored_type(labels)
    levels = _levels(labels.shape)
    with atomic_folder(path) as temporary:
        group = zarr.create_group(temporary, zarr_format=3)
        for number, step in enumerate(levels):
            shape = tuple(-(-side // step) for side in labels.shape)
            chunks = tuple(min(CHUNK, side) for side in shape)
            options = {"shape": shape, "chunks": chunks, "dtype": stored, "dimension_names": ["y", "x"]}
            array = group.create_array(str(number), fill_value=0, **options)
            for top in range(0, shape[0], CHUNK):
                band = labels[top * step : (top + CHUNK) * step : step, ::step]
                array[top : top + CHUNK] = _as_stored(band, stored, outside)
        group.attrs["ome"] = {
            "version": "0.5",
            "multiscales": [_multiscale(path.name.removesuffix(".ome.zarr"), levels, pixel_size)],
            "image-label": _image_label(dict(colours or {}), dict(names or {}), outside),
        }


def _image_label(colours: dict[int, Any], names: dict[int, str], outside: int | None) -> dict[str, Any]:
    """Return the colour and the name of each label, as the specification has them."""
    rgba = {value: [*rgb, 255] for value, rgb in colours.items()}
    if outside is not None:
        rgba[outside], names[outside] = [0, 0, 0, 0], "outside"
    return {
        "colors": [{"label-value": value, "rgba": rgba[value]} for value in sorted(rgba)],
        "properties": [{"label-value": value, "class": names.get(value, str(value))} for value in sorted(rgba)],
    }


def _multiscale(name: str, levels: list[int], pixel_size: PixelSize | None) -> dict[str, Any]:
    side, unit = pixel_size or (1.0, "")
    known = {short: long for long, short in UNITS.items()}.get(unit)
    axes = [{"name": axis, "type": "space"} | ({"unit": known} if known else {}) for axis in "yx"]
    datasets = [
        {
            "path": str(number),
            "coordinateTransformations": [{"type": "scale", "scale": [side * step, side * step]}],
        }
        for number, step in enumerate(levels)
    ]
    return {"name": name, "axes": axes, "datasets": datasets, "type": "nearest"}


def _identity(labels: Array, stored: np.dtype[Any], outside: int | None) -> UUID:
    """The file's identity by what it holds: the same labels give the same bytes."""
    digest = hashlib.sha256(f"{labels.shape} {stored}".encode())
    for top in range(0, labels.shape[0], TILE):
        digest.update(_as_stored(labels[top : top + TILE], stored, outside).tobytes())
    return UUID(bytes=digest.digest()[:16], version=5)


def _ome_metadata(pixel_size: PixelSize | None, identity: UUID) -> dict[str, Any]:
    metadata: dict[str, Any] = {"axes": "YX", "UUID": str(identity)}
    if pixel_size is not None:
        for axis in "XY":
            metadata |= {f"PhysicalSize{axis}": pixel_size.side, f"PhysicalSize{axis}Unit": pixel_size.unit}
    return metadata


def _levels(shape: tuple[int, ...]) -> list[int]:
    """Return the steps of the levels of a pyramid: every second, fourth, … pixel until a level is one tile."""
    levels = [1]
    while max(shape) > TILE * levels[-1]:
        levels.append(2 * levels[-1])
    return levels


def _stored_type(labels: Array) -> tuple[np.dtype[Any], int | None]:
    """Return the smallest type that holds the labels, and the number for what is outside; None: all are inside."""
    if labels.ndim != 2 or labels.dtype.kind not in "iu" or labels.size == 0:
        raise ValueError(f"labels must be an H×W integer array, got {labels.dtype} of shape {labels.shape}")
    bands = [labels[top : top + CHUNK] for top in range(0, len(labels), CHUNK)]
    low, high = min(int(band.min()) for band in bands), max(int(band.max()) for band in bands)
    if high >= 2**31:
        raise ValueError(f"labels must be below 2147483648, got {high}")
    for kind in (np.uint8, np.uint16):
        if high < np.iinfo(kind).max:
            return np.dtype(kind), np.iinfo(kind).max if low < 0 else None
    return np.dtype(np.int32), -1 if low < 0 else None


def _as_stored(band: Array, stored: np.dtype[Any], outside: int | None) -> Array:
    return (band if outside is None else np.where(band < 0, outside, band)).astype(stored)


def _tiles(labels: Array, step: int, stored: np.dtype[Any], outside: int | None) -> Iterator[Array]:
    """Yield the tiles of a level, row by row; those at the far edges are filled up."""
    for top in range(0, labels.shape[0], TILE * step):
        band = _as_stored(labels[top : top + TILE * step : step, ::step], stored, outside)
        for left in range(0, band.shape[1], TILE):
            tile = band[:, left : left + TILE]
            yield np.pad(tile, [(0, TILE - side) for side in tile.shape])
