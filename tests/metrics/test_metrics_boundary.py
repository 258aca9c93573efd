"""Boundary metrics: exact small cases, the matching's optimality, properties, speed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment

from shapetailor import metrics
from shapetailor.metrics.boundary import OUTLIER_COST, match_boundaries

maps = arrays(np.int64, (9, 11), elements=st.integers(0, 2))
dots = arrays(np.bool_, (7, 8))


def halves(column, height=100, width=100):
    """Two regions; the boundary is the column of pixels left of `column`."""
    return np.broadcast_to(np.arange(width) >= column, (height, width)).astype(int)


def test_boundary_lies_left_of_and_above_a_change():
    labels = np.zeros((5, 6), int)
    labels[:, 3:] = 1
    expected = np.zeros((5, 6), bool)
    expected[:, 2] = True
    np.testing.assert_array_equal(metrics.label_boundaries(labels), expected)
    np.testing.assert_array_equal(metrics.label_boundaries(labels.T), expected.T)


def test_boundary_within_the_tolerance_is_found_and_beyond_is_not():
    # 0.0075 of the diagonal of 100×100 pixels is 1.06 pixels.
    assert metrics.boundary_f(halves(51), halves(50)) == (1.0, 1.0, 1.0)
    assert metrics.boundary_f(halves(52), halves(50)) == (0.0, 0.0, 0.0)
    assert metrics.boundary_f(halves(52), halves(50), tolerance=0.015) == (1.0, 1.0, 1.0)


def test_one_true_pixel_matches_one_predicted_pixel_only():
    # Two predicted lines, both within reach of the single true one: half of them must stay alone.
    double = halves(50) + halves(52)
    score = metrics.boundary_f(double, halves(51))
    assert score.recall == 1.0
    assert score.precision == 0.5
    assert score.f == pytest.approx(2 / 3)


def test_annotators_share_precision_and_pool_recall():
    truths = [halves(20), halves(80)]
    assert metrics.boundary_f(halves(20), truths) == pytest.approx((1.0, 0.5, 2 / 3))
    assert metrics.boundary_f(halves(20) + halves(80), truths) == pytest.approx((1.0, 0.5 * 2, 1.0))


@given(dots, dots, st.sampled_from([0.1, 0.2, 0.35]))
def test_matching_is_optimal_and_one_to_one(a, b, tolerance):
    hit_a, hit_b = match_boundaries(a, b, tolerance)
    assert hit_a.sum() == hit_b.sum()
    assert not (hit_a & ~a).any()
    assert not (hit_b & ~b).any()
    points, targets = np.argwhere(a), np.argwhere(b)
    reach = tolerance * np.hypot(*a.shape)
    n, m = len(points), len(targets)
    # The benchmark's dense problem: outlier nodes on both sides, free among themselves.
    cost = np.full((n + m, n + m), OUTLIER_COST * reach)
    distance = np.linalg.norm(points[:, None] - targets[None], axis=-1)
    cost[:n, :m] = np.where(distance <= reach, distance, 1e9)
    cost[n:, m:] = 0
    rows, columns = linear_sum_assignment(cost)
    assert hit_a.sum() == np.sum((rows < n) & (columns < m))


@given(maps, maps)
def test_swapping_the_arguments_swaps_precision_and_recall(a, b):
    ours, swapped = metrics.boundary_f(a, b), metrics.boundary_f(b, a)
    if metrics.label_boundaries(a).any() and metrics.label_boundaries(b).any():
        assert ours == pytest.approx((swapped.recall, swapped.precision, swapped.f))


@given(maps, maps)
def test_invariance_to_relabelling(a, b):
    assert metrics.boundary_f(-7 * a, 2**40 * b) == metrics.boundary_f(a, b)


@given(maps)
def test_a_map_agrees_with_itself(a):
    assert metrics.boundary_f(a, a) == (1.0, 1.0, 1.0)


def test_maps_without_boundary():
    flat, halved = np.zeros((9, 9), int), halves(5, 9, 9)
    assert metrics.boundary_f(flat, flat) == (1.0, 1.0, 1.0)
    assert metrics.boundary_f(flat, halved) == (0.0, 0.0, 0.0)
    assert metrics.boundary_f(halved, flat) == (0.0, 0.0, 0.0)


def test_nothing_is_judged_where_the_truth_is_ignored():
    truth = halves(50)
    truth[:, 70:] = 255
    assert metrics.boundary_f(halves(50), truth, ignore=255) == (1.0, 1.0, 1.0)
    assert metrics.boundary_f(halves(50) + halves(85), truth, ignore=255) == (1.0, 1.0, 1.0)
    assert metrics.boundary_f(halves(50), truth).recall == pytest.approx(0.5)


def test_every_block_that_touches_an_ignored_pixel_is_left_out():
    prediction = halves(20, 40, 40).T  # boundary in row 19
    truth = np.zeros((40, 40), int)
    truth[20:, 1:] = 255  # touches the block of pixel (19, 0) diagonally only
    assert metrics.boundary_f(prediction, truth, ignore=255) == (1.0, 1.0, 1.0)


def test_errors_name_the_argument():
    good = halves(3, 6, 6)
    with pytest.raises(TypeError, match="prediction must hold integer labels"):
        metrics.boundary_f(good * 1.0, good)
    with pytest.raises(ValueError, match=r"truth\[1\] has shape"):
        metrics.boundary_f(good, [good, good[:3]])
    with pytest.raises(ValueError, match="tolerance must be a positive fraction"):
        metrics.boundary_f(good, good, tolerance=0)
