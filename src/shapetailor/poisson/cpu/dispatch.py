"""Compiled CPU backend: Chebyshev where α is small, multigrid where it is large, threads over channels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...arrays import Array
from ...parallel import in_threads, thread_count
from .. import chebyshev
from ..operator import Edges, largest_conductance, smallest_conductance
from ..stats import FLOOR, Stats, combine
from . import checkerboard, multigrid
from . import grid_kernels as kernels
from .hierarchy import Hierarchy, build_hierarchy

Task = Callable[[], tuple[str, int, float]]

#: Condition number above which multigrid is faster.
CROSSOVER = 6000.0
#: Bounds for the channels of a multigrid task, which share its overhead: pixels times channels, and channels.
LANE_PIXELS, FEWEST_LANES, MOST_LANES = 2**21, 8, 12
#: Pixels times channels below which a second thread is not worth its start.
FEW = 2**17


class Grid:
    """One image's edges as padded arrays, and what is derived from them on demand."""

    def __init__(self, across: Array, down: Array, inside: Array) -> None:
        height, width = inside.shape
        self.shape, self.pitch, self.size = (height, width), width + 2, (height + 2) * (width + 2)
        self.cx, self.cy = self._frame(across, 1), self._frame(down, 0)
        self.inside = inside
        self.outside = None if inside.all() else ~inside

    def _frame(self, edges: Array, shift: int) -> Array:
        height, width = self.shape
        out = np.zeros((height + 2, width + 2), edges.dtype)
        out[2 - shift : -1, 1 + shift : -1] = edges
        return out

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """The coarse levels for multigrid."""
        return build_hierarchy(self.cx, self.cy)

    @cached_property
    def runs(self) -> tuple[Array, int]:
        """The components' runs along the rows, and the number of components."""
        component, count = kernels.components(self.cx, self.cy)
        return kernels.runs_of(component), count

    @cached_property
    def spans(self) -> tuple[Array, Array]:
        """The components' runs inside regions, as positions in (H, W), and the components' sizes."""
        runs, _ = self.runs
        rows = runs[:, :1] // self.pitch - 1
        spans = runs.copy()
        spans[:, :2] -= self.pitch + 1 + 2 * rows
        spans = spans[self.inside.reshape(-1)[spans[:, 0]]]
        numbers, spans[:, 2] = np.unique(spans[:, 2], return_inverse=True)
        return spans, np.bincount(spans[:, 2], spans[:, 1] - spans[:, 0], len(numbers))

    @property
    def edges(self) -> tuple[Array, Array, int]:
        """The edges for kernels: cx, cy and the pitch."""
        return self.cx.reshape(-1), self.cy.reshape(-1), self.pitch

    def pad(self, channels: list[Array], dtype: Any) -> Array:
        """Copy channels into flat frames of zeros; pixels outside every region become 0."""
        out = np.zeros((len(channels), self.size), dtype)
        for flat, channel in zip(out, channels, strict=True):
            view = self.unpad(flat)
            view[...] = channel
            if self.outside is not None:
                view[self.outside] = 0
        return out

    def mean(self, rhs: Array) -> Array:
        """Return each region's mean, channel by channel, in float64: a first guess."""
        out = np.zeros(rhs.shape)
        for channel, mean in zip(rhs, out, strict=True):
            kernels.region_mean(*self.runs, channel, mean)
        return out

    def unpad(self, flat: Array) -> Array:
        """Return the view (H, W) without the frame."""
        height, width = self.shape
        return flat.reshape(height + 2, width + 2)[1:-1, 1:-1]


def _grids(edges: Edges, dtype: torch.dtype) -> list[Grid]:
    if dtype not in edges.derived:
        parts = (edges.across.detach().to(dtype), edges.down.detach().to(dtype), edges.inside)
        edges.derived[dtype] = [Grid(*(part.numpy() for part in image)) for image in zip(*parts, strict=True)]
    grids: list[Grid] = edges.derived[dtype]
    return grids


def _chebyshev(
    grid: Grid, groups: list[tuple[float, Array]], conductances: tuple[float, float], tol: float,
    x: Array, guess: Array | None, out: Array, max_steps: int,
) -> tuple[str, int, float]:  # fmt: skip
    """Solve groups of channels of x (C, H, W), each group at its α, into the same ones of `out`."""
    problem = checkerboard.Problem(
        x, np.empty((0, *grid.shape), x.dtype) if guess is None else guess, out, grid.cx, grid.cy, *grid.spans, tol
    )
    plan = checkerboard.plan(groups, conductances, tol, max_steps, x.dtype)
    half_steps, residual = checkerboard.solve(problem, plan)
    return "chebyshev", ceil(half_steps / 2), float(residual)


def _multigrid(
    grid: Grid, alphas: list[float], conductance: float, tol: float,
    x: list[Array], guess: list[Array] | None, out: list[Array], max_steps: int,
) -> tuple[str, int, float]:  # fmt: skip
    """Solve a group of channels of one image."""
    runs, count = grid.runs
    solver = multigrid.Solver(*grid.edges, grid.hierarchy, runs, count, np.array(alphas), conductance)
    rhs = grid.pad(x, x[0].dtype)
    u = grid.mean(rhs) if guess is None else grid.pad(guess, np.float64)
    residual, steps = solver.solve(rhs, u, tol, max_steps)
    for channel, target in zip(u, out, strict=True):
        target[...] = grid.unpad(channel)
    return "multigrid", steps, residual


@dataclass(frozen=True)
class _Job:
    """What the tasks of one solve share."""

    x: Array  # (B, C, H, W)
    grids: list[Grid]
    alpha: Array  # (A, C)
    least: float  # conductance of an edge
    conductance: float  # the largest
    tol: float
    guess: Array | None  # (B, A, C, H, W)
    out: Array  # (B, A, C, H, W)
    max_steps: int | None
    threads: int

    def tasks(self, method: str | None) -> Iterator[Task]:
        """Split the solve into independent tasks, each a group of channels of one image."""
        small = self._small(method)
        large = [(int(a), int(c)) for a, c in np.argwhere(~small)]
        for image in range(len(self.grids)):
            yield from self._multigrid(image, large)
            for a in range(len(small)):
                yield from self._separate(image, a, np.flatnonzero(small[a]))

    def _small(self, method: str | None) -> Array:
        """Which solves Chebyshev does."""
        if method is not None:
            return np.full(self.alpha.shape, method == "chebyshev")
        kappa = 1.0 + 8.0 * self.alpha * self.conductance
        reachable: Array = self.tol >= FLOOR * np.finfo(self.x.dtype).eps * kappa
        return reachable & (kappa <= CROSSOVER)

    def _share(self, solves: int) -> int:
        """Channels of a task: an equal share for each thread."""
        return max(1, ceil(solves * len(self.grids) / self.threads))

    def _separate(self, image: int, a: int, channels: Array) -> Iterator[Task]:
        groups = [
            (float(alpha), part)
            for alpha in np.unique(self.alpha[a, channels])
            for part in checkerboard.split(channels[self.alpha[a, channels] == alpha])
        ]
        # Every n-th group: neighbours have like alphas, and large alphas take more steps.
        tasks = ceil(len(channels) / self._share(len(channels)))
        for first in range(min(tasks, len(groups))):
            yield partial(
                _chebyshev, self.grids[image], groups[first::tasks], (self.least, self.conductance), self.tol,
                self.x[image], None if self.guess is None else self.guess[image, a], self.out[image, a],
                self.max_steps or 10**6,
            )  # fmt: skip

    def _multigrid(self, image: int, solves: list[tuple[int, int]]) -> Iterator[Task]:
        limit = max(FEWEST_LANES, min(MOST_LANES, LANE_PIXELS // self.grids[0].size))
        even = self._share(len(solves))
        for group in _cut(solves, ceil(even / ceil(even / limit))):
            guess = None if self.guess is None else [self.guess[image, a, c] for a, c in group]
            yield partial(
                _multigrid, self.grids[image], [float(self.alpha[a, c]) for a, c in group], self.conductance, self.tol,
                [self.x[image, c] for _, c in group], guess, [self.out[image, a, c] for a, c in group],
                self.max_steps or 200,
            )  # fmt: skip


def _cut(items: Any, size: int) -> Iterator[Any]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


def solve(
    x: Tensor, edges: Edges, alpha: Tensor, tol: float, guess: Tensor | None = None, max_steps: int | None = None,
    method: str | None = None,
) -> tuple[Tensor, Stats]:  # fmt: skip
    """Solve for x (B, C, H, W) at alpha (A, C): (B, A, C, H, W), and how it went.

    `method` is ``"chebyshev"`` or ``"multigrid"``; None takes for each channel the one that is faster.
    """
    if "conductances" not in edges.derived:
        edges.derived["conductances"] = smallest_conductance(edges), largest_conductance(edges)
    least, conductance = edges.derived["conductances"]
    floor = FLOOR * torch.finfo(x.dtype).eps * chebyshev.condition(float(alpha.max()), conductance)
    if method == "chebyshev" and tol < floor and x.dtype == torch.float32:
        u, stats = solve(x.double(), edges, alpha, tol, guess, max_steps, method)
        return u.float(), stats
    grids = _grids(edges, x.dtype)
    out = torch.empty((x.shape[0], *alpha.shape, *x.shape[2:]), dtype=x.dtype)
    first = None if guess is None else guess.detach().to(x.dtype).contiguous().numpy()
    job = _Job(
        x.detach().contiguous().numpy(), grids, alpha.detach().double().numpy(), least, conductance, tol, first,
        out.numpy(), max_steps, thread_count() if out.numel() > FEW else 1,
    )  # fmt: skip
    return out, combine(in_threads(job.tasks(method)), tol)
