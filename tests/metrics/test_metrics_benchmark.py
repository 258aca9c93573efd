"""Dataset-level figures on cases small enough to know; the official figures are in their own file."""

from __future__ import annotations

import numpy as np
import pytest

from shapetailor import metrics

QUARTERS = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]])
ONE = np.zeros((4, 4), int)
LEFT_RIGHT = QUARTERS % 2


def test_thresholds_are_inside_the_unit_interval():
    np.testing.assert_allclose(metrics.benchmark_thresholds(3), [0.25, 0.5, 0.75])
    assert len(metrics.benchmark_thresholds()) == 99


def test_best_covering_takes_each_true_region_at_its_own_scale():
    # The left half is covered by the second segmentation, the right quarters by the first.
    truth = np.where(LEFT_RIGHT == 0, 9, QUARTERS)
    curve = metrics.region_curve([QUARTERS, LEFT_RIGHT], truth)
    ours = metrics.region_benchmark([curve], [1, 2])
    np.testing.assert_allclose(ours.covering_curve, [(8 * 0.5 + 8) / 16, (8 + 8 * 0.5) / 16])
    assert ours.covering == (1.0, 0.75, 0.75)
    assert ours.best_covering == 1.0


def test_each_image_may_choose_its_own_scale_in_ois():
    curves = [metrics.region_curve([QUARTERS, ONE], truth) for truth in (QUARTERS, ONE)]
    ours = metrics.region_benchmark(curves, [0.1, 0.9])
    assert ours.covering.ois == ours.rand_index.ois == 1.0
    assert ours.variation_of_information == (0.1, 1.0, 0.0)
    assert ours.covering.ods == pytest.approx((1 + 1 / 4) / 2)
    assert [image.threshold for image in ours.images] == [0.1, 0.9]


def test_contour_map_gives_nested_regions():
    ucm = np.zeros((5, 7))
    ucm[:, 2] = 0.3  # between the first and second column of the 2×3 image
    ucm[:, 4] = 0.6
    ours = list(metrics.ucm_segmentations(ucm, [0.1, 0.3, 0.7]))
    assert [len(np.unique(labels)) for labels in ours] == [3, 2, 1]
    np.testing.assert_array_equal(ours[1][:, 0], ours[1][:, 1])
    np.testing.assert_array_equal(metrics.ucm_strength(ucm), [[0.3, 0.6, 0], [0.3, 0.6, 0]])


def test_regions_of_a_contour_map_join_across_corners():
    ucm = np.full((5, 5), 0.9)
    ucm[1::2, 1::2] = 0
    ucm[2, 2] = 0  # the one gap, where four pixels meet
    (labels,) = metrics.ucm_segmentations(ucm, [0.5])
    assert len(np.unique(labels)) == 1


def boundary(columns):
    found = np.zeros((40, 40), bool)
    found[:, columns] = True
    return found


def test_boundary_figures_of_a_known_curve():
    # Two true lines. Strict: one right line; lax: both and two wrong ones.
    curve = metrics.boundary_curve([boundary([5, 15, 25, 35]), boundary([5])], [boundary([5, 15])])
    np.testing.assert_array_equal(curve, [[80, 80, 80, 160], [40, 80, 40, 40]])
    ours = metrics.boundary_benchmark([curve], [0.2, 0.8])
    np.testing.assert_allclose(ours.f, [2 / 3, 2 / 3])
    # Half-way along the line from (R, P) = (1, 1/2) to (1/2, 1): both 3/4, up to the 100 steps.
    assert ours.ods == pytest.approx((0.5, 0.75, 0.75, 0.75), abs=0.005)
    assert ours.images == (ours.ods,)
    assert ours.ois == pytest.approx((0.5, 1.0, 2 / 3))
    assert ours.average_precision == pytest.approx(sum(np.linspace(0.5, 1, 51)) * 0.01)


def test_no_boundary_anywhere_scores_zero_not_an_error():
    empty = np.zeros((6, 6), bool)
    ours = metrics.boundary_benchmark([metrics.boundary_curve([empty, empty], [empty])], [0.3, 0.6])
    assert ours.ods.f == ours.ois.f == ours.average_precision == 0.0


def test_strength_reaches_a_threshold_inclusively():
    strength = np.zeros((5, 5))
    strength[2] = 0.5
    found = list(metrics.strength_boundaries(strength, [0.5, 0.51]))
    assert [int(f.sum()) for f in found] == [5, 0]


def test_errors_say_what_arrived():
    curve = metrics.region_curve([ONE], ONE)
    with pytest.raises(ValueError, match=r"curves\[1\] has 2 entries for 1 thresholds"):
        metrics.region_benchmark([curve, metrics.region_curve([ONE, ONE], ONE)], [1])
    with pytest.raises(ValueError, match="segmentations is empty"):
        metrics.region_curve([], ONE)
    with pytest.raises(ValueError, match=r"segmentations\[1\] has shape \(2, 8\)"):
        metrics.region_curve([ONE, ONE.reshape(2, 8)], ONE)
    with pytest.raises(ValueError, match=r"ucm must be of double size"):
        list(metrics.ucm_segmentations(np.zeros((4, 4)), [0.5]))
    with pytest.raises(ValueError, match=r"predicted\[0\] is int64 \(4, 4\), expected bool"):
        metrics.boundary_curve([ONE], [ONE > 0])
    with pytest.raises(ValueError, match=r"curves\[0\] has shape"):
        metrics.boundary_benchmark([np.zeros((1, 4), int)], [0.1, 0.2])
    with pytest.raises(ValueError, match="count must be at least 1"):
        metrics.benchmark_thresholds(0)
