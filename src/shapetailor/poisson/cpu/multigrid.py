"""Conjugate gradients preconditioned by multigrid: cost is flat in α.

The finest level is the padded grid of `grid_kernels`, a channel at a time; the coarser ones are the graphs of
`hierarchy`, with the channels as the fastest index. Interpolation is constant on aggregates, restriction its transpose.
Smoothing is a Chebyshev polynomial of degree 2, the same before and after, so that the V-cycle is symmetric and
positive definite.

Inner products and stopping are for each component and channel by itself. Every channel may have its own α.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from ...arrays import Array
from ...parallel import compiled
from ..chebyshev import condition
from .grid_kernels import region_dot, residual, smallest, step
from .hierarchy import Hierarchy, Level

#: Smoothing acts on the upper part [1/4, 1]·λmax of the spectrum; γ is relative to 1/λmax.
_THETA, _DELTA = 0.625, 0.375
_GAMMA = 1.0 / _THETA
_OMEGA = 1.0 / (1.0 - 0.5 * (_DELTA / _THETA) ** 2)
#: The same as d ← momentum·d + factor·D⁻¹r on the coarse graphs, where λmax(D⁻¹A) is at most 2.
_FIRST, _MOMENTUM, _SECOND = _GAMMA / 2.0, _OMEGA - 1.0, _OMEGA * _GAMMA / 2.0


@compiled(fastmath={"contract"})
def _coarse_first(inverse: Array, b: Array, u: Array, d: Array, factor: Any) -> None:
    """First smoothing step, from u = 0, where the residual is b."""
    for i in range(b.shape[0]):
        for g in range(b.shape[1]):
            d[i, g] = factor * b[i, g] * inverse[i, g]
            u[i, g] = d[i, g]


@compiled(fastmath={"contract"})
def _coarse_step(
    start: Array, target: Array, weight: Array, inverse: Array, volume: Array, alpha: Array,
    b: Array, u: Array, d: Array, momentum: Any, factor: Any,
) -> None:  # fmt: skip
    """D ← momentum·d + factor·D⁻¹(b − A u) for all nodes; then u ← u + d."""
    lanes = alpha.size
    flow = np.empty(lanes, u.dtype)
    for i in range(volume.size):
        flow[:] = 0
        for e in range(start[i], start[i + 1]):
            j, c = target[e], weight[e]
            for g in range(lanes):
                flow[g] += c * (u[j, g] - u[i, g])
        for g in range(lanes):
            r = (b[i, g] - volume[i] * u[i, g]) + alpha[g] * flow[g]
            d[i, g] = momentum * d[i, g] + factor * r * inverse[i, g]
    for i in range(volume.size):
        for g in range(lanes):
            u[i, g] += d[i, g]


@compiled(fastmath={"contract"})
def _coarse_restrict(
    start: Array, target: Array, weight: Array, volume: Array, alpha: Array,
    b: Array, u: Array, parent: Array, out: Array,
) -> None:  # fmt: skip
    """out[parent] = sum of b − A u over the aggregate."""
    lanes = alpha.size
    flow = np.empty(lanes, u.dtype)
    out[:] = 0
    for i in range(volume.size):
        flow[:] = 0
        for e in range(start[i], start[i + 1]):
            j, c = target[e], weight[e]
            for g in range(lanes):
                flow[g] += c * (u[j, g] - u[i, g])
        p = parent[i]
        for g in range(lanes):
            out[p, g] += (b[i, g] - volume[i] * u[i, g]) + alpha[g] * flow[g]


@compiled()
def _coarse_prolong(parent: Array, coarse: Array, u: Array) -> None:
    for i in range(parent.size):
        p = parent[i]
        for g in range(u.shape[1]):
            u[i, g] += coarse[p, g]


def _coarse_cycle(levels: list[Level], alpha: Array, b: Array, u: Array, work: list[tuple[Array, ...]]) -> None:
    """U ≈ A⁻¹ b on levels[0]; `work` holds (D⁻¹, d, coarse b, coarse u) of each level."""
    level, dtype = levels[0], b.dtype.type
    if len(levels) == 1:  # every component is one node: A is its volume
        np.divide(b, level.volume[:, None], out=u)
        return
    graph = (level.start, level.target, level.weight)
    inverse, d, coarse_b, coarse_u = work[0]
    first, momentum, second = dtype(_FIRST), dtype(_MOMENTUM), dtype(_SECOND)
    _coarse_first(inverse, b, u, d, first)
    _coarse_step(*graph, inverse, level.volume, alpha, b, u, d, momentum, second)
    _coarse_restrict(*graph, level.volume, alpha, b, u, level.parent, coarse_b)
    _coarse_cycle(levels[1:], alpha, coarse_b, coarse_u, work[1:])
    _coarse_prolong(level.parent, coarse_u, u)
    _coarse_step(*graph, inverse, level.volume, alpha, b, u, d, dtype(0), first)
    _coarse_step(*graph, inverse, level.volume, alpha, b, u, d, momentum, second)


@compiled()
def _down(
    cx: Array, cy: Array, pitch: int, alpha: Array, gamma: Array, omega: Any,
    b: Array, u: Array, t: Array, parent: Array, coarse: Array,
) -> None:  # fmt: skip
    """Smooth from zero on the grid, and sum the residual over the aggregates."""
    width, end = pitch - 2, b.shape[1] - pitch
    coarse[:] = 0
    for g in range(b.shape[0]):
        u[g] = 0
        t[:] = gamma[g] * b[g]  # the first step from zero
        step(t, u[g], b[g], cx, cy, pitch, pitch, end, alpha[g], gamma[g], omega)
        residual(u[g], b[g], cx, cy, pitch, pitch, end, alpha[g], t)
        for first in range(0, parent.size, width):
            row = t[pitch + 1 + first // width * pitch :]
            for x in range(width):
                coarse[parent[first + x], g] += row[x]


@compiled()
def _up(
    cx: Array, cy: Array, pitch: int, alpha: Array, gamma: Array, omega: Any,
    b: Array, u: Array, t: Array, parent: Array, coarse: Array,
) -> None:  # fmt: skip
    """Add the aggregates' correction and smooth."""
    width, end = pitch - 2, b.shape[1] - pitch
    one = u.dtype.type(1)
    for g in range(b.shape[0]):
        for first in range(0, parent.size, width):
            row = u[g, pitch + 1 + first // width * pitch :]
            for x in range(width):
                row[x] += coarse[parent[first + x], g]
        t[:] = u[g]
        step(u[g], t, b[g], cx, cy, pitch, pitch, end, alpha[g], gamma[g], one)
        step(t, u[g], b[g], cx, cy, pitch, pitch, end, alpha[g], gamma[g], omega)


@compiled()
def _dots(runs: Array, count: int, a: Array, b: Array) -> Array:
    total = np.empty((a.shape[0], count))
    for g in range(a.shape[0]):
        total[g] = region_dot(runs, count, a[g], b[g])
    return total


@compiled(fastmath={"contract"})
def _new_direction(runs: Array, z: Array, beta: Array, p: Array) -> None:
    """P = z + βp, with one β for each channel and component."""
    for g in range(p.shape[0]):
        for k in range(runs.shape[0]):
            lo, hi, c = runs[k]
            factor, source, target = beta[g, c], z[g, lo:hi], p[g, lo:hi]
            for i in range(len(target)):
                target[i] = source[i] + factor * target[i]


@compiled()
def _apply(cx: Array, cy: Array, pitch: int, alpha: Array, b: Array, u: Array, out: Array) -> None:
    """Out = b − A u, channel by channel; a single b serves all."""
    for g in range(u.shape[0]):
        residual(u[g], b[g % b.shape[0]], cx, cy, pitch, pitch, u.shape[1] - pitch, alpha[g], out[g])


@compiled(fastmath={"contract"})
def _advance(runs: Array, length: Array, p: Array, q: Array, x: Array, r: Array) -> None:
    """X += a·p and r += a·q, with one a for each channel and component."""
    for g in range(p.shape[0]):
        for k in range(runs.shape[0]):
            lo, hi, c = runs[k]
            for source, target in ((p[g, lo:hi], x[g, lo:hi]), (q[g, lo:hi], r[g, lo:hi])):
                for i in range(len(target)):
                    target[i] += length[g, c] * source[i]


def _divide(a: Array, b: Array, where: Array) -> Array:
    return np.divide(a, b, out=np.zeros_like(a), where=where & (b != 0))


class Solver:
    """Solves A x = b for a group of channels of one image.

    The arguments are flat padded conductances in the precision of the data, their pitch, the hierarchy, the components'
    runs and number, one α in float64 for each channel, and the largest conductance.
    """

    def __init__(
        self, cx: Array, cy: Array, pitch: int, hierarchy: Hierarchy,
        runs: Array, count: int, alpha: Array, conductance: float,
    ) -> None:  # fmt: skip
        dtype, channels = cx.dtype, alpha.size
        self._grid = (cx, cy, pitch)
        self._hierarchy, self._runs, self._count = hierarchy, runs, count
        self._exact_alpha, self._alpha = alpha, alpha.astype(dtype)
        top = np.array([condition(value, conductance) for value in alpha])
        self._gamma = (_GAMMA / top).astype(dtype)
        self._ends = np.empty((2, hierarchy.levels[0].volume.size, channels), dtype)
        self._work = [
            (1 / (fine.volume[:, None] + np.outer(fine.degree, self._alpha)),
             np.empty((fine.volume.size, channels), dtype),
             *np.empty((2, coarse.volume.size, channels), dtype))
            for fine, coarse in pairwise(hierarchy.levels)
        ]  # fmt: skip
        self._scratch = np.zeros(cx.size, dtype)

    def solve(self, b: Array, x: Array, tol: float, max_steps: int) -> tuple[float, int]:
        """Improve x until the residual of every channel and component is at most tol times its right-hand side.

        b is (channels, padded size); x has the same shape in float64, a first guess on entry. The residual is taken in
        float64 and the correction solved for in b's precision (iterative refinement), so that large α meet their
        tolerance in float32 too. Returns the steps taken and, first, the largest relative residual, where data below
        `smallest` count as such.
        """
        size = np.sqrt(_dots(self._runs, self._count, b, b))
        pixels = np.bincount(self._runs[:, 2], self._runs[:, 1] - self._runs[:, 0], self._count)
        least = np.maximum(size, np.sqrt(pixels) * smallest(b.dtype))
        goal = tol * size
        # Reduction to expect of one pass of CG in this precision.
        trust = 1e-4 if b.dtype == np.float32 else 1e-9
        r, p, z = np.zeros((3, *b.shape), b.dtype)
        correction = np.zeros_like(b) if b.dtype != x.dtype else x
        steps = 0
        while True:
            _apply(*self._grid, self._exact_alpha, b, x, r)
            norm = np.sqrt(_dots(self._runs, self._count, r, r))
            if steps >= max_steps or bool(np.all(norm <= goal)):
                return float(_divide(norm, least, size > 0).max(initial=0.0)), steps
            target = np.maximum(0.7 * goal, trust * norm)
            steps = self._conjugate_gradients(correction, r, p, z, target, steps, max_steps)
            if correction is not x:
                x += correction
                correction[:] = 0

    def _conjugate_gradients(
        self, x: Array, r: Array, p: Array, z: Array, goal: Array, steps: int, max_steps: int
    ) -> int:
        """Preconditioned CG on the residual r; components at their goal are left alone."""
        zero = np.zeros((1, r.shape[1]), r.dtype)
        rz = np.zeros(goal.shape)
        while steps < max_steps:
            active = np.sqrt(_dots(self._runs, self._count, r, r)) > goal
            if not active.any():
                break
            self._precondition(r, z)
            rz_old, rz = rz, _dots(self._runs, self._count, r, z)
            _new_direction(self._runs, z, _divide(rz, rz_old, active).astype(r.dtype), p)
            _apply(*self._grid, self._alpha, zero, p, z)  # z now holds −A p
            length = _divide(rz, -_dots(self._runs, self._count, p, z), active)
            _advance(self._runs, length.astype(r.dtype), p, z, x, r)
            steps += 1
        return steps

    def _precondition(self, b: Array, u: Array) -> None:
        """U = one V-cycle for A u = b, from zero."""
        omega, (coarse_b, coarse_u) = b.dtype.type(_OMEGA), self._ends
        grid = (*self._grid, self._alpha, self._gamma, omega, b, u, self._scratch, self._hierarchy.parent)
        _down(*grid, coarse_b)
        _coarse_cycle(self._hierarchy.levels, self._alpha, coarse_b, coarse_u, self._work)
        _up(*grid, coarse_u)
