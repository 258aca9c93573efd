"""Warps: known answers, the norm of known fields, and what the doors refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gallery import squared_sobolev_norm
from shapetailor.experiments.warps import Warp, random_deformation, rotation
from shapetailor.labels import largest_rectangle


@pytest.mark.parametrize("quarters", range(-3, 5))
def test_quarter_turns_move_pixels_to_pixels(quarters):
    image = np.random.default_rng(1).random((6, 9, 2))
    warp = rotation((6, 9), quarters * np.pi / 2)
    assert warp.valid.all()
    np.testing.assert_allclose(warp.image(image), np.rot90(image, quarters), atol=1e-12)
    labels = np.arange(54).reshape(6, 9)
    assert np.array_equal(warp.labels(labels), np.rot90(labels, quarters))


def test_a_rotation_shows_affine_pictures_exactly():
    row, column = np.indices((31, 47))
    warp = rotation((31, 47), 0.7)
    y, x = warp.source
    image = warp.image(2.0 * row - 3.0 * column + 5)
    np.testing.assert_allclose(image[warp.valid], (2 * y - 3 * x + 5)[warp.valid], atol=1e-10)
    assert not image[~warp.valid].any()
    np.testing.assert_allclose(warp.jacobian, 1)


@given(st.floats(-7, 7), st.integers(2, 60), st.integers(2, 60))
def test_the_canvas_of_a_rotation_holds_the_whole_picture(angle, height, width):
    warp = rotation((height, width), angle)
    corners = np.array([[0, 0], [0, width - 1], [height - 1, 0], [height - 1, width - 1]])
    c, s = np.cos(angle), np.sin(angle)
    turned = (corners - [(height - 1) / 2, (width - 1) / 2]) @ np.array([[c, s], [-s, c]])
    reach = np.abs(turned).max(axis=0)
    half = (np.array(warp.shape) - 1) / 2
    assert (reach <= half + 1e-5).all()
    assert (reach > half - 0.5 - 1e-5).all()  # and no line more than that takes


@given(st.integers(0, 1000), st.integers(1, 5))
def test_labels_stay_labels(seed, count):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, count, (30, 33)) * 7
    warp = random_deformation((30, 33), 4.0, rng, terms=5)
    warped = warp.labels(labels)
    assert set(np.unique(warped[warp.valid])) <= set(np.unique(labels))
    assert (warped[~warp.valid] == -1).all()


@pytest.mark.parametrize("shape", [(64, 64), (50, 81)])
def test_norm_of_a_known_wave(shape):
    row, column = np.indices(shape)
    phase = 2 * np.pi * (3 * row / shape[0] - 2 * column / shape[1])
    # A sin has a_k = a_−k = A/2 in modulus, |k|² = 13; the constant counts once.
    field = np.stack([4 * np.sin(phase), np.full(shape, -1.5)])
    assert squared_sobolev_norm(field) == pytest.approx(2 * 13 * 2**2 + 1.5**2)


@given(st.integers(0, 1000), st.floats(0, 100), st.integers(1, 10))
def test_a_random_deformation_has_the_norm_asked_for(seed, norm, terms):
    warp = random_deformation((24, 37), norm, np.random.default_rng(seed), terms)
    assert squared_sobolev_norm(warp.displacement) == pytest.approx(norm, abs=1e-9)


def test_a_random_deformation_has_all_its_frequencies_and_no_others():
    warp = random_deformation((64, 64), 10.0, np.random.default_rng(0), terms=6)
    spectrum = np.abs(np.fft.fft2(warp.displacement)).max(axis=0)
    k = np.abs(np.fft.fftfreq(64, 1 / 64))
    within = np.maximum(k[:, None], k) <= 6
    assert spectrum[within].min() > 1e3 * spectrum[~within].max()


def test_equal_seeds_draw_equal_deformations_and_the_norm_only_scales_them():
    small, again, large = (
        random_deformation((32, 32), norm, np.random.default_rng(5)).displacement for norm in (10.0, 10.0, 40.0)
    )
    assert np.array_equal(small, again)
    np.testing.assert_allclose(large, 2 * small)


def test_the_papers_deformations_keep_orientation_and_the_literal_unit_would_not():
    shares = []
    for norm in (10.0, 80.0, 10.0 * 256**2):
        warp = random_deformation((256, 256), norm, np.random.default_rng(6))
        shares.append(float((warp.jacobian > 0).mean()))
    assert shares[:2] == [1.0, 1.0]
    assert shares[2] < 0.7


def test_the_jacobian_of_a_known_field():
    row, column = np.indices((20, 20), dtype=float)
    warp = Warp(np.stack([1.5 * row + 0.2 * column, 2.0 * column - 0.5 * row]), (40, 40))
    np.testing.assert_allclose(warp.jacobian, 1.5 * 2.0 + 0.2 * 0.5)
    mirrored = Warp(np.stack([row, 19 - column]), (20, 20))
    np.testing.assert_allclose(mirrored.jacobian, -1)


def test_the_valid_rectangle_of_a_turned_square_is_the_inscribed_one():
    # A square of side s turned by θ holds an upright square of side s / (cos θ + sin θ), and nothing larger at 45°.
    warp = rotation((200, 200), np.pi / 6)
    rows, columns = largest_rectangle(warp.valid)
    area = (rows.stop - rows.start) * (columns.stop - columns.start)
    assert area == pytest.approx((199 / (np.cos(np.pi / 6) + 0.5)) ** 2, rel=0.03)
    assert warp.crop((rows, columns)).valid.all()


def test_images_keep_their_type():
    warp = random_deformation((30, 30), 2.0, np.random.default_rng(0), terms=3)
    for dtype in (np.uint8, np.uint16, np.float32):
        image = (200 * np.ones((30, 30, 3))).astype(dtype)
        warped = warp.image(image)
        assert warped.dtype == dtype
        np.testing.assert_allclose(warped[warp.valid], 200, rtol=1e-6)
    assert warp.image(np.zeros((30, 30))).shape == (30, 30)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rotation((4, 4), 0.0).image(np.zeros((4, 5))), r"image must be of the size \(4, 4\)"),
        (lambda: rotation((4, 4), 0.0).image(np.zeros((4, 4), bool)), "image must be H×W or H×W×C numbers"),
        (lambda: rotation((4, 4), 0.0).labels(np.zeros((4, 4))), "labels must be H×W integers"),
        (lambda: rotation((4, 4), 0.0).labels(np.zeros((5, 4), int)), r"labels must be of the size \(4, 4\)"),
        (lambda: rotation((4, 4), 0.0).crop((slice(4, 9), slice(0, 2))), "holds no pixel"),
        (lambda: rotation((4, 4), np.nan), "angle must be a finite number"),
        (lambda: random_deformation((64, 64), -1.0, np.random.default_rng(0)), "squared_norm must be"),
        (lambda: random_deformation((20, 64), 1.0, np.random.default_rng(0)), "terms must be"),
    ],
)
def test_doors_say_what_is_wrong(call, words):
    with pytest.raises(ValueError, match=words):
        call()
