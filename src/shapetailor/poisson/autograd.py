"""Gradients of a solve, by further solves of the same operator.

With ``A u = x``, ``A = I + αL(c)``, and an incoming gradient g, let ``A λ = g`` (A is symmetric, so this adjoint solve
is a solve like the first). Then::

    dE/dx    = λ
    dE/dα    = −⟨λ, L u⟩
    dE/dc_pq = −α (λ_p − λ_q) (u_p − u_q)          summed over channels

and in forward mode ``A u̇ = ẋ − α̇ L u − α L(ċ) u``. All of this is differentiable again, so higher derivatives follow.
Only u is kept.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from .operator import Edges, laplacian
from .stats import ConvergenceWarning, Stats

Solver = Callable[[Tensor, Edges, Tensor, float, Tensor | None, int | None], tuple[Tensor, Stats]]


@dataclass
class Settings:
    """How to solve, what to reuse, and the statistics of the last solve."""

    solver: Solver
    tol: float
    max_steps: int | None = None
    guess: Tensor | None = None
    derived: dict[Any, Any] = field(default_factory=dict)
    trusted: bool = False  # data of our own, which need no look
    stats: Stats | None = None


def check_values(x: Tensor, across: Tensor, down: Tensor, inside: Tensor, alpha: Tensor) -> None:
    """Raise a ValueError unless all values are finite, and alpha and conductances not negative."""
    # Look at every value only where a sum is not finite. One condition, since a GPU is waited for at each.
    sums = x.sum() + alpha.sum() + across.sum() + down.sum()
    if bool(torch.isfinite(sums) & (alpha >= 0).all() & (across >= 0).all() & (down >= 0).all()):
        return
    if not bool(torch.isfinite(x.sum())):
        bad = ~torch.isfinite(x) & inside[:, None]
        if bool(bad.any()):
            raise ValueError(f"x must be finite inside the regions; {int(bad.sum())} values are NaN or infinite")
    if not bool(torch.isfinite(alpha).all()) or bool((alpha < 0).any()):
        raise ValueError(f"alpha must be finite and not negative; got {alpha.flatten().tolist()}")
    for name, part in (("across", across), ("down", down)):
        if part.numel() and not (bool(torch.isfinite(part).all()) and bool((part >= 0).all())):
            raise ValueError(f"conductances must be finite and not negative; edges.{name} has others")


class Solve(torch.autograd.Function):
    """x (B, C, H, W), across, down, inside, alpha (A, C) → u (B, A, C, H, W)."""

    @staticmethod
    def forward(x: Tensor, across: Tensor, down: Tensor, inside: Tensor, alpha: Tensor, settings: Settings) -> Tensor:
        """Solve, and warn where the tolerance was missed."""
        if not settings.trusted:
            check_values(x, across, down, inside, alpha)
        edges = Edges(across, down, inside, settings.derived)
        u, stats = settings.solver(x, edges, alpha, settings.tol, settings.guess, settings.max_steps)
        settings.stats = stats
        if not stats.converged:
            warnings.warn(
                f"the solve stopped after {stats.iterations} steps ({stats.backend}) at a relative residual of "
                f"{stats.residual:.1e}, above tol={settings.tol:.1e}. Try a larger tol or max_steps, float64 data or "
                "backend='multigrid'.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return u

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep the solution."""
        _, across, down, inside, alpha, settings = inputs
        ctx.save_for_backward(across, down, inside, alpha, output)
        ctx.save_for_forward(across, down, inside, alpha, output)
        ctx.settings = replace(settings, guess=None)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """One adjoint solve gives every derivative."""
        across, down, inside, alpha, u = ctx.saved_tensors
        need_x, need_across, need_down, _, need_alpha, _ = ctx.needs_input_grad
        lam = _solve_scales(grads[0], across, down, inside, alpha, ctx.settings)
        scaled = alpha[None, :, :, None, None] * lam
        grad_across = grad_down = grad_alpha = None
        if need_across:
            grad_across = -(_difference(scaled, -1) * _difference(u, -1)).sum(dim=(1, 2))
        if need_down:
            grad_down = -(_difference(scaled, -2) * _difference(u, -2)).sum(dim=(1, 2))
        if need_alpha:
            grad_alpha = -(lam * laplacian(u, across, down)).sum(dim=(0, 3, 4))
        return (lam.sum(dim=1) if need_x else None), grad_across, grad_down, None, grad_alpha, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        """Solve for the linearised right-hand side."""
        across, down, inside, alpha, u = ctx.saved_tensors
        d_x, d_across, d_down, _, d_alpha, _ = tangents
        rhs = torch.zeros_like(u) if d_x is None else d_x[:, None].expand_as(u)
        if d_alpha is not None:
            rhs = rhs - d_alpha[None, :, :, None, None] * laplacian(u, across, down)
        if d_across is not None or d_down is not None:
            d_across = torch.zeros_like(across) if d_across is None else d_across
            d_down = torch.zeros_like(down) if d_down is None else d_down
            rhs = rhs - alpha[None, :, :, None, None] * laplacian(u, d_across, d_down)
        return _solve_scales(rhs, across, down, inside, alpha, ctx.settings)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
        """Fold the mapped dimension into the channels, or into the batch where edges differ."""
        *tensors, settings = args
        n = info.batch_size
        batched = [dim is not None for dim in in_dims[:5]]
        x, across, down, inside, alpha = (
            tensor.movedim(dim, 0) if dim is not None else tensor.unsqueeze(0).expand(n, *tensor.shape)
            for tensor, dim in zip(tensors, in_dims[:5], strict=True)
        )
        if not any(batched[1:4]):
            settings = replace(settings, guess=None)
            channels = x.shape[2]
            u = Solve.apply(x.movedim(0, 1).flatten(1, 2), *tensors[1:4], alpha.movedim(0, 1).flatten(1, 2), settings)
            return u.unflatten(2, (n, channels)).movedim(2, 0), 0
        settings = replace(settings, guess=None, derived={})
        if batched[4]:
            parts = zip(x, across, down, inside, alpha, strict=True)
            return torch.stack([Solve.apply(*part, replace(settings, derived={})) for part in parts]), 0
        folded = (tensor.flatten(0, 1) for tensor in (x, across, down, inside))
        return Solve.apply(*folded, tensors[4], settings).unflatten(0, (n, -1)), 0


def _difference(u: Tensor, dim: int) -> Tensor:
    return u.narrow(dim, 1, u.shape[dim] - 1) - u.narrow(dim, 0, u.shape[dim] - 1)


def _solve_scales(
    rhs: Tensor, across: Tensor, down: Tensor, inside: Tensor, alpha: Tensor, settings: Settings
) -> Tensor:
    """Solve for a right-hand side (B, A, C, H, W) that differs from scale to scale."""
    flat: Tensor = Solve.apply(rhs.flatten(1, 2), across, down, inside, alpha.reshape(1, -1), settings)
    return flat.reshape(rhs.shape)
