"""Smoothing with a screening that varies from pixel to pixel: solve ``(S + αL) u = S x``.

S is a diagonal of numbers s > 0: how strongly a pixel holds on to its own data. With s = 1 it is the equation of
`smooth`; with small s data spread far, with large s a pixel keeps its value. A random walk with priors (L. Grady,
"Multilabel random walker image segmentation using prior models", CVPR 2005) is this equation. With ``A = S + αL``, a
gradient g and ``A λ = g``::

    dE/dx    = s λ
    dE/ds    = λ (x − u)
    dE/dα    = −⟨λ, L u⟩
    dE/dc_pq = −α (λ_p − λ_q) (u_p − u_q)          summed over channels

The solver is the conjugate gradient method with the diagonal as preconditioner. Inner products and the stopping rule
are taken for each connected component by itself, so that no region's answer depends on another's.
"""

import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..arrays import Array, Floats
from ..parallel import compiled, in_threads
from .cpu.grid_kernels import components
from .operator import Edges, laplacian
from .stats import ConvergenceWarning, Stats, combine

#: Steps at most, unless asked otherwise.
MOST_STEPS = 5000


class Setting(NamedTuple):
    """What does not take part in the gradient."""

    inside: Tensor  # (B, H, W)
    tol: float
    max_steps: int
    guess: Tensor | None  # (B, C, H, W)
    stats: list[Stats]  # of the last solve


class Screened(torch.autograd.Function):
    """Right-hand side (B, C, H, W), across, down, screening (B, H, W), alpha (C,) → A⁻¹ rhs."""

    @staticmethod
    def forward(
        ctx: Any, rhs: Tensor, across: Tensor, down: Tensor, screening: Tensor, alpha: Tensor, setting: Setting
    ) -> Tensor:
        """Solve, and warn where the tolerance was missed."""
        u, stats = solve(rhs, across, down, screening, alpha, setting)
        setting.stats[:] = [stats]
        if not stats.converged:
            warnings.warn(
                f"the screened solve stopped after {stats.iterations} steps at a relative residual of "
                f"{stats.residual:.1e}, above tol={setting.tol:.1e}. Try a larger tol or max_steps, or float64 data.",
                ConvergenceWarning,
                stacklevel=3,
            )
        ctx.save_for_backward(across, down, screening, alpha, u)
        ctx.setting = setting._replace(guess=None, stats=[])
        return u

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """One adjoint solve gives every derivative."""
        across, down, screening, alpha, u = ctx.saved_tensors
        lam: Tensor = Screened.apply(
            torch.where(ctx.setting.inside[:, None], grads[0], 0), across, down, screening, alpha, ctx.setting
        )
        scaled = alpha[None, :, None, None] * lam
        by_across = -((scaled[..., 1:] - scaled[..., :-1]) * (u[..., 1:] - u[..., :-1])).sum(dim=1)
        by_down = -((scaled[..., 1:, :] - scaled[..., :-1, :]) * (u[..., 1:, :] - u[..., :-1, :])).sum(dim=1)
        by_alpha = -(lam * laplacian(u, across, down)).sum(dim=(0, 2, 3))
        return lam, by_across, by_down, -(lam * u).sum(dim=1), by_alpha, None


def smooth_screened(
    x: Tensor, edges: Edges, alpha: Tensor, screening: Tensor, tol: float, max_steps: int | None, guess: Tensor | None
) -> tuple[Tensor, Stats]:
    """Solve ``(S + αL) u = S x`` for x (B, C, H, W), alpha (C,) and screening (B, H, W), all checked."""
    data = torch.where(edges.inside[:, None], x, 0)
    held = torch.where(edges.inside, screening, 1)
    setting = Setting(edges.inside, tol, max_steps or MOST_STEPS, guess, [])
    u: Tensor = Screened.apply(
        held[:, None] * data, edges.across.to(x.dtype), edges.down.to(x.dtype), held, alpha, setting
    )
    return u, setting.stats[0]


def solve(
    rhs: Tensor, across: Tensor, down: Tensor, screening: Tensor, alpha: Tensor, setting: Setting
) -> tuple[Tensor, Stats]:
    """Solve for right-hand sides (B, C, H, W), in double precision on the CPU."""
    images, channels, height, width = rhs.shape
    b, ax, ay, s, a = (each.detach().double().cpu().numpy() for each in (rhs, across, down, screening, alpha))
    start = b / s[:, None] if setting.guess is None else setting.guess.detach().double().cpu().numpy()
    u = np.array(start, order="C")
    tasks = []
    for image in range(images):
        cx, cy = np.zeros((height + 2, width + 2)), np.zeros((height + 2, width + 2))
        cx[1:-1, 2:-1], cy[2:-1, 1:-1] = ax[image], ay[image]
        number, count = components(cx, cy)
        for channel in range(channels):
            tasks.append(
                partial(
                    _conjugate_gradients, s[image], a[channel] * ax[image], a[channel] * ay[image], b[image, channel],
                    u[image, channel], number, count, setting.tol, setting.max_steps,
                )
            )  # fmt: skip
    parts = [("screened", *each) for each in in_threads(tasks)]
    return torch.from_numpy(u).to(rhs), combine(parts, setting.tol)


@compiled()
def _multiply(s: Floats, across: Floats, down: Floats, u: Floats, out: Floats) -> None:
    """Write (S + L) u."""
    height, width = u.shape
    for y in range(height):
        for x in range(width):
            out[y, x] = s[y, x] * u[y, x]
    for y in range(height):
        for x in range(width - 1):
            flow = across[y, x] * (u[y, x] - u[y, x + 1])
            out[y, x] += flow
            out[y, x + 1] -= flow
    for y in range(height - 1):
        for x in range(width):
            flow = down[y, x] * (u[y, x] - u[y + 1, x])
            out[y, x] += flow
            out[y + 1, x] -= flow


@compiled()
def _dots(number: Array, count: int, a: Floats, b: Floats) -> Floats:
    """Inner products of two (H, W), one for each component."""
    out = np.zeros(count)
    for y in range(a.shape[0]):
        for x in range(a.shape[1]):
            out[number[y, x]] += a[y, x] * b[y, x]
    return out


@compiled()
def _conjugate_gradients(
    s: Floats, across: Floats, down: Floats, b: Floats, u: Floats, number: Array, count: int, tol: float, most: int
) -> tuple[int, float]:
    """Improve u until every component's residual is small enough; return the steps and the worst relative residual."""
    height, width = u.shape
    inverse = s.copy()
    for y in range(height):
        for x in range(width - 1):
            inverse[y, x] += across[y, x]
            inverse[y, x + 1] += across[y, x]
    for y in range(height - 1):
        for x in range(width):
            inverse[y, x] += down[y, x]
            inverse[y + 1, x] += down[y, x]
    inverse = 1 / inverse
    r, q = np.empty_like(u), np.empty_like(u)
    _multiply(s, across, down, u, r)
    r = b - r
    z = inverse * r
    p = z.copy()
    rz, goal = _dots(number, count, r, z), tol**2 * _dots(number, count, b, inverse * b)
    steps = 0
    while steps < most and (rz > goal).any():
        steps += 1
        _multiply(s, across, down, p, q)
        pq = _dots(number, count, p, q)
        length = np.where((rz > goal) & (pq > 0), rz / np.where(pq > 0, pq, 1), 0.0)
        for y in range(height):
            for x in range(width):
                step = length[number[y, x]]
                u[y, x] += step * p[y, x]
                r[y, x] -= step * q[y, x]
                z[y, x] = inverse[y, x] * r[y, x]
        new = _dots(number, count, r, z)
        ratio = np.where(rz > 0, new / np.where(rz > 0, rz, 1), 0.0)
        rz = new
        for y in range(height):
            for x in range(width):
                p[y, x] = z[y, x] + ratio[number[y, x]] * p[y, x]
    worst = 0.0
    for c in range(count):
        if goal[c] > 0:
            worst = max(worst, tol * np.sqrt(rz[c] / goal[c]))
    return steps, worst
