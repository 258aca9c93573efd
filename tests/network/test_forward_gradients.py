"""Three ways to the gradient of eq:loss, and that they agree."""

from __future__ import annotations

import pytest
import torch

from shapetailor.loss import assignment_loss, region_loss
from shapetailor.network.forward_gradients import forward_gradients
from shapetailor.network.stdnn import STDNN, STDNNConfig

LABELS = torch.tensor([[[0, 0, 0, 4, 4, 4], [0, 0, 4, 4, 4, 9], [0, -1, -1, 4, 9, 9], [0, 0, 4, 4, 9, 9]]])


def problem(**options):
    torch.manual_seed(1)
    labels = torch.cat([LABELS, LABELS.flip(1)])
    net = STDNN(STDNNConfig(**{"scales": (1.0, 4.0), "widths": (6, 4, 3), "alpha": 2.0, "tol": 1e-6, **options}))
    return net, net.prepare(torch.rand(2, net.config.image_channels, 4, 6)), labels


def autograd(net, image, labels, loss=region_loss):
    net.zero_grad()
    loss(net(image, labels), labels).backward()
    return {name: parameter.grad.clone() for name, parameter in net.named_parameters()}


def assert_equal(gradients, expected, rtol=1e-4):
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        assert gradient.shape == expected[name].shape, name
        assert (gradient - expected[name]).norm() <= rtol * expected[name].norm(), name


@pytest.mark.parametrize("widths", [(3,), (5, 3), (6, 4, 3), (5, 8, 4, 3)])
def test_forward_propagation_equals_back_propagation(widths):
    net, image, labels = problem(widths=widths)
    assert_equal(forward_gradients(net, image, labels), autograd(net, image, labels))


@pytest.mark.parametrize("widths", [(3,), (5, 3), (6, 4, 3)])
def test_the_explicit_inverse_equals_the_iterative_solve(widths):
    net, image, labels = problem(widths=widths)
    implicit = autograd(net, image, labels)
    net.backend = "dense"
    explicit = autograd(net, image, labels)
    assert_equal(explicit, implicit)
    assert_equal(forward_gradients(net, image, labels), explicit)


@pytest.mark.parametrize(
    "options",
    [
        {"derivatives": True},
        {"alpha": (0.5, 3.0)},
        {"pde": "heat"},
        {"premix": 3},
        {"stride": 2, "head": "unit"},
        {"features": "rich", "image_channels": 1},
    ],
)
def test_forward_propagation_serves_every_architecture(options):
    net, image, labels = problem(**options)
    assert_equal(forward_gradients(net, image, labels), autograd(net, image, labels))


def test_other_losses_and_other_chunks_give_the_same():
    net, image, labels = problem()
    expected = autograd(net, image, labels, assignment_loss)
    assert_equal(forward_gradients(net, image, labels, assignment_loss, at_once=7), expected)


def test_it_leaves_no_graph_and_no_gradient_behind():
    net, image, labels = problem()
    gradients = forward_gradients(net, image, labels)
    assert all(parameter.grad is None for parameter in net.parameters())
    assert not any(gradient.requires_grad for gradient in gradients.values())


def test_learnable_alphas_are_refused():
    net, image, labels = problem(learnable_alphas=True)
    with pytest.raises(ValueError, match="fixed alphas"):
        forward_gradients(net, image, labels)
    with pytest.raises(ValueError, match="at_once must be at least 1"):
        forward_gradients(problem()[0], image, labels, at_once=0)
