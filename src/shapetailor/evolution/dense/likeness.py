"""The conditional random field by colours: `colour_crf` for many pictures at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..colour_crf import ALIKE, NEAR, ROUNDS, TEMPERATURE, WINDOW, window_steps
from .costs import Regions
from .shapes import masks_of


def follow(labels: Tensor, regions: Regions, seen: Tensor, weight: float) -> Tensor:
    """Decide the pixels of label maps (P, H, W) in the bands of several regions by the mean field.

    `seen` (P, C, H, W) are the colours, infinite outside the picture.
    """
    band, count = regions.band, regions.band.shape[1]
    contested = (band.sum(dim=1) > 1).flatten().nonzero()[:, 0]
    if not len(contested):
        return labels
    height, width = labels.shape[1:]
    picture, pixel = contested // (height * width), contested % (height * width)
    pitch, rows = width + 2 * WINDOW, height + 2 * WINDOW
    places = picture * (rows * pitch) + (pixel // width + WINDOW) * pitch + pixel % width + WINDOW
    offsets = torch.from_numpy(window_steps()).to(labels.device)
    window = places + (offsets[:, :1] * pitch + offsets[:, 1:])  # (offsets, n), in pictures with a border
    weights = _weights(seen, places, window, offsets)
    planes = pad(masks_of(labels, count).float(), (WINDOW,) * 4).transpose(0, 1).flatten(1)
    here = _at(band, contested)  # (K, n)
    cost = torch.where(here, _at(regions.cost, contested), torch.inf)
    unary = (cost - cost.amin(dim=0)) / TEMPERATURE
    share = planes[:, places]
    for _ in range(ROUNDS):
        votes = torch.stack([(weights * plane[window]).sum(dim=0) for plane in planes])
        fresh = torch.exp(weight * (votes - 1) - unary)  # 0 out of the band
        fresh = fresh / (fresh.sum(dim=0) + torch.finfo(torch.float32).tiny)
        share = torch.where(here, fresh, share)
        planes[:, places] = share
    best, winner = torch.where(here, share, 0).max(dim=0)
    found = labels.flatten().clone()
    found[contested] = torch.where(best > 0, winner, found[contested])
    return found.reshape(labels.shape)


def _at(planes: Tensor, pixels: Tensor) -> Tensor:
    """Values (K, n) of planes (P, K, H, W) at flat numbers of pixels."""
    return planes.transpose(0, 1).flatten(1)[:, pixels]


def _weights(seen: Tensor, places: Tensor, window: Tensor, offsets: Tensor) -> Tensor:
    """Return the pairwise weights (offsets, n) of the window around each place, 1 in all; 0 beyond the picture."""
    colours = pad(seen / (2**0.5 * ALIKE), (WINDOW,) * 4, value=torch.inf).transpose(0, 1).flatten(1)
    unlike = torch.zeros(window.shape, device=window.device)
    for channel in colours:
        unlike += (channel[window] - channel[places]).square()
    near = -offsets.square().sum(dim=1, keepdim=True) / (2 * NEAR**2)
    weights = torch.exp(near - unlike)
    total = weights.sum(dim=0)
    return weights / torch.where(total > 0, total, 1)
