"""Gradients by forward propagation of weight derivatives (the appendix "Alternative Training Method").

Back-propagation keeps every layer's output. Here a layer's derivative in one of its weights, which is an image, is sent
forward through the rest of the network, and nothing is kept. With ``z = W·T[x] + b`` and ``x⁺ = ReLU(z)``::

    ∂z_k/∂w_kj = T[x]_j          ∂z_k/∂b_k = 1
    δx⁺ = ReLU'(z) ⊙ δz          δz of the next layer = W·T[δx⁺]

and at the end ``dE/dw = ⟨∂E/∂z_m, δz_m⟩``. Memory does not depend on the depth, but each weight costs a pass through
all later layers: for checks, and for networks of a few layers on large images.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.func import vmap

from ..loss import region_loss
from .layer import Layer
from .region_grid import Domain
from .stdnn import STDNN, Grid

Loss = Callable[[Tensor, Tensor], Tensor]


@torch.no_grad()
def forward_gradients(
    net: STDNN, image: Tensor, labels: Tensor, loss: Loss = region_loss, at_once: int = 64
) -> dict[str, Tensor]:
    """Compute the gradient of ``loss(net(image, labels), labels)`` without back-propagation.

    The network must have fixed alphas. `at_once` derivatives are sent forward together; memory grows with it. Returns
    the gradient of every weight and bias by the names of ``net.named_parameters()``.
    """
    if net.config.learnable_alphas:
        raise ValueError("forward_gradients takes networks with fixed alphas; this one has learnable_alphas=True")
    if at_once < 1:
        raise ValueError(f"at_once must be at least 1, got {at_once}")
    grid = net.grid(image, labels)
    x = net.standardise(net.channels(image, grid))
    target = _output_gradient(net, x, grid, labels, loss)
    gradients: dict[int, Tensor] = {}
    for depth, stage in enumerate(net.stages):
        z = stage(x, grid.layers)
        deltas = _derivatives(stage, x, grid.layers, at_once)
        parts = [_propagate(delta, z, net.stages[depth + 1 :], target, grid.layers) for delta in deltas]
        values = torch.cat(parts).unflatten(0, (stage.outputs, -1))
        gradients[id(stage.weight)], gradients[id(stage.bias)] = values[:, :-1], values[:, -1]
        x = z.relu()
    return {name: gradients[id(parameter)] for name, parameter in net.named_parameters()}


def _output_gradient(net: STDNN, x: Tensor, grid: Grid, labels: Tensor, loss: Loss) -> Tensor:
    """Return ∂E/∂z of the last layer."""
    for stage in net.stages[:-1]:
        x = stage(x, grid.layers).relu()
    z = net.stages[-1](x, grid.layers)
    with torch.enable_grad():
        z.requires_grad_()
        (gradient,) = torch.autograd.grad(loss(net.finish(z, grid), labels), z)
    return torch.as_tensor(gradient)


def _derivatives(stage: Layer, x: Tensor, domain: Domain, at_once: int) -> Iterator[Tensor]:
    """Yield ∂z/∂w_kj, and last for each k ∂z/∂b_k, as (at_once, B, outputs, H, W)."""
    transformed = stage.transform(x, domain)
    read = torch.cat([transformed, torch.ones_like(transformed[:, :, :1])], dim=2).movedim(0, 2)
    count = read.shape[1]
    for chunk in torch.arange(stage.outputs * count, device=x.device).split(at_once):
        output, feature = chunk // count, chunk % count
        delta = x.new_zeros(len(chunk), x.shape[0], stage.outputs, *x.shape[2:])
        group = stage.group_of_output.to(x.device)[output]
        delta[torch.arange(len(chunk), device=x.device), :, output] = read[group, feature]
        yield delta


def _propagate(delta: Tensor, z: Tensor, rest: Sequence[Layer], target: Tensor, domain: Domain) -> Tensor:
    """Send derivatives of z (n, B, C, H, W) through the remaining layers, to ⟨target, δz_m⟩ for each: (n,)."""
    for stage in rest:
        delta = vmap(partial(stage.linear, domain=domain))((z > 0) * delta)
        z = stage(z.relu(), domain)
    return (delta * target).flatten(1).sum(dim=1)
