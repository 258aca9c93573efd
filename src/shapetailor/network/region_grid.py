"""A grid cut into regions: smoothing and differences that never take a pixel from another region."""

from collections.abc import Sequence
from functools import cached_property
from math import hypot
from typing import Literal

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ..poisson import Edges, edges_of
from ..poisson.solve import Backend, smooth_trusted

Pde = Literal["poisson", "heat"]

#: Steps (down, right) along the angles 0, π/4, π/2, 3π/4; angles turn counter-clockwise, x points right and y up.
DIRECTIONS = ((0, 1), (-1, 1), (-1, 0), (-1, -1))
#: Implicit Euler steps of the heat equation: (I + α/4 L)⁻⁴ ≈ exp(−αL), where Poisson is the one step (I + αL)⁻¹.
HEAT_STEPS = 4


class Memory:
    """First guesses for the solves of one pass through a network, in their order, and their solutions."""

    def __init__(self, guesses: Sequence[Tensor] = ()) -> None:
        self.guesses, self.solutions = guesses, list[Tensor]()

    def recall(self) -> Tensor | None:
        """Return the guess for the next solve."""
        return self.guesses[len(self.solutions)] if self.guesses else None


class Domain:
    """Label maps (B, H, W), with the edges and neighbours derived from them once.

    Two pixels belong together iff their labels are equal and >= 0, diagonal neighbours as well. With a `memory`,
    Poisson solves start from its guesses and leave their solutions in it.
    """

    def __init__(
        self, labels: Tensor, dtype: torch.dtype = torch.float32, *, tol: float = 1e-4, backend: Backend = "auto",
        pde: Pde = "poisson", memory: Memory | None = None,
    ) -> None:  # fmt: skip
        self.labels, self.inside, self.dtype = labels, labels >= 0, dtype
        self.tol, self.backend, self.pde, self.memory = tol, backend, pde, memory
        self._linked: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    @cached_property
    def edges(self) -> Edges:
        """The edges, shared by all solves."""
        return edges_of(self.labels, self.dtype)

    def smooth(self, x: Tensor, alpha: Tensor) -> Tensor:
        """Smooth (B, C, H, W) at alpha () or (C,), or (A, 1) for several scales: (B, A, C, H, W)."""
        if self.pde == "poisson":
            guess = None if self.memory is None else self.memory.recall()
            u = smooth_trusted(x, self.edges, alpha, self.tol, guess, self.backend)
            if self.memory is not None:
                self.memory.solutions.append(u)
            return u
        step = alpha / HEAT_STEPS
        u = smooth_trusted(x, self.edges, step, self.tol, None, self.backend)
        shape = u.shape
        if alpha.ndim == 2:  # after the first step every scale has its own right-hand side
            u, step = u.flatten(1, 2), step.expand(shape[1], shape[2]).reshape(-1)
        for _ in range(HEAT_STEPS - 1):
            u = smooth_trusted(u, self.edges, step, self.tol, None, self.backend)
        return u.reshape(shape)

    def derivative(self, x: Tensor, angle: int) -> Tensor:
        """Differentiate (..., H, W) along ``DIRECTIONS[angle]``, in units of a pixel's side.

        Central where both neighbours belong to the pixel's region, one-sided where one does, 0 where none does.
        """
        if is_plain(x):
            return self._derivative_into(x.new_empty(x.shape), x, angle)
        step = DIRECTIONS[angle]
        between = (1,) * (x.ndim - 3)
        linked, count = (each.reshape(len(each), *between, *each.shape[1:]) for each in self._links(step, x.dtype))
        here, there = _pair(x, step)
        gap = torch.where(linked, there - here, 0)  # not a product: what is not linked may be NaN
        total = x.new_zeros(x.shape)  # not zeros_like: x may be expanded, with strides of 0
        # Forward plus backward difference: flips leave this order of summation unchanged to the bit.
        for end in (0, 1):  # a new view each time: the first addition may have made `total` part of a graph
            _pair(total, step)[end].add_(gap)
        return total / count

    def gradient(self, x: Tensor) -> Tensor:
        """Return (B, 3, ..., H, W): x and its derivatives to the right and upwards."""
        if not is_plain(x):
            return torch.stack([x, self.derivative(x, 0), self.derivative(x, 2)], dim=1)
        out = x.new_empty(len(x), 3, *x.shape[1:])
        out[:, 0] = x
        for part, angle in ((1, 0), (2, 2)):
            self._derivative_into(out[:, part], x, angle)
        return out

    def divergence(self, x: Tensor) -> Tensor:
        """Return the first third of the channels (B, C, H, W) plus the derivatives of the others, right and upwards.

        Overwrites the first third where no gradient and no memory needs it.
        """
        value, across, up = x.chunk(3, dim=1)
        if not is_plain(x):
            return value + self.derivative(across, 0) + self.derivative(up, 2)
        if self.memory is not None:
            value = value.clone()
        self._derivative_into(value, across, 0, add=True)
        return self._derivative_into(value, up, 2, add=True)

    def _derivative_into(self, out: Tensor, x: Tensor, angle: int, add: bool = False) -> Tensor:
        """Write or add a derivative by compiled code."""
        from .region_grid_compiled import derivative_into  # here, since a GPU does without numba

        derivative_into(out, x, self.labels, DIRECTIONS[angle], add)
        return out

    def _links(self, step: tuple[int, int], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Which pairs along a step belong together, and the divisor: number of neighbours times the step's length."""
        if step not in self._linked:
            here, there = _pair(self.labels, step)
            linked = (here == there) & (here >= 0)
            count = torch.zeros(self.labels.shape, dtype=dtype, device=linked.device)
            for part in _pair(count, step):
                part += linked.to(dtype)
            self._linked[step] = linked, count.clamp_min(1) * hypot(*step)
        return self._linked[step]


def is_plain(x: Tensor) -> bool:
    """Whether compiled code may read x: on the CPU, and no gradient, forward derivative or vmap is at work."""
    return (
        x.device.type == "cpu"
        and not torch.is_grad_enabled()
        and type(x) is Tensor
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
        and forward_ad._current_level < 0
    )


def _pair(x: Tensor, step: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return views of the pixels that have a neighbour one step away, and of those neighbours."""
    up, right = -step[0], step[1]
    height, width = x.shape[-2:]
    first, last = x[..., up:, :], x[..., : height - up, :]
    if right >= 0:
        return first[..., : width - right], last[..., right:]
    return first[..., -right:], last[..., : width + right]
