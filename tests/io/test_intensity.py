"""The one way from stored numbers to 0..1."""

from __future__ import annotations

import numpy as np
import pytest

from shapetailor.datasets import mosaic
from shapetailor.drawing.overlay import as_rgb8
from shapetailor.io.intensity import Intensity, scaled
from shapetailor.segmentation.canvas import canvas_of


def ramp(dtype, low, high):
    return np.linspace(low, high, 40 * 50).reshape(40, 50).astype(dtype)


STORED = {
    "uint8": ramp(np.uint8, 0, 255),
    "12 bits in uint16": ramp(np.uint16, 0, 4095),
    "uint16": ramp(np.uint16, 200, 65000),
    "int16": ramp(np.int16, -900, 900),
    "int32": ramp(np.int32, -(10**6), 10**6),
    "float32 in 0..1": ramp(np.float32, 0.2, 0.7),
    "float64": ramp(np.float64, -5.0, 300.0),
}


@pytest.mark.parametrize("stored", STORED.values(), ids=STORED)
def test_segmentation_and_pictures_for_the_eye_see_the_same_values(stored):
    unit = Intensity()(stored)
    canvas = canvas_of(stored, 1, 1, stored.size)
    np.testing.assert_array_equal(canvas.upright(canvas.values)[0], unit)
    np.testing.assert_array_equal(as_rgb8(stored)[..., 0], np.rint(255 * unit))


def test_mosaics_are_made_of_the_same_values():
    dark = ramp(np.uint16, 0, 4095)
    made = mosaic([dark, dark.T.copy()], 64, np.random.default_rng(0)).image
    assert made.dtype == np.uint8
    assert made.max() > 200  # by the type's maximum it would be 16


def test_twelve_bits_in_sixteen_fill_the_range():
    unit = Intensity()(STORED["12 bits in uint16"])
    assert unit.min() == 0
    assert unit.max() == 1
    assert abs(float(unit.mean()) - 0.5) < 0.01


def test_percentiles_of_a_large_picture_are_those_of_its_sample():
    rng = np.random.default_rng(0)
    large = rng.integers(0, 5000, 2**24 + 2**23, dtype=np.uint16).reshape(4096, -1)
    low, high = Intensity().limits(large)
    assert (low, high) == (pytest.approx(5, abs=2), pytest.approx(4994, abs=2))


def test_what_is_not_finite_neither_counts_nor_comes_out():
    stored = ramp(np.float32, 0, 100)
    stored[0, :3] = np.nan, np.inf, -np.inf
    unit = Intensity()(stored)
    assert np.isfinite(unit).all()
    assert Intensity().limits(stored) == pytest.approx((0.2, 99.9), abs=0.2)
    assert (Intensity()(np.full((2, 2), np.nan)) == 0).all()


def test_one_value_becomes_black():
    assert (scaled(np.full((2, 2), 7, np.float32), 7.0, 7.0) == 0).all()


@pytest.mark.parametrize(("black", "white"), [(50, 50), (-1, 99), (1, 101), ("a", 99), (None, 1)])
def test_percentiles_that_make_no_sense_are_named(black, white):
    with pytest.raises(ValueError, match=f"got {black!r}, {white!r}"):
        Intensity(black, white)


def test_the_rule_survives_json():
    assert Intensity.from_dict(Intensity(2.0, 98.0).to_dict()) == Intensity(2.0, 98.0)
