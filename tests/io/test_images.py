"""Image files and label maps: what goes in comes out, and every failure names its file."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from shapetailor.io.files import atomic, image_files
from shapetailor.io.images import read_image, read_labels, write_image, write_labels

RNG = np.random.default_rng(0)
GRAY8 = RNG.integers(0, 256, (20, 30), dtype=np.uint8)
RGB8 = RNG.integers(0, 256, (20, 30, 3), dtype=np.uint8)
GRAY16 = RNG.integers(0, 65536, (20, 30), dtype=np.uint16)


@pytest.mark.parametrize("suffix", ["png", "tif", "bmp"])
@pytest.mark.parametrize("image", [GRAY8, RGB8], ids=["gray", "colour"])
def test_bytes_come_back_as_written(tmp_path, suffix, image):
    path = tmp_path / f"a.{suffix}"
    write_image(path, image)
    np.testing.assert_array_equal(read_image(path), image)


@pytest.mark.parametrize(
    "image",
    [
        GRAY16,
        RNG.integers(0, 65536, (20, 30, 3), dtype=np.uint16),
        RNG.random((20, 30)).astype(np.float32),
        RNG.standard_normal((20, 30, 16)),
        RNG.integers(0, 256, (20, 30, 2), dtype=np.uint8),
        RNG.integers(0, 65536, (20, 30, 5), dtype=np.uint16),
    ],
    ids=["gray16", "colour16", "float", "double16channels", "2channels", "5channels16"],
)
def test_tiff_keeps_type_and_channels(tmp_path, image):
    write_image(tmp_path / "a.tif", image)
    back = read_image(tmp_path / "a.tif")
    assert back.dtype == image.dtype
    np.testing.assert_array_equal(back, image)


def test_png_keeps_16_bit_gray(tmp_path):
    write_image(tmp_path / "a.png", GRAY16)
    back = read_image(tmp_path / "a.png")
    assert back.dtype == np.uint16
    np.testing.assert_array_equal(back, GRAY16)


@pytest.mark.parametrize(
    "options",
    [
        {"planarconfig": "separate", "photometric": "minisblack"},
        {"imagej": True, "metadata": {"axes": "CYX"}},
    ],
    ids=["planes", "imagej"],
)
def test_tiff_channels_stored_first_come_last(tmp_path, options):
    planes = RNG.integers(0, 65536, (6, 20, 30), dtype=np.uint16)
    tifffile.imwrite(tmp_path / "a.tif", planes, **options)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), np.moveaxis(planes, 0, -1))


def test_tiff_written_without_naming_its_axes_is_channel_last(tmp_path):
    image = RNG.integers(0, 256, (20, 30, 5), dtype=np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", image)  # tifffile makes it 20 pages of 30×5
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), image)


def test_tiff_compression_that_only_pillow_decodes(tmp_path):
    Image.fromarray(RGB8).save(tmp_path / "a.tif", compression="tiff_lzw")
    Image.fromarray(GRAY8).save(tmp_path / "b.tif", compression="tiff_lzw")
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), RGB8)
    np.testing.assert_array_equal(read_labels(tmp_path / "b.tif"), GRAY8)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_alpha_is_dropped(tmp_path, suffix):
    alpha = RNG.integers(1, 256, (20, 30, 1), dtype=np.uint8)
    Image.fromarray(np.concatenate([RGB8, alpha], -1)).save(tmp_path / f"a.{suffix}")
    np.testing.assert_array_equal(read_image(tmp_path / f"a.{suffix}"), RGB8)


def test_gray_with_alpha_is_gray(tmp_path):
    Image.fromarray(np.stack([GRAY8, 255 - GRAY8], -1)).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), GRAY8)


@pytest.mark.parametrize("suffix", ["png", "tif", "gif"])
def test_palettes_are_applied_to_images_and_index_labels(tmp_path, suffix):
    indices = RNG.integers(0, 4, (20, 30), dtype=np.uint8)
    colours = np.array([[10, 20, 30], [200, 0, 0], [0, 99, 0], [7, 7, 250]], np.uint8)
    indexed = Image.fromarray(indices)
    indexed.putpalette(colours.tobytes())
    indexed.save(tmp_path / f"a.{suffix}", **({"optimize": False} if suffix == "gif" else {}))
    np.testing.assert_array_equal(read_image(tmp_path / f"a.{suffix}"), colours[indices])
    np.testing.assert_array_equal(read_labels(tmp_path / f"a.{suffix}"), indices)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_one_bit_images_are_black_and_white(tmp_path, suffix):
    Image.fromarray(GRAY8 > 127).save(tmp_path / f"a.{suffix}")
    np.testing.assert_array_equal(read_image(tmp_path / f"a.{suffix}"), np.where(GRAY8 > 127, 255, 0))
    np.testing.assert_array_equal(read_labels(tmp_path / f"a.{suffix}"), GRAY8 > 127)


def test_white_is_zero_is_inverted(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", GRAY8, photometric="miniswhite")
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), 255 - GRAY8)


def test_photographs_are_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # Orientation: the top row of the file is the right side of the scene
    flat = np.full((16, 32, 3), 90, np.uint8)
    Image.fromarray(flat).save(tmp_path / "a.jpg", exif=exif)
    assert read_image(tmp_path / "a.jpg").shape == (32, 16, 3)


def test_colour_labels_are_equal_where_colours_are(tmp_path):
    colours = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [0, 0, 0]], np.uint8)
    indices = RNG.integers(0, 4, (20, 30))
    write_image(tmp_path / "a.png", colours[indices])
    expected = np.array([0xFF0000, 0x00FF00, 0x0000FF, 0])[indices]
    np.testing.assert_array_equal(read_labels(tmp_path / "a.png"), expected)


def test_gray_stored_as_colour_gives_the_gray_labels(tmp_path):
    write_image(tmp_path / "a.png", np.stack([GRAY8] * 3, -1))
    np.testing.assert_array_equal(read_labels(tmp_path / "a.png"), GRAY8)


@given(st.integers(0, 65535), st.integers(0, 65535), st.sampled_from(["png", "tif"]))
def test_labels_survive_the_disk(tmp_path_factory, a, b, suffix):
    path = tmp_path_factory.mktemp("labels") / f"a.{suffix}"
    labels = np.array([[a, b, a], [b, b, 0]])
    write_labels(path, labels)
    back = read_labels(path)
    assert back.dtype == np.int64
    np.testing.assert_array_equal(back, labels)


@pytest.mark.parametrize("labels", [[[-1, 0], [3, 70000]], [[-(2**31), 2**31 - 1]]])
def test_tiff_takes_negative_and_large_labels(tmp_path, labels):
    write_labels(tmp_path / "a.tif", np.array(labels))
    np.testing.assert_array_equal(read_labels(tmp_path / "a.tif"), labels)


@pytest.mark.parametrize("labels", [[[-1, 65535]], [[0, 65536]]])
def test_png_refuses_labels_it_cannot_hold(tmp_path, labels):
    with pytest.raises(ValueError, match=r"a\.png.*0\.\.6553"):
        write_labels(tmp_path / "a.png", np.array(labels))
    assert list(tmp_path.iterdir()) == []


def test_float_tiff_labels_must_be_whole(tmp_path):
    write_image(tmp_path / "whole.tif", np.array([[0.0, 3.0]]))
    write_image(tmp_path / "half.tif", np.array([[0.0, 3.5]]))
    np.testing.assert_array_equal(read_labels(tmp_path / "whole.tif"), [[0, 3]])
    with pytest.raises(ValueError, match=r"half\.tif.*fractional"):
        read_labels(tmp_path / "half.tif")


def test_jpeg_labels_are_refused(tmp_path):
    Image.fromarray(GRAY8).save(tmp_path / "a.jpg")
    with pytest.raises(ValueError, match=r"a\.jpg: JPEG"):
        read_labels(tmp_path / "a.jpg")


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "bmp", "gif"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6])
def test_truncated_files_are_errors_that_name_the_file(tmp_path, suffix, share):
    path = tmp_path / f"cut.{suffix}"
    Image.fromarray(RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=re.escape(str(path))):
        read_image(path)


@pytest.mark.parametrize("content", [b"no image", b"II*\0" + bytes(40), b"\x89PNG\r\n\x1a\n" + bytes(40)])
def test_foreign_content_is_an_error_that_names_the_file(tmp_path, content):
    path = tmp_path / "a.png"
    path.write_bytes(content)
    for read in (read_image, read_labels):
        with pytest.raises(ValueError, match=re.escape(str(path))):
            read(path)


def test_missing_file_is_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.png"):
        read_image(tmp_path / "nowhere.png")


@pytest.mark.parametrize("shape", [(17, 20, 30), (2, 3, 20, 30)])
def test_tiff_stacks_are_refused(tmp_path, shape):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros(shape, np.uint8), photometric="minisblack")
    with pytest.raises(ValueError, match=r"a\.tif: .*(17|stack)"):
        read_image(tmp_path / "a.tif")


def test_a_hundred_megapixels_raise_no_warning(tmp_path, recwarn):
    Image.new("1", (10_000, 10_001)).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").shape == (10_001, 10_000)
    assert len(recwarn) == 0


def test_pillow_limit_on_pixels_is_an_error_that_names_the_file(tmp_path, monkeypatch):
    write_image(tmp_path / "a.png", GRAY8)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ValueError, match=r"a\.png.*MAX_IMAGE_PIXELS"):
        read_image(tmp_path / "a.png")


def test_threads_may_read_together(tmp_path, monkeypatch):
    write_image(tmp_path / "a.png", GRAY8)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)  # 600 pixels: Pillow would warn, here an error
    failures = []

    def read_often():
        try:
            for _ in range(100):
                read_image(tmp_path / "a.png")
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=read_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize(
    ("name", "image"),
    [("a.png", RGB8.astype(float)), ("a.jpg", GRAY16), ("a.png", np.zeros((4, 4, 5), np.uint8))],
)
def test_images_that_do_not_fit_the_format_are_refused(tmp_path, name, image):
    with pytest.raises(ValueError, match=re.escape(name)):
        write_image(tmp_path / name, image)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def interrupted():
        with atomic(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_listing_leaves_out_what_is_no_image(tmp_path):
    for name in ("b.JPG", "a.png", ".a.1.tmp.png", "notes.txt", "c.tif"):
        (tmp_path / name).touch()
    (tmp_path / "folder.png").mkdir()
    assert [path.name for path in image_files(tmp_path)] == ["a.png", "b.JPG", "c.tif"]
