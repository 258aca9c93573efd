"""Compiled CPU backend: Chebyshev where α is small, multigrid where it is large, threads over channels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import ceil
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from . import chebyshev, kernels, multigrid
from .hierarchy import Hierarchy, build_hierarchy
from .operator import Edges, largest_conductance
from .stats import FLOOR, Stats, combine

Array = NDArray[Any]
Task = Callable[[], tuple[str, int, float]]
Result = TypeVar("Result")

#: Condition number above which multigrid is the faster one, for one α and for several that share their terms.
CROSSOVER, SHARED_CROSSOVER = 1700.0, 4500.0
#: Padded pixels times channels that one multigrid task may hold: channels share its overhead, memory limits them.
LANE_PIXELS, FEWEST_LANES, MOST_LANES = 2**21, 8, 12
#: Pixels times channels that a Chebyshev task may hold.
TASK_PIXELS = 2**22


class Grid:
    """One image's edges as flat padded arrays; what multigrid and first guesses need is made on demand."""

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
        """The components' stretches along the rows, and the number of components."""
        component, count = kernels.components(self.cx, self.cy)
        return kernels.runs_of(component), count

    @property
    def edges(self) -> tuple[Array, Array, int]:
        """What every kernel wants: cx, cy and the pitch."""
        return self.cx.reshape(-1), self.cy.reshape(-1), self.pitch

    def pad(self, channels: list[Array], dtype: Any = None) -> Array:
        """Copy channels into flat frames of zeros, without what lies outside every region."""
        out = np.zeros((len(channels), self.size), dtype or channels[0].dtype)
        for flat, channel in zip(out, channels, strict=True):
            view = self.unpad(flat)
            view[...] = channel
            if self.outside is not None:
                view[self.outside] = 0
        return out

    def mean(self, rhs: Array, dtype: Any = None) -> Array:
        """Return each region's mean, channel by channel: a first guess that is exact for constants."""
        out = np.zeros(rhs.shape, dtype or rhs.dtype)
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


@lru_cache(maxsize=1)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads for the kernels, which release the interpreter's lock; a forked process gets its own."""
    return ThreadPoolExecutor(threads, "shapetailor")


def in_threads(tasks: Iterable[Callable[[], Result]]) -> list[Result]:
    """Run tasks that release the interpreter's lock on as many threads as torch uses; their results in order."""
    threads = torch.get_num_threads()
    if threads == 1:
        return [task() for task in tasks]
    return list(_pool(threads, os.getpid()).map(lambda task: task(), tasks))


def _chebyshev(
    grid: Grid, alphas: Array, conductance: float, tol: float, x: Array, out: Array, max_steps: int
) -> tuple[str, int, float]:
    """Solve channels (n, H, W), each at its own α."""
    kappas = [chebyshev.condition(alpha, conductance) for alpha in alphas.tolist()]
    steps = np.array([min(chebyshev.step_count(kappa, tol), max_steps) for kappa in kappas])
    gammas, omegas = np.empty(len(x), x.dtype), np.zeros((len(x), int(steps.max())), x.dtype)
    for c, kappa in enumerate(kappas):
        gammas[c], omegas[c, : steps[c]] = chebyshev.step_weights(kappa, int(steps[c]))
    residual = kernels.chebyshev_channels(
        x, grid.inside, *grid.edges, *grid.runs, alphas.astype(x.dtype), gammas, omegas, steps, out
    )
    return "chebyshev", int(steps.max()), float(residual)


def _chebyshev_from(
    grid: Grid, alpha: float, conductance: float, tol: float, x: Array, guess: Array, out: Array, max_steps: int
) -> tuple[str, int, float]:
    """Solve one channel from a first guess; each region takes as many steps as its own first residual asks for."""
    dtype = x.dtype.type
    (rhs,), (u,) = grid.pad([x]), grid.pad([guess])
    kappa = chebyshev.condition(alpha, conductance)
    scratch = np.zeros_like(rhs)
    kernels.residual(u, rhs, *grid.edges, grid.pitch, grid.size - grid.pitch, dtype(alpha), scratch)
    counts, steps = _counts(grid, rhs, scratch, kappa, tol)
    steps = min(steps, max_steps)
    gamma, omegas = chebyshev.step_weights(kappa, steps)
    other = u.copy()
    kernels.chebyshev(u, other, rhs, *grid.edges, dtype(alpha), dtype(gamma), omegas.astype(x.dtype), counts)
    if steps % 2:
        u, other = other, u
    out[...] = grid.unpad(u)
    return "chebyshev", steps, float(kernels.residual_norm(u, rhs, *grid.edges, dtype(alpha), other))


def _counts(grid: Grid, rhs: Array, residual: Array, kappa: float, tol: float) -> tuple[Array, int]:
    """How many steps each region needs from a first guess: per pixel, and the most."""
    runs, count = grid.runs
    size = np.sqrt(kernels.region_dot(runs, count, rhs, rhs))
    left = np.sqrt(kernels.region_dot(runs, count, residual, residual))
    reduction = np.divide(tol * size, left, out=np.ones(count), where=left > 0)
    limit = np.zeros(count, np.int32)
    for k in np.flatnonzero(reduction < 1):
        limit[k] = chebyshev.step_count(kappa, max(float(reduction[k]), 1e-300))
    counts = np.zeros(grid.size, np.int32)
    for first, end, component in runs:
        counts[first:end] = limit[component]
    return counts, int(limit.max(initial=0))


def _scales(
    grid: Grid, alphas: list[float], conductance: float, tol: float, x: Array, out: Array
) -> tuple[str, int, float]:
    """Solve channels (n, H, W) at the same several α: the terms of the Chebyshev series are computed once for all."""
    lengths = np.array([chebyshev.series_length(alpha, conductance, tol) for alpha in alphas])
    terms = 2 * ceil(int(lengths.max()) / 2)
    coefficients = np.zeros((len(alphas), terms), x.dtype)
    for row, alpha, length in zip(coefficients, alphas, lengths, strict=True):
        row[:length] = chebyshev.series(alpha, conductance, int(length))
    scale = x.dtype.type(0.5 / conductance if conductance else 0.0)
    residual = kernels.scales_channels(
        x, grid.inside, *grid.edges, *grid.runs, np.array(alphas, x.dtype), scale, coefficients, lengths, out
    )
    return "chebyshev", terms, float(residual)


def _multigrid(
    grid: Grid, alphas: list[float], conductance: float, tol: float,
    x: list[Array], guess: list[Array] | None, out: list[Array], max_steps: int,
) -> tuple[str, int, float]:  # fmt: skip
    """Solve a group of channels of one image."""
    runs, count = grid.runs
    solver = multigrid.Solver(*grid.edges, grid.hierarchy, runs, count, np.array(alphas), conductance)
    rhs = grid.pad(x)
    u = grid.mean(rhs, np.float64) if guess is None else grid.pad(guess, np.float64)
    residual, steps = solver.solve(rhs, u, tol, max_steps)
    for channel, target in zip(u, out, strict=True):
        target[...] = grid.unpad(channel)
    return "multigrid", steps, residual


@dataclass(frozen=True)
class _Job:
    """All that the tasks of one solve share."""

    x: Array  # (B, C, H, W)
    grids: list[Grid]
    alpha: Array  # (A, C)
    conductance: float
    tol: float
    guess: Array | None  # (B, A, C, H, W)
    out: Array  # (B, A, C, H, W)
    max_steps: int | None
    threads: int

    def tasks(self, method: str | None) -> Iterator[Task]:
        """Split the solve into independent tasks, each a group of channels of one image."""
        small = self._small(method)
        large = [(int(a), int(c)) for a, c in np.argwhere(~small)]
        shared = len(small) > 1 and self.guess is None and bool((small == small[:, :1]).all()) and small[:, 0].sum() > 1
        shared = shared and bool((self.alpha == self.alpha[:, :1]).all())
        for image in range(len(self.grids)):
            yield from self._multigrid(image, large)
            if self.guess is not None:
                yield from self._from_guess(image, [(int(a), int(c)) for a, c in np.argwhere(small)])
            elif shared:
                yield from self._shared(image, np.flatnonzero(small[:, 0]))
            else:
                for a in range(len(small)):
                    yield from self._separate(image, a, np.flatnonzero(small[a]))

    def _small(self, method: str | None) -> Array:
        """Which solves are for Chebyshev."""
        if method is not None:
            return np.full(self.alpha.shape, method == "chebyshev")
        kappa = 1.0 + 8.0 * self.alpha * self.conductance
        reachable: Array = self.tol >= FLOOR * np.finfo(self.x.dtype).eps * kappa
        shared: Array = reachable & (kappa <= SHARED_CROSSOVER)
        if self.guess is None and shared.any(axis=1).sum() > 1:
            return shared
        return reachable & (kappa <= CROSSOVER)

    def _share(self, solves: int, pixels: int) -> int:
        """Channels a task: an equal share for each thread, unless that is more memory than a task may take."""
        even = ceil(solves * len(self.grids) / self.threads)
        return max(1, min(even, pixels // int(self.grids[0].size)))

    def _separate(self, image: int, a: int, channels: Array) -> Iterator[Task]:
        # Every n-th channel: neighbours tend to have like alphas, and a large one takes more steps.
        count = ceil(len(channels) / self._share(len(channels), TASK_PIXELS)) if len(channels) else 0
        for part in (channels[first::count] for first in range(count)):

            def task(part: Array = part) -> tuple[str, int, float]:
                x, out = self.x[image, part], np.empty((len(part), *self.x.shape[2:]), self.x.dtype)
                alphas, most = self.alpha[a, part], self.max_steps or 10**6
                result = _chebyshev(self.grids[image], alphas, self.conductance, self.tol, x, out, most)
                self.out[image, a, part] = out
                return result

            yield task

    def _shared(self, image: int, rows: Array) -> Iterator[Task]:
        alphas = [float(self.alpha[a, 0]) for a in rows]
        channels = np.arange(self.x.shape[1])
        for part in _cut(channels, self._share(len(channels), TASK_PIXELS // len(rows))):

            def task(part: Array = part) -> tuple[str, int, float]:
                x = self.x[image, part[0] : part[-1] + 1]
                out = np.empty((len(rows), *x.shape), x.dtype)
                result = _scales(self.grids[image], alphas, self.conductance, self.tol, x, out)
                self.out[image, rows, part[0] : part[-1] + 1] = out
                return result

            yield task

    def _from_guess(self, image: int, solves: list[tuple[int, int]]) -> Iterator[Task]:
        assert self.guess is not None
        for a, c in solves:
            yield partial(
                _chebyshev_from, self.grids[image], float(self.alpha[a, c]), self.conductance, self.tol,
                self.x[image, c], self.guess[image, a, c], self.out[image, a, c], self.max_steps or 10**6,
            )  # fmt: skip

    def _multigrid(self, image: int, solves: list[tuple[int, int]]) -> Iterator[Task]:
        limit = max(FEWEST_LANES, min(MOST_LANES, LANE_PIXELS // self.grids[0].size))
        even = self._share(len(solves), 2**62)
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
    x: Tensor,
    edges: Edges,
    alpha: Tensor,
    tol: float,
    guess: Tensor | None = None,
    max_steps: int | None = None,
    method: str | None = None,
) -> tuple[Tensor, Stats]:
    """Solve for x (B, C, H, W) at alpha (A, C): (B, A, C, H, W), and how it went.

    `method` is ``"chebyshev"`` or ``"multigrid"``; None takes for each channel the one that is faster.
    """
    conductance = largest_conductance(edges)
    floor = FLOOR * torch.finfo(x.dtype).eps * chebyshev.condition(float(alpha.max()), conductance)
    if method == "chebyshev" and tol < floor and x.dtype == torch.float32:
        u, stats = solve(x.double(), edges, alpha, tol, guess, max_steps, method)
        return u.float(), stats
    grids = _grids(edges, x.dtype)
    out = torch.empty((x.shape[0], *alpha.shape, *x.shape[2:]), dtype=x.dtype)
    threads = torch.get_num_threads()
    job = _Job(
        x.detach().contiguous().numpy(),
        grids,
        alpha.detach().double().numpy(),
        conductance,
        tol,
        None if guess is None else guess.detach().to(x.dtype).contiguous().numpy(),
        out.numpy(),
        max_steps,
        threads,
    )
    return out, combine(in_threads(job.tasks(method)), tol)
