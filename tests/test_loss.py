from __future__ import annotations

from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shapetailor.loss import RELATIVE_RIDGE, TEMPERATURE, assignment_loss, region_loss, scatter_loss, separation_loss

LOSSES = [region_loss, scatter_loss, assignment_loss]


def sample(seed, images=2, dimension=3, height=6, width=5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(-1, 4, (images, height, width), generator=generator)
    labels[0].clamp_(max=1)  # images differ in their number of regions
    return torch.randn(images, dimension, height, width, generator=generator, dtype=dtype), labels


def by_region(descriptors, labels):
    """For each image, a list of its regions' descriptors (n, D)."""
    for image, label in zip(descriptors, labels, strict=True):
        yield [image[:, label == value].T for value in label.unique() if value >= 0]


def equation(descriptors, labels):
    """eq:loss, term by term."""
    losses = []
    for regions in by_region(descriptors, labels):
        means = [region.mean(0) for region in regions]
        within = sum(((region - mean) ** 2).sum(1).mean() for region, mean in zip(regions, means, strict=True))
        losses.append(within - sum(((a - b) ** 2).sum() for a, b in permutations(means, 2)))
    return sum(losses) / len(losses)


@given(st.integers(0, 2**31))
def test_region_loss_is_the_equation_term_by_term(seed):
    descriptors, labels = sample(seed)
    torch.testing.assert_close(region_loss(descriptors, labels), equation(descriptors, labels))


def test_region_loss_by_hand():
    labels = torch.tensor([[[10, 10, 77, 77], [10, 10, -5, -5]]])
    descriptors = torch.zeros(1, 2, 2, 4)
    descriptors[0, 0] = torch.tensor([[1.0, 3.0, 7.0, 7.0], [1.0, 3.0, 1e9, -1e9]])
    descriptors[0, 1, 0, 2:] = torch.tensor([3.0, 5.0])
    # a = (2, 0) and (7, 4): scatter 1 and 1, twice the squared distance 25 + 16
    assert region_loss(descriptors, labels).item() == 1 + 1 - 2 * 41


def test_region_loss_of_one_hot_regions_is_its_minimum_for_softmax_descriptors():
    labels = torch.arange(3).repeat_interleave(4).reshape(1, 3, 4)
    descriptors = torch.nn.functional.one_hot(labels, 5).movedim(3, 1).double()
    assert region_loss(descriptors, labels).item() == -3 * 2 * 2


@given(st.integers(0, 2**31))
def test_scatter_loss_is_the_trace_of_whitened_between_scatter(seed):
    descriptors, labels = sample(seed)
    losses = []
    for regions in by_region(descriptors, labels):
        if len(regions) < 2:
            continue
        means = torch.stack([region.mean(0) for region in regions])
        between = torch.cov(means.T, correction=0)
        total = between + sum((r - r.mean(0)).T @ (r - r.mean(0)) / len(r) for r in regions) / len(regions)
        total += (RELATIVE_RIDGE * total.diagonal().mean() + 1e-10) * torch.eye(3)
        losses.append(1 - torch.trace(torch.linalg.inv(total) @ between) / (len(regions) - 1))
    torch.testing.assert_close(scatter_loss(descriptors, labels), sum(losses) / len(losses))


def test_scatter_loss_is_0_for_uniform_regions_and_1_for_equal_means():
    labels = torch.arange(3).repeat_interleave(4).reshape(1, 3, 4)
    uniform = torch.nn.functional.one_hot(labels, 5).movedim(3, 1).float()
    assert scatter_loss(uniform, labels).item() == pytest.approx(0, abs=1e-3)
    alike = torch.tensor([1.0, -1.0, 1.0, -1.0]).expand(1, 2, 3, 4)
    assert scatter_loss(alike, labels).item() == pytest.approx(1, abs=1e-6)


def test_scatter_loss_does_not_see_linear_maps():
    descriptors, labels = sample(0)
    mixed = torch.einsum("ij,bjhw->bihw", torch.randn(3, 3, dtype=torch.float64) + 2 * torch.eye(3), descriptors)
    torch.testing.assert_close(scatter_loss(mixed, labels), scatter_loss(descriptors, labels), rtol=0, atol=1e-2)


@given(st.integers(0, 2**31))
def test_assignment_loss_is_the_cross_entropy_of_distances(seed):
    descriptors, labels = sample(seed)
    losses = []
    for regions in by_region(descriptors, labels):
        means = torch.stack([region.mean(0) for region in regions])
        each = [
            torch.nn.functional.cross_entropy(
                -(torch.cdist(region, means) ** 2) / TEMPERATURE, torch.full((len(region),), i)
            )
            for i, region in enumerate(regions)
        ]
        losses.append(sum(each) / len(each))
    torch.testing.assert_close(assignment_loss(descriptors, labels), sum(losses) / len(losses), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_gradient_equals_finite_differences(loss, seed):
    descriptors, labels = sample(seed, height=4, width=4)
    labels[0, :2] = -1
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), descriptors.requires_grad_(), atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_names_of_labels_and_order_of_pixels_do_not_matter(loss):
    descriptors, labels = sample(1)
    renamed = torch.where(labels < 0, -7, 10**12 - 13 * labels)
    expected = loss(descriptors, labels)
    torch.testing.assert_close(loss(descriptors, renamed), expected)
    torch.testing.assert_close(loss(descriptors, labels.int()), expected)
    torch.testing.assert_close(loss(descriptors.flip(-1), labels.flip(-1)), expected)


@pytest.mark.parametrize("loss", LOSSES)
def test_what_lies_outside_does_not_count_not_even_nan(loss):
    descriptors, labels = sample(2)
    spoilt = torch.where(labels[:, None] < 0, float("nan"), descriptors).requires_grad_()
    value = loss(spoilt, labels)
    torch.testing.assert_close(value, loss(descriptors, labels))
    value.backward()
    assert torch.isfinite(spoilt.grad).all()
    assert not spoilt.grad[(labels[:, None] < 0).expand_as(spoilt)].any()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("labels", [[[-1, -1, -1, -1]], [[3, 3, 3, 3]], [[0, 1, 2, 3]], [[0, 0, 0, 1]]])
def test_missing_single_and_tiny_regions_are_finite_with_finite_gradients(loss, labels):
    for descriptors in (torch.zeros(2, 3, 1, 4), torch.rand(2, 3, 1, 4), torch.full((2, 3, 1, 4), 1e4)):
        descriptors.requires_grad_()
        value = loss(descriptors, torch.tensor([labels, [[0, 0, 1, 1]]]))
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(descriptors.grad).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_no_region_anywhere_costs_nothing(loss):
    descriptors = torch.rand(1, 2, 3, 3, requires_grad=True)
    value = loss(descriptors, torch.full((1, 3, 3), -1))
    value.backward()
    assert value.item() == 0
    assert not descriptors.grad.any()


@pytest.mark.parametrize("loss", LOSSES)
def test_float32_keeps_its_digits_on_a_large_image_far_from_zero(loss):
    torch.manual_seed(0)
    labels = (torch.arange(400) // 150).expand(1, 300, 400)
    descriptors = torch.rand(1, 3, 300, 400, dtype=torch.float64) + 0.3 * labels[:, None] + 30
    descriptors = descriptors.float()
    single, double = loss(descriptors, labels), loss(descriptors.double(), labels)
    assert single.dtype == torch.float32
    assert single.item() == pytest.approx(double.item(), rel=2e-4)


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match="descriptors must be a floating-point"):
        region_loss(torch.zeros(1, 1, 2, 2, dtype=torch.long), torch.zeros(1, 2, 2, dtype=torch.long))
    with pytest.raises(TypeError, match=r"labels must be an integer torch.Tensor, got torch.float32"):
        region_loss(torch.zeros(1, 1, 2, 2), torch.zeros(1, 2, 2))
    with pytest.raises(ValueError, match=r"got \(1, 1, 2, 2\) and \(1, 2, 3\)"):
        region_loss(torch.zeros(1, 1, 2, 2), torch.zeros(1, 2, 3, dtype=torch.long))


def test_separation_is_the_sum_of_scatter_and_assignment():
    torch.manual_seed(0)
    descriptors, labels = torch.randn(3, 5, 6, 7), torch.randint(-1, 3, (3, 6, 7))
    expected = scatter_loss(descriptors, labels) + assignment_loss(descriptors, labels)
    assert torch.equal(separation_loss(descriptors, labels), expected)
