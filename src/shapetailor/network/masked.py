"""Descriptors of masks, one region each, in batches: many regions of many pictures side by side.

The same mathematics as `STDNN.compact`. A label map of one region needs no planning (`Pooling`): every block with a
pixel of it has their mean. So no value is looked at on the way, and a GPU is never waited for.
"""

from __future__ import annotations

from itertools import product
from math import gcd
from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad

from . import features
from .region_grid import Domain
from .stdnn import STDNN


class Statistics(NamedTuple):
    """Each rich channel's mean over its picture, and a factor for its deviations: (B, channels, 1, 1)."""

    mean: Tensor
    scale: Tensor


class Whole(NamedTuple):
    """Descriptors of whole pictures (P, D, h, w), constant on blocks of `side` pixels."""

    descriptors: Tensor
    side: int


def takes(net: object) -> TypeGuard[STDNN]:
    """Whether this is a network whose descriptors of masks can be computed: rich features on blocks of pixels."""
    return (
        isinstance(net, STDNN)
        and (net.config.features, net.config.pde) == ("rich", "poisson")
        and net.stride > 1
        and net.backend == "auto"
    )


def block_sums(x: Tensor, side: int) -> Tensor:
    """Sum (B, C, H, W) over blocks of pixels; the last ones may go on beyond the end."""
    return avg_pool2d(x, side, ceil_mode=True, divisor_override=1)


def spread(blocks: Tensor, side: int, size: tuple[int, int]) -> Tensor:
    """Give each pixel the value of its block, (..., h, w) to (..., H, W)."""
    *lead, rows, columns = blocks.shape
    wide = blocks[..., :, None, :, None].expand(*lead, rows, side, columns, side)
    return wide.reshape(*lead, rows * side, columns * side)[..., : size[0], : size[1]]


def whole_side(net: STDNN, positions: int) -> int:
    """Return the side of the blocks that `describe_wholes` returns descriptors of."""
    return gcd(net.stride, *_shifts(net, positions))


def describe_wholes(net: STDNN, pictures: Tensor, positions: int, inside: Tensor | None = None) -> Whole:
    """Compute what `two_level.describe_whole` does from pictures (P, C, H, W) with values in 0..1.

    All positions of the grid of blocks are one batch.
    """
    count, _, height, width = pictures.shape
    shifts, side = _shifts(net, positions), whole_side(net, positions)
    most, corners = shifts[-1], list(product(shifts, shifts))
    moved, masks = [], []
    for down, right in corners:
        moved.append(pad(pictures, (right, most - right, down, most - down), "replicate"))
        mask = torch.zeros(count, height + most, width + most, dtype=torch.bool, device=pictures.device)
        if inside is None:  # what is repeated at the picture's upper and left ends counts
            mask[:, : height + down, : width + right] = True
        else:
            mask[:, down : down + height, right : right + width] = inside
        masks.append(mask)
    blocks = _Blocks(torch.cat(masks), net)
    raw = blocks.rich(torch.cat(moved))
    statistics = _statistics(raw[:count], blocks.inside[:count])  # the first position is that of the picture itself
    repeated = Statistics(*(each.repeat(len(corners), 1, 1, 1) for each in statistics))
    found = blocks.describe(raw, repeated).reshape(len(corners), count, -1, *raw.shape[2:])
    rows, columns = -(-height // side), -(-width // side)
    total, length = torch.zeros((), device=raw.device), torch.zeros((), device=raw.device)
    for (down, right), each in zip(corners, found, strict=True):
        wide = spread(each, net.stride // side, (rows + down // side, columns + right // side))
        here = wide[..., down // side :, right // side :]
        total, length = total + here, length + _norm(here)
    return Whole(total * (length / len(corners) / _norm(total).clamp_min(1e-12)), side)


def statistics(net: STDNN, pictures: Tensor, inside: Tensor | None = None) -> Statistics:
    """Return the statistics of pictures (P, C, H, W), over their pixels `inside`, that `describe_masks` takes."""
    return rich_channels(net, pictures, inside)[1]


def rich_channels(net: STDNN, pictures: Tensor, inside: Tensor | None = None) -> tuple[Tensor, Statistics]:
    """Compute the rich channels of pictures on blocks, not standardised, and their statistics."""
    everything = pictures.new_ones(len(pictures), *pictures.shape[2:], dtype=torch.bool)
    blocks = _Blocks(everything if inside is None else inside, net)
    raw = blocks.rich(pictures)
    return raw, _statistics(raw, blocks.inside)


def describe_masks(net: STDNN, pictures: Tensor, statistics: Statistics, masks: Tensor) -> Tensor:
    """Compute the descriptors (B, D, h, w) of blocks inside masks (B, H, W), one for each of the pictures."""
    blocks = _Blocks(masks, net)
    return blocks.describe(blocks.rich(pictures), statistics)


class _Blocks:
    """Means over the blocks of a network inside masks (B, H, W)."""

    def __init__(self, mask: Tensor, net: STDNN) -> None:
        self.net, self.mask = net, mask[:, None]
        count = block_sums(self.mask.float(), net.stride)
        self.inside, self._share = count[:, 0] > 0, 1 / count.clamp_min(1)
        self._native, self._layers = (self._domain(each) for each in (mask, self.inside))

    def _domain(self, mask: Tensor) -> Domain:
        return self.net.domain(mask.long() - 1, self.net.mean.dtype)

    def pool(self, x: Tensor) -> Tensor:
        """Average (B, C, H, W) over the blocks' pixels in the mask; 0 where there are none."""
        return block_sums(torch.where(self.mask, x, 0), self.net.stride) * self._share

    def rich(self, pictures: Tensor) -> Tensor:
        """Compute the rich channels, not standardised."""
        picture = torch.where(self.mask, pictures, 0)
        return features.rich(picture, self._native, self.net.config.energy_scales, self.pool)

    def describe(self, raw: Tensor, statistics: Statistics) -> Tensor:
        """Go through the layers, from the rich channels to the descriptors."""
        channels = torch.cat([raw, (raw - statistics.mean) * statistics.scale], dim=1)
        return self.net.of_blocks(channels, self._layers)


def _statistics(raw: Tensor, inside: Tensor) -> Statistics:
    where = inside[:, None]
    count = where.sum(dim=(2, 3), keepdim=True)
    mean = torch.where(where, raw, 0).sum(dim=(2, 3), keepdim=True) / count
    variance = torch.where(where, raw - mean, 0).square().sum(dim=(2, 3), keepdim=True) / count
    return Statistics(mean, 1 / (variance.sqrt() + features.SPREAD_FLOOR))


def _shifts(net: STDNN, positions: int) -> list[int]:
    return [number * net.stride // positions for number in range(positions)]


def _norm(x: Tensor) -> Tensor:
    return x.square().sum(dim=1, keepdim=True).sqrt()
