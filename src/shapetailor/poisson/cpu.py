"""Compiled CPU backend: Chebyshev where α is small, multigrid where it is large, threads over channels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache, partial
from math import ceil
from typing import Any

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

#: Condition number above which multigrid is the faster one, for one α and for several that share their terms.
CROSSOVER, SHARED_CROSSOVER = 1500.0, 4500.0
#: Padded pixels times channels that one multigrid task may hold: channels share its overhead, memory limits it.
LANE_PIXELS, FEWEST_LANES, MOST_LANES = 2**21, 8, 32

NO_LIMIT = np.empty(0, np.int32)


class Grid:
    """One image's edges as flat padded arrays; what multigrid and first guesses need is made on demand."""

    def __init__(self, across: Array, down: Array, inside: Array) -> None:
        height, width = inside.shape
        self.shape, self.pitch, self.size = (height, width), width + 2, (height + 2) * (width + 2)
        self.cx, self.cy = self._frame(across, 1), self._frame(down, 0)
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


def _chebyshev(
    grid: Grid,
    alpha: float,
    conductance: float,
    tol: float,
    x: Array,
    guess: Array | None,
    out: Array,
    max_steps: int,
) -> tuple[str, int, float]:
    """Solve one channel; each region takes as many steps as its own first residual asks for."""
    dtype = x.dtype.type
    (rhs,) = grid.pad([x])
    kappa = chebyshev.condition(alpha, conductance)
    lo, hi = grid.pitch, grid.size - grid.pitch
    size = np.sqrt(kernels.dot(rhs, rhs))
    if guess is None:
        u, counts, steps = grid.mean(rhs[None])[0], NO_LIMIT, chebyshev.step_count(kappa, tol)
    else:
        u, scratch = grid.pad([guess])[0], np.zeros_like(rhs)
        kernels.residual(u, rhs, *grid.edges, lo, hi, dtype(alpha), scratch)
        counts, steps = _counts(grid, rhs, scratch, kappa, tol)
    steps = min(steps, max_steps)
    gamma, omegas = chebyshev.step_weights(kappa, steps)
    other = u.copy()
    kernels.chebyshev(u, other, rhs, *grid.edges, dtype(alpha), dtype(gamma), omegas.astype(x.dtype), counts)
    if steps % 2:
        u, other = other, u
    out[...] = grid.unpad(u)
    kernels.residual(u, rhs, *grid.edges, lo, hi, dtype(alpha), other)
    left = np.sqrt(kernels.dot(other[lo:hi], other[lo:hi]))
    return "chebyshev", steps, float(left / size) if size else 0.0


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
    grid: Grid, alphas: list[float], conductance: float, tol: float, x: Array, out: list[Array]
) -> tuple[str, int, float]:
    """Solve one channel at several α: the terms of the Chebyshev series are computed once for all."""
    lengths = np.array([chebyshev.series_length(alpha, conductance, tol) for alpha in alphas])
    terms = 2 * ceil(int(lengths.max()) / 2)
    coefficients = np.zeros((len(alphas), terms), x.dtype)
    for row, alpha, length in zip(coefficients, alphas, lengths, strict=True):
        row[:length] = chebyshev.series(alpha, conductance, int(length))
    (rhs,) = grid.pad([x])
    (mean,) = grid.mean(rhs[None])
    t, other, total = rhs - mean, np.zeros_like(rhs), np.tile(mean, (len(alphas), 1))
    scale = x.dtype.type(0.5 / conductance if conductance else 0.0)
    kernels.chebyshev_scales(t, other, *grid.edges, scale, coefficients, lengths, total)
    lo, hi = grid.pitch, grid.size - grid.pitch
    size, worst = np.sqrt(kernels.dot(rhs, rhs)), 0.0
    for u, target, alpha in zip(total, out, alphas, strict=True):
        target[...] = grid.unpad(u)
        kernels.residual(u, rhs, *grid.edges, lo, hi, x.dtype.type(alpha), other)
        worst = max(worst, float(np.sqrt(kernels.dot(other[lo:hi], other[lo:hi]))))
    return "chebyshev", terms, worst / float(size) if size else 0.0


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


def _tasks(
    x: Array, grids: list[Grid], alpha: Array, conductance: float, tol: float,
    guess: Array | None, out: Array, max_steps: int | None, method: str | None, threads: int,
) -> Iterator[Task]:  # fmt: skip
    """Split a solve into independent tasks: a channel for Chebyshev, a group of channels for multigrid."""
    scales, channels = alpha.shape
    if method is None:
        kappa = 1.0 + 8.0 * alpha * conductance
        crossover = CROSSOVER if scales == 1 or guess is not None else SHARED_CROSSOVER
        small = (kappa <= crossover) & (tol >= FLOOR * np.finfo(x.dtype).eps * kappa)
    else:
        small = np.full(alpha.shape, method == "chebyshev")
    large = [(int(a), int(c)) for a, c in np.argwhere(~small)]
    limit = max(FEWEST_LANES, min(MOST_LANES, LANE_PIXELS // grids[0].size))
    lanes = max(1, min(limit, ceil(len(large) * len(grids) / threads)))
    for image, grid in enumerate(grids):
        for first in range(0, len(large), lanes):
            group = large[first : first + lanes]
            yield partial(
                _multigrid, grid, [float(alpha[a, c]) for a, c in group], conductance, tol,
                [x[image, c] for _, c in group],
                None if guess is None else [guess[image, a, c] for a, c in group],
                [out[image, a, c] for a, c in group], max_steps or 200,
            )  # fmt: skip
        for c in range(channels):
            rows = np.flatnonzero(small[:, c])
            if len(rows) > 1 and guess is None:
                values = [float(alpha[a, c]) for a in rows]
                yield partial(_scales, grid, values, conductance, tol, x[image, c], [out[image, a, c] for a in rows])
                continue
            for a in rows:
                start = None if guess is None else guess[image, a, c]
                yield partial(
                    _chebyshev, grid, float(alpha[a, c]), conductance, tol, x[image, c], start, out[image, a, c],
                    max_steps or 10**6,
                )  # fmt: skip


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
    tasks = _tasks(
        x.detach().contiguous().numpy(),
        grids,
        alpha.detach().double().numpy(),
        conductance,
        tol,
        None if guess is None else guess.detach().to(x.dtype).contiguous().numpy(),
        out.numpy(),
        max_steps,
        method,
        threads,
    )
    if threads == 1:
        return out, combine([task() for task in tasks], tol)
    return out, combine(list(_pool(threads, os.getpid()).map(lambda task: task(), tasks)), tol)
