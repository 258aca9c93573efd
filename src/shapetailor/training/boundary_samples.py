"""Samples for the second network: two neighbouring regions whose boundary is not quite right.

A sample is an image, regions near its true ones, and two of them that touch. The regions are the deformed truth, or
what the first network makes of the image; later those that the network in training has moved itself
(`PairMaker.moved`), so that it learns from regions as it meets them in use. Dilations D(R_i) and cores have the pixels
that they have in the evolution (`evolution.region_shape`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..evolution.config import EvolutionConfig
from ..evolution.local_means import local_means
from ..evolution.region_shape import LEAST_CORE
from ..network.stdnn import STDNN
from ..network.two_level import describe_whole
from .augmentation import Batches, displaced

#: Share of the samples whose regions are the first network's.
FOUND_SHARE = 0.5
#: Deformations: points of the random grid a side, and most pixels of standard deviation in a picture of 256.
GRIDS, AMPLITUDE = (4, 7, 12), 10.0
#: A region has at least this share of the picture, or it is not moved.
LEAST = 0.01
#: Samples made at a time.
TOGETHER = 16


class Pairs(NamedTuple):
    """Samples: n pictures of S×S pixels, and two regions each on the second network's grid of h×h blocks."""

    images: Tensor  # (n, C, S, S)
    truths: Tensor  # (n, S, S)
    regions: Tensor  # (n, S, S)
    names: Tensor  # (n, 2): which of the regions the two are
    channels: Tensor  # (n, 2, C', h, h): the second network's, inside each of D(R_i), D(R_j)
    inside: Tensor  # (n, 2, h, h): the blocks of these; negative outside
    own: Tensor  # (n, 2, h, h): share of each block that is in the cores of R_i, R_j
    first: Tensor  # (n, 2, h, h): the first network's costs ‖F − a_i‖²
    target: Tensor  # (n, h, h): which of the two is right, 0 or 1, where both reach; −1 elsewhere, or if neither is

    @classmethod
    def joined(cls, parts: Iterable[Pairs]) -> Pairs:
        """Join several to one."""
        return cls(*(torch.cat(each) for each in zip(*parts, strict=True)))

    def take(self, chosen: Tensor | slice) -> Pairs:
        """Return some of the samples."""
        return Pairs(*(each[chosen] for each in self))

    def split(self, count: int) -> list[Pairs]:
        """Return parts of at most `count` samples."""
        return [self.take(slice(first, first + count)) for first in range(0, len(self.names), count)]


@dataclass(frozen=True)
class PairMaker:
    """Makes samples for two networks."""

    first: STDNN
    fine: STDNN  # only its channels count
    evolution: EvolutionConfig  # what the second is trained for: reach and rim, in its blocks, and locality
    positions: int  # of the first one's grid of blocks, as in `Usage`

    @torch.no_grad()
    def make(
        self, batches: Batches, count: int, seed: int, progress: Callable[[int], object] = lambda made: None
    ) -> Pairs:
        """Make at least `count` samples; `progress` is called with how many more are made."""
        parts: list[Pairs] = []
        together, made, step = min(TOGETHER, count), 0, 0
        while made < count:
            batch = batches(step, range(together))
            rng = np.random.default_rng([9, seed, step])
            found = torch.from_numpy(rng.random(together) < FOUND_SHARE).to(batch.truths.device)[:, None, None]
            deformed = torch.stack([_deformed(truth, rng) for truth in batch.truths])
            descriptors = self._described(batch.images)
            regions = torch.where(found, self._found(descriptors, batch.truths), deformed)
            names = [_neighbours(each, rng) for each in regions]
            good = [number for number, pair in enumerate(names) if pair is not None]
            if good:
                chosen = torch.tensor([names[number] for number in good], device=regions.device)
                pictures = batch.images[good], descriptors[good]
                parts.append(self._pairs(*pictures, batch.truths[good], regions[good], chosen))
            made, step = made + len(good), step + 1
            if step == count and not made:
                raise ValueError("no image of the data has two regions that touch")
            progress(len(good))
        return Pairs.joined(parts)

    @torch.no_grad()
    def moved(self, pairs: Pairs, costs: Tensor) -> Pairs:
        """Move each pair's boundary to where `costs`, (n, 2, h, h), say, and make the samples anew."""
        parts = []
        for now, cost in zip(pairs.split(TOGETHER), costs.split(TOGETHER), strict=True):
            regions = now.regions.long()
            both = (now.inside >= 0).all(dim=1, keepdim=True).float()
            size = regions.shape[1:]
            nearer = F.interpolate((cost[:, :1] > cost[:, 1:]).float() * both, size=size)[:, 0] > 0
            contested = F.interpolate(both, size=size)[:, 0] > 0
            i, j = (each[:, None, None] for each in now.names.T)
            contested &= (regions == i) | (regions == j)
            after = torch.where(contested, torch.where(nearer, j, i), regions)
            least = LEAST * size[0] * size[1]
            small = ((after == i).sum(dim=(1, 2)) < least) | ((after == j).sum(dim=(1, 2)) < least)
            after = torch.where(small[:, None, None], regions, after)
            images = now.images.float()
            parts.append(self._pairs(images, self._described(images), now.truths.long(), after, now.names))
        return Pairs.joined(parts)

    def _pairs(self, images: Tensor, descriptors: Tensor, truths: Tensor, regions: Tensor, names: Tensor) -> Pairs:
        stride, side = self.fine.stride, -(-images.shape[-1] // self.fine.stride)
        centres = slice(stride // 2, None, stride)
        picture = self.fine.prepare(images)
        planes = descriptors[:, :, centres, centres]
        channels, inside, own, first, near = [], [], [], [], []
        for name in names.T:
            dilated, core = region_masks(regions, name, self.evolution.reach * stride, self.evolution.rim * stride)
            grid = self.fine.grid(picture, torch.where(dilated, 0, -1))
            share = F.avg_pool2d(core[:, None].float(), stride, ceil_mode=True)
            # below `side` lie the cells of regions too small for a block, which have no place
            channels.append(self.fine.channels(picture, grid)[:, :, :side].half())
            inside.append(grid.layers.labels[:, :side].to(torch.int16))
            own.append(share[:, 0].half())
            first.append(deviation(planes, share, self.evolution.locality).half())
            near.append(dilated[:, centres, centres])
        truth, (i, j) = truths[:, centres, centres], (each[:, None, None] for each in names.T)
        both = near[0] & near[1]
        target = torch.where(both & (truth == i), 0, torch.where(both & (truth == j), 1, -1)).to(torch.int8)
        stacked = (torch.stack(each, dim=1) for each in (channels, inside, own, first))
        return Pairs(*[images.half(), truths.to(torch.int16), regions.to(torch.int16), names, *stacked, target])

    def _described(self, images: Tensor) -> Tensor:
        """The first network's descriptors of whole pictures, as `Segmenter` starts from them."""
        return describe_whole(self.first, self.first.prepare(images), self.positions)

    def _found(self, descriptors: Tensor, truths: Tensor) -> Tensor:
        """Regions by the nearest of the true regions' means, a little smoothed: named as the true ones are."""
        costs = []
        for name in range(int(truths.max()) + 1):
            mask = (truths == name)[:, None].to(descriptors)
            cost = deviation(descriptors, mask, torch.inf)
            missing = (mask.sum(dim=(1, 2, 3)) == 0)[:, None, None]
            costs.append(cost.masked_fill(missing, torch.finfo(cost.dtype).max / 1e3))
        side = 2 * self.first.stride + 1
        smooth = F.avg_pool2d(F.pad(torch.stack(costs, dim=1), (side // 2,) * 4, "replicate"), side, stride=1)
        return torch.where(truths < 0, -1, smooth.argmin(dim=1))


def deviation(descriptors: Tensor, weight: Tensor, locality: float) -> Tensor:
    """‖F − a‖² of (B, D, h, w), (B, h, w), with a the local means where `weight`, (B, 1, h, w), is."""
    sigma = locality * max(descriptors.shape[-2:])
    return (descriptors - local_means(descriptors * weight, weight, sigma)).square().sum(dim=1)


def region_masks(regions: Tensor, names: Tensor, reach: int, rim: int) -> tuple[Tensor, Tensor]:
    """Return D(R) and the core of one region of each of (B, H, W) label maps, named by (B,).

    They have the pixels of `evolution.region_shape.Shape`. A core ends where distances to other pixels exceed rim + ½.
    """
    mask = regions == names[:, None, None]
    core = mask & ~dilated(~mask, rim**2 + rim)
    enough = core.sum(dim=(1, 2)) >= LEAST_CORE * mask.sum(dim=(1, 2)).double()
    return dilated(mask, reach**2) & (regions >= 0), torch.where(enough[:, None, None], core, mask)


def dilated(masks: Tensor, squared_radius: int) -> Tensor:
    """Grow (B, H, W) by a disc; distances are between the centres of pixels."""
    radius = isqrt(squared_radius)
    along = torch.arange(-radius, radius + 1, device=masks.device).square()
    disc = (along[:, None] + along <= squared_radius).float()
    return F.conv2d(masks[:, None].float(), disc[None, None], padding=radius)[:, 0] > 0.5


def _deformed(truth: Tensor, rng: np.random.Generator) -> Tensor:
    points = int(rng.choice(GRIDS))
    amplitude = 2 * rng.uniform(0.0, AMPLITUDE) / 256  # the side of the image is 2
    return displaced(truth, rng.normal(0, amplitude, (1, 2, points, points)))


def _neighbours(regions: Tensor, rng: np.random.Generator) -> tuple[int, int] | None:
    """Draw two regions of (S, S) that touch, the second by the length along which they do."""
    names = regions[regions >= 0].unique().tolist()
    i = int(names[int(rng.integers(len(names)))]) if names else 0
    ring = dilated((regions == i)[None], 1)[0] & (regions != i) & (regions >= 0)
    length = torch.bincount(regions[ring]).double().cpu().numpy()
    if not length.sum():
        return None
    return i, int(rng.choice(len(length), p=length / length.sum()))
