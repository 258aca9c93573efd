"""What the file knows is kept: GeoTIFF, OME-TIFF and OME-Zarr in, and out again, by `segment` and `apply`."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import tifffile

from shapetailor.cli import main
from shapetailor.cli import segment as command
from shapetailor.segmentation.result import Segmentation

rasterio = pytest.importorskip("rasterio")
zarr = pytest.importorskip("zarr")
SHAPE = 60, 90
IMAGE = np.random.default_rng(0).integers(1, 255, (*SHAPE, 3), dtype=np.uint8)
HOLE = np.zeros(SHAPE, bool)
HOLE[:10, :12] = True
TRANSFORM = rasterio.Affine(0.5, 0, 600000, 0, -0.5, 5200000)


class Halves:
    """Two regions, left and right."""

    def segment(self, source, callback=None, **options):
        values, inside = source.whole()
        labels = np.where(True if inside is None else inside, np.arange(values.shape[1]) >= values.shape[1] // 3, -1)
        labels = np.broadcast_to(labels, values.shape[:2]).astype(np.int64)
        return Segmentation(labels=labels, image=values, energy=[1.0], iterations=1, converged=True)


@pytest.fixture(autouse=True)
def _segmenter(monkeypatch):
    monkeypatch.setattr(command, "load_segmenter", lambda *_: Halves())


@pytest.fixture
def geotiff(tmp_path):
    path = tmp_path / "ortho.tif"
    profile = {"driver": "GTiff", "height": 60, "width": 90, "count": 3, "dtype": "uint8", "nodata": 0}
    with rasterio.open(path, "w", **profile, crs="EPSG:32632", transform=TRANSFORM, compress="deflate") as file:
        file.write(np.moveaxis(np.where(HOLE[..., None], 0, IMAGE), 2, 0))
    return path


def segment(path, out, *options):
    assert main(["segment", str(path), "--out", str(out), *options]) == 0


def test_a_geotiff_stays_where_it_lies(geotiff, tmp_path):
    segment(geotiff, tmp_path / "out", "--format", "tiff", "--statistics")
    with rasterio.open(tmp_path / "out" / "ortho.tif") as file:
        assert (file.crs, file.transform) == (rasterio.CRS.from_epsg(32632), TRANSFORM)
        labels = file.read(1, masked=True)
        np.testing.assert_array_equal(labels.mask, HOLE)
        assert set(labels.compressed()) == {0, 1}
    with (tmp_path / "out" / "ortho.csv").open() as file:
        row = next(csv.DictReader(file))
    assert (float(row["physical_area"]), row["unit"]) == (int(row["area"]) / 4, "m²")


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:25832", "pixels"])
def test_polygons_are_in_wgs84_or_as_asked_and_counterclockwise(geotiff, tmp_path, crs):
    shapely = pytest.importorskip("shapely.geometry")
    segment(geotiff, tmp_path / "out", "--polygons", "--crs", crs)
    content = json.loads((tmp_path / "out" / "ortho.geojson").read_text())
    shapes = [shapely.shape(feature["geometry"]) for feature in content["features"]]
    assert [feature["properties"]["region"] for feature in content["features"]] == [0, 1]
    assert all(shape.is_valid for shape in shapes)
    assert all(polygon.exterior.is_ccw for shape in shapes for polygon in shape.geoms)
    west, south, east, north = shapely.GeometryCollection(shapes).bounds
    if crs == "pixels":
        assert (west, south, east, north) == (0, 0, 90, 60)
    elif crs == "EPSG:25832":
        assert (west, south, east, north) == pytest.approx((600000, 5199970, 600045, 5200000), abs=0.01)
        assert content["crs"]["properties"]["name"] == "urn:ogc:def:crs:EPSG::25832"
        assert sum(shape.area for shape in shapes) == pytest.approx((5400 - 120) / 4, rel=1e-6)
    else:
        from rasterio.warp import transform_bounds

        there = transform_bounds("EPSG:32632", crs, 600000, 5199970, 600045, 5200000)
        assert (west, south, east, north) == pytest.approx(there, abs=1e-6)
        assert "crs" not in content


def test_a_coordinate_system_that_does_not_exist_is_refused_before_the_work(geotiff, tmp_path, capsys):
    assert main(["segment", str(geotiff), "--out", str(tmp_path / "out"), "--crs", "EPSG:1"]) == 2
    assert "--crs must name a coordinate system" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_ome_tiff_pyramid_keeps_its_pixel_size(tmp_path):
    path = tmp_path / "slide.tif"
    with tifffile.TiffWriter(path, ome=True) as file:
        size = {"PhysicalSizeX": 0.25, "PhysicalSizeXUnit": "µm", "PhysicalSizeY": 0.25, "PhysicalSizeYUnit": "µm"}
        file.write(IMAGE, subifds=1, metadata={"axes": "YXS", **size}, photometric="rgb", tile=(32, 32))
        file.write(IMAGE[::2, ::2], subfiletype=1, metadata=None, photometric="rgb", tile=(32, 32))
    segment(path, tmp_path / "out", "--export", "ome-tiff", "ome-zarr", "coco", "--statistics")
    with tifffile.TiffFile(tmp_path / "out" / "slide.ome.tif") as file:
        assert 'PhysicalSizeX="0.25"' in file.ome_metadata
        assert file.asarray().shape == SHAPE
        assert (file.pages[0].colormap[:, 1] >> 8).tolist() == [230, 159, 0]
    scale = zarr.open_group(tmp_path / "out" / "slide.ome.zarr").attrs["ome"]["multiscales"][0]
    assert scale["datasets"][0]["coordinateTransformations"] == [{"type": "scale", "scale": [0.25, 0.25]}]
    assert [axis["unit"] for axis in scale["axes"]] == ["micrometer"] * 2
    assert "µm²" in (tmp_path / "out" / "slide.csv").read_text()


def test_an_ome_zarr_goes_in_and_its_labels_come_out(tmp_path):
    writer = pytest.importorskip("ome_zarr.writer")
    units = {"y": "micrometer", "x": "micrometer"}
    scale = {"c": 1.0, "y": 0.5, "x": 0.5}
    writer.write_image(np.moveaxis(IMAGE, 2, 0), str(tmp_path / "a.zarr"), axes="cyx", axes_units=units, scale=scale)
    segment(tmp_path / "a.zarr", tmp_path / "out", "--export", "ome-zarr")
    group = zarr.open_group(tmp_path / "out" / "a.ome.zarr", mode="r")
    np.testing.assert_array_equal(group["0"][:], np.broadcast_to(np.arange(90) >= 30, SHAPE))
    assert group.attrs["ome"]["image-label"]["colors"][0] == {"label-value": 0, "rgba": [0, 114, 178, 255]}
    scale = group.attrs["ome"]["multiscales"][0]["datasets"][0]["coordinateTransformations"]
    assert scale == [{"type": "scale", "scale": [0.5, 0.5]}]


def test_a_truncated_picture_leaves_nothing_half_written(tmp_path, capsys):
    tifffile.imwrite(tmp_path / "a.tif", IMAGE, photometric="rgb", tile=(32, 32), compression="zlib")
    (tmp_path / "a.tif").write_bytes((tmp_path / "a.tif").read_bytes()[:-2000])
    assert main(["segment", str(tmp_path / "a.tif"), "--out", str(tmp_path / "out"), "--export", "ome-zarr"]) == 1
    assert "a.tif" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["failures.csv"]
