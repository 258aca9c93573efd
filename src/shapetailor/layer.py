"""One layer of an ST-DNN: a region-restricted solve and a pointwise linear map (the equation before `eq:STDNN_eqn`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor, nn

from .domain import Domain


class Layer(nn.Module):
    """A linear map of smoothed channels, ``z = W·T[x] + b``, without its ReLU.

    T smooths, and with `derivatives` appends ∂u/∂x and ∂u/∂y of the smoothed u. There are two kinds of smoothing:

    - ``each_input=True``, the layer f0: every input at every α, so that W reads ``len(alphas) · inputs`` channels;
    - otherwise output k reads its inputs smoothed at its own α: the outputs are cut into ``len(alphas)`` equal groups.
      Solve and pointwise map commute then, ``W·A⁻¹x + b = A⁻¹(Wx) + b``, and the solve goes where channels are fewer.

    Without alphas, T is the identity.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        alphas: Sequence[float] = (),
        *,
        each_input: bool = False,
        derivatives: bool = False,
        learnable: bool = False,
    ) -> None:
        super().__init__()
        self.inputs, self.outputs, self.maps = inputs, outputs, 3 if derivatives else 1
        self.fixed, self.groups = tuple(alphas), 0 if each_input else len(alphas)
        self.log_alphas = nn.Parameter(torch.tensor(alphas).log()) if learnable and alphas else None
        fan_in = inputs * self.maps * (len(alphas) if each_input else 1)
        self.weight = nn.Parameter(torch.randn(outputs, fan_in) * sqrt(2 / fan_in))
        self.bias = nn.Parameter(torch.zeros(outputs))

    @property
    def alphas(self) -> Tensor:
        """The scales, (A,); positive by construction where they are learnt."""
        if self.log_alphas is not None:
            return self.log_alphas.exp()
        return torch.tensor(self.fixed, dtype=self.weight.dtype, device=self.weight.device)

    @property
    def group_of_output(self) -> Tensor:
        """Which of `transform`'s groups each output reads, (outputs,)."""
        parts = torch.arange(self.outputs).tensor_split(max(self.groups, 1))
        return torch.cat([torch.full_like(part, group) for group, part in enumerate(parts)]).to(self.weight.device)

    def forward(self, x: Tensor, domain: Domain) -> Tensor:
        """Map (B, inputs, H, W) to (B, outputs, H, W)."""
        return self.linear(x, domain) + self.bias[:, None, None]

    def linear(self, x: Tensor, domain: Domain) -> Tensor:
        """Return ``W·T[x]``, solving where there is less to solve."""
        if self.groups and self.inputs * self.groups >= self.outputs * self.maps:
            return self.solve_outputs(x, domain)
        return self.solve_inputs(x, domain)

    def solve_inputs(self, x: Tensor, domain: Domain) -> Tensor:
        """Return ``W·T[x]`` with the solve before the map: each input at the α of each group of outputs."""
        transformed = self.transform(x, domain)
        if transformed.shape[1] == 1:
            return _pointwise(self.weight, transformed[:, 0])
        groups = zip(self.weight.tensor_split(transformed.shape[1]), transformed.unbind(1), strict=True)
        return torch.cat([_pointwise(weight, part) for weight, part in groups], dim=1)

    def solve_outputs(self, x: Tensor, domain: Domain) -> Tensor:
        """Return ``W·T[x]`` with the solve after the map: each output, and its derivatives, at the output's α."""
        weight = self.weight.unflatten(1, (self.maps, self.inputs)).transpose(0, 1).flatten(0, 1)
        u = domain.smooth(_pointwise(weight, x), self.alphas[self.group_of_output].repeat(self.maps))
        if self.maps == 1:
            return u
        value, across, up = u.chunk(3, dim=1)
        return value + domain.derivative(across, 0) + domain.derivative(up, 2)

    def transform(self, x: Tensor, domain: Domain) -> Tensor:
        """Return T[x], what W reads, for each group of outputs: (B, groups or 1, fan-in, H, W)."""
        if not self.fixed:
            return x[:, None]
        u = domain.smooth(x, self.alphas[:, None])
        parts = [u] if self.maps == 1 else [u, domain.derivative(u, 0), domain.derivative(u, 2)]
        if self.groups:
            return torch.cat(parts, dim=2)
        return torch.stack(parts, dim=1).flatten(1, 3)[:, None]


def _pointwise(weight: Tensor, x: Tensor) -> Tensor:
    return (weight @ x.flatten(2)).reshape(x.shape[0], -1, *x.shape[2:])
