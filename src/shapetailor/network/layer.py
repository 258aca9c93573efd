"""One layer of an ST-DNN: a solve inside regions and a pointwise linear map (the equation before `eq:STDNN_eqn`)."""

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt

import torch
from torch import Tensor, nn

from ..parallel import in_threads, thread_count
from .region_grid import Domain, is_plain

#: A function of pixels, (B, channels, n) → (B, other channels, n).
Step = Callable[[Tensor], Tensor]
#: Bounds for the pixels that are mapped at a time; between them, a quarter of all.
LEAST, MOST = 1024, 4096


class Layer(nn.Module):
    """A linear map of smoothed channels, ``z = W·T[x] + b``, without its ReLU.

    T smooths, and with `derivatives` appends ∂u/∂x and ∂u/∂y of the smoothed u:

    - ``each_input=True`` (the layer f0): every input at every α, so that W reads ``len(alphas) · inputs`` channels;
    - otherwise the outputs are cut into ``len(alphas)`` groups, each of which reads the inputs smoothed at its α. Solve
      and map commute, ``W·A⁻¹x + b = A⁻¹(Wx) + b``: W comes first (`maps_first`) where that leaves fewer solves;
    - without alphas T is the identity.

    A layer is `before`, `solve`, `after`. The first and the last are pointwise, so that one layer's `after` and the
    next one's `before` can be done together (`pointwise`).
    """

    def __init__(
        self, inputs: int, outputs: int, alphas: Sequence[float] = (), *, each_input: bool = False,
        derivatives: bool = False, learnable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.inputs, self.outputs, self.maps = inputs, outputs, 3 if derivatives else 1
        self.fixed, self.groups = tuple(alphas), 0 if each_input else len(alphas)
        self.log_alphas = nn.Parameter(torch.tensor(alphas).log()) if learnable and alphas else None
        self.maps_first = bool(self.groups) and inputs * self.groups >= outputs * self.maps
        fan_in = inputs * self.maps * (len(alphas) if each_input else 1)
        self.weight = nn.Parameter(torch.randn(outputs, fan_in) * sqrt(2 / fan_in))
        self.bias = nn.Parameter(torch.zeros(outputs))

    @property
    def alphas(self) -> Tensor:
        """The scales, (A,); on the CPU where they are not learnt, so that a solve need not ask a GPU for them."""
        if self.log_alphas is not None:
            return self.log_alphas.exp()
        return torch.tensor(self.fixed, dtype=self.weight.dtype)

    @property
    def group_of_output(self) -> Tensor:
        """Which of `transform`'s groups each output reads, (outputs,)."""
        parts = torch.arange(self.outputs).tensor_split(max(self.groups, 1))
        return torch.cat([torch.full_like(part, group) for group, part in enumerate(parts)])

    def forward(self, x: Tensor, domain: Domain) -> Tensor:
        """Map (B, inputs, H, W) to (B, outputs, H, W)."""
        return pointwise([self.after], self.solve(pointwise(self.before, x), domain))

    def linear(self, x: Tensor, domain: Domain) -> Tensor:
        """Return ``W·T[x]``, the same without the bias."""
        return pointwise([self._mapped], self.solve(pointwise(self.before, x), domain))

    @property
    def before(self) -> list[Step]:
        """The map from (B, inputs, n) to what is solved for: the outputs, and what their derivatives are taken of."""
        if not self.maps_first:
            return []
        weight = self.weight.unflatten(-1, (self.maps, self.inputs)).transpose(-3, -2).flatten(-3, -2)
        return [partial(self._product, weight)]

    def solve(self, x: Tensor, domain: Domain) -> Tensor:
        """Smooth and differentiate the output of `before`, (B, channels, H, W)."""
        if not self.maps_first:
            return self.transform(x, domain).flatten(1, 2)
        alphas = self.alphas
        u = domain.smooth(x, alphas[self.group_of_output.to(alphas.device)].repeat(self.maps))
        return u if self.maps == 1 else domain.divergence(u)

    def after(self, x: Tensor) -> Tensor:
        """Map the output of `solve`, as (B, channels, n), to (B, outputs, n)."""
        if self.maps_first or self.groups > 1 or len(x) > 1:
            return self._mapped(x) + self.bias[:, None]
        return torch.addmm(self.bias[:, None], self.weight, x[0])[None]

    def _mapped(self, x: Tensor) -> Tensor:
        if self.maps_first:
            return x
        if self.groups < 2:
            return self._product(self.weight, x)
        parts = zip(self.weight.tensor_split(self.groups), x.chunk(self.groups, dim=1), strict=True)
        return torch.cat([self._product(weight, part) for weight, part in parts], dim=1)

    def _product(self, weight: Tensor, x: Tensor) -> Tensor:
        product: Tensor = weight @ x if len(x) > 1 else (weight @ x[0])[None]
        return product

    def transform(self, x: Tensor, domain: Domain) -> Tensor:
        """Return T[x], what W reads, for each group of outputs: (B, groups or 1, fan-in, H, W)."""
        if not self.fixed:
            return x[:, None]
        u = domain.smooth(x, self.alphas[:, None])
        read = u[:, None] if self.maps == 1 else domain.gradient(u)
        return read.transpose(1, 2).flatten(2, 3) if self.groups else read.flatten(1, 3)[:, None]


def pointwise(steps: Sequence[Step], x: Tensor) -> Tensor:
    """Apply functions of pixels, one after the other, to (B, channels, H, W).

    Plain CPU data go a few pixels at a time, so that what lies between the functions stays in the cache.
    """
    pixels = x.flatten(2)
    count = pixels.shape[2]
    size = min(max(-(-count // 4), LEAST), MOST)
    if not steps or not is_plain(x) or count <= size:
        return _unflat(_applied(steps, pixels), x)
    first = _applied(steps, pixels[:, :, :size])
    out = first.new_empty(*first.shape[:2], count)
    out[:, :, :size] = first
    threads = thread_count()

    def task(number: int) -> None:
        with torch.no_grad():
            for lo in range(size * (number + 1), count, size * threads):
                out[:, :, lo : lo + size] = _applied(steps, pixels[:, :, lo : lo + size])

    in_threads(partial(task, number) for number in range(threads))
    return _unflat(out, x)


def _unflat(pixels: Tensor, like: Tensor) -> Tensor:
    return pixels.reshape(*pixels.shape[:2], *like.shape[2:])


def _applied(steps: Sequence[Step], x: Tensor) -> Tensor:
    for step in steps:
        x = step(x)
    return x
