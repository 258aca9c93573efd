"""One step of the boundaries of all pictures: `boundary_step` on planes."""

from __future__ import annotations

from math import pi, sqrt

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from ..boundary_step import AHEAD, SWEEPS
from .costs import Regions
from .shapes import masks_of


def advance(labels: Tensor, regions: Regions, beta: Tensor, move: Tensor, gain: Tensor) -> Tensor:
    """Update the indicators φ_i near the boundaries and read the regions off them; β, move and gain are (P,)."""
    difference = _differences(regions)
    size = difference.abs()
    # Without any difference of costs nothing moves.
    scale = (medians(torch.where(size > 0, size, torch.nan)) + 1e-12) / gain
    speed = (beta[:, None, None, None] * regions.curvature - difference) / scale[:, None, None, None]
    phi = regions.phi + move[:, None, None, None] * torch.tanh(2.0 * speed) * regions.slope
    mine = masks_of(labels, regions.band.shape[1])
    phi = torch.where(regions.band, phi.clamp(0.0, 1.0) + float(AHEAD) * mine, -1.0)
    best = torch.where((regions.band & mine).any(dim=1), 0.0, 2.0)  # elsewhere a region has its pixels for certain
    winner = labels
    for number, each in enumerate(phi.unbind(1)):
        ahead = each > best
        winner, best = torch.where(ahead, number, winner), torch.where(ahead, each, best)
    return torch.where(scale.isnan()[:, None, None], labels, winner)


def medians(values: Tensor) -> Tensor:
    """Return the median of each picture's numbers, (P, ...) to (P,); NaN counts nowhere, and comes out without any."""
    ordered = values.flatten(1).sort(dim=1).values  # NaN last
    count = ordered.isfinite().sum(dim=1, keepdim=True)
    middle = torch.cat([(count - 1).clamp_min(0) // 2, (count // 2).clamp_max(ordered.shape[1] - 1)], dim=1)
    return ordered.gather(1, middle).double().mean(dim=1).to(values.dtype)


def _differences(regions: Regions) -> Tensor:
    """G_i − G_j with the best other region j in the bands of both, 0 elsewhere."""
    cost = torch.where(regions.band, regions.cost, torch.inf)
    lowest = second = torch.full_like(cost[:, 0], torch.inf)
    for each in cost.unbind(1):
        second, lowest = torch.minimum(second, torch.maximum(lowest, each)), torch.minimum(lowest, each)
    rival = torch.where(cost <= lowest[:, None], second[:, None], lowest[:, None])
    return torch.where(regions.band & rival.isfinite(), regions.cost - rival, 0.0)


def boundary_lengths(labels: Tensor) -> Tensor:
    """Return `labels.boundary_length` of each label map, (P, H, W) to (P,)."""
    pairs = (
        (labels[:, 1:], labels[:, :-1], 1.0),
        (labels[:, :, 1:], labels[:, :, :-1], 1.0),
        (labels[:, 1:, 1:], labels[:, :-1, :-1], sqrt(0.5)),
        (labels[:, 1:, :-1], labels[:, :-1, 1:], sqrt(0.5)),
    )
    parts = [weight * (first != second).sum(dim=(1, 2)).double() for first, second, weight in pairs]
    return pi / 8 * torch.stack(parts).sum(dim=0)


def settle(labels: Tensor, proposal: Tensor, regions: Regions, beta: Tensor) -> Tensor:
    """Take back the changes of proposals that raise the energy at their own pixel (`boundary_step.settle`)."""
    changed = labels != proposal
    price = _cost_in(regions, proposal) - _cost_in(regions, labels)
    starts = torch.stack([proposal, labels])
    found = _relax(starts, labels, proposal, changed, price, beta, regions.band.shape[1])
    taken = torch.where(changed & (found == proposal), price, 0.0)
    lengths = boundary_lengths(found.flatten(0, 1)).reshape(2, -1)
    energy = taken.double().sum(dim=(2, 3)) + beta * lengths
    return torch.where((energy[0] <= energy[1])[:, None, None], found[0], found[1])


def _cost_in(regions: Regions, labels: Tensor) -> Tensor:
    return regions.cost.gather(1, labels.clamp_min(0)[:, None])[:, 0]


def _relax(now: Tensor, old: Tensor, new: Tensor, changed: Tensor, price: Tensor, beta: Tensor, regions: int) -> Tensor:
    """Settle label maps (2, P, H, W), on four interleaved grids of pixels that are no neighbours."""
    rows, columns = (torch.arange(side, device=now.device) % 2 for side in now.shape[2:])
    grids = [changed & (rows == y)[:, None] & (columns == x) for y in (0, 1) for x in (0, 1)]
    choices = torch.stack([old, new], dim=1).clamp_min(0).expand(2, -1, -1, -1, -1)
    weight = (pi / 8 * beta)[:, None, None]
    for _ in range(SWEEPS):
        before = now
        for grid in grids:
            around = _neighbours(masks_of(now.flatten(0, 1), regions)).reshape(*now.shape[:2], regions, *now.shape[2:])
            as_old, as_new = around.gather(2, choices).unbind(2)
            now = torch.where(grid, torch.where(price + weight * (as_old - as_new) < 0, new, old), now)
        if torch.equal(before, now):
            break
    return now


def _neighbours(masks: Tensor) -> Tensor:
    """Weighted number of the 8 neighbours of each pixel in masks (B, K, H, W)."""
    here = masks.float()
    along, across, square = (
        avg_pool2d(here, kernel, stride=1, padding=tuple(side // 2 for side in kernel), divisor_override=1)
        for kernel in ((1, 3), (3, 1), (3, 3))
    )
    straight = along + across - 2 * here
    return straight + sqrt(0.5) * (square - along - across + here)
