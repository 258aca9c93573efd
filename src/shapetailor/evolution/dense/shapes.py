"""The shapes of all regions: `region_shape` on planes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..region_shape import LEAST_CORE

#: A squared distance beyond all that counts.
FAR = 1e8


class Shapes(NamedTuple):
    """Regions and their smooth indicators, (P, K, H, W) each; see `region_shape.Shape`."""

    mask: Tensor
    core: Tensor
    dilated: Tensor
    band: Tensor
    phi: Tensor
    slope: Tensor
    curvature: Tensor


def shapes_of(labels: Tensor, regions: int, reach: int, rim: int) -> Shapes:
    """Describe the shapes of regions 0..K−1 of label maps (P, H, W)."""
    mask = masks_of(labels, regions)
    distance = _signed_distance(mask, reach + 2)
    dilated = (distance >= 0.5 - reach) & (labels >= 0)[:, None]
    phi = (0.5 + distance / (2.0 * reach)).clamp(0.0, 1.0)
    core = distance > rim
    whole = core.sum(dim=(2, 3), keepdim=True) < LEAST_CORE * mask.sum(dim=(2, 3), keepdim=True)
    slope, curvature = _slope_and_curvature(phi)
    band = dilated & (distance < reach + 1)
    return Shapes(mask, torch.where(whole, mask, core), dilated, band, phi, slope, curvature)


def masks_of(labels: Tensor, regions: int) -> Tensor:
    """Return which pixels are in each region, (P, K, H, W)."""
    return labels[:, None] == torch.arange(regions, device=labels.device)[:, None, None]


def _signed_distance(mask: Tensor, most: int) -> Tensor:
    """Return `labels.signed_distance`, exact up to `most` pixels from the edge; beyond, some number greater than that.

    Distances along the columns first, then the least of their squares plus those of the way along the row.
    """
    targets = torch.stack([~mask, mask])  # pixels inside look for those outside, and the other way round
    row = torch.arange(mask.shape[-2], dtype=torch.float32, device=mask.device)[:, None]
    above = torch.where(targets, row, -FAR).cummax(dim=-2).values
    below = torch.where(targets, row, FAR).flip(-2).cummin(dim=-2).values.flip(-2)
    squared = torch.minimum(row - above, below - row).square().clamp_max(FAR)
    way = torch.arange(-most, most + 1, dtype=torch.float32, device=mask.device).square()
    nearest = (pad(squared, (most, most), value=FAR).unfold(-1, 2 * most + 1, 1) + way).amin(dim=-1)
    inner, outer = nearest.sqrt()
    return torch.where(mask, inner - 0.5, 0.5 - outer)


def _slope_and_curvature(phi: Tensor) -> tuple[Tensor, Tensor]:
    """|∇φ| and κ = div(∇φ/|∇φ|); φ goes on beyond the border as it is there."""
    wide = pad(phi, (2, 2, 2, 2), mode="replicate")
    dy = (wide[..., 2:, 1:-1] - wide[..., :-2, 1:-1]) / 2
    dx = (wide[..., 1:-1, 2:] - wide[..., 1:-1, :-2]) / 2
    size = (dy.square() + dx.square()).sqrt()
    safe = size.clamp_min(1e-8)
    ny, nx = dy / safe, dx / safe
    curvature = (ny[..., 2:, 1:-1] - ny[..., :-2, 1:-1]) / 2 + (nx[..., 1:-1, 2:] - nx[..., 1:-1, :-2]) / 2
    curvature = torch.where(size[..., 1:-1, 1:-1] < 1e-6, 0, curvature.clamp(-1.0, 1.0))
    # Central differences vanish on regions one pixel thin: take the steeper side.
    near = wide[..., 1:-1, 1:-1]
    down, right = (near[..., 1:, 1:-1] - near[..., :-1, 1:-1]).abs(), (near[..., 1:-1, 1:] - near[..., 1:-1, :-1]).abs()
    steep = torch.maximum(down[..., 1:, :], down[..., :-1, :]).square()
    return (steep + torch.maximum(right[..., 1:], right[..., :-1]).square()).sqrt(), curvature
