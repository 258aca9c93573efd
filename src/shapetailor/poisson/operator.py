"""The discrete operator: labels become edges, edges become `A = I + αL`.

The stencil and its boundary rule (`eq:PDE_discretize`)::

    (A u)(p) = u(p) − α Σ_{q ∈ N4(p) ∩ R} c_pq (u(q) − u(p)),      c_pq = 1 inside a region, 0 across

The no-flux boundary condition is a missing edge: solvers work on edges alone and cannot see across a boundary.
Conductances between 0 and 1 make a solve differentiable in the region's shape.
"""

from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True)
class Edges:
    """Conductances of the 4-neighbour grid, one map for each image of a batch.

    Attributes
    ----------
    across : Tensor, (B, H, W−1)
        Conductance between ``(y, x)`` and ``(y, x+1)``.
    down : Tensor, (B, H−1, W)
        Conductance between ``(y, x)`` and ``(y+1, x)``.
    inside : Tensor, (B, H, W), bool
        Pixels that belong to some region; the others come back 0.
    """

    across: Tensor
    down: Tensor
    inside: Tensor
    #: What solvers derive from the edges (padded arrays, multigrid levels), kept between calls; and the label map that
    #: the edges come from, if they do.
    derived: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)


def edges_of(labels: Tensor, dtype: torch.dtype = torch.float32) -> Edges:
    """Turn label maps (B, H, W) into edges: 1 where two neighbours share a label >= 0, else 0.

    Examples
    --------
    >>> edges_of(torch.tensor([[[0, 0, 1, -1, -1]]])).across
    tensor([[[1., 0., 0., 0.]]])
    """
    inside = labels >= 0
    across = (labels[:, :, 1:] == labels[:, :, :-1]) & inside[:, :, 1:]
    down = (labels[:, 1:, :] == labels[:, :-1, :]) & inside[:, 1:, :]
    return Edges(across.to(dtype), down.to(dtype), inside, {"labels": labels})


def laplacian(u: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Graph Laplacian ``(L u)(p) = Σ_q c_pq (u(p) − u(q))`` of (B, ..., H, W).

    Flips and rotations by 90° leave the order of the sum unchanged, to the bit.
    """
    shape = (across.shape[0],) + (1,) * (u.ndim - 3)
    flow_x = across.reshape(*shape, *across.shape[1:]) * (u[..., :, 1:] - u[..., :, :-1])
    flow_y = down.reshape(*shape, *down.shape[1:]) * (u[..., 1:, :] - u[..., :-1, :])
    horizontal = pad(flow_x, (1, 0)) - pad(flow_x, (0, 1))
    vertical = pad(flow_y, (0, 0, 1, 0)) - pad(flow_y, (0, 0, 0, 1))
    return horizontal + vertical


def largest_conductance(edges: Edges) -> float:
    """Return max c; the spectrum of A lies in [1, 1 + 8α max c]."""
    parts = [part.detach().amax() for part in (edges.across, edges.down) if part.numel()]
    return float(torch.stack(parts).amax()) if parts else 0.0


def smallest_conductance(edges: Edges) -> float:
    """Return min c over the edges that exist, 0 without any."""
    parts = [part.detach() for part in (edges.across, edges.down) if part.numel()]
    least = min((float(torch.where(part > 0, part, torch.inf).amin()) for part in parts), default=0.0)
    return least if isfinite(least) else 0.0
