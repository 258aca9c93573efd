"""Each file is read back by the other program's own library."""

import json

import numpy as np
import pytest
import tifffile

from shapetailor.classes.classification import Classification, PixelSize
from shapetailor.classes.formats import FORMATS
from shapetailor.classes.names import as_classes


@pytest.fixture
def found():
    """Two classes; the second is a ring with a piece of the first inside, and a piece of its own."""
    labels = np.full((20, 30), 2, np.uint8)
    labels[4:14, 5:18] = 5
    labels[7:10, 8:12] = 2
    labels[16:18, 20:28] = 5
    classes = as_classes([{"value": 2, "name": "matrix"}, {"value": 5, "name": "carbide", "color": "#ff8000"}])
    image = np.zeros(labels.shape, np.uint8)
    probabilities = np.stack([labels == 2, labels == 5]).astype(np.float32)
    size = PixelSize(0.5, "µm")
    return Classification(labels=labels, probabilities=probabilities, image=image, classes=classes, pixel_size=size)


def write(found, name, folder, stem="x"):
    ending, writer = FORMATS[name]
    path = folder / f"{stem}{ending}"
    writer(path, found)
    return path


def test_geojson_has_qupaths_fields_and_every_pixel(found, tmp_path):
    content = json.loads(write(found, "geojson", tmp_path).read_text())
    carbide = content["features"][1]["properties"]
    assert carbide["objectType"] == "annotation"
    assert carbide["classification"] == {"name": "carbide", "color": [255, 128, 0]}
    shapely = pytest.importorskip("shapely.geometry")
    shapes = [shapely.shape(each["geometry"]) for each in content["features"]]
    assert all(each.is_valid for each in shapes)
    assert [each.area for each in shapes] == [np.count_nonzero(found.labels == value) for value in (2, 5)]


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # pycocotools' own
def test_coco_is_read_by_pycocotools(found, tmp_path):
    coco = pytest.importorskip("pycocotools.coco").COCO(str(write(found, "coco", tmp_path)))
    assert [each["name"] for each in coco.loadCats(coco.getCatIds())] == ["matrix", "carbide"]
    for annotation in coco.loadAnns(coco.getAnnIds()):
        assert np.array_equal(coco.annToMask(annotation), found.labels == annotation["category_id"])


def test_a_picture_with_dots_in_its_name_keeps_all_of_it(found, tmp_path):
    content = json.loads(write(found, "coco", tmp_path, "steel v1.5.b").read_text())
    assert content["images"][0]["file_name"] == "steel v1.5.b"
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(write(found, "ome-zarr", tmp_path, "steel v1.5.b"), mode="r")
    assert group.attrs["ome"]["multiscales"][0]["name"] == "steel v1.5.b"


def test_imagej_regions_are_read_by_roifile_with_holes_names_and_colours(found, tmp_path):
    roifile = pytest.importorskip("roifile")
    rois = roifile.roiread(write(found, "imagej", tmp_path))
    assert [roi.name for roi in rois] == ["matrix 1", "matrix 2", "carbide 1", "carbide 2"]
    assert rois[2].stroke_color == bytes([255, 255, 128, 0])
    areas = []
    for roi in rois:
        rings = [np.vstack([ring, ring[:1]]) for ring in roi.coordinates(multi=True)]
        signed = [np.sum(r[:-1, 0] * r[1:, 1] - r[1:, 0] * r[:-1, 1]) / 2 for r in rings]
        areas.append(abs(sum(signed)))
    assert [areas[0] + areas[1], areas[2] + areas[3]] == [np.count_nonzero(found.labels == v) for v in (2, 5)]


def test_ome_tiff_has_values_colours_and_the_pixels_size(found, tmp_path):
    with tifffile.TiffFile(write(found, "ome-tiff", tmp_path)) as file:
        assert np.array_equal(file.asarray(), found.labels)
        assert (file.pages[0].colormap[:, 5] >> 8).tolist() == [255, 128, 0]
        assert 'PhysicalSizeX="0.5"' in file.ome_metadata
