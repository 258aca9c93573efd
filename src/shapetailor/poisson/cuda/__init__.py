"""Solvers for NVIDIA GPUs: half-steps that stay on the chip, and fused steps for what does not fit there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import chebyshev, torch_backend
from ..operator import Edges
from ..stats import FLOOR, Stats
from . import onchip

#: As `FLOOR`, where each region's mean is taken off first: what is left of a smooth solution is small.
CENTRED_FLOOR = 0.6
#: Regions whose means are taken off, at most.
MOST_CENTRED = 64


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
    means = _means(x.detach(), edges.inside, edges.derived) if centred else None
    if centred and means is None:
        return torch_backend.solve(x, edges, alpha, tol, guess, max_steps, fused=True)
    if "cuts" not in edges.derived:
        edges.derived["cuts"] = onchip.cuts(edges.derived["labels"])
    count = len(chebyshev.half_steps(largest, 1.0, 1.0, tol).omegas) + 1
    data = x.detach() if means is None else x.detach() - means
    u = onchip.solve(data, edges.derived["cuts"], alpha.detach(), tol, count)
    if means is not None:  # smoothing keeps what is constant in a region
        u += means[:, None]
    residual = torch_backend.worst_residual(u, x.detach(), edges, alpha.detach()) if measured else tol
    return u, Stats("on-chip", count, residual, residual <= tol)


def _means(x: Tensor, inside: Tensor, derived: dict[Any, Any]) -> Tensor | None:
    """Return the mean of each label of (B, C, H, W) at its pixels; None for too many labels."""
    if "ranks" not in derived:
        names, ranks = derived["labels"].unique(return_inverse=True)
        derived["ranks"] = ranks, len(names)
    ranks, count = derived["ranks"]
    if count > MOST_CENTRED:
        return None
    numbers = torch.arange(count, device=x.device)
    member = ((ranks[..., None] == numbers) & inside[..., None]).to(x.dtype)
    # Row by row: one product over all pixels of a plane would leave most of the GPU idle.
    total = (torch.where(inside[:, None], x, 0).transpose(1, 2) @ member).sum(dim=1)
    means = total / member.sum(dim=(1, 2)).clamp_min(1)[:, None]
    spread: Tensor = means.gather(2, ranks.flatten(1)[:, None].expand(-1, x.shape[1], -1))
    return spread.reshape(x.shape)
