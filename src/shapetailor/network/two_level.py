"""Two networks as one descriptor: what a texture is, from large blocks, and where it ends, from small ones.

The first network describes the whole picture once. These descriptors become channels of the picture; the second
network, on smaller blocks, is tailored to the regions as they evolve, and a pixel's descriptor is what both say.
Distances add up, so that the second has only to correct the first.
"""

from functools import partial
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..parallel import in_threads, without_torch
from .describer import Describer, Descriptors
from .stdnn import STDNN


class TwoLevels:
    """Descriptors (D + planes) of a picture whose last channels are the first network's descriptors.

    These `planes` are constant on the blocks of `fine`, the second network.
    """

    def __init__(self, fine: STDNN, planes: int) -> None:
        self.fine, self.planes, self.stride = fine, planes, fine.stride

    @property
    def descriptors(self) -> Descriptors:
        """The forms in which a segmentation may ask for descriptors."""
        return Descriptors(self, self.stride, self.compact)

    def prepare(self, image: Tensor, first: Tensor, inside: Tensor | None = None) -> Tensor:
        """Join a whole picture (1, C, H, W) and its descriptors by the first network, (planes, H, W)."""
        return torch.cat([self.fine.prepare(image, inside), first[None]], dim=1)

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


def describe(net: Describer, prepared: Tensor, labels: Tensor) -> Tensor:
    """Compute a network's descriptors (B, D, H, W) without a gradient, in little more memory than they take."""
    with torch.no_grad():
        if net.descriptors.blocks is None:
            return net(prepared, labels)
        rows, row_of_pixel = net.descriptors.blocks(prepared, labels)
    pixels = rows.new_empty(len(labels), rows.shape[1], *labels.shape[1:])
    for channel, values in enumerate(rows.T.contiguous()):
        pixels[:, channel] = values[row_of_pixel]
    return pixels


def describe_whole(net: Describer, prepared: Tensor, positions: int = 1, inside: Tensor | None = None) -> Tensor:
    """Compute descriptors (B, D, H, W) of whole pictures, each as one region.

    They are averaged over `positions` of the grid of blocks along each side: with two of them boundaries come to lie
    within half a block instead of a whole one. The mean is as long as the descriptors are on average.
    Descriptors of pixels that are not `inside`, (B, H, W), mean nothing.
    """

    def shifted(down: int, right: int) -> Tensor:
        moved = pad(prepared, (right, 0, down, 0), "replicate") if down or right else prepared
        one = torch.zeros(len(moved), *moved.shape[2:], dtype=torch.long, device=moved.device)
        if inside is not None:
            one[:, down:, right:] = inside.long() - 1
            one[:, :down], one[:, :, :right] = -1, -1
        return describe(net, moved, one)[:, :, down:, right:]

    shifts = [number * net.stride // positions for number in range(positions)]
    tasks = [partial(shifted, down, right) for down, right in product(shifts, shifts)]
    if positions == 1:
        return tasks[0]()
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
