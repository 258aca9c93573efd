"""One step of the boundaries, against the same written for whole images of every region."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import distance_transform_edt, gaussian_filter

from shapetailor.evolution.boundary_step import advance, settle
from shapetailor.evolution.region_costs import Tailor
from shapetailor.labels import boundary_length
from shapetailor.network.describer import Descriptors


def gray_values(image, labels):
    return torch.where(labels[:, None] >= 0, image, 0)


def random_labels(seed, regions=3, shape=(23, 29), outside=False):
    fields = np.random.default_rng(seed).standard_normal((regions + outside, *shape))
    labels = np.stack([gaussian_filter(field, 2.5) for field in fields]).argmax(axis=0)
    return np.where(labels == regions, -1, labels)


def random_image(seed, shape=(23, 29)):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def tailored(gray, labels, reach=2):
    return Tailor(torch.from_numpy(gray)[None, None], Descriptors(gray_values), reach).start(labels)


def slow_costs(gray, labels, reach):
    """G_i on D(R_i), infinite elsewhere: (K, H, W)."""
    cost = np.full((labels.max() + 1, *labels.shape), np.inf, np.float32)
    for i in np.unique(labels[labels >= 0]):
        dilated = (distance_transform_edt(labels != i) <= reach) & (labels >= 0)
        mean = gray[labels == i].mean(dtype=np.float64).astype(np.float32)
        cost[i][dilated] = np.square(gray - mean)[dilated]
    return cost


def slow_advance(gray, labels, reach, beta, move, gain):
    """Alg. 2, steps 6 to 10, with a full image for each region."""
    cost = slow_costs(gray, labels, reach)
    count = len(cost)
    phi = np.zeros(cost.shape, np.float32)
    for i in range(count):
        inside, outside = distance_transform_edt(labels == i), distance_transform_edt(labels != i)
        distance = np.where(labels == i, inside - 0.5, 0.5 - outside)
        if (labels == i).any():
            phi[i] = np.clip(0.5 + distance / (2 * reach), 0, 1)
    two = np.sort(cost, axis=0)[:2]
    rival = np.where(cost <= two[0], two[1], two[0])
    both = np.isfinite(cost) & np.isfinite(rival)
    difference = np.zeros_like(cost)
    difference[both] = cost[both] - rival[both]
    scale = (float(np.median(np.abs(difference[difference != 0]))) + 1e-12) / gain
    new = phi.copy()
    for i in range(count):
        padded = np.pad(phi[i].astype(float), 2, mode="edge")
        dy, dx = np.gradient(padded)
        size = np.hypot(dy, dx)
        safe = np.maximum(size, 1e-8)
        curvature = np.gradient(dy / safe, axis=0) + np.gradient(dx / safe, axis=1)
        curvature = np.clip(np.where(size < 1e-6, 0, curvature), -1, 1)[2:-2, 2:-2]
        steps = [np.abs(np.diff(padded, axis=axis)) for axis in (0, 1)]
        slope = np.hypot(
            np.maximum(steps[0][1:], steps[0][:-1])[1:-1, 2:-2],
            np.maximum(steps[1][:, 1:], steps[1][:, :-1])[2:-2, 1:-1],
        )
        new[i] += move * np.tanh(2 * (-difference[i] / scale + beta / scale * curvature)) * slope
    new = np.clip(new, 0, 1)
    new[~np.isfinite(cost)] = 0  # a region cannot win what is not in its dilation
    for i in range(count):
        new[i][labels == i] += 1e-6
    return np.where(labels >= 0, new.argmax(axis=0), labels)


@settings(max_examples=40)
@given(
    st.integers(0, 2**31),
    st.integers(2, 5),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([0.0, 0.3, 3.0]),
    st.booleans(),
)
def test_bands_move_as_whole_images_do(seed, regions, reach, beta, outside):
    gray, labels = random_image(seed), random_labels(seed, regions, outside=outside)
    for move, gain in ((1.0, 1.0), (0.5 * reach, 16.0)):
        found = advance(labels, tailored(gray, labels, reach), beta, move, gain)
        np.testing.assert_array_equal(found, slow_advance(gray, labels, reach, beta, move, gain))


def test_costs_are_those_of_whole_images():
    gray, labels = random_image(1), random_labels(1)
    expected = slow_costs(gray, labels, 3)
    for i, region in tailored(gray, labels, 3).items():
        np.testing.assert_allclose(region.cost, expected[i].ravel()[region.band], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(region.within, expected[i][labels == i].sum(dtype=float), rtol=1e-5)
        assert np.isfinite(region.cost).all()


def fixed_energy(gray, labels, now, beta, reach=2):
    cost = slow_costs(gray, labels, reach)
    return float(np.take_along_axis(cost, now[None], axis=0).sum(dtype=float)) + beta * boundary_length(now)


@given(st.integers(0, 2**31), st.sampled_from([0.1, 1.0, 10.0]))
def test_settling_never_raises_the_energy_of_given_costs(seed, beta):
    gray, labels = random_image(seed), random_labels(seed)
    regions = tailored(gray, labels)
    proposal = advance(labels, regions, beta, 1.0, 1.0)
    found = settle(labels, proposal, regions, beta)
    assert fixed_energy(gray, labels, found, beta) <= fixed_energy(gray, labels, labels, beta) + 1e-4
    assert ((found == labels) | (found == proposal)).all()


def test_settled_pixels_gain_nothing_by_a_change_of_one():
    gray, labels = random_image(5), random_labels(5)
    regions, beta = tailored(gray, labels), 1.0
    proposal = advance(labels, regions, beta, 1.0, 1.0)
    found = settle(labels, proposal, regions, beta)
    assert not np.array_equal(found, labels)
    lowest = fixed_energy(gray, labels, found, beta)
    for place, each in itertools.product(np.argwhere(labels != proposal), (labels, proposal)):
        other = found.copy()
        other[tuple(place)] = each[tuple(place)]
        assert fixed_energy(gray, labels, other, beta) >= lowest - 1e-4


def test_a_proposal_without_a_ragged_pixel_settles_as_it_is():
    labels = np.zeros((12, 12), np.int64)
    labels[:, 6:] = 1
    gray = np.where(np.arange(12) < 7, 0.0, 1.0).astype(np.float32) * np.ones((12, 1), np.float32)
    proposal = np.zeros_like(labels)
    proposal[:, 7:] = 1
    np.testing.assert_array_equal(settle(labels, proposal, tailored(gray, labels), 0.01), proposal)


@pytest.mark.parametrize("regions", [1, 4])
def test_equal_costs_move_nothing(regions):
    labels = random_labels(0, regions)
    regions = tailored(np.zeros(labels.shape, np.float32), labels)
    assert advance(labels, regions, 1.0, 1.0, 1.0) is labels
