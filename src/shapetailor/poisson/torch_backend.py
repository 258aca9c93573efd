"""Solvers by torch operations, on any device: Chebyshev steps (`fused`: by Triton), and the explicit inverse.

The number of steps is known beforehand, so a first guess would save nothing and is not used.
"""

from importlib.util import find_spec

import torch
from torch import Tensor

from . import chebyshev
from .operator import Edges, laplacian, largest_conductance
from .stats import FLOOR, Stats, combine

#: The inverse is an N×N matrix in float64 for each image; 96² pixels are 680 MB.
MOST_PIXELS = 96 * 96


def solve(
    x: Tensor, edges: Edges, alpha: Tensor, tol: float, guess: Tensor | None = None, max_steps: int | None = None,
    fused: bool = False,
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
        from .cuda.triton_steps import Stepper

        name, u = "triton", Stepper(rhs, across, down, a).run(gamma, omegas.tolist())
    else:
        name, u = "torch", steps(rhs, across, down, a, gamma, omegas.tolist())
    worst = _worst(_residual(u, rhs, across, down, a), rhs)
    return u.to(x.dtype), combine([(name, len(omegas), worst)], tol)


def worst_residual(u: Tensor, x: Tensor, edges: Edges, alpha: Tensor) -> float:
    """Return the largest relative residual of a channel, for u (B, A, C, H, W), x (B, C, H, W) and alpha (A, C)."""
    rhs = torch.where(edges.inside[:, None], x, 0)
    return _worst(_residual(u, rhs, edges.across.detach(), edges.down.detach(), alpha), rhs)


def _worst(residual: Tensor, rhs: Tensor) -> float:
    left, size = residual.flatten(3).norm(dim=3), rhs.flatten(2).norm(dim=2)[:, None]
    return float(torch.where(size > 0, left / size.clamp_min(torch.finfo(rhs.dtype).tiny), 0).max())


def _residual(u: Tensor, rhs: Tensor, across: Tensor, down: Tensor, alpha: Tensor) -> Tensor:
    return rhs[:, None] - u - alpha[None, :, :, None, None] * laplacian(u, across, down)


def steps(rhs: Tensor, across: Tensor, down: Tensor, alpha: Tensor, gamma: float, omegas: list[float]) -> Tensor:
    """Run u_{k+1} = u_{k−1} + ω (γ r_k + u_k − u_{k−1}) from zero: (B, C, H, W) to (B, A, C, H, W)."""
    u = previous = torch.zeros_like(rhs)[:, None].expand(-1, alpha.shape[0], -1, -1, -1)
    for omega in omegas:
        residual = _residual(u, rhs, across, down, alpha)
        u, previous = previous + omega * (gamma * residual + (u - previous)), u
    return u


def operator_matrix(edges: Edges, alpha: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return A = I + αL as (B, N, N), N = H·W in raster order."""
    images, height, width = edges.inside.shape
    n = height * width
    unit = torch.eye(n, dtype=dtype, device=edges.inside.device).reshape(1, n, height, width).expand(images, -1, -1, -1)
    columns = unit + alpha * laplacian(unit, edges.across.detach().to(dtype), edges.down.detach().to(dtype))
    return columns.reshape(images, n, n)


def inverse_matrix(edges: Edges, alpha: float) -> Tensor:
    """Return A⁻¹ as (B, N, N) in float64; kept with the edges."""
    key = ("inverse", alpha)
    if key not in edges.derived:
        edges.derived[key] = torch.linalg.inv(operator_matrix(edges, alpha))
    inverse: Tensor = edges.derived[key]
    return inverse


def solve_dense(
    x: Tensor, edges: Edges, alpha: Tensor, tol: float, guess: Tensor | None = None, max_steps: int | None = None
) -> tuple[Tensor, Stats]:
    """Solve by the explicit inverse of A (`eq:invPoisson`), as in the paper: for small images."""
    images, channels, height, width = x.shape
    if height * width > MOST_PIXELS:
        raise ValueError(
            f"backend='dense' inverts an N×N matrix and takes images of at most {MOST_PIXELS} pixels; "
            f"got {height}×{width}. Use backend='auto'."
        )
    rhs = torch.where(edges.inside[:, None], x.detach().double(), 0).reshape(images, channels, -1)
    out = torch.empty((images, *alpha.shape, height, width), dtype=torch.float64, device=x.device)
    for value in alpha.detach().double().unique().tolist():
        solved = (rhs @ inverse_matrix(edges, value)).reshape(images, 1, channels, height, width)
        out = torch.where((alpha.detach().double() == value)[None, :, :, None, None], solved, out)
    a = alpha.detach().double()[None, :, :, None, None]
    left = rhs.reshape(images, 1, channels, height, width) - out
    left = left - a * laplacian(out, edges.across.detach().double(), edges.down.detach().double())
    size = rhs.norm(dim=2)[:, None].clamp_min(torch.finfo(torch.float64).tiny)
    return out.to(x.dtype), combine([("dense", 1, float((left.flatten(3).norm(dim=3) / size).max()))], tol)
