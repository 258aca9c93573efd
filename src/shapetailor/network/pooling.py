"""Blocks of pixels inside regions: a coarser grid that still never mixes regions."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad


class Pooling:
    """Mean over stride × stride blocks inside regions, and the way back; planned once for label maps (B, H, W).

    A block has the label of most of its pixels inside regions, the smallest if several tie. Its value is the mean over
    its pixels *of that label*. On the way back these pixels take the block's value. The others, at a boundary, take the
    mean of the 4-neighbours of their label that have a value, in up to ``2 · stride`` rounds. Regions too small to be
    reached so have one value for all of their pixels, in a cell: cells are further rows of the coarse grid, without
    neighbours. `labels`, (B, h, w), is the coarse label map, cells included, with labels of its own; `row_of_pixel`,
    (B, H, W), each pixel's place among the values that `rows` returns.
    """

    def __init__(self, labels: Tensor, stride: int) -> None:
        self.stride, (self.images, self.height, self.width) = stride, labels.shape
        self.h, self.w = -(-self.height // stride), -(-self.width // stride)
        _, ranks = labels.unique(return_inverse=True)
        ranks = torch.where(labels < 0, -1, ranks)
        coarse = _majority(self._blocks(ranks), int(ranks.max()) + 1)
        self._block = self._block_of_pixel(labels.device)
        self._member = (ranks == coarse.flatten()[self._block]) & (ranks >= 0)
        self._count = self._sum(self._member[:, None].double()).clamp_min(1)
        rounds, left = _plan_rounds(ranks, self._member, 2 * stride)
        self._plan_cells(ranks, left)
        self._plan_rows(rounds)
        rows = torch.full((self.images, self.rows_of_cells, self.w), -1, dtype=coarse.dtype, device=labels.device)
        numbers = torch.arange(len(self._cell_slot), device=labels.device)
        rows.flatten()[self._cell_slot] = int(ranks.max()) + 1 + numbers
        self.labels = torch.cat([coarse, rows], dim=1)
        self._plan_sample()

    def pool(self, x: Tensor) -> Tensor:
        """Average (B, C, H, W) to (B, C, h, w), cells included."""
        blocks = self._sum(torch.where(self._member[:, None], x, 0)) / self._count.to(x.dtype)
        if not self.rows_of_cells:
            return blocks
        pixels, cells = self._cell_pixels
        values = x.movedim(1, 3).flatten(0, 2)[pixels]
        sums = values.new_zeros(len(self._cell_slot), x.shape[1]).index_add(0, cells, values)
        means = sums / torch.bincount(cells, minlength=len(sums))[:, None].to(x.dtype)
        rows = x.new_zeros(self.images * self.rows_of_cells * self.w, x.shape[1]).index_copy(0, self._cell_slot, means)
        rows = rows.reshape(self.images, self.rows_of_cells, self.w, -1).movedim(3, 1)
        return torch.cat([blocks, rows], dim=2)

    def sample(self, x: Tensor) -> Tensor:
        """Pool maps that are constant inside regions: take (B, C, H, W) at one pixel of each block; 0 outside."""
        values = x.movedim(1, 3)[self._sample_of_block]
        values = torch.where(self.labels.flatten()[:, None] >= 0, values, 0)
        return values.reshape(*self.labels.shape, -1).movedim(3, 1)

    def unpool(self, y: Tensor) -> Tensor:
        """Bring (B, D, h, w) back to (B, D, H, W)."""
        return self.rows(y)[self.row_of_pixel].movedim(3, 1).contiguous()

    def rows(self, y: Tensor) -> Tensor:
        """Return the values that pixels have on the way back, as (n, D), without repetition; see `row_of_pixel`."""
        rows = y.movedim(1, 3).flatten(0, 2)
        for neighbours, ready in self._rounds:
            weight = ready.to(y.dtype)
            mean = (rows[neighbours] * weight[:, :, None]).sum(dim=1) / weight.sum(dim=1, keepdim=True)
            rows = torch.cat([rows, mean])
        return rows

    def _plan_cells(self, ranks: Tensor, left: Tensor) -> None:
        """Give a cell to each region with pixels that are `left` over; set `row_of_pixel`."""
        known = int(ranks.max()) + 2
        image = torch.arange(self.images, device=ranks.device)[:, None, None]
        region = (image * known + ranks + 1).flatten()
        wanted = region[left].unique()
        owner = wanted // known
        place = torch.arange(len(wanted), device=ranks.device) - torch.searchsorted(owner, owner)
        self.rows_of_cells = -(-(int(place.max()) + 1) // self.w) if len(wanted) else 0
        self._cell_slot = owner * self.rows_of_cells * self.w + place
        cell = torch.searchsorted(wanted, region).clamp_max(max(len(wanted) - 1, 0))
        pixels = (wanted[cell] == region).nonzero().squeeze(1) if len(wanted) else left
        self._cell_pixels = pixels, cell[pixels]
        size = self.h * self.w
        index = self._block + (self._block // size) * (self.rows_of_cells * self.w)
        index.flatten()[left] = (owner * (self.h + self.rows_of_cells) * self.w + size + place)[cell[left]]
        self.row_of_pixel = index

    def _plan_rows(self, rounds: list[tuple[Tensor, Tensor, Tensor]]) -> None:
        """Give the pixels of each round rows of their own, after those of the coarse grid."""
        flat, used = self.row_of_pixel.flatten(), self.images * (self.h + self.rows_of_cells) * self.w
        self._rounds = []
        for pixels, neighbours, ready in rounds:
            self._rounds.append((flat[neighbours], ready))
            flat[pixels] = used + torch.arange(len(pixels), device=flat.device)
            used += len(pixels)
        self.row_of_pixel = flat.reshape(self.row_of_pixel.shape)

    def _plan_sample(self) -> None:
        """Choose a pixel of each block's label, and of each cell's."""
        pixel = torch.arange(self._member.numel(), device=self._member.device).reshape(self._member.shape)
        chosen = torch.zeros(self.labels.numel(), dtype=pixel.dtype, device=pixel.device)
        members = self._member.nonzero(as_tuple=True)
        chosen[self.row_of_pixel[members]] = pixel[members]
        pixels, cells = self._cell_pixels
        size = self.h * self.w
        image = self._cell_slot // max(1, self.rows_of_cells * self.w)
        chosen[(self._cell_slot + (image + 1) * size)[cells]] = pixels
        row = chosen // self.width
        self._sample_of_block = row // self.height, row % self.height, chosen % self.width

    def _block_of_pixel(self, device: torch.device) -> Tensor:
        """The block each pixel lies in, counted over the batch: (B, H, W)."""
        image = torch.arange(self.images, device=device)[:, None, None] * (self.h * self.w)
        row = torch.arange(self.height, device=device)[:, None] // self.stride * self.w
        return image + row + torch.arange(self.width, device=device) // self.stride

    def _blocks(self, ranks: Tensor) -> Tensor:
        """Cut (B, H, W) into (B, h, w, stride²), padded with −1."""
        s = self.stride
        framed = pad(ranks, (0, self.w * s - self.width, 0, self.h * s - self.height), value=-1)
        return framed.reshape(self.images, self.h, s, self.w, s).transpose(2, 3).flatten(3)

    def _sum(self, x: Tensor) -> Tensor:
        s = self.stride
        missing = (0, self.w * s - self.width, 0, self.h * s - self.height)
        return avg_pool2d(pad(x, missing) if any(missing) else x, s, divisor_override=1)


def _majority(blocks: Tensor, none: int) -> Tensor:
    """Return the most frequent value >= 0 along the last dimension, the smallest of several, −1 if there is none."""
    best = blocks[..., 0].clone()
    mixed = (blocks != blocks[..., :1]).any(dim=-1)  # only these few need to be counted
    values = blocks[mixed]
    votes = (values[:, :, None] == values[:, None, :]).sum(dim=-1) * (values >= 0)
    won = torch.where((votes == votes.amax(dim=-1, keepdim=True)) & (votes > 0), values, none).amin(dim=-1)
    best[mixed] = torch.where(won == none, -1, won)
    return best


def _plan_rounds(ranks: Tensor, member: Tensor, most: int) -> tuple[list[tuple[Tensor, Tensor, Tensor]], Tensor]:
    """Plan how values spread to pixels that are no member of their block.

    Returns the rounds, each as (pixels, their 4-neighbours, which of these count), and the pixels never reached.
    """
    filled = member.flatten().clone()
    pending = ((ranks >= 0) & ~member).flatten().nonzero().squeeze(1)
    neighbours, same = (torch.stack(part, dim=1) for part in zip(*_neighbours(ranks, pending), strict=True))
    rounds = []
    for _ in range(most):
        ready = same & filled[neighbours]
        hit = ready.any(dim=1)
        if not bool(hit.any()):
            break
        rounds.append((pending[hit], neighbours[hit], ready[hit]))
        filled[pending[hit]] = True
        pending, neighbours, same = pending[~hit], neighbours[~hit], same[~hit]
    return rounds, pending


def _neighbours(ranks: Tensor, pixels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield, for each of 4 directions, the flat index of the pixels' neighbours and whether they share the label."""
    height, width = ranks.shape[1:]
    flat = ranks.flatten()
    y, x = pixels // width % height, pixels % width
    for dy, dx in ((0, -1), (0, 1), (-1, 0), (1, 0)):
        exists = (y + dy >= 0) & (y + dy < height) & (x + dx >= 0) & (x + dx < width)
        index = torch.where(exists, pixels + dy * width + dx, pixels)
        yield index, exists & (flat[index] == flat[pixels])
