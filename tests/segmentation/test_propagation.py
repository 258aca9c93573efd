"""Claims of strokes: how those of one region count together, and which of them reach less far."""

import numpy as np
import pytest

from shapetailor.segmentation.propagation import Scene, one_hot, regional


@pytest.fixture(scope="module")
def scene():
    """Two halves that differ in everything."""
    left = np.tile(np.arange(32) < 16, (32, 1)).astype(np.float32)
    noise = np.random.default_rng(0).normal(0, 0.05, (4, 32, 32)).astype(np.float32)
    planes = np.stack([left, 1 - left, left, left]) + noise
    return Scene(planes, None, planes[:3])


def marked(*places):
    """Strokes of three by three cells around (region, row, column)."""
    marks = np.full((32, 32), -1)
    for region, row, column in places:
        marks[row - 1 : row + 2, column - 1 : column + 2] = region
    return one_hot(marks, 2)


def test_claims_of_one_stroke_are_its_regions_and_several_that_agree_count_for_more():
    claims = np.array([[1.0, -3.0], [1.0, -9.0], [0.5, 2.0]], np.float32)
    found = regional(np.array([0, 0, 2]), claims, 3)
    assert np.array_equal(found[2], claims[2])
    assert found[0, 0] > 1.0
    assert found[0, 1] == pytest.approx(-3.0, abs=1e-3)
    assert np.isneginf(found[1]).all()


def test_a_regions_only_stroke_has_the_weights_of_single_strokes(scene):
    company = scene.company(scene.prototypes(marked((0, 8, 6), (0, 24, 6), (1, 16, 26))))
    assert (company[:2, 0] == 1).all()
    assert not company[2].any()


def test_a_stroke_on_a_boundary_stands_out_by_its_contrast(scene):
    inside, across, _ = scene.company(scene.prototypes(marked((0, 8, 6), (0, 24, 14), (1, 16, 26))))[:, 1]
    assert across > inside + 0.5
