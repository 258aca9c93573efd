"""Classes in the files of other programs: QuPath, COCO, ImageJ, OME."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Mask
from ..drawing.polygons import Polygon, trace
from ..io.files import atomic
from ..labels import bounding_box
from .classification import Classification


def write_geojson(path: Path, found: Classification) -> None:
    """Write one annotation a class as GeoJSON that QuPath imports, with the class's name and colour.

    Polygons run along pixel edges; coordinates are pixels, x to the right and y down, as QuPath's are.
    """
    outlines = trace(found.labels.astype(np.int64))
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "MultiPolygon", "coordinates": outlines[each.value]},
            "properties": {
                "objectType": "annotation",
                "classification": {"name": each.name, "color": list(each.rgb)},
                "value": each.value,
            },
        }
        for each in found.classes
        if each.value in outlines
    ]
    _write_json(path, {"type": "FeatureCollection", "features": features})


def write_coco(path: Path, found: Classification) -> None:
    """Write one annotation a class in COCO's format, with uncompressed run lengths; a category's id is its value."""
    height, width = found.labels.shape
    annotations = []
    for each in found.classes:
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
        "images": [{"id": 1, "file_name": path.name.split(".")[0], "height": height, "width": width}],
        "annotations": annotations,
        "categories": [{"id": each.value, "name": each.name, "color": list(each.rgb)} for each in found.classes],
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


def write_imagej(path: Path, found: Classification) -> None:
    """Write a zip of ImageJ regions of interest, one a connected piece, named by class; needs `roifile`."""
    try:
        import roifile
    except ImportError as error:
        raise ValueError("ImageJ regions need roifile: pip install shapetailor[formats]") from error
    outlines = trace(found.labels.astype(np.int64))
    with atomic(path) as temporary:
        temporary.unlink(missing_ok=True)
        for each in found.classes:
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


def write_ome_tiff(path: Path, found: Classification) -> None:
    """Write the map of classes' values as OME-TIFF with their colours, and the pixel's size where it is known."""
    import tifffile

    colours = np.zeros((3, 256), np.uint16)
    for each in found.classes:
        colours[:, each.value] = 257 * np.array(each.rgb)
    metadata: dict[str, Any] = {"axes": "YX"}
    if found.pixel_size is not None:
        for axis in "XY":
            metadata |= {f"PhysicalSize{axis}": found.pixel_size.side, f"PhysicalSize{axis}Unit": found.pixel_size.unit}
    with atomic(path) as temporary:
        tifffile.imwrite(
            temporary,
            found.labels,
            ome=True,
            photometric="palette",
            colormap=colours,
            compression="zlib",
            metadata=metadata,
        )


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")


#: Name of a format → ending of its files, and what writes them.
FORMATS = {
    "geojson": (".geojson", write_geojson),
    "coco": (".coco.json", write_coco),
    "imagej": (".rois.zip", write_imagej),
    "ome-tiff": (".ome.tif", write_ome_tiff),
}
