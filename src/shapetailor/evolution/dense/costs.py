"""Costs G_i of all regions: `region_costs` on planes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf

import torch
from torch import Tensor

from ...network.masked import Statistics, block_sums, describe_masks, spread
from ...network.stdnn import STDNN
from ..local_means import CELLS, REST
from .shapes import Shapes, shapes_of


@dataclass(frozen=True)
class Regions:
    """All regions of pictures, (P, K, H, W) each; see `region_costs.Region`."""

    band: Tensor
    phi: Tensor
    slope: Tensor
    curvature: Tensor
    cost: Tensor  # G_i in D(R_i); elsewhere it means nothing
    own: Tensor  # (P, H, W), each pixel's cost in its own region; NaN outside the picture

    @property
    def within(self) -> Tensor:
        """Σ_i Σ_{R_i} G_i of each picture, (P,)."""
        return self.own.double().nansum(dim=(1, 2))

    def of(self, pictures: Tensor) -> Regions:
        """Return those of some pictures."""
        return Regions(*(getattr(self, each.name)[pictures] for each in fields(self)))

    def put(self, pictures: Tensor, others: Regions) -> None:
        """Exchange those of some pictures for others."""
        for each in fields(self):
            getattr(self, each.name)[pictures] = getattr(others, each.name)


@dataclass(frozen=True)
class Tailor:
    """Computes F_{R_i}, a_i and G_i of all regions of pictures (Alg. 2, steps 4 to 7), by two networks.

    The first network's descriptors are those of the whole pictures, the second's are tailored (`two_level`).
    """

    net: STDNN  # the second network
    pictures: Tensor  # (P, C, H, W), values in 0..1
    statistics: Statistics  # of the pictures
    first: Tensor  # (P, D, h, w), the first network's descriptors on the second one's blocks
    regions: int
    reach: int  # in pixels, as `rim` and `sigma`
    rim: int
    sigma: float

    def of(self, pictures: Tensor) -> Tailor:
        """Return that of some pictures."""
        statistics = Statistics(*(each[pictures] for each in self.statistics))
        return Tailor(
            self.net, self.pictures[pictures], statistics, self.first[pictures], self.regions, self.reach, self.rim,
            self.sigma,
        )  # fmt: skip

    def __call__(self, labels: Tensor) -> Regions:
        """Return the regions of label maps (P, H, W)."""
        shapes = shapes_of(labels, self.regions, self.reach, self.rim)
        size = labels.shape[1:]
        cost = spread(self._costs(shapes), self.net.stride, (size[0], size[1]))
        own = torch.where(labels >= 0, cost.gather(1, labels.clamp_min(0)[:, None])[:, 0], torch.nan)
        return Regions(shapes.band, shapes.phi, shapes.slope, shapes.curvature, cost, own)

    def _costs(self, shapes: Shapes) -> Tensor:
        """Steps 5 and 7: G_i of blocks, (P, K, h, w)."""
        count, regions = shapes.mask.shape[:2]

        def each(x: Tensor) -> Tensor:
            return x[:, None].expand(-1, regions, *(-1,) * (x.ndim - 1)).flatten(0, 1)

        statistics = Statistics(*map(each, self.statistics))
        fine = describe_masks(self.net, each(self.pictures), statistics, shapes.dilated.flatten(0, 1))
        features = torch.cat([fine, each(self.first)], dim=1)
        pixels = block_sums(shapes.core.float(), self.net.stride).flatten(0, 1)[:, None]
        # Blocks outside D(R_i) have no pixels, but what they hold need not be a number.
        total = torch.where(pixels > 0, features * pixels, 0)
        means = _local_means(total, pixels, shapes.mask.flatten(0, 1), self)
        cost = (features - means).square().sum(dim=1)
        return cost.reshape(count, regions, *cost.shape[1:])


def _local_means(total: Tensor, pixels: Tensor, mask: Tensor, tailor: Tailor) -> Tensor:
    """Return `local_means` of regions (B, D, h, w) on the cells that a region has in its box."""
    mean = total.sum(dim=(2, 3), keepdim=True) / pixels.sum(dim=(2, 3), keepdim=True).clamp_min(1)
    if tailor.sigma == inf:
        return mean
    unit, reach, size = tailor.net.stride, tailor.reach, mask.shape[1:]
    ends = [_box(mask.any(dim=3 - axis), reach, unit, size[axis - 1]) for axis in (1, 2)]
    longest = torch.maximum(*(stop - start for start, stop in ends))
    side = unit * -(-longest // (CELLS * unit))  # `local_means.cell_side`
    down, across = (
        _gaussian(rows, start, side, unit, tailor.sigma) for rows, (start, _) in zip(total.shape[2:], ends, strict=True)
    )
    spread_out, count = (down[:, None] @ part @ across[:, None] for part in (total, pixels))
    return (spread_out + REST * mean) / (count + REST)


def _box(there: Tensor, reach: int, unit: int, size: int) -> tuple[Tensor, Tensor]:
    """Where the widened box of each region starts and stops along one axis, from the lines (B, size) that it meets."""
    line = torch.arange(size, device=there.device)
    start = torch.where(there, line, size).amin(dim=1).sub(reach).clamp_min(0) // unit * unit
    stop = (torch.where(there, line + 1, 0).amax(dim=1) + reach + unit - 1) // unit * unit
    return start, stop.clamp_max(size)


def _gaussian(blocks: int, start: Tensor, side: Tensor, unit: int, sigma: float) -> Tensor:
    """Weights exp(−(i − j)²/2σ²) of the cells that blocks lie in, (B, blocks, blocks), σ in pixels."""
    pixel = unit * torch.arange(blocks, device=start.device)
    side = side.clamp_min(1)  # a region without a pixel
    cell = torch.div(pixel - start[:, None], side[:, None], rounding_mode="floor") * side[:, None]
    return torch.exp(-0.5 * ((cell[:, :, None] - cell[:, None]) / sigma).square())
