"""Size and small versions of image files, without decoding all of them."""

import numpy as np
import pytest
import tifffile
from PIL import Image

from shapetailor.io.header import read_size, read_small
from shapetailor.io.images import read_image


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "a.bmp"])
def test_the_size_is_that_of_the_decoded_picture(tmp_path, name):
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(tmp_path / name)
    assert read_size(tmp_path / name) == read_image(tmp_path / name).shape[:2]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_picture_has_its_upright_size(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (30, 20)).save(tmp_path / "a.jpg", exif=exif)
    tifffile.imwrite(
        tmp_path / "a.tif", np.zeros((20, 30), np.uint8), extratags=[(274, "H", 1, orientation, True)], metadata=None
    )
    for path in (tmp_path / "a.jpg", tmp_path / "a.tif"):
        assert read_size(path) == read_image(path).shape[:2]


def test_a_small_version_is_the_picture_reduced(tmp_path):
    values = np.kron(np.array([[20, 220], [120, 60]], np.uint8), np.ones((800, 800), np.uint8))
    Image.fromarray(values).save(tmp_path / "a.jpg")
    Image.fromarray(values).save(tmp_path / "a.png")
    small = read_small(tmp_path / "a.jpg", 100).values
    assert 100 <= len(small) <= 400
    quarter = len(small) // 4
    assert np.abs(small[quarter :: 2 * quarter, quarter :: 2 * quarter].astype(int) - [[20, 220], [120, 60]]).max() < 6
    assert read_small(tmp_path / "a.png", 100).values.shape == (1600, 1600)


def test_what_is_no_picture_is_refused_by_name(tmp_path):
    (tmp_path / "a.png").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"a\.png"):
        read_size(tmp_path / "a.png")
