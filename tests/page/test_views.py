"""Tiles and thumbnails: levels are averages, 16 bits are shown by a range, memory is bounded."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from shapetailor.io.images import write_image
from shapetailor.io.picture import Picture
from shapetailor.page.refusal import Refusal
from shapetailor.page.views import OUTSIDE, TILE, View, Views, halved


def decoded(content):
    with Image.open(BytesIO(content)) as image:
        return np.asarray(image)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("shape", [(4, 6), (5, 7), (4, 4, 3), (3, 5, 3), (4, 6, 4)])
def test_halving_averages_blocks_and_keeps_the_type(dtype, shape):
    values = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    small = halved(values, None)
    assert small.dtype == dtype
    assert small.shape == (-(-shape[0] // 2), -(-shape[1] // 2), *shape[2:])
    assert np.abs(small[0, 0] - values[:2, :2].mean(axis=(0, 1))).max() <= 0.51
    assert np.array_equal(halved(np.full(shape, 77, dtype), None), np.full(small.shape, 77, dtype))


def test_pixels_outside_do_not_enter_an_average():
    values = np.array([[10.0, np.nan], [np.nan, 30.0]], np.float32)
    assert halved(values, np.isfinite(values)).tolist() == [[20.0]]


def test_tiles_put_together_are_the_level():
    values = np.random.default_rng(0).integers(0, 256, (70, 90), np.uint8)
    view = View.of(Picture(np.kron(values, np.ones((16, 16), np.uint8))))
    height, width = view.levels[0].shape
    rows = [
        np.hstack([decoded(view.tile(0, x, y, None)) for x in range(-(-width // TILE))])
        for y in range(-(-height // TILE))
    ]
    assert np.abs(np.vstack(rows).astype(int) - view.levels[0]).mean() < 3
    assert max(view.levels[-1].shape) <= TILE


def test_sixteen_bits_are_shown_between_the_range_that_is_asked_for():
    values = np.tile(np.linspace(1000, 3000, 64).astype(np.uint16), (64, 1))
    view = View.of(Picture(values))
    assert view.limits == (1000, 3000)
    assert decoded(view.tile(0, 0, 0, (1000, 3000)))[0, [0, -1]].tolist() == pytest.approx([0, 255], abs=3)
    assert decoded(view.tile(0, 0, 0, (2900, 2901)))[:, :50].max() < 4


@pytest.mark.parametrize("where", [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, 0, 9), (0, -1, 0)])
def test_a_tile_that_is_not_there_is_refused(where):
    with pytest.raises(Refusal):
        View.of(Picture(np.zeros((20, 20), np.uint8))).tile(*where, None)


def test_decoded_pictures_are_forgotten_when_they_are_too_many_and_the_newest_stays(tmp_path):
    views = Views(most_bytes=1000)
    for number in range(3):
        write_image(tmp_path / f"{number}.png", np.full((30, 30), number, np.uint8))
        assert views.get(tmp_path / f"{number}.png").levels[0][0, 0] == number
    assert len(views._views) == 1


def test_a_picture_that_changed_on_disk_is_read_again(tmp_path):
    views = Views()
    for value in (10, 200):
        write_image(tmp_path / "a.png", np.full((30 + value, 30), value, np.uint8))
        assert views.get(tmp_path / "a.png").levels[0][0, 0] == value


def test_a_thumbnail_has_at_most_192_pixels_a_side(tmp_path):
    write_image(tmp_path / "a.png", np.hstack([np.zeros((100, 500), np.uint8), np.full((100, 500), 255, np.uint8)]))
    small = decoded(Views().thumb(tmp_path / "a.png"))
    assert max(small.shape) == 192
    assert small[5, 5] < 20
    assert small[5, -5] > 235


def test_what_is_outside_a_picture_is_shown_in_one_gray(tmp_path):
    values = np.zeros((40, 60, 4), np.uint8)
    values[:, 30:, 3] = 255
    Image.fromarray(values).save(tmp_path / "a.png")
    views = Views()
    small = Image.open(BytesIO(views.thumb(tmp_path / "a.png")))
    tile = np.asarray(Image.open(BytesIO(views.get(tmp_path / "a.png").tile(0, 0, 0, None))))
    assert np.allclose([tile[5, 5], tile[5, 55]], [[OUTSIDE] * 3, [0] * 3], atol=3)
    assert np.allclose([small.getpixel((5, 5)), small.getpixel((55, 5))], [[OUTSIDE] * 3, [0] * 3], atol=3)
