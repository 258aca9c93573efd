"""How large a pixel is: what files say, and what a user says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf, sqrt
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from .georeference import Georeference, tiff_georeference


class PixelSize(NamedTuple):
    """Side of a pixel, and its unit."""

    side: float
    unit: str


def stored_pixel_size(path: Path) -> PixelSize | None:
    """Return the side of a pixel that a TIFF file of ImageJ or OME, or a GeoTIFF tells, else None.

    The dots per inch of other files are about printing and say nothing of what is seen.
    """
    if path.suffix.lower() not in (".tif", ".tiff"):
        return None
    import tifffile

    with tifffile.TiffFile(path) as file:
        return tiff_pixel_size(file)


def tiff_pixel_size(file: Any) -> PixelSize | None:
    """Return what an open TIFF file says."""
    if file.ome_metadata:
        return _ome_pixel_size(file.ome_metadata)
    place = tiff_georeference(file.pages[0])
    if place is not None:
        return geographic_size(place)
    unit = (file.imagej_metadata or {}).get("unit")
    tags = [file.pages[0].tags.valueof(name) for name in ("XResolution", "YResolution")]
    sides = [of / per_unit for per_unit, of in filter(None, tags) if per_unit]
    if not unit or unit in ("pixel", "pixels") or not sides:
        return None
    return square_size(sides, {"micron": "µm", "um": "µm", "\\u00B5m": "µm"}.get(unit, str(unit)))


def geographic_size(place: Georeference | None) -> PixelSize | None:
    """Return the side of a square with the area of a pixel in a projected coordinate system."""
    try:
        metres = None if place is None else place.metres()
    except ValueError:  # rasterio is not there
        return None
    return None if metres is None else sound_size(metres, "m")


def square_size(sides: Sequence[float], unit: str) -> PixelSize | None:
    """Return the side of a square with the area of a pixel, whose sides may differ."""
    first, last = sides[0], sides[-1]
    return sound_size(first if first == last or min(first, last) <= 0 else sqrt(first * last), unit)


def sound_size(side: float, unit: str) -> PixelSize | None:
    """Return a size; None where a file tells nonsense."""
    return PixelSize(side, unit) if 0 < side < inf else None


def _ome_pixel_size(xml: str) -> PixelSize | None:
    try:
        found = [each.attrib for each in ElementTree.fromstring(xml).iter() if each.tag.endswith("}Pixels")]
        known = found[0] if found and "PhysicalSizeX" in found[0] else {}
        units = [known.get(f"PhysicalSize{axis}Unit", "µm") for axis in "XY"]
        sides = [float(known[f"PhysicalSize{axis}"]) for axis in "XY" if f"PhysicalSize{axis}" in known]
    except (ElementTree.ParseError, ValueError):  # the picture may be sound
        return None
    if not known or units[0] in ("pixel", "reference frame"):
        return None
    return square_size(sides if units[0] == units[1] else sides[:1], units[0])


def checked_size(size: Any) -> PixelSize:
    """Return a side and its unit that a program gives; raise where they are no such pair."""
    try:
        found = PixelSize(*size)
        sound = isinstance(found.unit, str) and 0 < found.side < inf
    except TypeError:
        sound = False
    if not sound:
        raise ValueError(f'pixel_size must be a side and its unit, such as (0.5, "µm"), got {size!r}')
    return found


def as_pixel_size(text: str) -> PixelSize:
    """Read a side with its unit.

    >>> as_pixel_size("0.5um")
    PixelSize(side=0.5, unit='µm')
    """
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([^\W\d_]+)\s*", text)
    if not match or not 0 < float(match[1]) < inf:
        raise ValueError(f'--pixel-size must be a side and its unit, such as "0.5um" or "2 mm", got {text!r}')
    return PixelSize(float(match[1]), {"um": "µm", "μm": "µm"}.get(match[2], match[2]))
