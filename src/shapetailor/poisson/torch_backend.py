"""Chebyshev steps by torch operations, on any device; fused on a GPU with Triton.

Their number is known beforehand, so a first guess would save nothing and is not used.
"""

from importlib.util import find_spec

import torch
from torch import Tensor

from . import chebyshev
from .operator import Edges, laplacian, largest_conductance
from .stats import FLOOR, Stats, combine


def solve(
    x: Tensor, edges: Edges, alpha: Tensor, tol: float, guess: Tensor | None = None, max_steps: int | None = None,
    fused: bool = True,
) -> tuple[Tensor, Stats]:  # fmt: skip
    """Solve for x (B, C, H, W) at alpha (A, C): (B, A, C, H, W), and how it went."""
    # One polynomial for every channel, for the largest α: the other spectra lie inside its spectrum.
    kappa = chebyshev.condition(float(alpha.max()), largest_conductance(edges))
    exact = tol < FLOOR * torch.finfo(x.dtype).eps * kappa
    dtype = torch.float64 if exact else x.dtype
    across, down = edges.across.detach().to(dtype), edges.down.detach().to(dtype)
    rhs = torch.where(edges.inside[:, None], x.detach().to(dtype), 0)
    a = alpha.detach().to(x.device, dtype)
    gamma, omegas = chebyshev.step_weights(kappa, min(chebyshev.step_count(kappa, tol), max_steps or 10**9))
    if fused and x.is_cuda and find_spec("triton") is not None:
        from .cuda_backend import Stepper

        name, u = "triton", Stepper(rhs, across, down, a).run(gamma, omegas.tolist())
    else:
        name, u = "torch", steps(rhs, across, down, a, gamma, omegas.tolist())
    residual = _residual(u, rhs, across, down, a)
    left, size = residual.flatten(3).norm(dim=3), rhs.flatten(2).norm(dim=2)[:, None]
    relative = torch.where(size > 0, left / size.clamp_min(torch.finfo(dtype).tiny), 0)
    return u.to(x.dtype), combine([(name, len(omegas), float(relative.max()))], tol)


def _residual(u: Tensor, rhs: Tensor, across: Tensor, down: Tensor, alpha: Tensor) -> Tensor:
    return rhs[:, None] - u - alpha[None, :, :, None, None] * laplacian(u, across, down)


def steps(rhs: Tensor, across: Tensor, down: Tensor, alpha: Tensor, gamma: float, omegas: list[float]) -> Tensor:
    """Run u_{k+1} = u_{k−1} + ω (γ r_k + u_k − u_{k−1}) from zero: (B, C, H, W) to (B, A, C, H, W)."""
    u = previous = torch.zeros_like(rhs)[:, None].expand(-1, alpha.shape[0], -1, -1, -1)
    for omega in omegas:
        residual = _residual(u, rhs, across, down, alpha)
        u, previous = previous + omega * (gamma * residual + (u - previous)), u
    return u
