"""What the second network (`levels`) is shown while it trains: two regions whose boundary is not quite right.

A sample is an image, regions near its true ones, and two of them that touch. The regions are the truth, deformed, or
what the first network makes of the image; later on those that the network in training has itself moved
(`PairMaker.moved`), so that it learns from the regions that it meets when it is used. Kept are the second network's
channels inside D(R_i) and D(R_j), and the first one's costs there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

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
    """Samples: n pictures of S×S pixels, and two regions each on the second network's grid of h×h blocks.

    Attributes
    ----------
    images, truths, regions : Tensor, (n, C, S, S), (n, S, S), (n, S, S)
    names : Tensor, (n, 2)
        Which of the regions the two are.
    channels : Tensor, (n, 2, C', h, h)
        The second network's channels inside each of D(R_i), D(R_j).
    inside : Tensor, (n, 2, h, h)
        The blocks of these; negative outside.
    own : Tensor, (n, 2, h, h)
        Share of each block that is in R_i, R_j without their rims.
    first : Tensor, (n, 2, h, h)
        The first network's costs ‖F − a_i‖².
    target : Tensor, (n, h, h)
        0 or 1 where both reach: which of the two is right; −1 elsewhere, and where neither is.
    """

    images: Tensor
    truths: Tensor
    regions: Tensor
    names: Tensor
    channels: Tensor
    inside: Tensor
    own: Tensor
    first: Tensor
    target: Tensor

    def take(self, chosen: Tensor) -> Pairs:
        """Return some of the samples."""
        return Pairs(*(each[chosen] for each in self))


@dataclass(frozen=True)
class PairMaker:
    """Makes samples for two networks.

    Attributes
    ----------
    first, fine : STDNN
        The trained network, and the second one, of which only the channels count.
    reach : int
        Radius of the dilations D(R_i), in the second one's blocks.
    locality : float
    rim : int
        As in `EvolutionConfig`; the rim in the second one's blocks.
    """

    first: STDNN
    fine: STDNN
    reach: int
    locality: float
    rim: int

    @torch.no_grad()
    def make(self, batches: Batches, count: int, seed: int, progress: Callable[[int], None] | None = None) -> Pairs:
        """Make at least `count` samples."""
        parts: list[Pairs] = []
        made = step = 0
        while made < count:
            batch = batches(step, range(TOGETHER))
            rng = np.random.default_rng([9, seed, step])
            found = torch.from_numpy(rng.random(TOGETHER) < FOUND_SHARE).to(batch.truths.device)[:, None, None]
            deformed = torch.stack([_deformed(truth, rng) for truth in batch.truths])
            regions = torch.where(found, self._found(batch.images, batch.truths), deformed)
            names = [_neighbours(each, rng) for each in regions]
            good = [number for number, pair in enumerate(names) if pair is not None]
            if good:
                chosen = torch.tensor([names[number] for number in good], device=regions.device)
                parts.append(self._pairs(batch.images[good], batch.truths[good], regions[good], chosen))
            made, step = made + len(good), step + 1
            if step == count and not made:
                raise ValueError("no image of the data has two regions that touch")
            if progress:
                progress(min(made, count))
        return Pairs(*(torch.cat(each) for each in zip(*parts, strict=True)))

    @torch.no_grad()
    def moved(self, pairs: Pairs, costs: Callable[[Pairs], Tensor]) -> Pairs:
        """Let each pair's boundary move to where `costs`, (n, 2, h, h), say; make the samples anew."""
        parts = []
        for few in torch.arange(len(pairs.names), device=pairs.names.device).split(TOGETHER):
            now = pairs.take(few)
            cost, regions = costs(now), now.regions.long()
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
            parts.append(self._pairs(now.images.float(), now.truths.long(), after, now.names))
        return Pairs(*(torch.cat(each) for each in zip(*parts, strict=True)))

    def _pairs(self, images: Tensor, truths: Tensor, regions: Tensor, names: Tensor) -> Pairs:
        stride, side = self.fine.stride, -(-images.shape[-1] // self.fine.stride)
        centres = slice(stride // 2, None, stride)
        picture = self.fine.prepare(images)
        planes = self._described(images)[:, :, centres, centres]
        channels, inside, own, first, near = [], [], [], [], []
        for name in names.T:
            mask = regions == name[:, None, None]
            dilated = _dilated(mask, self.reach * stride)
            grid = self.fine.grid(picture, torch.where(dilated, 0, -1))
            share = F.avg_pool2d(_core(mask, self.rim * stride)[:, None].float(), stride, ceil_mode=True)
            # below `side` lie the cells of regions too small for a block, which have no place
            channels.append(self.fine.channels(picture, grid)[:, :, :side].half())
            inside.append(grid.layers.labels[:, :side].to(torch.int16))
            own.append(share[:, 0].half())
            first.append(deviation(planes, share, self.locality).half())
            near.append(dilated[:, centres, centres])
        truth, (i, j) = truths[:, centres, centres], (each[:, None, None] for each in names.T)
        both = near[0] & near[1]
        target = torch.where(both & (truth == i), 0, torch.where(both & (truth == j), 1, -1)).to(torch.int8)
        return Pairs(
            images.half(),
            truths.to(torch.int16),
            regions.to(torch.int16),
            names,
            torch.stack(channels, dim=1),
            torch.stack(inside, dim=1),
            torch.stack(own, dim=1),
            torch.stack(first, dim=1),
            target,
        )

    def _described(self, images: Tensor) -> Tensor:
        """The first network's descriptors of whole pictures, as `Segmenter` starts from them."""
        return describe_whole(self.first, self.first.prepare(images), 2)

    def _found(self, images: Tensor, truths: Tensor) -> Tensor:
        """Regions by the nearest of the true regions' means, a little smoothed: named as the true ones are."""
        descriptors = self._described(images)
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


def _deformed(truth: Tensor, rng: np.random.Generator) -> Tensor:
    points = int(rng.choice(GRIDS))
    amplitude = 2 * rng.uniform(0.0, AMPLITUDE) / 256  # the side of the image is 2
    return displaced(truth, rng.normal(0, amplitude, (1, 2, points, points)))


def _neighbours(regions: Tensor, rng: np.random.Generator) -> tuple[int, int] | None:
    """Draw two regions of (S, S) that touch, the second by the length along which they do."""
    names = regions[regions >= 0].unique().tolist()
    i = int(names[int(rng.integers(len(names)))]) if names else 0
    ring = _dilated((regions == i)[None], 1)[0] & (regions != i) & (regions >= 0)
    length = torch.bincount(regions[ring]).double().cpu().numpy()
    if not length.sum():
        return None
    return i, int(rng.choice(len(length), p=length / length.sum()))


def _core(masks: Tensor, rim: int) -> Tensor:
    """Take away a rim along the boundaries of (B, H, W), unless little would be left."""
    if not rim:
        return masks
    core = masks & ~_dilated(~masks, rim)
    enough = core.sum(dim=(1, 2)) >= LEAST_CORE * masks.sum(dim=(1, 2))
    return torch.where(enough[:, None, None], core, masks)


def _dilated(masks: Tensor, radius: int) -> Tensor:
    """Grow (B, H, W) by a square."""
    return F.max_pool2d(masks[:, None].float(), 2 * radius + 1, stride=1, padding=radius)[:, 0] > 0
