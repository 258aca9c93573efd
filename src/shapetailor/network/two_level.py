"""Two networks as one descriptor: what a texture is, from large blocks, and where it ends, from small ones.

The first network describes the whole picture once. These descriptors become channels of the picture; the second
network, on smaller blocks, is tailored to the regions as they evolve, and a pixel's descriptor is what both say.
Distances add up, so that the second has only to correct the first.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..parallel import in_threads, without_torch
from .stdnn import STDNN


class TwoLevels:
    """Descriptors (D + planes) of a picture whose last channels are the first network's descriptors.

    Parameters
    ----------
    fine : STDNN
        The second network.
    planes : int
        Dimension of the first one's descriptors, which are constant on the second one's blocks.
    """

    def __init__(self, fine: STDNN, planes: int) -> None:
        self.fine, self.planes, self.stride = fine, planes, fine.stride

    def prepare(self, image: Tensor, first: Tensor) -> Tensor:
        """Join a whole picture (1, C, H, W) and its descriptors by the first network, (planes, H, W)."""
        return torch.cat([self.fine.prepare(image), first[None].to(image)], dim=1)

    def __call__(self, image: Tensor, labels: Tensor) -> Tensor:
        """Prepared picture and labels (1, H, W) in, descriptors (1, D + planes, H, W) out; zero outside."""
        rows, row_of_pixel = self.compact(image, labels)
        found = rows[row_of_pixel].movedim(3, 1)
        return torch.where((labels >= 0)[:, None], found, 0)

    def compact(self, image: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute descriptors of blocks, (n, D + planes), and pixels' rows, (1, H, W); see `STDNN.compact`."""
        rows, row_of_pixel = self.fine.compact(image[:, : -self.planes], labels)
        pixels = (labels >= 0).flatten().nonzero().squeeze(1)
        # Any pixel of a block says what all of it would; rows without pixels mean nothing.
        pixel_of_row = pixels.new_zeros(len(rows))
        pixel_of_row[row_of_pixel.flatten()[pixels]] = pixels
        first = image[0, -self.planes :].flatten(1).index_select(1, pixel_of_row).T
        return torch.cat([rows, first], dim=1), row_of_pixel


def describe_whole(net: STDNN, prepared: Tensor, positions: int) -> Tensor:
    """Return a network's descriptors of whole pictures as one region, the mean over positions of its grid of blocks.

    The mean is as long as the descriptors are on average. Boundaries come to lie within a part of a block.

    Parameters
    ----------
    net : STDNN
    prepared : Tensor, (B, C, H, W)
    positions : int
        Positions of the grid along each side, the same part of a block apart; 1 describes once.

    Returns
    -------
    Tensor, (B, D, H, W)
    """
    if positions == 1:
        return _whole(net, prepared)
    shifts = [net.stride * number // positions for number in range(positions)]
    tasks = [partial(_whole, net, prepared, down, right) for down in shifts for right in shifts]
    if prepared.device.type == "cpu":  # passes side by side are faster than threads within each
        with without_torch():
            total, *others = in_threads(tasks)
    else:
        total, *others = [task() for task in tasks]
    length = total.square().sum(dim=1, keepdim=True).sqrt()
    for found in others:
        total += found
        length += found.square().sum(dim=1, keepdim=True).sqrt()
    total *= length / len(tasks) / total.square().sum(dim=1, keepdim=True).sqrt().clamp_min(1e-12)
    return total


@torch.no_grad()  # here, since it holds for one thread
def _whole(net: STDNN, prepared: Tensor, down: int = 0, right: int = 0) -> Tensor:
    """Describe whole pictures that are shifted on the grid of blocks."""
    picture = pad(prepared, (right, 0, down, 0), "replicate") if down or right else prepared
    labels = torch.zeros(len(picture), *picture.shape[2:], dtype=torch.long, device=picture.device)
    if net.stride <= 1:
        found: Tensor = net(picture, labels)
    else:  # from blocks to pixels in one step: the network's own way takes several times the memory
        rows, row_of_pixel = net.compact(picture, labels)
        pixels = rows.T.contiguous().index_select(1, row_of_pixel.flatten())
        found = pixels.unflatten(1, row_of_pixel.shape).movedim(0, 1)
    return found[:, :, down:, right:]
