"""What the first network says of the textures along boundaries, at levels between the work size and the full one.

Colours may say little of where a texture ends: those of a gray picture, of a micrograph, of two kinds of bark. So near
boundaries the picture is described again at each level, as one region, by the weights and the picture's statistics of
the work size: in tiles that lie on a fixed grid, so that descriptors depend on the picture alone. A region's
descriptors near a pixel are averaged, and how unlike them a pixel's are is its cost G_i there, a further unary term of
`colour_crf`. The better colours tell apart the regions that meet in a place, the less it weighs (`Colours`).

A tile looks `BEYOND` pixels further than it says anything; solves with α forget what is `d` away like exp(−d/√α).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product

import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from torch.nn.functional import avg_pool2d

from ..arrays import Array, Box, Floats, Floats32, Ints
from ..evolution.colour_crf import ALIKE, Band
from ..labels import dilate, edges
from ..network.stdnn import STDNN
from ..parallel import in_threads, without_torch
from .canvas import Pose
from .described import Described

#: Side of a tile and how much it looks beyond, in pixels of its level: multiples of a cell.
TILE, BEYOND = 512, 96
#: Deviation of the Gaussian under which a region's descriptors are averaged, and where it is cut off, in pixels.
NEARBY, FAR = 32.0, 96
#: Blocks a side of the cells on which they are averaged.
CELL = 4
#: Pixels along a boundary that count little for the mean of their region, which may be wrong there; how little.
RIM, LITTLE = 4, 1e-3
#: Weight of G_i where colours tell nothing.
WEIGHT = 2.0


@dataclass(frozen=True)
class Textures:
    """Descriptors of a level near its boundaries; tiles are described and kept in the canvas's pose."""

    net: STDNN
    statistics: torch.Tensor  # (1, n, 1, 1), of the picture's channels at the work size
    read: Callable[[Box], Floats32]  # colours in a box as the picture lies, infinity outside
    pose: Pose
    shape: tuple[int, int]  # of the level, as the picture lies
    tiles: dict[tuple[int, int], Floats32] = field(default_factory=dict)  # (D + moments, h, w) of blocks

    @classmethod
    def of(cls, described: Described, read: Callable[[Box], Floats32], shape: tuple[int, int]) -> Textures | None:
        """Return those of a level; None where a network takes other statistics."""
        net = described.net
        if not isinstance(net, STDNN) or net.config.features != "rich" or net.stride == 1:
            return None
        statistics = described.prepared[:, net.image_channels :, :1, :1]
        return cls(net, statistics, read, described.canvas.pose, shape)

    @property
    def cell(self) -> int:
        """Side of a cell in pixels."""
        return CELL * self.net.stride

    @property
    def margin(self) -> int:
        """How far from a pixel its costs look."""
        return FAR + 2 * self.cell + RIM

    def cover(self, labels: Array) -> None:
        """Describe the tiles near the boundaries of a label map, unless they are."""
        height, width = self.shape[::-1] if self.pose.diagonal else self.shape
        corners = product(range(0, height, TILE), range(0, width, TILE))
        fresh = [corner for corner in corners if corner not in self.tiles and self._is_near(labels, corner)]
        with without_torch():
            found = in_threads([partial(self._described, corner) for corner in fresh])
        self.tiles.update(zip(fresh, found, strict=True))

    def _is_near(self, labels: Array, corner: tuple[int, int]) -> bool:
        here = labels[self._around(corner, self.margin)]
        return bool(here.min() != here.max()) and bool(edges(here).any())

    def _around(self, corner: tuple[int, int], margin: int) -> Box:
        """A tile with a margin, as the picture lies."""
        rows, columns = (slice(start, start + TILE) for start in corner)
        return lying(self.pose, self._widened((rows, columns), margin), self.shape)

    def _widened(self, box: Box, margin: int) -> Box:
        """Add a margin in the pose, from a cell's start on, as far as there are pixels."""
        ends = self.shape[::-1] if self.pose.diagonal else self.shape
        rows, columns = (
            slice(max(0, side.start - margin) // self.cell * self.cell, min(end, side.stop + margin))
            for side, end in zip(box, ends, strict=True)
        )
        return rows, columns

    def _described(self, corner: tuple[int, int]) -> Floats32:
        values = torch.from_numpy(self.pose.apply(self.read(self._around(corner, BEYOND))))[None]
        inside = values[:, :1].isfinite()
        maps = self.statistics.expand(-1, -1, *values.shape[2:])
        picture = torch.cat([torch.where(inside, values, 0).to(maps.device), maps], dim=1)
        stride, size = self.net.stride, TILE // self.net.stride
        with torch.no_grad():
            rows, row_of_pixel = self.net.compact(picture, inside[:, 0].long().to(maps.device) - 1)
        top, left = (min(start, BEYOND) for start in corner)
        corners = row_of_pixel[0, top::stride, left::stride][:size, :size]
        found = rows[corners].movedim(2, 0).contiguous().cpu().numpy()
        return np.concatenate([found, moments(values[0, :, top : top + TILE, left : left + TILE], stride)])

    def costs(self, labels: Array, box: Box, bands: Mapping[int, Band]) -> dict[int, Band]:
        """Add the textures' costs to those of bands in a box of a label map; the bands are in the pose."""
        inner = posed(self.pose, box, self.shape)
        outer = self._widened(inner, self.margin)
        here, blocks = self.pose.apply(labels[lying(self.pose, outer, self.shape)]), self._blocks(outer)
        down, across = (narrow.start - wide.start for narrow, wide in zip(inner, outer, strict=True))
        rim, width = dilate(edges(here), RIM), inner[1].stop - inner[1].start
        size = self.net.config.widths[-1]
        colours, unlikes = Colours(len(blocks) - size, blocks.shape[1:]), {}
        for number, (band, _) in bands.items():
            rows, columns = np.divmod(band, width)
            block_of_pixel = (rows + down) // self.net.stride * blocks.shape[2] + (columns + across) // self.net.stride
            own = here == number
            weight = np.where(own & ~rim, np.float32(1), np.where(own, np.float32(LITTLE), np.float32(0)))
            means, there = self._means(blocks, weight)
            used, row = np.unique(block_of_pixel, return_inverse=True)
            y, x = np.divmod(used, blocks.shape[2])
            known, mean = there[y // CELL, x // CELL], means[:, y // CELL, x // CELL]
            unlikes[number] = np.where(known, ((blocks[:size, y, x] - mean[:size]) ** 2).sum(axis=0), 0), y, x, row
            colours.add(mean[size:, known], y[known], x[known])
        weight = (WEIGHT / (1 + colours.told())).astype(np.float32)
        return {
            number: Band(bands[number].band, bands[number].cost + (weight[y, x] * unlike)[row])
            for number, (unlike, y, x, row) in unlikes.items()
        }

    def _means(self, blocks: Floats32, weight: Floats32) -> tuple[Floats32, Array]:
        """Average descriptors of blocks around cells, weighted by pixels: (D, h, w), and where there are any."""
        share = _sums(weight[None], self.net.stride)
        total = _sums(np.concatenate([blocks * share, share]), CELL)
        sigma = NEARBY / self.cell
        wide = gaussian_filter(total, (0, sigma, sigma), mode="constant", radius=(0, *[int(FAR // self.cell)] * 2))
        there: Array = wide[-1] > 0
        means: Floats32 = wide[:-1] / np.where(there, wide[-1], np.float32(1))
        return means, there

    def _blocks(self, box: Box) -> Floats32:
        """Descriptors of a box's blocks and their colours' moments; 0 where no tile is described."""
        stride = self.net.stride
        rows, columns = (slice(side.start // stride, -(-side.stop // stride)) for side in box)
        size = rows.stop - rows.start, columns.stop - columns.start
        planes = self.net.config.widths[-1] + len(_upper(self.net.image_channels)[0]) + self.net.image_channels
        found = np.zeros((planes, *size), np.float32)
        for corner in product(*(range(side.start // TILE * TILE, side.stop, TILE) for side in box)):
            if corner in self.tiles:
                tile = self.tiles[corner]
                down, ours = _common(rows, corner[0] // stride, tile.shape[1])
                across, theirs = _common(columns, corner[1] // stride, tile.shape[2])
                found[:, down, across] = tile[:, ours, theirs]
        return found


class Colours:
    """How well colours tell the regions apart that meet in a block, by their means and covariances around it.

    With the regions' covariances W, in the mean, and B, that of their means, it is tr(W⁻¹B), Fisher's ratio: 0 where
    their colours are the same in the mean. What is alike to `colour_crf` counts as variance.
    """

    def __init__(self, planes: int, shape: tuple[int, ...]) -> None:
        self.channels = next(c for c in range(1, planes + 1) if c + c * (c + 1) // 2 == planes)
        self.count = np.zeros(shape, np.int64)
        self.sums = np.zeros((planes, *shape))  # of the means, and of their products
        self.squares = np.zeros((planes - self.channels, *shape))

    def add(self, mean: Floats32, y: Ints, x: Ints) -> None:
        """Add a region's moments around the blocks at (y, x)."""
        first, second = mean[: self.channels].astype(np.float64), mean[self.channels :]
        rows, columns = _upper(self.channels)
        self.count[y, x] += 1
        self.sums[:, y, x] += np.concatenate([first, first[rows] * first[columns]])
        self.squares[:, y, x] += second

    def told(self) -> Floats:
        """The ratio in each block; 0 where fewer than two regions meet."""
        y, x = (self.count > 1).nonzero()
        found, rows_columns = np.zeros(self.count.shape), _upper(self.channels)
        sums, squares = self.sums[:, y, x] / self.count[y, x], self.squares[:, y, x] / self.count[y, x]
        first, products = sums[: self.channels], sums[self.channels :]
        place = np.zeros((self.channels, self.channels), np.int64)
        place[rows_columns] = place.T[rows_columns] = np.arange(len(squares))
        within = (squares - products)[place].transpose(2, 0, 1) + ALIKE**2 * np.eye(self.channels)
        between = products[place] - first[:, None] * first
        found[y, x] = np.trace(np.linalg.solve(within, between.transpose(2, 0, 1)), axis1=1, axis2=2)
        return found


def moments(values: torch.Tensor, side: int) -> Floats32:
    """Means over blocks of colours (C, h, w) and of their products, of the pixels inside."""
    inside = values[:1].isfinite()
    known = torch.where(inside, values, 0)
    rows, columns = _upper(len(known))
    planes = torch.cat([known, known[rows] * known[columns], inside.to(known.dtype)])[None]
    means = avg_pool2d(planes, side, ceil_mode=True, count_include_pad=False)[0]
    found: Floats32 = (means[:-1] / means[-1:].clamp(min=1 / side**2)).numpy()
    return found


def _upper(channels: int) -> tuple[Ints, Ints]:
    """Rows and columns of the upper triangle of a matrix."""
    rows, columns = np.triu_indices(channels)
    return rows, columns


def lying(pose: Pose, box: Box, shape: tuple[int, int]) -> Box:
    """Where a box of a posed picture lies in the picture of this shape."""
    rows, columns = (box[1], box[0]) if pose.diagonal else box
    return _mirrored(rows, shape[0], pose.rows), _mirrored(columns, shape[1], pose.columns)


def posed(pose: Pose, box: Box, shape: tuple[int, int]) -> Box:
    """The way back: where a box of the picture comes to lie in its pose."""
    rows, columns = _mirrored(box[0], shape[0], pose.rows), _mirrored(box[1], shape[1], pose.columns)
    return (columns, rows) if pose.diagonal else (rows, columns)


def _mirrored(side: slice, end: int, flips: bool) -> slice:
    return slice(end - side.stop, end - side.start) if flips else side


def _common(side: slice, start: int, length: int) -> tuple[slice, slice]:
    """What two stretches have in common, counted from the start of each."""
    low, high = max(side.start, start), min(side.stop, start + length)
    return slice(low - side.start, high - side.start), slice(low - start, high - start)


def _sums(planes: Floats32, side: int) -> Floats32:
    """Sum (C, h, w) over squares."""
    found: Floats32 = avg_pool2d(torch.from_numpy(planes)[None], side, ceil_mode=True, divisor_override=1)[0].numpy()
    return found
