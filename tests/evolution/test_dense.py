"""Alg. 2 on whole planes, against the same on bands and boxes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

from shapetailor import labels as maps
from shapetailor.evolution import boundary_step, colour_crf
from shapetailor.evolution.dense import likeness, step
from shapetailor.evolution.dense.costs import Regions
from shapetailor.evolution.dense.shapes import shapes_of
from shapetailor.evolution.region_costs import Region
from shapetailor.evolution.region_shape import boxes_of, shape_of, widened

REACH, RIM, COUNT = 4, 2, 3
SEEDS = st.integers(0, 2**31)


def label_maps(seed, shape=(31, 37), pictures=2):
    """Random regions, some of them thin, with pixels outside and perhaps a region that is missing."""
    fields = np.random.default_rng(seed).standard_normal((pictures, COUNT + 1, *shape))
    fields[:, COUNT] -= 0.5
    labels = np.stack([gaussian_filter(each, (0, 2, 2)) for each in fields]).argmax(axis=1)
    if seed % 3 == 0:
        labels[labels == 1] = 0
    return np.where(labels == COUNT, -1, labels)


def both_kinds(seed, labels):
    """The same random costs as planes and, for each picture, as bands."""
    shapes = shapes_of(torch.from_numpy(labels), COUNT, REACH, RIM)
    rng = np.random.default_rng(seed)
    cost = gaussian_filter(rng.random(shapes.phi.shape).astype(np.float32), (0, 0, 1, 1))
    planes = Regions(shapes.band, shapes.phi, shapes.slope, shapes.curvature, torch.from_numpy(cost), torch.zeros(0))
    bands = []
    for picture, here in enumerate(labels):
        regions = {}
        for number, box in boxes_of(here).items():
            shape = shape_of(here, number, widened(box, REACH, here.shape), REACH, RIM)
            band = np.zeros(here.shape, bool)
            band[shape.box][shape.band] = True
            values, own = cost[picture, number][band], cost[picture, number][here == number]
            regions[number] = Region(np.flatnonzero(band), shape.phi, shape.slope, shape.curvature, values, own)
        bands.append(regions)
    return planes, bands


@given(SEEDS)
@settings(max_examples=15)
def test_shapes_are_those_of_the_boxes(seed):
    labels = label_maps(seed)
    found = shapes_of(torch.from_numpy(labels), COUNT, REACH, RIM)
    for picture, here in enumerate(labels):
        boxes = boxes_of(here)
        for number in range(COUNT):
            dilated, core, band = (part[picture, number].numpy() for part in (found.dilated, found.core, found.band))
            if number not in boxes:
                assert not (dilated | core | band).any()
                continue
            shape = shape_of(here, number, widened(boxes[number], REACH, here.shape), REACH, RIM)
            for plane, part in ((dilated, shape.dilated), (core, shape.core), (band, shape.band)):
                np.testing.assert_array_equal(plane[shape.box], part)
                assert plane.sum() == part.sum()
            for plane, part in ((found.phi, shape.phi), (found.slope, shape.slope), (found.curvature, shape.curvature)):
                np.testing.assert_allclose(plane[picture, number].numpy()[band], part, atol=2e-5)


@given(SEEDS, st.sampled_from([0.0, 0.05]), st.sampled_from([1.0, 16.0]))
@settings(max_examples=15)
def test_a_step_is_that_of_the_bands(seed, beta, gain):
    labels = label_maps(seed)
    planes, bands = both_kinds(seed, labels)
    betas, moves, gains = (torch.full((len(labels),), each) for each in (beta, 2.0, gain))
    found = step.advance(torch.from_numpy(labels), planes, betas, moves, gains).numpy()
    for here, regions, after in zip(labels, bands, found, strict=True):
        expected = boundary_step.advance(here, regions, beta, 2.0, gain)
        assert (after != expected).mean() < 1e-3  # indicators that are equal but for rounding
        np.testing.assert_array_equal(after < 0, here < 0)


@given(SEEDS, st.sampled_from([0.02, 0.2]))
@settings(max_examples=15)
def test_changes_settle_as_on_the_bands(seed, beta):
    labels = label_maps(seed)
    planes, bands = both_kinds(seed, labels)
    before = [boundary_step.advance(here, regions, 0.0, 2.0, 1.0) for here, regions in zip(labels, bands, strict=True)]
    beta_of = torch.full((len(labels),), beta, dtype=torch.float64)
    found = step.settle(torch.from_numpy(labels), torch.from_numpy(np.stack(before)), planes, beta_of).numpy()
    for here, proposal, regions, after in zip(labels, before, bands, found, strict=True):
        np.testing.assert_array_equal(after, boundary_step.settle(here, proposal, regions, beta))


@pytest.mark.parametrize("seed", range(3))
def test_colours_decide_as_on_the_bands(seed):
    labels = label_maps(seed, (45, 52))
    planes, bands = both_kinds(seed, labels)
    rng = np.random.default_rng(seed)
    seen = gaussian_filter(rng.random((len(labels), 3, *labels.shape[1:])).astype(np.float32), (0, 0, 2, 2))
    seen = np.where((labels >= 0)[:, None], seen, np.float32(np.inf))
    found = likeness.follow(torch.from_numpy(labels), planes, torch.from_numpy(seen), 4.0).numpy()
    for here, regions, colours, after in zip(labels, bands, seen, found, strict=True):
        expected = colour_crf.follow(here, regions, colours, 4.0)
        assert (expected != here).any()
        assert (after != expected).mean() < 1e-3
        np.testing.assert_array_equal(after < 0, here < 0)


def test_pictures_without_a_boundary_stay_as_they_are():
    labels = torch.zeros(1, 20, 20, dtype=torch.long)
    planes, _ = both_kinds(1, labels.numpy())
    one = torch.ones(1)
    assert torch.equal(step.advance(labels, planes, one, one, one), labels)
    assert torch.equal(likeness.follow(labels, planes, torch.rand(1, 3, 20, 20), 4.0), labels)


@given(SEEDS)
def test_lengths_are_those_of_single_maps(seed):
    labels = label_maps(seed)
    found = step.boundary_lengths(torch.from_numpy(labels))
    np.testing.assert_allclose(found, [maps.boundary_length(each) for each in labels])


def test_medians_leave_out_what_is_no_number():
    values = torch.tensor([[1.0, torch.nan, 5.0, 2.0], [4.0, 1.0, 2.0, 3.0], [torch.nan] * 4])
    np.testing.assert_array_equal(step.medians(values), [2.0, 2.5, np.nan])
