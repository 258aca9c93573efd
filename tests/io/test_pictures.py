"""One reader, one meaning: what is outside a picture, how it is turned, which page, whatever the container."""

from __future__ import annotations

import threading
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms

from shapetailor.io.files import atomic, check_writable
from shapetailor.io.images import as_picture, read_image, read_labels, read_picture, write_labels
from shapetailor.io.palette import region_colour

RNG = np.random.default_rng(0)
RGB8 = RNG.integers(0, 256, (20, 30, 3), dtype=np.uint8)
FLOAT = RNG.random((20, 30)).astype(np.float32)
HOLE = np.zeros((20, 30), bool)
HOLE[4:9, 3:12] = True


def nodata_tag(text):
    return {"extratags": [(42113, "s", 0, text, True)], "photometric": "minisblack"}


@pytest.mark.parametrize(
    ("value", "text", "dtype"),
    [(-9999, "-9999", "float32"), (-3.4028235e38, "-3.4028234663852886e+38", "float32"), (0, "0", "uint16")],
)
def test_nodata_of_a_tiff_is_outside(tmp_path, value, text, dtype):
    image = np.where(HOLE, value, 1 + 100 * FLOAT).astype(dtype)
    tifffile.imwrite(tmp_path / "a.tif", image, **nodata_tag(text))
    found = read_picture(tmp_path / "a.tif")
    np.testing.assert_array_equal(found.inside, ~HOLE)
    np.testing.assert_array_equal(found.values, image)


def test_nodata_is_what_all_channels_hold(tmp_path):
    image = np.stack([np.where(HOLE, 0, 1 + i) for i in range(3)], -1).astype(np.uint8)
    image[0, 0, 0] = 0
    tifffile.imwrite(tmp_path / "a.tif", image, **{**nodata_tag("0"), "photometric": "rgb"})
    np.testing.assert_array_equal(read_picture(tmp_path / "a.tif").inside, ~HOLE)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_outside(tmp_path, bad):
    image = np.where(HOLE, np.float32(bad), FLOAT)
    tifffile.imwrite(tmp_path / "a.tif", image, photometric="minisblack")
    np.testing.assert_array_equal(read_picture(tmp_path / "a.tif").inside, ~HOLE)
    np.testing.assert_array_equal(as_picture(image).inside, ~HOLE)
    np.testing.assert_array_equal(as_picture(np.ma.masked_array(FLOAT, HOLE)).inside, ~HOLE)


def transparent(kind):
    alpha = np.where(HOLE, 0, 200).astype(np.uint8)
    if kind == "RGBA":
        return Image.fromarray(np.dstack([RGB8, alpha]))
    if kind == "LA":
        return Image.fromarray(np.dstack([RGB8[..., 0], alpha]))
    indexed = Image.fromarray(np.where(HOLE, 3, 1).astype(np.uint8))
    indexed.putpalette([9, 9, 9, 200, 0, 0, 0, 200, 0, 0, 0, 200])
    indexed.info["transparency"] = 3
    return indexed


@pytest.mark.parametrize(("kind", "suffix"), [("RGBA", "png"), ("RGBA", "tif"), ("LA", "png"), ("P", "png")])
def test_wholly_transparent_pixels_are_outside(tmp_path, kind, suffix):
    image = transparent(kind)
    image.save(tmp_path / f"a.{suffix}", **({"transparency": 3} if kind == "P" else {}))
    np.testing.assert_array_equal(read_picture(tmp_path / f"a.{suffix}").inside, ~HOLE)
    np.testing.assert_array_equal(as_picture(image).inside, ~HOLE)


def test_ordinary_pictures_have_no_outside(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", FLOAT, **nodata_tag("-9999"))
    assert as_picture(tmp_path / "a.tif").inside is None
    assert as_picture(RGB8).inside is None


def test_a_picture_without_a_pixel_inside_is_refused():
    with pytest.raises(ValueError, match="no pixel with a value"):
        as_picture(np.full((4, 5), np.nan))


def test_values_that_would_overflow_are_refused_in_words():
    with pytest.raises(ValueError, match=r"values up to 1e\+37, got 1e\+300"):
        as_picture(np.array([[0.0, 1e300]]))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_tiff_orientation_means_what_pillow_makes_of_it(tmp_path, orientation):
    tifffile.imwrite(tmp_path / "a.tif", RGB8, photometric="rgb", extratags=[(274, "H", 1, orientation, True)])
    with Image.open(tmp_path / "a.tif") as file:
        expected = np.asarray(file.convert("RGB"))
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), expected)
    with Image.open(tmp_path / "a.tif") as file:
        np.testing.assert_array_equal(as_picture(file).values, expected)


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "LAB"])
def test_colours_of_a_tiff_are_rgb_however_they_are_stored(tmp_path, mode):
    smooth = np.asarray(Image.fromarray(RGB8).resize((60, 40), Image.Resampling.BICUBIC))
    image = Image.fromarray(smooth)
    if mode == "LAB":
        profiles = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
        image = ImageCms.profileToProfile(image, *profiles, outputMode="LAB")
    else:
        image = image.convert(mode)
    image.save(tmp_path / "a.tif")
    difference = read_image(tmp_path / "a.tif").astype(int) - smooth
    assert np.abs(difference).mean() < 4


def test_a_stack_of_pages_is_an_error_that_says_what_to_do(tmp_path):
    stack = RNG.integers(0, 65536, (5, 20, 30), dtype=np.uint16)
    tifffile.imwrite(tmp_path / "a.tif", stack, photometric="minisblack")
    with pytest.raises(ValueError, match=r"a\.tif: holds a stack of 5 pages of 20×30; .*--page N.*--channels 0,1,2"):
        read_image(tmp_path / "a.tif")
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif", page=3), stack[3])
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif", channels=[4, 0]), np.moveaxis(stack[[4, 0]], 0, -1))
    with pytest.raises(ValueError, match="pages 0 to 4; page 5"):
        read_image(tmp_path / "a.tif", page=5)


def test_pages_that_only_pillow_decodes_are_an_error_too(tmp_path):
    pages = [Image.fromarray(RGB8[..., i]) for i in range(3)]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:], compression="tiff_lzw")
    with pytest.raises(ValueError, match="3 pages of 20×30"):
        read_image(tmp_path / "a.tif")
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif", page=2), RGB8[..., 2])


def test_channels_are_chosen_in_order(tmp_path):
    Image.fromarray(RGB8).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", channels=[2, 0]), RGB8[..., [2, 0]])
    with pytest.raises(ValueError, match="channels 0 to 2; channels 3 were"):
        read_image(tmp_path / "a.png", channels=[3])


def test_a_tiff_that_lacks_strips_is_refused(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, RGB8, rowsperstrip=10, photometric="rgb", compression="zlib")
    with tifffile.TiffFile(path, mode="r+b") as file:
        for name in ("StripOffsets", "StripByteCounts"):
            tag = file.pages[0].tags[name]
            tag.overwrite(tag.value[:1])
    with pytest.raises(ValueError, match="1 of 2 strips"):
        read_image(path)


def test_a_tiff_that_declares_more_than_it_can_hold_is_refused_at_once(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, RGB8, photometric="rgb", compression="zlib", rowsperstrip=20)
    with tifffile.TiffFile(path, mode="r+b") as file:
        file.pages[0].tags["ImageLength"].overwrite(2**31 - 1)
    with pytest.raises(ValueError, match="corrupt: it declares"):
        read_image(path)


def test_a_png_that_declares_more_than_it_can_hold_is_refused_at_once(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(RGB8).save(path)
    header = b"IHDR" + (12_000).to_bytes(4, "big") * 2 + path.read_bytes()[24:29]
    path.write_bytes(path.read_bytes()[:12] + header + zlib.crc32(header).to_bytes(4, "big") + path.read_bytes()[33:])
    for read in (read_image, read_labels):
        with pytest.raises(ValueError, match=r"a\.png: corrupt: it declares 432,000,000"):
            read(path)


def test_a_large_map_of_few_labels_is_no_fault(tmp_path):
    labels = np.zeros((6000, 5000), np.uint8)
    labels[3000:] = 1
    write_labels(tmp_path / "a.png", labels)
    assert read_labels(tmp_path / "a.png").sum() == 3000 * 5000


def test_a_picture_too_large_for_the_memory_is_named(tmp_path, monkeypatch):
    Image.fromarray(RGB8).save(tmp_path / "a.png")

    def full(*_):
        raise MemoryError

    monkeypatch.setattr(Image, "open", full)
    with pytest.raises(MemoryError, match=r"a\.png: too large for the memory"):
        read_image(tmp_path / "a.png")


def test_an_unknown_format_is_said_in_our_words(tmp_path):
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"a\.png: no image of a known format"):
        read_image(tmp_path / "a.png")


def test_label_maps_are_seen_in_the_colours_of_their_regions(tmp_path):
    labels = np.array([[0, 1, 2], [11, 1, 0]])
    write_labels(tmp_path / "a.png", labels)
    np.testing.assert_array_equal(read_labels(tmp_path / "a.png"), labels)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png")[1, 0], region_colour(11))


@pytest.mark.parametrize(("largest", "outside"), [(3, 255), (254, 255), (255, 65535), (300, 65535)])
def test_the_outside_of_a_label_map_has_the_largest_number_in_png(tmp_path, largest, outside):
    labels = np.array([[-1, 0], [1, largest]])
    write_labels(tmp_path / "a.png", labels)
    np.testing.assert_array_equal(read_labels(tmp_path / "a.png"), np.where(labels < 0, outside, labels))
    write_labels(tmp_path / "a.tif", labels)
    np.testing.assert_array_equal(read_labels(tmp_path / "a.tif"), labels)


def test_threads_may_write_one_file_together(tmp_path):
    failures = []

    def write_often():
        try:
            for _ in range(30):
                write_labels(tmp_path / "a.png", np.eye(4, dtype=int))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_an_error_in_writing_names_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        write_labels(tmp_path / "nodir" / "x.png", np.eye(4, dtype=int))
    assert error.value.filename == str(tmp_path / "nodir" / "x.png")
    assert ".tmp" not in str(error.value)


def test_the_longest_name_can_be_written(tmp_path):
    path = tmp_path / ("a" * 251 + ".txt")
    with atomic(path) as temporary:
        temporary.write_text("whole")
    assert path.read_text() == "whole"


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(PermissionError, match="cannot be written to"):
        check_writable(tmp_path)
