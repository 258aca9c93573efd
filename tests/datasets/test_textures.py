"""Procedural textures: seeded, in range, and each family a kind of its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapetailor.datasets import FAMILIES, ProceduralTextures, texture
from shapetailor.datasets.noise import coordinates, fractal_noise, smooth_noise


def test_there_are_nineteen_families():
    assert len(set(FAMILIES)) == len(FAMILIES) == 19


@pytest.mark.parametrize("family", FAMILIES)
def test_the_generator_decides_the_texture(family):
    first, again, other = (texture(family, 48, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).mean() > 0.05


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("colour", [False, True])
def test_type_shape_and_range(family, colour):
    painted = texture(family, (40, 64), np.random.default_rng(0), colour=colour)
    assert painted.dtype == np.float32
    assert painted.shape == ((40, 64, 3) if colour else (40, 64))
    assert painted.min() >= 0
    assert painted.max() <= 1


@given(st.sampled_from(FAMILIES), st.integers(0, 10_000), st.integers(8, 90), st.integers(8, 90))
def test_every_member_is_finite_and_has_contrast(family, seed, height, width):
    painted = texture(family, (height, width), np.random.default_rng(seed))
    assert np.isfinite(painted).all()
    assert painted.std() > 0.08


@pytest.mark.parametrize("family", FAMILIES)
def test_brightness_and_contrast_tell_nothing(family):
    members = [texture(family, 128, np.random.default_rng(seed)) for seed in range(4)]
    assert all(0.40 < member.mean() < 0.60 for member in members)
    assert all(0.12 < member.std() < 0.25 for member in members)


@pytest.mark.parametrize("family", FAMILIES)
def test_colours_differ_between_channels(family):
    painted = texture(family, 64, np.random.default_rng(3), colour=True)
    assert np.ptp(painted.mean((0, 1))) > 0.02


def test_families_differ_by_their_spectra():
    """No two families agree in the radial energy spectrum and the gray histogram, averaged over members."""

    def signature(family):
        rows = []
        for seed in range(3):
            painted = texture(family, 128, np.random.default_rng(seed)).astype(float)
            standard = (painted - painted.mean()) / painted.std()
            power = np.abs(np.fft.fft2(standard)) ** 2
            radius = np.hypot(*np.meshgrid(np.fft.fftfreq(128), np.fft.fftfreq(128)))
            energy, _ = np.histogram(radius, np.geomspace(1 / 128, 0.71, 9), weights=power)
            grays, _ = np.histogram(standard, np.linspace(-3, 3, 13))
            rows.append(np.concatenate([energy / energy.sum(), grays / grays.sum()]))
        return np.mean(rows, 0)

    signatures = np.array([signature(family) for family in FAMILIES])
    distance = np.abs(signatures[:, None] - signatures[None]).sum(-1)
    nearest = np.where(np.eye(len(FAMILIES), dtype=bool), np.inf, distance).min(1)
    assert nearest.min() > 0.1, FAMILIES[int(nearest.argmin())]


@pytest.mark.parametrize(("family", "size"), [("velvet", 64), ("wood", 4)])
def test_bad_arguments_are_named(family, size):
    with pytest.raises(ValueError, match=r"velvet|size"):
        texture(family, size, np.random.default_rng(0))


def test_a_collection_is_fixed_by_its_seed_and_goes_round_the_families():
    first, again, other = (ProceduralTextures(2 * len(FAMILIES), 32, seed=seed) for seed in (5, 5, 6))
    assert first.names[0].startswith(FAMILIES[0])
    assert len(set(first.names)) == len(first) == 2 * len(FAMILIES)
    np.testing.assert_array_equal(first[3].image, again[3].image)
    assert (first[3].image != other[3].image).any()
    assert first[3].image.dtype == np.uint8
    assert first[3].truths == ()
    with pytest.raises(IndexError):
        first[len(first)]


@pytest.mark.parametrize("scale", [4.0, 12.0])
def test_smooth_noise_has_the_correlation_length_asked_for(scale):
    """Noise under a Gaussian of deviation s = scale/2 correlates as exp(-d²/4s²) = e⁻¹ at d = scale."""
    field = smooth_noise((400, 400), np.random.default_rng(0), scale)
    lag = int(scale)
    correlation = (field[:, lag:] * field[:, :-lag]).mean() / field.var()
    assert correlation == pytest.approx(np.exp(-1), abs=0.05)


def test_fractal_noise_falls_with_the_slope_asked_for():
    field = fractal_noise((512, 512), np.random.default_rng(0), slope=1.5)
    field = field * np.hanning(512)[:, None] * np.hanning(512)
    power = np.abs(np.fft.fft2(field)) ** 2
    radius = np.hypot(*np.meshgrid(np.fft.fftfreq(512), np.fft.fftfreq(512)))
    low, high = (power[(radius > r) & (radius < 1.2 * r)].mean() for r in (0.04, 0.32))
    assert np.log(low / high) / np.log(8) == pytest.approx(2 * 1.5, abs=0.2)


def test_unwarped_coordinates_are_a_rotation():
    x, y = coordinates((20, 30), np.random.default_rng(0))
    steps = np.array([[x[0, 1] - x[0, 0], x[1, 0] - x[0, 0]], [y[0, 1] - y[0, 0], y[1, 0] - y[0, 0]]])
    np.testing.assert_allclose(steps @ steps.T, np.eye(2), atol=1e-9)
