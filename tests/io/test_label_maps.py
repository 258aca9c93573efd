"""Label maps in large files: their own libraries read numbers, colours, places and sizes back."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tifffile

from shapetailor.io import label_maps
from shapetailor.io.georeference import Georeference
from shapetailor.io.images import read_labels
from shapetailor.io.label_maps import write_label_tiff, write_label_zarr
from shapetailor.io.pixel_size import PixelSize
from shapetailor.io.source import open_source

rasterio = pytest.importorskip("rasterio")
zarr = pytest.importorskip("zarr")

ROWS, COLUMNS = np.indices((300, 500))
LABELS = (ROWS // 60 + COLUMNS // 200).astype(np.int64)
HOLED = np.where((ROWS - 100) ** 2 + (COLUMNS - 90) ** 2 < 900, -1, LABELS)
COLOURS = {0: (10, 20, 30), 3: (200, 100, 50)}


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(label_maps, "TILE", 64)
    monkeypatch.setattr(label_maps, "CHUNK", 64)


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "place.tif"
    profile = {"driver": "GTiff", "height": 300, "width": 500, "count": 1, "dtype": "uint8", "crs": "EPSG:32632"}
    with rasterio.open(path, "w", **profile, transform=rasterio.Affine(0.5, 0.1, 6e5, 0.1, -0.5, 52e5)) as file:
        file.write(np.ones((1, 300, 500), np.uint8))
    with open_source(path) as source:
        return source.georeference


@pytest.mark.parametrize("ome", [False, True])
@pytest.mark.parametrize("labels", [LABELS, HOLED, 100 * HOLED.clip(-1), 20000 * HOLED], ids=["", "holed", "16", "32"])
def test_a_tiff_pyramid_holds_the_labels_at_every_level(tmp_path, small_tiles, labels, ome):
    write_label_tiff(tmp_path / "a.tif", labels, ome=ome)
    np.testing.assert_array_equal(read_labels(tmp_path / "a.tif"), np.maximum(labels, -1))
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        levels = file.series[0].levels if ome else list(file.pages)
        assert [level.shape for level in levels] == [(300, 500), (150, 250), (75, 125), (38, 63)]
        np.testing.assert_array_equal(levels[2].asarray(), levels[0].asarray()[::4, ::4])


def test_a_geotiff_has_place_colours_nodata_and_overviews_for_gdal(tmp_path, small_tiles, place):
    write_label_tiff(tmp_path / "a.tif", HOLED, COLOURS, georeference=place)
    with rasterio.open(tmp_path / "a.tif") as file:
        assert file.crs == rasterio.CRS.from_epsg(32632)
        assert file.transform == rasterio.Affine(0.5, 0.1, 6e5, 0.1, -0.5, 52e5)
        assert file.nodata == 255
        assert file.overviews(1) == [2, 4, 8]
        assert file.colormap(1)[3] == (200, 100, 50, 255)
        np.testing.assert_array_equal(file.read(1, masked=True).filled(99), np.where(HOLED < 0, 99, HOLED))


def test_ome_tiff_has_the_pixels_size(tmp_path):
    write_label_tiff(tmp_path / "a.ome.tif", LABELS, pixel_size=PixelSize(0.25, "µm"), ome=True)
    with open_source(tmp_path / "a.ome.tif") as source:
        assert source.pixel_size == (0.25, "µm")


def test_ome_zarr_labels_are_read_by_ome_zarr_with_colours_names_and_sizes(tmp_path, small_tiles):
    ome_zarr = pytest.importorskip("ome_zarr.io")
    from ome_zarr.reader import Label, Reader

    write_label_zarr(tmp_path / "a.ome.zarr", HOLED, COLOURS, names={3: "carbide"}, pixel_size=PixelSize(0.25, "µm"))
    (node,) = Reader(ome_zarr.parse_url(tmp_path / "a.ome.zarr"))()
    assert any(isinstance(spec, Label) for spec in node.specs)
    assert [level.shape for level in node.data] == [(300, 500), (150, 250), (75, 125), (38, 63)]
    np.testing.assert_array_equal(node.data[0].compute(), np.where(HOLED < 0, 255, HOLED))
    np.testing.assert_array_equal(node.data[2].compute(), np.where(HOLED < 0, 255, HOLED)[::4, ::4])
    assert node.metadata["color"][3] == pytest.approx([200 / 255, 100 / 255, 50 / 255, 1])
    assert node.metadata["properties"] == {0: {"class": "0"}, 3: {"class": "carbide"}, 255: {"class": "outside"}}
    with open_source(tmp_path / "a.ome.zarr") as source:
        assert source.pixel_size == (0.25, "µm")


def test_an_ome_zarr_follows_the_specification(tmp_path, small_tiles):
    models = pytest.importorskip("ome_zarr_models.v05.image_label")
    write_label_zarr(tmp_path / "a.zarr", LABELS, COLOURS, names={3: "carbide"})
    models.ImageLabel.from_zarr(zarr.open_group(tmp_path / "a.zarr", mode="r"))


def test_a_zarr_takes_the_place_of_a_former_one_whole_or_not_at_all(tmp_path, monkeypatch):
    write_label_zarr(tmp_path / "a.zarr", LABELS)
    write_label_zarr(tmp_path / "a.zarr", LABELS + 1)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "a.zarr")["0"][:], LABELS + 1)
    monkeypatch.setattr(label_maps, "_multiscale", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_label_zarr(tmp_path / "a.zarr", LABELS)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "a.zarr")["0"][:], LABELS + 1)
    assert [each.name for each in tmp_path.iterdir()] == ["a.zarr"]


def test_a_map_on_the_disk_is_written_and_leaves_nothing(tmp_path, small_tiles):
    (tmp_path / "out").mkdir()
    labels = np.memmap(tmp_path / "labels", np.int16, "w+", shape=LABELS.shape)
    labels[:] = LABELS
    write_label_tiff(tmp_path / "out" / "a.tif", labels)
    np.testing.assert_array_equal(read_labels(tmp_path / "out" / "a.tif"), LABELS)
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["a.tif"]


def test_points_are_in_wgs84_or_as_asked(place):
    from dataclasses import replace

    corners = np.array([[0, 0], [500, 300]])
    (longitude, latitude), _ = place.points(corners)
    assert 10.2 < longitude < 10.4
    assert 46.9 < latitude < 47.0
    there = replace(place, target="EPSG:32632").points(corners)
    np.testing.assert_allclose(there, [[6e5, 52e5], [6e5 + 250 + 30, 52e5 + 50 - 150]])
    with pytest.raises(ValueError, match="--crs must name a coordinate system"):
        replace(place, target="nowhere").points(corners)


def test_a_place_without_rasterio_names_the_extra(place, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rasterio.io", None)
    with pytest.raises(ValueError, match=r"pip install shapetailor\[geo\]"):
        _ = Georeference(place.tags).crs


def test_the_same_labels_give_the_same_ome_tiff_and_others_another(tmp_path):
    for name, labels in (("a", LABELS), ("b", LABELS.copy()), ("c", LABELS.T)):
        write_label_tiff(tmp_path / f"{name}.ome.tif", labels, ome=True)
    first, same, other = ((tmp_path / f"{name}.ome.tif").read_bytes() for name in "abc")
    assert first == same
    uuid = re.compile(rb'UUID="urn:uuid:[-0-9a-f]{36}"')
    assert uuid.search(first)[0] != uuid.search(other)[0]
