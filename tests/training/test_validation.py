"""The validation measure: clusters of descriptors against the truth."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from shapetailor.training.validation import GRID, clustered_covering, k_means


def same_partition(first, second):
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    return len(pairs) == len(set(first.tolist())) == len(set(second.tolist()))


@given(st.integers(1, 5), st.integers(0, 10**6))
def test_k_means_finds_clusters_that_are_far_apart(clusters, seed):
    rng = np.random.default_rng(seed)
    member = torch.from_numpy(rng.permutation(np.arange(60) % clusters))
    centres = 10 * torch.eye(5)[:clusters]
    points = centres[member] + torch.from_numpy(rng.normal(0, 0.1, (60, 5))).float()
    assert same_partition(k_means(points, clusters, rng), member)


def test_k_means_of_equal_points_is_defined():
    labels = k_means(torch.ones(10, 3), 3, np.random.default_rng(0))
    assert labels.shape == (10,)


def test_descriptors_that_separate_the_regions_cover_them_exactly():
    truth = torch.arange(3).repeat_interleave(8).expand(24, 24)
    descriptors = torch.nn.functional.one_hot(truth).permute(2, 0, 1).float()
    assert clustered_covering(descriptors, truth) == 1.0


def test_pixels_of_no_region_are_not_judged():
    truth = torch.arange(2).repeat_interleave(8).expand(16, 16).clone()
    descriptors = torch.nn.functional.one_hot(truth).permute(2, 0, 1).float()
    truth[:, 6:9] = -1
    descriptors[:, :, 6:9] = 0.5
    assert clustered_covering(descriptors, truth) == 1.0


def test_constant_descriptors_cover_half_of_two_halves():
    truth = torch.arange(2).repeat_interleave(8).expand(16, 16)
    assert clustered_covering(torch.ones(4, 16, 16), truth) == 0.5


def test_large_images_are_judged_on_a_grid():
    side = 4 * GRID
    truth = torch.arange(2).repeat_interleave(side // 2).expand(side, side)
    descriptors = truth[None].float() + 0.01 * torch.rand(3, side, side)
    assert clustered_covering(descriptors, truth) == 1.0
