"""Means a_i that vary along a region.

The paper's a_i is the mean over the region, but light and texture change along the regions of a photograph. With a
finite σ, a_i(x) is the mean of the region's descriptors weighted by exp(−|x − y|²/2σ²); the paper's is the limit of
large σ.
"""

from math import inf

import torch
from torch import Tensor

#: Cells a side, at most, on which means are averaged: they change little from one to the next.
CELLS = 64
#: Share of the region's own mean that keeps a_i defined far away from the region.
REST = 1e-3


def cell_side(pixels: int, unit: int) -> int:
    """Return the side of cells, a multiple of `unit`, of which at most `CELLS` lie along so many pixels."""
    return unit * -(-pixels // (CELLS * unit))


def local_means(total: Tensor, weight: Tensor, sigma: float) -> Tensor:
    """Average a region's descriptors over a grid of cells, with reach `sigma` in cells; infinite: one mean for all.

    `total` (..., D, h, w) are the sums of its descriptors in each cell, `weight` (..., 1, h, w) the numbers of pixels.

    >>> values = torch.tensor([[[1.0, 2.0, 0.0, 9.0]]])
    >>> local_means(values, torch.tensor([[[1.0, 1.0, 0.0, 1.0]]]), inf)
    tensor([[[4., 4., 4., 4.]]])
    >>> local_means(values, torch.tensor([[[1.0, 1.0, 0.0, 1.0]]]), 0.5)[0, 0, [0, 1, 3]].round()
    tensor([1., 2., 9.])
    """
    mean = total.sum(dim=(-2, -1), keepdim=True) / weight.sum(dim=(-2, -1), keepdim=True).clamp_min(1)
    if sigma == inf:
        return mean.expand_as(total)
    down, across = (_gaussian(side, sigma, total) for side in total.shape[-2:])
    spread, count = (down @ each @ across for each in (total, weight))
    return (spread + REST * mean) / (count + REST)


def _gaussian(side: int, sigma: float, like: Tensor) -> Tensor:
    """All weights exp(−(i − j)²/2σ²) of a row of cells, (side, side)."""
    places = torch.arange(side, dtype=like.dtype, device=like.device)
    return torch.exp(-0.5 * ((places[:, None] - places) / sigma).square())
