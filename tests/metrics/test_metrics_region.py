"""Region metrics: exact small cases, properties, and other people's implementations."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
import skimage.metrics
import sklearn.metrics
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shapetailor import metrics
from shapetailor.metrics.contingency import contingency, partition

SCALARS = [
    metrics.covering,
    metrics.rand_index,
    metrics.variation_of_information,
    metrics.adjusted_rand,
    metrics.mean_iou,
]
ALL = [*SCALARS, metrics.voc_accuracy]

maps = arrays(np.int64, (5, 6), elements=st.integers(0, 4))

# Four pixels: the prediction has regions of 3 and 1, the truth of 2 and 2; overlaps 2, 1, 0, 1.
PREDICTION = np.array([[1, 1], [1, 2]])
TRUTH = np.array([[7, 7], [9, 9]])


def test_small_case_by_hand():
    ours = metrics.region_scores(PREDICTION, TRUTH)
    assert ours.covering == pytest.approx((2 * 2 / 3 + 2 * 1 / 2) / 4)
    # Of six pairs, {1,2} is together in both; {3,4} only in the truth; {1,3}, {2,3} only predicted.
    assert ours.rand_index == pytest.approx(3 / 6)
    h = 3 / 4 * math.log2(4 / 3) + 1 / 4 * math.log2(4)
    joint = 1 / 2 * math.log2(2) + 2 * 1 / 4 * math.log2(4)
    assert ours.variation_of_information == pytest.approx(2 * joint - h - 1)
    assert ours.adjusted_rand == pytest.approx((1 - 3 * 2 / 6) / ((3 + 2) / 2 - 3 * 2 / 6))
    assert ours.mean_iou == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert ours.voc_accuracy == pytest.approx(((2 / 3 + 1 / 2) / 2, (2 / 3 + 1 / 2) / 2))


def test_extra_predicted_regions_count_in_voc_accuracy_of_the_prediction_only():
    truth = np.repeat([[0, 1]], 4, axis=1)
    prediction = np.array([[0, 0, 0, 0, 1, 1, 2, 3]])
    assert metrics.voc_accuracy(prediction, truth) == pytest.approx(((1 + 1 / 2 + 1 / 4 + 1 / 4) / 4, 3 / 4))
    assert metrics.mean_iou(prediction, truth) == pytest.approx(3 / 4)


def test_true_region_without_a_partner_counts_zero_in_mean_iou():
    assert metrics.mean_iou(np.zeros((2, 2), int), TRUTH) == pytest.approx((1 / 2 + 0) / 2)


@given(maps, maps)
def test_mean_iou_is_the_best_of_all_pairings(prediction, truth):
    table = contingency(partition(prediction), partition(truth))
    iou = np.zeros((5, 5))
    iou[table.predicted, table.true] = table.iou
    best = max(sum(iou[i, j] for j, i in enumerate(order)) for order in permutations(range(5)))
    assert metrics.mean_iou(prediction, truth) == pytest.approx(best / len(table.true_sizes))


@given(maps, maps)
def test_agreement_with_scikit_learn_and_scikit_image(a, b):
    assert metrics.rand_index(a, b) == pytest.approx(sklearn.metrics.rand_score(b.ravel(), a.ravel()))
    theirs = sklearn.metrics.adjusted_rand_score(b.ravel(), a.ravel())
    assert metrics.adjusted_rand(a, b) == pytest.approx(theirs, abs=1e-12)
    theirs = sum(skimage.metrics.variation_of_information(a, b))
    assert metrics.variation_of_information(a, b) == pytest.approx(theirs, abs=1e-12)


@given(maps, maps)
def test_symmetry(a, b):
    for metric in (metrics.rand_index, metrics.variation_of_information, metrics.adjusted_rand):
        assert metric(a, b) == pytest.approx(metric(b, a), abs=1e-12)
    assert metrics.voc_accuracy(a, b) == pytest.approx(metrics.voc_accuracy(b, a)[::-1])


any_labels = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=5, max_size=5, unique=True)


@given(maps, maps, any_labels, any_labels)
def test_invariance_to_relabelling(a, b, names_a, names_b):
    renamed = metrics.region_scores(np.array(names_a)[a], np.array(names_b)[b])
    ours = metrics.region_scores(a, b)
    assert renamed[:-1] == pytest.approx(ours[:-1], abs=1e-12)
    assert renamed.voc_accuracy == pytest.approx(ours.voc_accuracy)


@given(maps)
def test_a_map_agrees_with_itself(a):
    assert metrics.region_scores(a, a) == (1.0, 1.0, 0.0, 1.0, 1.0, (1.0, 1.0))


@given(maps, maps)
def test_scores_are_the_single_metrics(a, b):
    scores = metrics.region_scores(a, [b, a])
    assert scores == tuple(metric(a, [b, a]) for metric in ALL)


@given(maps, maps, maps)
def test_several_annotators_are_averaged(a, b, c):
    for metric in SCALARS:
        assert metric(a, [b, c]) == pytest.approx((metric(a, b) + metric(a, c)) / 2, abs=1e-12)
    both = np.mean([metrics.voc_accuracy(a, b), metrics.voc_accuracy(a, c)], axis=0)
    assert metrics.voc_accuracy(a, (b, c)) == pytest.approx(tuple(both))


@given(maps, maps)
def test_ignored_pixels_change_nothing(a, b):
    b[0, 0] = 1
    kept = b != 0
    elsewhere = np.where(kept, a, 77)
    for metric in SCALARS:
        alone = metric(a[kept][None], b[kept][None])
        assert metric(a, b, ignore=0) == metric(elsewhere, b, ignore=0) == alone


def test_pooled_covering_weighs_annotators_by_the_pixels_they_judge():
    first, second = np.array([[1, 1], [2, 2]]), np.array([[0, 0], [0, 2]])
    prediction = np.array([[1, 1], [1, 1]])
    assert metrics.covering(prediction, [first, second], ignore=0) == pytest.approx((4 * 1 / 2 + 1) / 5)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int32, np.uint64, bool])
def test_any_integer_type(kind):
    truth = np.array([[0, 0, 1], [0, 1, 1]])
    assert metrics.covering(truth.astype(kind), truth) == 1.0
    assert metrics.covering(torch.from_numpy(truth.astype(kind)), torch.from_numpy(truth)) == 1.0


def test_labels_beyond_the_signed_range():
    labels = np.array([[0, 2**64 - 1], [2**64 - 1, 2**63]], dtype=np.uint64)
    assert metrics.rand_index(labels, np.array([[0, 1], [1, 2]])) == 1.0
    near = np.array([[2**63 + 1, 2**63], [2**63, 2**63]], dtype=np.uint64)
    assert metrics.rand_index(near, np.array([[1, 0], [0, 0]])) == 1.0


def test_as_many_regions_as_pixels_need_no_square_table():
    labels = np.arange(100_000).reshape(250, 400)
    assert metrics.covering(labels, labels[::-1]) == 1.0


@given(maps, maps)
def test_aligned_labels_are_the_same_partitions_paired(a, b):
    ours, theirs = metrics.align_labels(a, b)
    assert metrics.rand_index(ours, a) == metrics.rand_index(theirs, b) == 1.0
    regions = len(np.unique(b))
    iou = [np.sum((ours == k) & (theirs == k)) / np.sum((ours == k) | (theirs == k)) for k in range(regions)]
    assert np.mean(iou) == pytest.approx(metrics.mean_iou(a, b))


def test_aligned_labels_mark_ignored_pixels_and_name_regions_that_lie_among_them():
    ours, theirs = metrics.align_labels(np.array([[4, 4, 6, 8]]), np.array([[1, 1, 3, 0]]), ignore=0)
    np.testing.assert_array_equal(ours, [[0, 0, 1, 2]])
    np.testing.assert_array_equal(theirs, [[0, 0, 1, -1]])


@pytest.mark.parametrize("metric", ALL)
def test_arguments_are_named_in_errors(metric):
    good = np.zeros((3, 4), int)
    with pytest.raises(TypeError, match="prediction must hold integer labels, got dtype float64"):
        metric(good.astype(float), good)
    with pytest.raises(ValueError, match=r"prediction must be H×W .* got shape \(1, 3, 4\)"):
        metric(good[None], good)
    with pytest.raises(ValueError, match=r"prediction must be H×W .* got shape \(0, 4\)"):
        metric(good[:0], good[:0])
    with pytest.raises(ValueError, match=r"truth has shape \(4, 3\), but prediction has \(3, 4\)"):
        metric(good, good.T)
    with pytest.raises(TypeError, match=r"truth\[1\] must hold integer labels"):
        metric(good, [good, good * 0.5])
    with pytest.raises(ValueError, match="truth is an empty list"):
        metric(good, [])
    with pytest.raises(ValueError, match="truth is ignored everywhere"):
        metric(good, good, ignore=0)
    with pytest.raises(TypeError, match="ignore must be an integer"):
        metric(good, good, ignore=0.5)
