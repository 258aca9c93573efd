"""Solvers for NVIDIA GPUs: half-steps that stay on the chip, and fused steps for what does not fit there."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import chebyshev, torch_backend
from ..operator import Edges
from ..stats import FLOOR, Stats
from . import onchip

#: As `FLOOR`, where each region's mean is taken off first: what is left of a smooth solution is small.
CENTRED_FLOOR = 0.6


def solve(
    x: Tensor, edges: Edges, alpha: Tensor, tol: float, guess: Tensor | None = None, max_steps: int | None = None,
    *, largest: float | None = None, measured: bool = True,
) -> tuple[Tensor, Stats]:  # fmt: skip
    """Solve for x (B, C, H, W) at alpha (A, C): (B, A, C, H, W), and how it went.

    `largest` is the largest α where the host knows it: the GPU is not waited for then. Without `measured`, the residual
    told is the bound that the number of steps keeps.
    """
    largest = float(alpha.max()) if largest is None else largest
    rounding = torch.finfo(torch.float32).eps * chebyshev.condition(largest)
    usable = x.dtype == torch.float32 and "labels" in edges.derived and max_steps is None
    centred = tol < FLOOR * rounding
    if not (usable and tol >= CENTRED_FLOOR * rounding and onchip.available(x.device)):
        return torch_backend.solve(x, edges, alpha, tol, guess, max_steps, fused=True)
    derived = edges.derived
    if centred and "regions" not in derived:
        derived["regions"] = onchip.regions_of(derived["labels"])
    regions = derived["regions"] if centred else None
    if centred and regions is None:
        return torch_backend.solve(x, edges, alpha, tol, guess, max_steps, fused=True)
    if "cuts" not in derived:
        derived["cuts"] = onchip.cuts(derived["labels"])
    count = len(chebyshev.half_steps(largest, 1.0, 1.0, tol).omegas) + 1
    u = onchip.solve(x.detach(), derived["cuts"], alpha.detach(), tol, count, regions)
    residual = torch_backend.worst_residual(u, x.detach(), edges, alpha.detach()) if measured else tol
    return u, Stats("on-chip", count, residual, residual <= tol)
