from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shapetailor.network.pooling import Pooling


def equal_labels(coarse, expected):
    """Whether two label maps are the same up to names, −1 staying −1."""
    pairs = set(zip(coarse.flatten().tolist(), torch.tensor(expected).flatten().tolist(), strict=True))
    return len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs) and all(
        (a < 0) == (b < 0) for a, b in pairs
    )


def test_a_block_takes_the_label_of_most_of_its_pixels_and_their_mean():
    labels = torch.tensor([[[7, 7, 3, 3], [7, 3, 3, 3]]])
    x = torch.tensor([[[[1.0, 2.0, 10.0, 10.0], [6.0, 99.0, 10.0, 30.0]]]])
    pooling = Pooling(labels, 2)
    assert equal_labels(pooling.labels, [[[7, 3]]])
    assert pooling.pool(x).tolist() == [[[[3.0, 15.0]]]]


def test_ties_go_to_the_smallest_label_and_outside_only_wins_alone():
    labels = torch.tensor([[[9, 4, -1, -1, -1, -1], [9, 4, -1, 5, -1, -1]]])
    assert equal_labels(Pooling(labels, 2).labels[:, :1], [[[4, 5, -1]]])


def test_values_come_back_to_members_and_spread_to_the_others_of_their_label():
    labels = torch.tensor([[[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]]])
    back = Pooling(labels, 2).unpool(torch.tensor([[[[5.0, 6.0, 7.0]]]]))[0, 0]
    assert back[0].tolist() == [5.0, 5.0, 6.0, 7.0, 7.0, 7.0]  # the tied block in the middle is of label 0


def test_spreading_averages_neighbours_of_the_label_only():
    labels = torch.zeros(1, 4, 4, dtype=torch.long)
    labels[0, :2, :2] = 1
    labels[0, 1, 1] = 0
    back = Pooling(labels, 2).unpool(torch.tensor([[[[10.0, 20.0], [30.0, 40.0]]]]))[0, 0]
    assert back[:2, :2].tolist() == [[10.0, 10.0], [10.0, 25.0]]


def test_spreading_goes_on_from_what_it_filled():
    labels = torch.ones(1, 4, 8, dtype=torch.long)
    labels[0, 0, :4] = 0
    labels[0, :, 4:] = 0
    back = Pooling(labels, 4).unpool(torch.tensor([[[[3.0, 8.0]]]]))[0, 0]
    assert back[0].tolist() == [8.0] * 8
    assert back[1].tolist() == [3.0] * 4 + [8.0] * 4


def test_a_region_without_a_block_has_a_cell_with_its_mean_and_no_neighbours():
    labels = torch.zeros(2, 4, 4, dtype=torch.long)
    labels[0, 0, 1], labels[0, 2, 2], labels[0, 3, 3] = 5, 6, 5
    x = torch.arange(32.0).reshape(2, 1, 4, 4)
    pooling = Pooling(labels, 2)
    assert pooling.labels.shape == (2, 3, 2)
    assert equal_labels(pooling.labels, [[[0, 0], [0, 0], [5, 6]], [[0, 0], [0, 0], [-1, -1]]])
    pooled = pooling.pool(x)
    assert pooled[0, 0, 2].tolist() == [8.0, 10.0]  # the mean of 1 and 15; 10
    back = pooling.unpool(pooled)
    assert back[0, 0, 0, 1] == back[0, 0, 3, 3] == 8.0
    assert back[0, 0, 2, 2] == 10.0


@pytest.mark.parametrize("labels", [torch.full((1, 5, 5), -3), torch.arange(25).reshape(1, 5, 5)])
def test_no_region_at_all_and_a_region_for_each_pixel(labels):
    x = torch.rand(1, 2, 5, 5)
    pooling = Pooling(labels, 3)
    back = pooling.unpool(pooling.pool(x))
    assert torch.equal(torch.where(labels[:, None] >= 0, back, 0), torch.where(labels[:, None] >= 0, x, 0))


@given(st.integers(0, 2**31), st.integers(1, 13), st.integers(1, 13), st.integers(2, 5), st.integers(1, 9))
def test_pooling_there_and_back_keeps_regions_apart(seed, height, width, stride, count):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(-1, count, (2, height, width), generator=generator)
    labels = labels.repeat_interleave(3, 2)[:, :, :width]
    # with the label itself as the value every mean is a mean of equal numbers
    value = labels[:, None].double()
    pooling = Pooling(labels, stride)
    back = pooling.unpool(pooling.pool(value))
    inside = labels[:, None] >= 0
    torch.testing.assert_close(back[inside], value[inside])
    assert torch.equal(
        pooling.labels[:, : -(-height // stride)] >= 0, pooling.pool(inside.double())[:, 0, : -(-height // stride)] > 0
    )


@given(st.integers(0, 2**31))
def test_gradient_of_there_and_back_is_exact(seed):
    torch.manual_seed(seed)
    labels = torch.randint(-1, 3, (1, 5, 4))
    pooling = Pooling(labels, 2)
    x = torch.rand(1, 1, 5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: pooling.unpool(pooling.pool(x).square()), x)


@given(st.integers(0, 2**31), st.integers(1, 13), st.integers(1, 13), st.integers(2, 5), st.integers(1, 9))
def test_a_sample_of_a_map_that_is_constant_in_regions_is_its_mean(seed, height, width, stride, count):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(-1, count, (2, height, width), generator=generator)
    x = torch.where(labels >= 0, 2.0**labels, float("nan"))[:, None]
    pooling = Pooling(labels, stride)
    pooled = pooling.pool(torch.where(labels[:, None] >= 0, x, 0))
    assert torch.equal(pooling.sample(x), pooled)


def test_rows_are_the_values_of_pixels():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(-1, 4, (2, 11, 14), generator=generator)
    pooling = Pooling(labels, 4)
    y = torch.rand(2, 3, *pooling.labels.shape[1:], generator=generator)
    rows = pooling.rows(y)
    assert torch.equal(rows[pooling.row_of_pixel].movedim(3, 1), pooling.unpool(y))
    assert len(rows) < labels.numel() + pooling.labels.numel()
