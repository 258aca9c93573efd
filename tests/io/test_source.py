"""Pictures in windows: the same values as whole, in every container, and no window that is half read."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import tifffile
from PIL import Image

from shapetailor.io.georeference import check_crs
from shapetailor.io.images import as_picture, read_labels, read_picture
from shapetailor.io.source import open_source
from shapetailor.segmentation.canvas import canvas_of

rasterio = pytest.importorskip("rasterio")
zarr = pytest.importorskip("zarr")

RNG = np.random.default_rng(0)
SIZE = 100, 150
GRAY8 = RNG.integers(0, 256, SIZE, dtype=np.uint8)
RGB8 = RNG.integers(0, 256, (*SIZE, 3), dtype=np.uint8)
RGBA8 = np.dstack([RGB8, np.where(GRAY8 < 99, 0, GRAY8)])
FLOAT = np.where(GRAY8 < 50, np.nan, RNG.random(SIZE)).astype(np.float32)
STACK = RNG.integers(0, 65536, (5, *SIZE), dtype=np.uint16)
PALETTE = RNG.integers(0, 65536, (3, 256), dtype=np.uint16)
RGB = {"photometric": "rgb"}
GRAY = {"photometric": "minisblack"}
TILES = {"tile": (32, 48), "compression": "zlib"}
NODATA = {"extratags": [(42113, "s", 0, "7", True)]}

TIFFS = {
    "one strip": (GRAY8, GRAY, {}),
    "strips": (RGB8, {**RGB, "rowsperstrip": 7}, {}),
    "packed strips": (RGB8, {**RGB, "rowsperstrip": 7, "compression": "zlib", "predictor": True}, {}),
    "tiles": (RGB8, {**RGB, "tile": (32, 48)}, {}),
    "packed tiles": (RGB8, {**RGB, **TILES}, {}),
    "BigTIFF": (GRAY8, {**GRAY, **TILES, "bigtiff": True}, {}),
    "big-endian": (STACK[0], {**GRAY, "byteorder": ">"}, {}),
    "big-endian tiles": (STACK[0], {**GRAY, **TILES, "byteorder": ">"}, {}),
    "planes": (STACK, {**GRAY, "planarconfig": "separate", **TILES}, {}),
    "contiguous planes": (STACK, {**GRAY, "planarconfig": "separate"}, {}),
    "pages of ImageJ": (STACK, {"imagej": True, "metadata": {"axes": "CYX"}}, {}),
    "one page": (STACK, {**GRAY, **TILES}, {"page": 3}),
    "one contiguous page": (STACK, GRAY, {"page": 3}),
    "pages as channels": (STACK, {**GRAY, **TILES}, {"channels": [4, 0]}),
    "chosen channels": (RGB8, {**RGB, **TILES}, {"channels": [2]}),
    "rows as pages": (RGB8[..., :2].repeat(2, axis=2), {}, {}),
    "alpha": (RGBA8, {**RGB, **TILES, "extrasamples": ["unassalpha"]}, {}),
    "not finite": (FLOAT, {**GRAY, **TILES}, {}),
    "nodata": (GRAY8 % 20, {**GRAY, **TILES, **NODATA}, {}),
    "white is 0": (GRAY8, {"photometric": "miniswhite", **TILES}, {}),
    "one bit": (GRAY8 > 99, {**GRAY, "rowsperstrip": 9}, {}),
    "palette": (GRAY8, {"photometric": "palette", "colormap": PALETTE, **TILES}, {}),
    "gray palette": (GRAY8, {"photometric": "palette", "colormap": PALETTE[[0, 0, 0]], **TILES}, {}),
    **{f"orientation {n}": (RGB8, {**RGB, **TILES, "extratags": [(274, "H", 1, n, True)]}, {}) for n in range(1, 9)},
}


def check_same(path, options):
    """Compare the whole, a window inside and one at the far corner with the reader of whole pictures."""
    values, inside = as_picture(read_picture(path, **options))
    with open_source(path, **options) as source:
        height, width = source.shape
        assert (height, width) == values.shape[:2]
        assert source.dtype == values.dtype
        assert source.channels == (1 if values.ndim == 2 else values.shape[2])
        for top, bottom, left, right in [
            (0, height, 0, width),
            (31, 66, 45, 99),
            (height - 5, height, width - 3, width),
        ]:
            np.testing.assert_array_equal(source.read(top, bottom, left, right), values[top:bottom, left:right])
            there = source.valid(top, bottom, left, right)
            expected = np.True_ if inside is None else inside[top:bottom, left:right]
            np.testing.assert_array_equal(np.True_ if there is None else there, expected)


@pytest.mark.parametrize("kind", TIFFS)
def test_windows_of_a_tiff_are_those_of_the_whole(tmp_path, kind):
    image, stored, options = TIFFS[kind]
    tifffile.imwrite(tmp_path / "a.tif", image, **stored)
    check_same(tmp_path / "a.tif", options)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "1", "CMYK"])
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_what_pillow_reads_is_the_same_in_windows(tmp_path, mode, suffix):
    if (mode, suffix) == ("CMYK", "png"):
        pytest.skip("no PNG has these colours")
    Image.fromarray(RGBA8).convert(mode).save(tmp_path / f"a.{suffix}")
    check_same(tmp_path / f"a.{suffix}", {})


def test_a_file_that_only_pillow_decodes_is_read_once(tmp_path):
    Image.fromarray(RGB8).save(tmp_path / "a.tif", compression="tiff_lzw")
    check_same(tmp_path / "a.tif", {})


def geotiff(path, image, **options):
    planes = image[None] if image.ndim == 2 else np.moveaxis(image, 2, 0)
    profile = {"height": planes.shape[1], "width": planes.shape[2], "count": len(planes)}
    place = {"crs": "EPSG:32632", "transform": rasterio.Affine(0.5, 0, 600000, 0, -0.5, 5200000)}
    with rasterio.open(path, "w", **profile, dtype=image.dtype, **place, **{"driver": "GTiff"} | options) as file:
        file.write(planes)


def without_rasterio(monkeypatch):
    """Let Pillow decode what tifffile does not."""
    for name in ("source", "raster"):
        monkeypatch.setattr(f"shapetailor.io.{name}.rasterio_knows", lambda path: False)


@pytest.mark.parametrize("by_pillow", [False, True])
@pytest.mark.parametrize("codec", ["lzw", "deflate", "jpeg", "zstd"])
def test_a_geotiff_has_its_place_its_nodata_and_its_pixel_size(tmp_path, codec, by_pillow, monkeypatch):
    if by_pillow:
        without_rasterio(monkeypatch)
    options = {"tiled": True, "blockxsize": 32, "blockysize": 32, "compress": codec}
    geotiff(tmp_path / "a.tif", RGB8, **options, **({} if codec == "jpeg" else {"nodata": 7}))
    with rasterio.open(tmp_path / "a.tif") as file, open_source(tmp_path / "a.tif") as source:
        stored = np.moveaxis(file.read(), 0, -1)
        np.testing.assert_array_equal(source.read(20, 70, 30, 90), stored[20:70, 30:90])
        inside = source.valid(0, 100, 0, 150)
        np.testing.assert_array_equal(
            np.True_ if inside is None else inside, (stored != 7).any(axis=2) if codec != "jpeg" else np.True_
        )
        assert source.georeference.crs == file.crs
        assert source.georeference.transform == file.transform
        assert source.pixel_size == (0.5, "m")


@pytest.mark.parametrize("codec", ["lzw", "jpeg"])
def test_a_cloud_optimised_geotiff_is_one_picture_not_a_stack(tmp_path, codec):
    image = np.kron(RGB8, np.ones((6, 6, 1), np.uint8))  # large enough for overviews
    geotiff(tmp_path / "a.tif", image, driver="COG", compress=codec)
    with rasterio.open(tmp_path / "a.tif") as file, open_source(tmp_path / "a.tif") as source:
        assert file.overviews(1)
        assert source.georeference.crs == file.crs
        np.testing.assert_array_equal(source.read(90, 200, 3, 300), np.moveaxis(file.read(), 0, -1)[90:200, 3:300])
    check_same(tmp_path / "a.tif", {})


def test_colours_of_16_bits_stay_so_whatever_packs_them(tmp_path, monkeypatch):
    image = np.moveaxis(STACK[:3] % 4096, 0, -1)
    geotiff(tmp_path / "a.tif", image, compress="lzw", photometric="RGB")
    with open_source(tmp_path / "a.tif") as source:
        np.testing.assert_array_equal(source.read(20, 70, 30, 90), image[20:70, 30:90])
    check_same(tmp_path / "a.tif", {})
    without_rasterio(monkeypatch)
    with pytest.raises(ValueError, match=r"a\.tif: its numbers of 16 bits, packed as LZW, need rasterio: pip install"):
        open_source(tmp_path / "a.tif")


@pytest.mark.parametrize("codec", ["lzw", "deflate", "none"])
def test_a_mask_in_the_file_says_what_is_inside(tmp_path, codec):
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        geotiff(tmp_path / "a.tif", RGB8, compress=codec, photometric="RGB")
        with rasterio.open(tmp_path / "a.tif", "r+") as file:
            file.write_mask(GRAY8 > 99)
    with open_source(tmp_path / "a.tif") as source:
        np.testing.assert_array_equal(source.valid(0, 100, 0, 150), GRAY8 > 99)
    check_same(tmp_path / "a.tif", {})


def test_nodata_of_a_packed_label_map_is_outside(tmp_path):
    geotiff(tmp_path / "a.tif", GRAY8 % 8, compress="lzw", nodata=7)
    np.testing.assert_array_equal(read_labels(tmp_path / "a.tif"), (GRAY8 % 8 + 1).astype(int) % 8 - 1)


def test_a_virtual_mosaic_is_read_through_rasterio(tmp_path):
    geotiff(tmp_path / "a.tif", GRAY8)
    shutil.copy(tmp_path / "a.tif", tmp_path / "b.tif")
    (tmp_path / "m.vrt").write_text(
        f'<VRTDataset rasterXSize="150" rasterYSize="100"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>'
        f"<SourceFilename>{tmp_path / 'a.tif'}</SourceFilename></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    with open_source(tmp_path / "m.vrt") as source:
        np.testing.assert_array_equal(source.read(20, 70, 30, 90), GRAY8[20:70, 30:90])


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_an_ome_zarr_is_read_at_its_full_size(tmp_path, version):
    ome_zarr = pytest.importorskip("ome_zarr.writer")
    from ome_zarr.format import format_from_version

    planes = np.moveaxis(RGB8, 2, 0)
    ome_zarr.write_image(
        planes,
        str(tmp_path / "a.zarr"),
        axes="cyx",
        axes_units={"y": "micrometer", "x": "micrometer"},
        fmt=format_from_version(version),
        scale={"c": 1.0, "y": 0.25, "x": 0.25},
        storage_options={"chunks": (1, 32, 32)},
    )
    with open_source(tmp_path / "a.zarr") as source:
        assert (source.shape, source.channels, source.dtype) == (SIZE, 3, np.uint8)
        np.testing.assert_array_equal(source.read(20, 70, 30, 90), RGB8[20:70, 30:90])
        assert source.pixel_size == (0.25, "µm")


def test_the_planes_of_an_ome_zarr_are_pages(tmp_path):
    root = zarr.create_group(tmp_path / "a.zarr")
    root.create_array("0", data=STACK[None])
    axes = [{"name": name} for name in "tzyx"]
    root.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": [{"path": "0"}]}]}
    with pytest.raises(ValueError, match=r"a\.zarr: holds a stack of 5 pages"):
        open_source(tmp_path / "a.zarr")
    np.testing.assert_array_equal(open_source(tmp_path / "a.zarr", page=2).read(3, 50, 4, 60), STACK[2, 3:50, 4:60])
    both = open_source(tmp_path / "a.zarr", channels=[4, 1]).read(3, 50, 4, 60)
    np.testing.assert_array_equal(both, np.moveaxis(STACK[[4, 1], 3:50, 4:60], 0, -1))


def test_the_largest_level_of_an_ome_tiff_pyramid_is_read(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.ome.tif", ome=True, bigtiff=True) as file:
        size = {"PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm", "PhysicalSizeY": 0.5, "PhysicalSizeYUnit": "µm"}
        file.write(RGB8, subifds=2, metadata={"axes": "YXS", **size}, tile=(32, 32), **RGB)
        for level in (2, 4):
            file.write(RGB8[::level, ::level], subfiletype=1, tile=(32, 32), metadata=None, **RGB)
    check_same(tmp_path / "a.ome.tif", {})
    with open_source(tmp_path / "a.ome.tif") as source:
        assert source.pixel_size == (0.5, "µm")


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ({"PhysicalSizeX": 0.5, "PhysicalSizeY": 2.0}, (1.0, "µm")),
        ({"PhysicalSizeX": 0.1, "PhysicalSizeY": 0.1}, (0.1, "µm")),
        ({"PhysicalSizeX": 0.1, "PhysicalSizeXUnit": "reference frame"}, None),
    ],
)
def test_the_side_of_an_oblong_pixel_is_that_of_a_square_of_its_area(tmp_path, size, expected):
    tifffile.imwrite(tmp_path / "a.ome.tif", RGB8, metadata={"axes": "YXS", **size}, **RGB)
    with open_source(tmp_path / "a.ome.tif") as source:
        assert source.pixel_size == expected


def test_metadata_that_are_no_xml_cost_no_picture(tmp_path):
    tifffile.imwrite(tmp_path / "a.ome.tif", RGB8, description='<?xml version="1.0"?><OME><Pixels></OME>', **RGB)
    with open_source(tmp_path / "a.ome.tif") as source:
        assert source.pixel_size is None


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_a_window_that_was_cut_off_is_named_and_others_are_read(tmp_path, compression):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, RGB8, tile=(32, 48), compression=compression, **RGB)
    with tifffile.TiffFile(path) as file:
        last = max(file.pages[0].dataoffsets)
    path.write_bytes(path.read_bytes()[: last + 100])
    with open_source(path) as source:
        np.testing.assert_array_equal(source.read(0, 20, 0, 20), RGB8[:20, :20])
        with pytest.raises(ValueError, match=r"a\.tif, rows 90 to 100, columns 140 to 150: truncated"):
            source.read(90, 100, 140, 150)


def test_a_window_that_rasterio_cannot_read_is_named_with_its_reason(tmp_path, capfd):
    geotiff(tmp_path / "a.tif", RGB8, compress="lzw", tiled=True, blockxsize=32, blockysize=32)
    (tmp_path / "a.tif").write_bytes((tmp_path / "a.tif").read_bytes()[:-4000])
    with open_source(tmp_path / "a.tif") as source:
        np.testing.assert_array_equal(source.read(0, 20, 0, 20), RGB8[:20, :20])
        with pytest.raises(
            ValueError, match=r"a\.tif, rows 90 to 100, columns 140 to 150: corrupt or truncated: .*IReadB"
        ):
            source.read(90, 100, 140, 150)
    assert capfd.readouterr().err == ""


def test_a_contiguous_file_that_was_cut_off_is_named(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", RGB8, **RGB)
    (tmp_path / "a.tif").write_bytes((tmp_path / "a.tif").read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"a\.tif: truncated"):
        open_source(tmp_path / "a.tif")


def test_a_window_outside_is_refused():
    with pytest.raises(ValueError, match="must lie in the picture of 100×150 pixels, got rows 0 to 101"):
        open_source(GRAY8).read(0, 101, 0, 5)


def test_block_means_are_the_same_in_strips_and_leave_out_what_is_outside(tmp_path, monkeypatch):
    image = np.where(GRAY8 < 60, np.nan, GRAY8).astype(np.float32)
    image[:14, :14] = np.nan
    expected = np.full((15, 22), np.nan)
    for row, column in np.ndindex(15, 22):
        block = image[7 * row : 7 * row + 7, 7 * column : 7 * column + 7]
        expected[row, column] = np.nanmean(block) if np.isfinite(block).any() else np.nan
    monkeypatch.setattr("shapetailor.io.source.STRIP_PIXELS", 2000)
    np.testing.assert_allclose(open_source(image).reduced(7), expected, rtol=1e-6)
    assert np.isnan(expected[:2, :2]).all()
    np.testing.assert_array_equal(open_source(RGB8).reduced(1), RGB8)


def test_only_the_tiles_of_a_window_are_decoded(tmp_path, monkeypatch):
    tifffile.imwrite(tmp_path / "a.tif", RGB8, **RGB, **TILES)
    decoded = []
    with open_source(tmp_path / "a.tif") as source:
        windows = source._window.__self__
        monkeypatch.setattr(
            windows, "_decode", lambda page, index, _=windows._decode: decoded.append(index) or _(page, index)
        )
        source.read(33, 63, 50, 95)
        source.read(34, 60, 50, 95)
    assert decoded == [5]


def test_a_picture_that_lies_outside_entirely_is_refused_by_the_segmenter(tmp_path):
    tifffile.imwrite(tmp_path / "nan.tif", np.full((20, 30), np.nan, np.float32), **GRAY)
    with pytest.raises(ValueError, match=r"nan\.tif has no pixel with a value: all 600 are"):
        canvas_of(tmp_path / "nan.tif", 3, 4, 10_000)


@pytest.mark.parametrize("dtype", ["complex64", "datetime64[s]"])
def test_zarr_arrays_without_numbers_are_refused(tmp_path, dtype):
    zarr.create_array(tmp_path / "a.zarr", shape=(20, 30), dtype=dtype)
    with pytest.raises(ValueError, match=r"a\.zarr: holds .*, expected numbers"):
        open_source(tmp_path / "a.zarr")


@pytest.mark.parametrize("scales", [5, [5], [{"datasets": []}], [{"datasets": [{"path": "7"}]}], [{"datasets": 3}]])
def test_multiscales_of_another_shape_are_refused_in_words(tmp_path, scales):
    group = zarr.create_group(tmp_path / "a.zarr")
    group.attrs["ome"] = {"multiscales": scales}
    with pytest.raises(ValueError, match=r"a\.zarr: its multiscales do not name axes and datasets"):
        open_source(tmp_path / "a.zarr")


def test_pages_that_follow_each_other_in_a_circle_are_refused(tmp_path):
    path = tmp_path / "round.tif"
    tifffile.imwrite(path, GRAY8, **GRAY)
    with tifffile.TiffFile(path) as file:
        first, end = file.pages.first.offset, file.pages.next_page_offset
    content = bytearray(path.read_bytes())
    content[end : end + 4] = first.to_bytes(4, "little")
    path.write_bytes(content)
    for read in (open_source, read_picture):
        with pytest.raises(ValueError, match=r"round\.tif: corrupt: its pages follow each other in a circle"):
            read(path)


def test_libtiff_says_nothing_of_a_corrupt_file_on_the_screen(tmp_path, capfd):
    path = tmp_path / "lzw.tif"
    Image.fromarray(RGB8).save(path, compression="tiff_lzw")
    content = bytearray(path.read_bytes())
    content[60:200] = RNG.bytes(140)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"lzw\.tif: corrupt"):
        read_picture(path)
    print("the screen is there again")
    assert capfd.readouterr() == ("the screen is there again\n", "")


def test_a_loop_of_links_is_called_what_it_is(tmp_path):
    (tmp_path / "loop.png").symlink_to("loop.png")
    with pytest.raises(OSError, match="symbolic links"):
        read_picture(tmp_path / "loop.png")


@pytest.mark.parametrize("scale", [float("nan"), 1e30])
def test_a_place_that_is_not_on_the_earth_has_no_coordinates(tmp_path, scale, capfd):
    tags = [
        (33550, "d", 3, (scale, scale, 0.0), True),
        (33922, "d", 6, (0.0, 0.0, 0.0, 5e5, 5e6, 0.0), True),
        (34735, "H", 16, (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32632), True),
    ]
    tifffile.imwrite(tmp_path / "a.tif", GRAY8, extratags=tags, metadata=None, **GRAY)
    with open_source(tmp_path / "a.tif") as source:
        with pytest.raises(ValueError, match=r"cannot be brought to EPSG:4326.*--crs pixels"):
            source.georeference.points(np.array([[0, 0], [150, 100]]))
        assert scale == 1e30 or source.pixel_size is None
    assert capfd.readouterr().err == ""


def test_an_unknown_coordinate_system_is_one_sentence(capfd):
    with pytest.raises(ValueError, match="must name a coordinate system"):
        check_crs("EPSG:99999999")
    assert capfd.readouterr().err == ""
