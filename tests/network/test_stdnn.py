from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapetailor.loss import region_loss
from shapetailor.network.layer import Layer
from shapetailor.network.region_grid import Domain
from shapetailor.network.stdnn import STDNN, STDNNConfig

SMALL = {"widths": (6, 4), "scales": (2.0, 6.0), "alpha": 2.0}
#: Every option of the architecture, and the recipe that uses most of them together.
OPTIONS = {
    "paper": {},
    "gray": {"image_channels": 1},
    "channels": {"image_channels": 5},
    "deep": {"widths": (6, 7, 5, 4, 3)},
    "derivatives": {"derivatives": True},
    "learnable": {"learnable_alphas": True},
    "groups": {"alpha": (0.3, 1.2, 4.0)},
    "unit": {"head": "unit"},
    "heat": {"pde": "heat"},
    "premix": {"premix": 3},
    "stride": {"stride": 3},
    "large alpha": {"alpha": 700.0, "scales": (300.0, 900.0)},
    "rich": {"features": "rich"},
    "rich gray": {"features": "rich", "image_channels": 1},
    "recipe": {"features": "rich", "premix": 5, "stride": 2, "alpha": (0.3, 4.0), "derivatives": True, "head": "unit"},
}


def network(seed=0, **options):
    torch.manual_seed(seed)
    return STDNN(STDNNConfig(**{**SMALL, **options}))


def regions(seed, images=1, height=13, width=11):
    """Blobs with ragged edges, tiny regions, and pixels outside of all."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randint(-1, 3, (images, 4, 4), generator=generator)
    labels = coarse.repeat_interleave(4, 1).repeat_interleave(3, 2)[:, :height, :width].clone()
    noise = torch.rand(labels.shape, generator=generator) < 0.1
    return torch.where(noise, torch.randint(-1, 5, labels.shape, generator=generator), labels)


def pictures(net, labels, seed=0):
    torch.manual_seed(seed)
    images, height, width = labels.shape
    return net.prepare(torch.rand(images, net.config.image_channels, height, width).to(net.mean.dtype))


def test_the_default_is_the_papers_with_8900_weights():
    net = STDNN()
    assert [tuple(stage.weight.shape) for stage in net.stages] == [(100, 40), (40, 100), (20, 40), (5, 20)]
    assert sum(p.numel() for name, p in net.named_parameters() if name.endswith("weight")) == 8900
    assert sum(p.numel() for p in net.parameters()) == 8900 + 165
    labels = regions(0)
    descriptors = net(pictures(net, labels), labels)
    torch.testing.assert_close(descriptors.sum(1), (labels >= 0).float())


def test_the_paper_network_written_out_in_matrices():
    """Alg. 1 by explicit inverses: features at five scales, then linear, ReLU, A⁻¹, ..., softmax."""
    torch.manual_seed(0)
    net = STDNN(STDNNConfig(tol=1e-12)).double()
    labels = regions(4, height=6, width=5)
    image = pictures(net, labels)
    domain = Domain(labels, torch.float64)
    unit = torch.eye(30, dtype=torch.float64).reshape(1, 30, 6, 5)

    def inverse(alpha):
        across, down = (
            (labels[:, :, 1:] == labels[:, :, :-1]) & (labels[:, :, 1:] >= 0),
            (labels[:, 1:] == labels[:, :-1]) & (labels[:, 1:] >= 0),
        )
        laplace = torch.zeros(30, 30, dtype=torch.float64)
        number = torch.arange(30).reshape(6, 5)
        pairs = [*zip(number[:, 1:][across[0]], number[:, :-1][across[0]], strict=True)]
        pairs += zip(number[1:][down[0]], number[:-1][down[0]], strict=True)
        for p, q in pairs:
            laplace[p, p] += 1
            laplace[q, q] += 1
            laplace[p, q] -= 1
            laplace[q, p] -= 1
        return torch.linalg.inv(unit.reshape(30, 30) + alpha * laplace)

    inside = (labels >= 0).flatten()
    gray = (image * torch.tensor([0.299, 0.587, 0.114]).double()[:, None, None]).sum(1, keepdim=True)
    gradients = [domain.derivative(gray, angle).abs() for angle in range(4)]
    channels = torch.cat([image, gray, *gradients], 1).reshape(8, 30) * inside
    x = torch.cat([channels @ inverse(alpha) for alpha in (5, 10, 15, 20, 25)])
    layers = net.stages
    for layer in layers[:-1]:
        x = (layer.weight @ x + layer.bias[:, None]).relu() * inside @ inverse(5)
    expected = (layers[-1].weight @ x + layers[-1].bias[:, None]).softmax(0) * inside
    torch.testing.assert_close(net(image, labels).reshape(5, 30), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=6)
@given(seed=st.integers(0, 2**31))
def test_descriptors_of_a_region_do_not_change_with_the_rest_of_the_image(name, seed):
    net, labels = network(**OPTIONS[name]), regions(seed)
    net.set_statistics(torch.randn_like(net.mean), 0.5 + torch.rand_like(net.std))
    image = pictures(net, labels, seed)
    kept = net(image, labels)
    for label in labels.unique():
        mine = labels == label
        other = torch.where(mine[:, None], image, 100 * torch.randn_like(image))
        assert torch.equal(net(other, labels)[:, :, mine[0]], kept[:, :, mine[0]])


@pytest.mark.parametrize("backend", ["torch", "dense", "chebyshev", "multigrid"])
def test_descriptors_do_not_leak_whatever_the_solver(backend):
    net, labels = network(), regions(20)
    net.backend = backend
    image = pictures(net, labels)
    mine = labels == 1
    other = torch.where(mine[:, None], image, 100 * torch.randn_like(image))
    assert torch.equal(net(other, labels)[:, :, mine[0]], net(image, labels)[:, :, mine[0]])


@pytest.mark.parametrize("name", OPTIONS)
def test_descriptors_are_zero_outside_and_blind_to_what_is_there(name):
    net, labels = network(**OPTIONS[name]), regions(1, images=2)
    image = pictures(net, labels)
    outside = (labels < 0)[:, None]
    descriptors = net(image, labels)
    assert descriptors.shape == (2, net.config.dimension, 13, 11)
    assert not descriptors.masked_select(outside).any()
    assert torch.equal(net(torch.where(outside, float("nan"), image), labels), descriptors)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_image_has_the_same_descriptors_alone_and_in_a_batch(name):
    net, labels = network(**OPTIONS[name]).double(), regions(2, images=2)
    image = pictures(net, labels)
    both, second = net(image, labels), net(image[1:], labels[1:])
    torch.testing.assert_close(both[1:], second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", OPTIONS)
def test_gradients_reach_every_parameter_and_are_finite(name):
    net, labels = network(**OPTIONS[name]), regions(3)
    image = torch.where(labels[:, None] < 0, float("nan"), pictures(net, labels))
    region_loss(net(image, labels), labels).backward()
    for key, parameter in net.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        assert parameter.grad.any() or key.endswith("0.bias"), key


@pytest.mark.parametrize("name", ["paper", "derivatives", "groups", "heat", "stride", "learnable"])
def test_gradients_equal_finite_differences(name):
    net, labels = network(**{**OPTIONS[name], "tol": 1e-12, "scales": (1.0,), "widths": (4, 3)}).double(), regions(5)
    image = pictures(net, labels)
    region_loss(net(image, labels), labels).backward()
    for key, parameter in net.named_parameters():
        direction = torch.randn_like(parameter)
        direction /= direction.norm()
        ends = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                parameter += step * direction
                ends.append(float(region_loss(net(image, labels), labels)))
                parameter -= step * direction
        expected = (ends[0] - ends[1]) / 2e-6
        assert float((parameter.grad * direction).sum()) == pytest.approx(expected, rel=1e-3, abs=1e-8), key


@pytest.mark.parametrize("derivatives", [False, True])
@pytest.mark.parametrize("alphas", [(3.0,), (0.5, 2.0, 30.0)])
@pytest.mark.parametrize("pde", ["poisson", "heat"])
@pytest.mark.parametrize(("inputs", "outputs"), [(7, 4), (3, 8)])
def test_solving_before_or_after_the_linear_map_is_the_same(inputs, outputs, pde, alphas, derivatives):
    torch.manual_seed(0)
    layer = Layer(inputs, outputs, alphas, derivatives=derivatives).double()
    domain = Domain(regions(6, images=2), torch.float64, tol=1e-12, pde=pde)
    x = torch.where(domain.inside[:, None], torch.randn(2, inputs, 13, 11, dtype=torch.float64), 0)
    found = []
    for layer.maps_first in (False, True):
        found.append(layer(x, domain))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_the_smaller_side_is_solved():
    net, labels = STDNN(), regions(0)
    _, solutions = net.warm(pictures(net, labels), labels)
    assert [solution[0, ..., 0, 0].numel() for solution in solutions] == [40, 40, 20, 5]


@pytest.mark.parametrize("turn", [lambda x: x.rot90(1, (-2, -1)), lambda x: x.flip(-1), lambda x: x.flip(-2)])
def test_descriptors_turn_and_flip_with_the_picture_when_gradients_count_alike(turn):
    net, labels = network(tol=1e-12).double(), regions(7)
    with torch.no_grad():  # the same weight for all four oriented gradients at a scale
        gradients = net.stages[0].weight.unflatten(1, (2, 8))[:, :, 4:]
        gradients.copy_(gradients.mean(2, keepdim=True).expand_as(gradients))
    image = pictures(net, labels)
    torch.testing.assert_close(net(turn(image), turn(labels)), turn(net(image, labels)), rtol=1e-9, atol=1e-9)


def test_unit_descriptors_have_norm_one_and_a_finite_gradient_at_zero():
    net, labels = network(head="unit", stride=2), regions(8)
    norm = net(pictures(net, labels), labels).norm(dim=1)
    torch.testing.assert_close(norm, (labels >= 0).float(), rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        net.stages[-1].weight.zero_()
    net(pictures(net, labels), labels).sum().backward()
    assert torch.isfinite(net.stages[-1].weight.grad).all()


def test_with_blocks_a_uniform_region_has_one_descriptor_however_small_or_ragged():
    net, labels = network(stride=4, features="rich"), regions(9)
    image = pictures(net, labels)
    image[:, :3] = labels[:, None].clamp_min(0) / 5  # each region is of one colour
    descriptors = net(image, labels)
    for label in range(5):
        mine = descriptors[0][:, labels[0] == label]
        torch.testing.assert_close(mine, mine[:, :1].expand_as(mine), rtol=1e-3, atol=1e-4)


def test_statistics_are_those_of_the_channels_inside_regions():
    net, labels = network(), regions(10, images=2)
    image = pictures(net, labels)
    net.fit_statistics([(image[:1], labels[:1]), (image[1:], labels[1:])])
    grid = net.grid(image, labels)
    x = net.standardise(net.channels(image, grid)).movedim(1, 0)[:, labels >= 0]
    torch.testing.assert_close(x.mean(1), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std(1, correction=0), torch.ones(8), atol=1e-5, rtol=0)
    assert {"mean", "std"} <= set(net.state_dict())


def test_a_channel_that_never_varies_is_not_blown_up():
    net, labels = network(), torch.zeros(1, 5, 5, dtype=torch.long)
    net.fit_statistics([(torch.full((1, 3, 5, 5), 0.7), labels)])
    assert torch.equal(net.std, torch.ones(8))


@pytest.mark.parametrize("learnable", [False, True])
def test_rescaled_keeps_weights_and_multiplies_alphas(learnable):
    net, labels = network(learnable_alphas=learnable, resolution=32, alpha_rule="square"), regions(11)
    other = net.rescaled(64)
    assert other.config == net.config.at_resolution(64)
    for mine, theirs in zip(net.stages, other.stages, strict=True):
        torch.testing.assert_close(theirs.alphas, 4 * mine.alphas)
        assert torch.equal(theirs.weight, mine.weight)
    image = pictures(net, labels)
    assert not torch.equal(net(image, labels), other(image, labels))
    torch.testing.assert_close(other.rescaled(32)(image, labels), net(image, labels), rtol=1e-3, atol=1e-4)


def test_state_dict_restores_a_network():
    net, labels = network(**OPTIONS["recipe"], learnable_alphas=True), regions(12)
    image = pictures(net, labels)
    net.fit_statistics([(image, labels)])
    other = STDNN(STDNNConfig.from_dict(net.config.to_dict()))
    other.load_state_dict(net.state_dict())
    assert torch.equal(other(image, labels), net(image, labels))


def test_wrong_arguments_are_named():
    net, labels = network(), regions(0)
    image = pictures(net, labels)
    with pytest.raises(ValueError, match=r"image must have the shape \(B, 3, H, W\)"):
        net(image[:, :2], labels)
    with pytest.raises(TypeError, match=r"image must be torch.float32 .* got torch.float64"):
        net(image.double(), labels)
    with pytest.raises(TypeError, match="labels must be an integer"):
        net(image, labels.float())
    with pytest.raises(ValueError, match=r"labels must have the shape \(B, H, W\)"):
        net(image, labels[:, 1:])
    with pytest.raises(ValueError, match="image must have 3 channels"):
        net.prepare(torch.rand(1, 1, 5, 5))
    with pytest.raises(ValueError, match="mean must be 8 finite numbers"):
        net.set_statistics(torch.zeros(3), torch.ones(3))
    with pytest.raises(ValueError, match="at least one pixel"):
        net.fit_statistics([])


@pytest.mark.parametrize("name", OPTIONS)
def test_compact_descriptors_are_those_of_the_pixels(name):
    net, labels = network(**OPTIONS[name]), regions(3, images=2)
    image = pictures(net, labels)
    rows, row_of_pixel = net.compact(image, labels)
    pixels = torch.where(labels[:, None] >= 0, rows[row_of_pixel].movedim(3, 1), 0)
    torch.testing.assert_close(pixels, net(image, labels), rtol=1e-6, atol=1e-6)
