from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from shapetailor.io.source import open_source
from shapetailor.segmentation.canvas import Canvas, Pose, canvas_of, pose_of
from shapetailor.segmentation.colours import Colours

MANY = 2**20


def random_bytes(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def values(image, channels=3, max_pixels=MANY):
    """What a picture becomes, as it lies."""
    canvas = canvas_of(image, channels, 1, max_pixels)
    return canvas.upright(canvas.values)


def test_8_bits_are_divided_by_255():
    colour = random_bytes(5, 7, 3)
    np.testing.assert_allclose(values(colour), np.moveaxis(colour, 2, 0) / 255, rtol=1e-6)


def test_floats_in_the_unit_range_are_left_as_they_are():
    gray = np.linspace(0.2, 0.7, 35).reshape(5, 7)
    np.testing.assert_array_equal(values(gray, 1)[0], gray.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.float32])
def test_wider_values_are_stretched_to_the_unit_range_in_their_order(dtype):
    gray = (1000 + 20 * np.random.default_rng(0).permutation(40 * 50)).reshape(40, 50).astype(dtype)
    stretched = values(gray, 1)[0]
    assert stretched.min() == 0
    assert stretched.max() == 1
    assert (np.diff(stretched.ravel()[np.argsort(gray.ravel())]) >= 0).all()
    # 0.1 % of 2000 values at each end, and no more, are cut off.
    assert np.count_nonzero((stretched == 0) | (stretched == 1)) <= 6


def test_one_hot_pixel_does_not_darken_a_16_bit_picture():
    gray = np.random.default_rng(0).integers(100, 200, (50, 50)).astype(np.uint16)
    gray[3, 4] = 65535
    assert np.median(values(gray, 1)) > 0.4


@pytest.mark.parametrize("dtype", [np.uint16, np.float64])
def test_one_value_outside_the_unit_range_becomes_black(dtype):
    assert (values(np.full((4, 4), 700, dtype)) == 0).all()


def test_true_is_white_and_false_is_black():
    mask = np.eye(6, dtype=bool)
    np.testing.assert_array_equal(values(mask, 1)[0], mask)


@pytest.mark.parametrize("gray", [random_bytes(5, 7), random_bytes(5, 7, 1)], ids=["HW", "HW1"])
def test_gray_is_repeated(gray):
    planes = values(gray)
    assert planes.shape == (3, 5, 7)
    for plane in planes:
        np.testing.assert_array_equal(plane, gray.reshape(5, 7) / np.float32(255))


def test_missing_channels_are_the_mean_of_the_others():
    two = random_bytes(5, 7, 2)
    planes = values(two)
    np.testing.assert_allclose(planes[:2], np.moveaxis(two, 2, 0) / 255, rtol=1e-5)
    np.testing.assert_allclose(planes[2], two.mean(2) / 255, rtol=1e-5)


@pytest.mark.parametrize("channels", [4, 5, 16])
def test_many_channels_become_three_in_the_unit_range(channels):
    planes = values(random_bytes(9, 8, channels))
    assert planes.shape == (3, 9, 8)
    assert planes.dtype == np.float32
    assert planes.min() == 0
    assert planes.max() == 1


def test_the_first_component_of_many_channels_shows_where_they_vary_most():
    many = np.full((6, 20, 5), 90, np.uint8)
    many[..., 1] = many[..., 3] = np.where(np.arange(20) < 10, 0, 200)
    first = values(many)[0]
    assert np.ptp(first[:, :10]) < 1e-5
    assert np.ptp(first[:, 10:]) < 1e-5
    assert first[0, 15] - first[0, 5] > 0.9


def test_colour_for_a_gray_network_is_the_mean():
    colour = random_bytes(5, 7, 3)
    np.testing.assert_allclose(values(colour, 1)[0], colour.mean(2) / 255, rtol=1e-5)


@pytest.mark.parametrize("shape", [(40, 30), (8, 8), (16, 16), (1, 40)])
def test_channels_of_a_tensor_may_come_first_or_last(shape):
    colour = random_bytes(*shape, 3)
    last, first = torch.from_numpy(colour), torch.from_numpy(colour).permute(2, 0, 1)
    np.testing.assert_array_equal(values(last), values(colour))
    np.testing.assert_array_equal(values(first), values(colour))


def test_a_tensor_that_wants_gradients_is_taken():
    gray = torch.rand(6, 5, requires_grad=True)
    np.testing.assert_array_equal(values(gray, 1)[0], gray.detach().numpy())


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "1", "P", "I;16"])
def test_a_pil_image_is_what_its_file_is(tmp_path, mode):
    image = Image.fromarray(random_bytes(6, 8, 3))
    image = Image.fromarray(random_bytes(6, 8).astype(np.uint16)) if mode == "I;16" else image.convert(mode)
    image.save(tmp_path / "picture.png")
    np.testing.assert_array_equal(values(image), values(tmp_path / "picture.png"))
    np.testing.assert_array_equal(values(image), values(str(tmp_path / "picture.png")))


def test_values_that_are_not_finite_are_outside():
    gray = np.full((4, 5), 0.5)
    gray[0, :3] = np.nan, np.inf, -np.inf
    canvas = canvas_of(gray, 1, 1, 2**20)
    np.testing.assert_array_equal(canvas.upright(canvas.inside), np.isfinite(gray))
    np.testing.assert_array_equal(canvas.values, 0.5)


@pytest.mark.parametrize("shape", [(), (5,), (4, 4, 17), (2, 4, 4, 3), (0, 4), (4, 0, 3), (4, 4, 0)])
def test_what_has_no_pictures_shape_is_refused_with_it(shape):
    with pytest.raises(ValueError, match=re.escape(f"got shape {shape}")):
        values(np.zeros(shape))


@pytest.mark.parametrize("image", [np.full((3, 3), "a"), np.full((3, 3), 1j), None], ids=["text", "complex", "None"])
def test_what_holds_no_numbers_is_refused(image):
    with pytest.raises(TypeError, match="image must hold numbers"):
        values(image)


def test_a_large_picture_is_averaged_over_blocks():
    gray = random_bytes(12, 18)
    canvas = canvas_of(gray, 1, 1, max_pixels=24)
    assert canvas.factor == 3
    np.testing.assert_allclose(canvas.upright(canvas.values)[0], gray.reshape(4, 3, 6, 3).mean((1, 3)) / 255, rtol=1e-5)
    assert np.shares_memory(canvas.original, gray)


def test_cut_blocks_average_the_pixels_they_have():
    gray = np.full((7, 5), 51, np.uint8)
    np.testing.assert_allclose(values(gray, 1, max_pixels=4), 0.2, rtol=1e-6)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 200))
def test_reduced_labels_come_back_at_the_pictures_size(height, width, max_pixels):
    canvas = canvas_of(np.zeros((height, width), np.uint8), 1, 1, max_pixels)
    small = np.arange(canvas.values[0].size).reshape(canvas.values.shape[1:])
    full = canvas.labels_out(small)
    assert full.shape == (height, width)
    # Every block is seen, and reducing takes it back.
    np.testing.assert_array_equal(np.unique(full), small.ravel())
    np.testing.assert_array_equal(canvas.labels_in(full, "init"), small)


@pytest.mark.parametrize("turned", [False, True])
def test_planes_come_back_linearly_between_the_blocks(turned):
    ramp = np.add.outer(np.arange(12.0), 3 * np.arange(18.0)) / 62
    ramp = ramp[::-1].T if turned else ramp
    canvas = canvas_of(ramp, 1, 1, max_pixels=24)
    full = canvas.planes_out(canvas.values)[0]
    assert full.shape == ramp.shape
    inner = full[2:-2, 2:-2]  # between the centres of the outermost blocks
    steps = np.diff(inner, axis=0), np.diff(inner, axis=1)
    for found, wanted in zip(steps, (np.diff(ramp, axis=0), np.diff(ramp, axis=1)), strict=True):
        ratio = found / wanted[2:-2, 2:-2]
        np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-4)  # as steep as the ramp, in units of its own range


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 200), st.data())
def test_a_single_marked_pixel_marks_its_block_only(height, width, max_pixels, data):
    canvas = canvas_of(np.zeros((height, width), np.uint8), 1, 1, max_pixels)
    y, x = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    marks = np.full((height, width), -1)
    marks[y, x] = 2
    reduced = canvas.marks_in(marks, "scribbles")
    assert reduced.shape == canvas.values.shape[1:]
    assert np.argwhere(canvas.upright(reduced) != -1).tolist() == [[y // canvas.factor, x // canvas.factor]]
    assert reduced.max() == 2


@pytest.mark.parametrize("max_pixels", [MANY, 10])
@pytest.mark.parametrize("method", ["labels_in", "marks_in"])
def test_labels_of_another_size_are_refused_by_their_name(method, max_pixels):
    canvas = canvas_of(np.zeros((8, 9), np.uint8), 1, 1, max_pixels)
    with pytest.raises(ValueError, match=r"init must have the picture's size \(8, 9\), got \(9, 8\)"):
        getattr(canvas, method)(np.zeros((9, 8), np.int64), "init")


@pytest.mark.parametrize("height", [1, 130, 385])
def test_strips_of_a_large_picture_meet_without_a_seam(height):
    gray = np.random.default_rng(0).integers(0, 256, (height, 20)).astype(np.uint8)
    found = values(gray, 1, max_pixels=max(1, gray.size // 9))[0]
    side = -(-gray.shape[1] // found.shape[1])
    rest = [(0, -n % side) for n in gray.shape]
    sums, counts = (
        np.pad(each, rest).reshape(found.shape[0], side, found.shape[1], side).sum((1, 3))
        for each in (gray / 255, np.ones(gray.shape))
    )
    np.testing.assert_allclose(found, sums / counts, rtol=1e-5)


def test_limits_of_a_reduced_picture_are_those_of_its_stored_values():
    gray = np.random.default_rng(0).integers(0, 4096, (60, 60)).astype(np.uint16)
    small = values(gray, 1, max_pixels=400)[0]
    full = values(gray, 1)[0].reshape(20, 3, 20, 3).mean((1, 3))
    np.testing.assert_allclose(small, full, atol=2e-3)


def test_a_photograph_is_upright_as_a_file_and_as_a_pil_image(tmp_path):
    image = Image.fromarray(random_bytes(6, 8, 3))
    exif = image.getexif()
    exif[0x0112] = 6  # turned by a quarter
    image.save(tmp_path / "turned.png", exif=exif)
    with Image.open(tmp_path / "turned.png") as opened:
        np.testing.assert_array_equal(values(opened), values(tmp_path / "turned.png"))
    assert values(tmp_path / "turned.png").shape == (3, 8, 6)


SYMMETRIES = [(turns, mirrored) for turns in range(4) for mirrored in (False, True)]


def moved(picture, turns, mirrored):
    turned = np.rot90(picture, turns, (-2, -1))
    return turned[..., ::-1] if mirrored else turned


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("diagonal", [False, True])
def test_undo_undoes(rows, columns, diagonal):
    picture = np.random.default_rng(0).random((2, 3, 5))
    pose = Pose(rows, columns, diagonal)
    np.testing.assert_array_equal(pose.undo(pose.apply(picture)), picture)


@pytest.mark.parametrize(("turns", "mirrored"), SYMMETRIES)
@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 9, 14), (3, 14, 9), (1, 1, 7), (1, 1, 1)])
def test_all_versions_of_a_picture_have_one_pose(shape, turns, mirrored):
    picture = np.random.default_rng(1).random(shape)
    version = moved(picture, turns, mirrored)
    np.testing.assert_array_equal(pose_of(version).apply(version), pose_of(picture).apply(picture))


@given(arrays(np.uint8, (1, 6, 6)), st.sampled_from(SYMMETRIES))
@settings(max_examples=200)
def test_any_picture_that_is_not_balanced_has_one_pose(picture, symmetry):
    lever = np.arange(6) - 2.5
    down, right = picture[0].sum(1) @ lever, picture[0].sum(0) @ lever
    if 0 in (down, right) or abs(down) == abs(right):
        return  # balanced: several poses are equally good
    version = moved(picture, *symmetry)
    np.testing.assert_array_equal(pose_of(version).apply(version), pose_of(picture).apply(picture))


def test_a_balanced_picture_is_left_as_it_is():
    assert pose_of(np.ones((3, 8, 8))) == Pose(False, False, False)


@pytest.mark.parametrize(
    ("side", "stride", "zoom"), [(128, 4, 1), (127, 4, 2), (64, 4, 2), (40, 4, 4), (1, 4, 8), (5, 1, 1), (5, 0, 1)]
)
def test_small_pictures_are_enlarged_for_networks_that_work_on_blocks(side, stride, zoom):
    assert canvas_of(np.zeros((1, side, 3)), 3, stride, MANY).zoom == zoom


@pytest.mark.parametrize("zoom", [1, 2, 3, 8])
def test_labels_come_back_from_any_canvas(zoom):
    labels = np.random.default_rng(0).integers(0, 4, (5, 7))
    values, pose = np.zeros((1, 7 * zoom, 5 * zoom), np.float32), Pose(True, False, True)
    canvas = Canvas(open_source(labels), values, 1, pose, zoom, Colours((0, 1), 1))
    assert canvas.labels_in(labels, "init").shape == (7 * zoom, 5 * zoom)
    np.testing.assert_array_equal(canvas.labels_out(canvas.labels_in(labels, "init")), labels)


def test_an_enlarged_picture_is_the_same_picture():
    stored = np.random.default_rng(0).random((6, 16), np.float32)
    canvas = canvas_of(stored, 1, 2, MANY)
    assert canvas.values.shape == (1, 24, 64)
    means = canvas.values.reshape(6, 4, 16, 4).mean((1, 3))
    assert np.corrcoef(means.ravel(), canvas.pose.apply(stored).ravel())[0, 1] > 0.95
    np.testing.assert_array_equal(canvas_of(np.ones((2, 2)), 1, 4, MANY).values, 1)
