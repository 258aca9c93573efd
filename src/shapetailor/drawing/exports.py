"""Regions and classes in the files of other programs: QuPath and GIS, COCO, ImageJ, OME."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Ints, Mask
from ..io.files import atomic
from ..io.georeference import PIXELS, WGS84, Georeference
from ..io.label_maps import write_label_tiff, write_label_zarr
from ..io.palette import region_colour
from ..io.pixel_size import PixelSize
from ..labels import bounding_box, present
from .polygons import Polygon, trace


class Entry(NamedTuple):
    """A label: its number, name and colour."""

    value: int
    name: str
    rgb: tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class LabelMap:
    """Regions or classes of a picture, −1 outside it."""

    labels: Ints
    entries: Sequence[Entry]
    pixel_size: PixelSize | None = None
    georeference: Georeference | None = None
    number: str = "region"  # what GeoJSON calls a label

    @property
    def colours(self) -> dict[int, tuple[int, int, int]]:
        """Colours of the labels."""
        return {each.value: each.rgb for each in self.entries}


def region_entries(labels: Ints) -> list[Entry]:
    """Name the regions that have a pixel."""
    numbers = present(labels).tolist()
    return [Entry(number, f"region {number}", region_colour(number)) for number in numbers if number >= 0]


def write_geojson(path: Path, found: LabelMap) -> None:
    """Write one annotation a class as GeoJSON that QuPath and GIS programs read, with the class's name and colour.

    Polygons run along pixel edges. Coordinates are pixels, x to the right and y down, as QuPath's are; those of a
    picture with a georeference are longitude and latitude (RFC 7946), or of the system asked for.
    """
    place = found.georeference
    if place is not None and place.target == PIXELS:
        place = None
    outlines = trace(found.labels)
    features = [
        {
            "type": "Feature",
            "id": each.value,
            "geometry": {
                "type": "MultiPolygon",
                "coordinates": outlines[each.value] if place is None else _placed(outlines[each.value], place),
            },
            "properties": {
                "objectType": "annotation",
                "classification": {"name": each.name, "color": list(each.rgb)},
                found.number: each.value,
                "area": int(np.count_nonzero(found.labels == each.value)),
            },
        }
        for each in found.entries
        if each.value in outlines
    ]
    content: dict[str, Any] = {"type": "FeatureCollection", "features": features}
    if place is not None and place.target != WGS84:  # GeoJSON of 2008, which GIS programs read
        content["crs"] = {"type": "name", "properties": {"name": place.target_name}}
    _write_json(path, content)


def _placed(polygons: list[Polygon], place: Georeference) -> list[list[list[list[float]]]]:
    """Bring polygons from pixels to coordinates; outer rings run counterclockwise there too."""
    rings = [ring for polygon in polygons for ring in polygon]
    points = place.points(np.array([corner for ring in rings for corner in ring]))
    ends = np.cumsum([len(ring) for ring in rings])[:-1]
    turned = -1 if place.transform.determinant < 0 else 1
    placed = iter([part[::turned].tolist() for part in np.split(points, ends)])
    return [[next(placed) for _ in polygon] for polygon in polygons]


def write_coco(path: Path, found: LabelMap) -> None:
    """Write one annotation a class in COCO's format, with uncompressed run lengths; a category's id is its value."""
    height, width = found.labels.shape
    annotations = []
    for each in found.entries:
        mask = found.labels == each.value
        if not mask.any():
            continue
        rows, columns = bounding_box(mask)
        annotations.append(
            {
                "id": each.value,
                "image_id": 1,
                "category_id": each.value,
                "iscrowd": 1,
                "area": int(mask.sum()),
                "bbox": [columns.start, rows.start, columns.stop - columns.start, rows.stop - rows.start],
                "segmentation": {"size": [height, width], "counts": run_lengths(mask)},
            }
        )
    content = {
        "images": [{"id": 1, "file_name": path.name.removesuffix(".coco.json"), "height": height, "width": width}],
        "annotations": annotations,
        "categories": [{"id": each.value, "name": each.name, "color": list(each.rgb)} for each in found.entries],
    }
    _write_json(path, content)


def run_lengths(mask: Mask) -> list[int]:
    """Return the lengths of runs of False and True in turn, column by column, beginning with False.

    >>> run_lengths(np.array([[True, False], [True, True]]))
    [0, 2, 1, 1]
    """
    flat = mask.ravel(order="F")
    ends = np.flatnonzero(np.diff(flat)) + 1
    lengths = np.diff([0, *ends.tolist(), flat.size]).tolist()
    return [0, *lengths] if flat[0] else lengths


def write_imagej(path: Path, found: LabelMap) -> None:
    """Write a zip of ImageJ regions of interest, one a connected piece, named by class; needs `roifile`."""
    try:
        import roifile
    except ImportError as error:
        raise ValueError("ImageJ regions need roifile: pip install shapetailor[formats]") from error
    outlines = trace(found.labels)
    with atomic(path) as temporary:
        temporary.unlink(missing_ok=True)
        for each in found.entries:
            red, green, blue = each.rgb
            for number, polygon in enumerate(outlines.get(each.value, []), start=1):
                roi = _composite(roifile, polygon)
                roi.name, roi.stroke_color = f"{each.name} {number}", bytes([255, red, green, blue])
                roi.tofile(temporary)


def _composite(roifile: Any, polygon: Polygon) -> Any:
    """Make ImageJ's composite region of a polygon with holes: a path of moves (0), lines (1) and ends (4)."""
    path = []
    for ring in polygon:
        path += [0.0, *map(float, ring[0])]
        for corner in ring[1:-1]:
            path += [1.0, *map(float, corner)]
        path.append(4.0)
    corners = np.array(polygon[0])
    (left, top), (right, bottom) = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
    roi = roifile.ImagejRoi(roitype=roifile.ROI_TYPE.RECT, left=left, top=top, right=right, bottom=bottom)
    roi.multi_coordinates, roi.shape_roi_size = np.array(path, np.float32), len(path)
    return roi


def write_ome_tiff(path: Path, found: LabelMap) -> None:
    """Write the label map as OME-TIFF with its colours, and the pixel's size where it is known."""
    write_label_tiff(path, found.labels, found.colours, pixel_size=found.pixel_size, ome=True)


def write_tiff(path: Path, found: LabelMap) -> None:
    """Write the label map as TIFF with its colours and its place on the Earth."""
    write_label_tiff(path, found.labels, found.colours, georeference=found.georeference)


def write_ome_zarr(path: Path, found: LabelMap) -> None:
    """Write the label map as OME-Zarr with its colours, names and pixel size."""
    names = {each.value: each.name for each in found.entries}
    write_label_zarr(path, found.labels, found.colours, names=names, pixel_size=found.pixel_size)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")


#: Name of a format → ending of its files, and what writes them.
FORMATS = {
    "geojson": (".geojson", write_geojson),
    "coco": (".coco.json", write_coco),
    "imagej": (".rois.zip", write_imagej),
    "ome-tiff": (".ome.tif", write_ome_tiff),
    "ome-zarr": (".ome.zarr", write_ome_zarr),
    "tiff": (".tif", write_tiff),
}
