"""Starting regions: known clusters are found, by every start, deterministically, and turn with the image."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter
from sklearn.cluster import KMeans

from gallery import same_partition
from shapetailor.clustering import kmeans, normalised_cut
from shapetailor.metrics import covering
from shapetailor.segmentation.region_count import Cut, agreements, auto_start, merge_alike
from shapetailor.segmentation.starts import (
    SIGMA2,
    assign,
    block_means,
    kmeans_start,
    ncut_start,
    own_metric,
    reassigned,
    region_means,
    scribble_start,
    spread,
)

STARTS = [kmeans_start, ncut_start]


def stripes(regions, side=64):
    """Return a map of vertical stripes of unequal width."""
    edges = np.cumsum(np.linspace(1, 2, regions))
    return np.tile(np.searchsorted(edges / edges[-1], (np.arange(side) + 0.5) / side), (side, 1))


def descriptors_of(labels, noise, seed, dimensions=12):
    """Return unit vectors, one a region, with smooth noise, as smoothed channels have it."""
    rng = np.random.default_rng(seed)
    centres, _ = np.linalg.qr(rng.standard_normal((dimensions, dimensions)))
    fields = gaussian_filter(rng.standard_normal((dimensions, *labels.shape)), (0, 2, 2))
    return (np.moveaxis(centres[labels], -1, 0) + noise * fields / fields.std()).astype(np.float32)


@given(st.integers(0, 1000))
def test_means_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    descriptors = rng.standard_normal((3, 6, 7)) + 10.0
    labels = rng.choice([-1, 0, 2], (6, 7))
    means = region_means(descriptors, labels, 4)
    assert means.shape == (4, 3)
    assert np.isnan(means[[1, 3]]).all()
    for number in (0, 2):
        points = descriptors[:, labels == number]
        if points.size:
            np.testing.assert_allclose(means[number], points.mean(axis=1))


@given(st.integers(0, 1000))
def test_assignment_is_to_the_nearest_mean_that_exists(seed):
    rng = np.random.default_rng(seed)
    descriptors, means = rng.standard_normal((3, 6, 7)) + 50.0, rng.standard_normal((4, 3)) + 50.0
    means[2] = np.nan
    distance = np.square(descriptors[None] - means[:, :, None, None]).sum(axis=1)
    np.testing.assert_array_equal(assign(descriptors, means), np.nanargmin(distance, axis=0))


def test_assignment_far_from_the_origin_keeps_its_digits():
    descriptors = np.array([[[1000.0, 1000.015, 1000.04]]], dtype=np.float32)
    np.testing.assert_array_equal(assign(descriptors, np.array([[1000.0], [1000.04]])), [[0, 0, 1]])


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("regions", [1, 2, 3, 5])
def test_clear_regions_are_found(start, regions):
    labels = stripes(regions)
    found = start(descriptors_of(labels, 0.1, seed=regions), regions, np.random.default_rng(0))
    assert np.unique(found).tolist() == list(range(regions))
    assert same_partition(found, labels)


def test_kmeans_is_as_low_as_scikit_learns():
    points = np.random.default_rng(3).standard_normal((400, 3))
    found = kmeans(points, 5, np.random.default_rng(0))
    energy = sum(np.square(each - each.mean(0)).sum() for each in (points[found == i] for i in range(5)))
    assert energy <= 1.01 * KMeans(5, n_init=20, random_state=0).fit(points).inertia_


@pytest.mark.parametrize("start", STARTS)
def test_same_seed_same_start(start):
    descriptors = np.random.default_rng(5).standard_normal((4, 40, 40)).astype(np.float32)
    first, second, other = (start(descriptors, 4, np.random.default_rng(seed)) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


@pytest.mark.parametrize("start", [*STARTS, lambda descriptors, _, rng: auto_start(descriptors, 8, rng)])
def test_start_turns_with_the_image(start):
    descriptors = descriptors_of(stripes(3, side=96)[:50], noise=0.4, seed=2)
    labels = start(descriptors, 3, np.random.default_rng(0))
    for turn in (lambda a: np.rot90(a, axes=(-2, -1)), lambda a: a[..., ::-1], lambda a: a.swapaxes(-2, -1)):
        turned = start(np.ascontiguousarray(turn(descriptors)), 3, np.random.default_rng(0))
        assert covering(turned, np.ascontiguousarray(turn(labels))) > 0.999
        assert (turned == turn(labels)).mean() > 0.999


def test_normalised_cut_finds_a_ring_around_a_disk():
    turn = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    points = np.concatenate([np.stack([np.cos(turn), np.sin(turn)], axis=1), np.zeros((200, 2))])
    points += 0.02 * np.random.default_rng(0).standard_normal(points.shape)
    truth = (np.arange(500) >= 300).astype(np.int64)
    found = normalised_cut(points, 2, np.random.default_rng(0), sigma2=0.02)
    assert same_partition(found[None], truth[None])
    assert not same_partition(kmeans(points, 2, np.random.default_rng(0))[None], truth[None])


@pytest.mark.parametrize("start", STARTS)
def test_more_regions_than_colours_gives_the_colours(start):
    descriptors = descriptors_of(stripes(2), 0.0, seed=0)
    assert same_partition(start(descriptors, 5, np.random.default_rng(0)), stripes(2))


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (20, 30)])
def test_one_colour_is_one_region(start, shape):
    rounding = 1e-7 * np.random.default_rng(0).standard_normal((4, *shape))
    assert not start((1.0 + rounding).astype(np.float32), 3, np.random.default_rng(0)).any()


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    ("descriptors", "regions", "words"),
    [
        (np.zeros((4, 4)), 2, r"\(D, H, W\)"),
        (np.full((1, 2, 2), np.nan), 2, "finite"),
        (np.zeros((1, 2, 2)), 0, "regions must be at least 1"),
    ],
)
def test_unusable_arguments_are_named(start, descriptors, regions, words):
    with pytest.raises(ValueError, match=words):
        start(descriptors, regions, np.random.default_rng(0))


def stretched(seed, apart, along):
    """Two regions that are `apart` in one direction of the descriptors, and vary by `along` in another."""
    labels = np.tile(np.arange(64) >= 26, (64, 1)).astype(np.int64)
    fields = gaussian_filter(np.random.default_rng(seed).standard_normal((6, 64, 64)), (0, 4, 4))
    fields *= 0.03 / fields.std()
    fields[1] *= along / 0.03
    fields[0] += apart * labels
    return fields.astype(np.float32), labels


@pytest.mark.parametrize(("seed", "apart", "along"), [(0, 0.2, 0.1), (2, 0.25, 0.15), (4, 0.25, 0.15)])
def test_the_second_cut_sees_what_stretched_regions_hide_from_the_first(seed, apart, along):
    descriptors, labels = stretched(seed, apart, along)
    points = block_means(descriptors, 2, 32)
    once = spread(descriptors, points, normalised_cut(points, 2, np.random.default_rng(0), SIGMA2))
    twice = ncut_start(descriptors, 2, np.random.default_rng(0))
    assert covering(once, labels) < 0.9
    assert covering(twice, labels) > 0.96


def test_a_metric_turns_with_the_descriptors_and_leaves_round_and_flat_clusters_alone():
    rng = np.random.default_rng(0)
    clusters = np.repeat([0, 1, 2], 400)
    centres = 5 * rng.standard_normal((3, 4))
    spare = rng.standard_normal((1200, 4)) * [0.1, 1.0, 0.3, 0.5]
    turn, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    found = own_metric(centres[clusters] + spare, clusters)
    np.testing.assert_allclose(
        own_metric((centres[clusters] + spare) @ turn, clusters), turn.T @ found @ turn, atol=1e-9
    )
    lengths = np.sqrt(np.diag(found @ found))
    assert np.argsort(lengths).tolist() == [1, 3, 2, 0]  # what varies least counts most
    ball = np.concatenate([np.eye(4), -np.eye(4)])
    round_ones = np.concatenate([centre + ball for centre in centres])
    np.testing.assert_allclose(own_metric(round_ones, np.repeat([0, 1, 2], 8)), np.eye(4), atol=1e-12)
    np.testing.assert_array_equal(own_metric(centres[clusters], clusters), np.eye(4))


def test_pixels_go_to_the_nearest_mean_in_the_regions_metric_and_no_region_is_lost():
    descriptors, labels = stretched(1, 0.3, 0.3)
    rough = (descriptors[0] + 0.4 * descriptors[1] > 0.15).astype(np.int64)
    rough[:3] = -1
    found = reassigned(descriptors, rough)
    assert (found[:3] == -1).all()
    plain = assign(descriptors, region_means(descriptors, rough))
    assert (found == labels)[3:].mean() > (plain == labels)[3:].mean() + 0.05
    missed = np.full((64, 64), -1)
    missed[1::2, 1::2] = 0  # none of the pixels that a metric is made of
    np.testing.assert_array_equal(reassigned(descriptors, missed), missed)
    same = np.zeros((2, 8, 8), np.float32)
    stripe = np.arange(8) // 4 * np.ones((8, 1), np.int64)
    np.testing.assert_array_equal(reassigned(same, stripe), stripe)


def test_scribbles_spread_to_what_is_alike_and_stay():
    labels = stripes(3)
    scribbles = np.full(labels.shape, -1)
    for number in range(3):
        scribbles[5, np.flatnonzero(labels[5] == number)[2:6]] = number
    scribbles[40, 0] = 2  # against all likeness
    expected = labels.copy()
    expected[40, 0] = 2
    np.testing.assert_array_equal(scribble_start(descriptors_of(labels, 0.05, seed=1), scribbles), expected)


def count_of(descriptors, most, rng):
    return int(auto_start(descriptors, most, rng).max()) + 1


@pytest.mark.parametrize("regions", range(1, 7))
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.1])
def test_the_number_of_clear_regions_is_found(regions, noise):
    labels = stripes(regions)
    for seed in range(3):
        found = auto_start(descriptors_of(labels, noise, seed), 8, np.random.default_rng(seed))
        assert found.max() + 1 == regions
        assert same_partition(found, labels)


def cut_into(*columns):
    """Return a cut whose columns have these labels; nothing else of it matters."""
    return Cut(np.empty((1, 1)), np.tile(columns, (3, 1)), np.empty(0))


def test_agreement_is_the_covering_by_a_cut_drawn_from_all():
    halves, one_piece_off = cut_into(-1, 0, 0, 0, 0, 1, 1, 1, 1), cut_into(-1, 0, 0, 0, 0, 1, 1, 1, 2)
    two_covered_by_three, three_covered_by_two = 4 / 8 + 4 / 8 * 3 / 4, 4 / 8 + 3 / 8 * 3 / 4 + 1 / 8 * 1 / 4
    np.testing.assert_allclose(
        agreements([halves, one_piece_off], np.array([0.25, 0.75])),
        [0.25 + 0.75 * two_covered_by_three, 0.25 * three_covered_by_two + 0.75],
        rtol=1e-5,
    )


def test_the_cut_between_two_others_agrees_more_than_a_likelier_one():
    cuts = [cut_into(*(np.arange(8) * parts // 8)) for parts in (2, 4, 8)]
    assert agreements(cuts, np.array([0.36, 0.32, 0.32])).argmax() == 1


@pytest.mark.parametrize("regions", [2, 3, 4])
def test_transitions_at_boundaries_are_no_regions(regions):
    for seed in range(3):
        descriptors = gaussian_filter(descriptors_of(stripes(regions, side=128), 0.02, seed), (0, 1.0, 1.0))
        assert count_of(descriptors, 8, np.random.default_rng(seed)) == regions


def test_the_descriptors_unit_does_not_matter_for_the_number():
    descriptors = descriptors_of(stripes(3), 0.1, seed=0)
    assert [count_of(scale * descriptors, 8, np.random.default_rng(0)) for scale in (1e-3, 1.0, 1e3)] == [3, 3, 3]


def test_a_gradual_change_is_one_region():
    ramp = np.tile(np.linspace(0, 1, 64, dtype=np.float32), (2, 64, 1))
    assert count_of(ramp, 8, np.random.default_rng(0)) == 1


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (30, 40)])
def test_one_colour_counts_one(shape):
    assert count_of(np.ones((5, *shape), dtype=np.float32), 8, np.random.default_rng(0)) == 1


def test_merged_regions_keep_the_larger_ones_number():
    truth = stripes(2)
    labels = np.where(truth == 1, 5, np.arange(64) % 8 > 5)  # region 0 is mixed from 0 and, smaller, 1
    merged = merge_alike(descriptors_of(truth, 0.1, seed=0), labels)
    np.testing.assert_array_equal(merged, np.where(truth == 1, 5, 0))


def test_pixels_in_no_region_stay_so_when_regions_merge():
    labels = np.array([[0, 1, -1, 0, 1, -1]])
    merged = merge_alike(np.array([[[0.0, 0.1, 9.0, 0.1, 0.0, 9.0]]]), labels)
    np.testing.assert_array_equal(merged, [[0, 0, -1, 0, 0, -1]])
