"""Plain torch operations on any device: the reference, and what a GPU uses until it has its own kernels.

Only Chebyshev steps, whose number is known beforehand: no inner product, no branch on data. A first guess would
save nothing that way, so it is not used.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import chebyshev
from .operator import Edges, laplacian, largest_conductance
from .stats import FLOOR, Stats, combine


def solve(
    x: Tensor,
    edges: Edges,
    alpha: Tensor,
    tol: float,
    guess: Tensor | None = None,
    max_steps: int | None = None,
) -> tuple[Tensor, Stats]:
    """Solve for x (B, C, H, W) at alpha (A, C): (B, A, C, H, W), and how it went."""
    # One polynomial for every channel, made for the largest α: the spectra of the others lie inside its.
    kappa = chebyshev.condition(float(alpha.max()), largest_conductance(edges))
    exact = tol < FLOOR * torch.finfo(x.dtype).eps * kappa
    dtype = torch.float64 if exact else x.dtype
    across, down = edges.across.detach().to(dtype), edges.down.detach().to(dtype)
    rhs = torch.where(edges.inside[:, None, None], x.detach().to(dtype)[:, None], 0)
    a = alpha.detach().to(x.device, dtype)[None, :, :, None, None]
    u = previous = torch.zeros_like(rhs).expand(-1, alpha.shape[0], -1, -1, -1)
    gamma, omegas = chebyshev.step_weights(kappa, min(chebyshev.step_count(kappa, tol), max_steps or 10**9))
    for omega in omegas.tolist():
        residual = rhs - u - a * laplacian(u, across, down)
        u, previous = previous + omega * (gamma * residual + (u - previous)), u
    residual = rhs - u - a * laplacian(u, across, down)
    left, size = residual.flatten(3).norm(dim=3), rhs.flatten(3).norm(dim=3)
    relative = torch.where(size > 0, left / size.clamp_min(torch.finfo(dtype).tiny), 0)
    return u.to(x.dtype), combine([("torch", len(omegas), float(relative.max()))], tol)
