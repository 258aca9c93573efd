"""Costs G_i of each region in a narrow band along its boundary (Alg. 2, steps 4 to 7).

Memory follows the boundaries' length and the picture's area, not the number of regions times the area.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.ndimage import distance_transform_edt
from torch import Tensor, from_numpy
from torch.nn.functional import avg_pool2d

from ..arrays import Array, Box, Floats, Floats32, Ints, Labels, Mask
from ..network.describer import Descriptors
from .local_means import cell_side, local_means
from .region_shape import Shape, boxes_of, shape_of, widened

if TYPE_CHECKING:
    from .atlas import Layout

#: Pixels that take as long as a further call of a network does, and of one on blocks of pixels.
OVERHEAD, BLOCK_OVERHEAD = 2**13, 2**14
#: Default of `largest_canvas`.
CANVAS = 2**20
#: Most pixels of a region's box whose solutions are kept for the next iteration, for the sake of memory.
REMEMBERED = 2**19
#: Pixels whose costs are computed at once.
CHUNK = 2**15
#: Share of a region that may have changed, for a warm start.
CHANGED = 0.03


@dataclass(frozen=True)
class Region:
    """One region, kept as long as it does not change."""

    band: Ints  # (n,), flat numbers of the pixels of D(R_i) where the smooth indicator φ_i has a slope
    phi: Floats32  # φ_i in the band
    slope: Floats  # |∇φ_i| there
    curvature: Floats  # κ = div(∇φ_i/|∇φ_i|) there
    cost: Floats32  # G_i = ‖F_{R_i} − a_i‖² there
    own: Floats32  # G_i at all pixels of R_i

    @property
    def within(self) -> float:
        """Σ_{R_i} G_i."""
        return float(self.own.sum(dtype=np.float64))


class Solved:
    """Warm start: the solutions of each region's last pass through a network, if it had a canvas of its own (step 5).

    Regions on one canvas take their steps together, as many as the one that needs most: nothing would be saved.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Sequence[Tensor], Shape]] = {}  # solutions (1, ..., h, w) in the shape's box

    def keep(self, number: int, shape: Shape, solutions: Sequence[Tensor]) -> None:
        """Keep the solutions for a region in its box, if there are any."""
        if solutions:
            self._kept[number] = solutions, shape

    def guesses(self, number: int, shape: Shape) -> list[Tensor]:
        """Return first guesses for a region and forget them; none if it has changed too much.

        Pixels that are new in the region take the value of their nearest old pixel.
        """
        if number not in self._kept:
            return []
        solutions, old = self._kept.pop(number)
        there, here = _overlap(old.box, shape.box)
        had = np.zeros(shape.dilated.shape, bool)
        had[here] = old.dilated[there]
        fresh = shape.dilated & ~had
        gone = old.dilated.sum() - (had & shape.dilated).sum()
        if fresh.sum() + gone >= CHANGED * shape.dilated.sum():
            return []
        nearest = distance_transform_edt(~had, return_distances=False, return_indices=True)[:, fresh].astype(np.int64)
        rows, columns, near_rows, near_columns = map(from_numpy, (*fresh.nonzero(), *nearest))
        found = []
        for solution in solutions:
            guess = solution
            if old.box != shape.box:
                guess = solution.new_zeros(*solution.shape[:-2], *shape.dilated.shape)
                guess[(..., *here)] = solution[(..., *there)]
            guess[..., rows, columns] = guess[..., near_rows, near_columns]
            found.append(guess)
        return found


class Tailor:
    """Computes F_{R_i}, a_i and G_i of each region (Alg. 2, steps 4 to 7), reusing what did not change."""

    def __init__(
        self,
        image: Tensor,  # (1, C, H, W)
        descriptors: Descriptors,
        reach: int,  # radius of the dilations, in pixels
        whole: Tensor | None = None,  # (D, H, W): these, of the whole image, instead of tailored ones
        sigma: float = inf,  # how far a_i looks from each pixel, in pixels (`local_means`)
        rim: int = 0,  # pixels along a region's boundary that a_i leaves out
        largest_canvas: int = CANVAS,  # most pixels of a canvas that several regions share, for the sake of memory
    ) -> None:
        self.image, self.descriptors, self.reach = image, descriptors, reach
        self.sigma, self.rim, self.align = sigma, rim, max(1, descriptors.stride)
        self.whole, self.largest_canvas = whole, largest_canvas
        self._solved = Solved()
        self._canvas = image.new_empty((1, image.shape[1], 0, 0))
        planes = image[0].flatten(1)
        self._varying = (planes.amin(dim=1) != planes.amax(dim=1)).nonzero().squeeze(1).tolist()

    def start(self, labels: Labels) -> dict[int, Region]:
        """Return the regions of a label map."""
        return self._regions(labels, boxes_of(labels))

    def update(self, labels: Labels, before: Labels, known: dict[int, Region]) -> dict[int, Region]:
        """Return the regions of a label map; those that are as they were in the map `before` are taken over."""
        moved = labels != before
        changed = {*np.unique(labels[moved]).tolist(), *np.unique(before[moved]).tolist()}
        boxes = boxes_of(labels)
        fresh = self._regions(labels, {i: box for i, box in boxes.items() if i in changed})
        return {i: fresh.get(i) or known[i] for i in boxes}

    def _regions(self, labels: Labels, boxes: dict[int, Box]) -> dict[int, Region]:
        wide = {i: widened(box, self.reach, labels.shape, self.align) for i, box in boxes.items()}
        shared = {
            i
            for i, box in wide.items()
            if self.whole is None and self.descriptors.stride and _area(box) <= self.largest_canvas
        }
        found = {}
        for i in wide.keys() - shared:
            shape = shape_of(labels, i, wide[i], self.reach, self.rim)
            found[i] = self._region(shape, self._cost_alone(i, shape))
        shapes = {i: shape_of(labels, i, wide[i], self.reach, self.rim) for i in wide if i in shared}
        numbers = list(shapes)
        overhead = OVERHEAD if self.descriptors.blocks is None else BLOCK_OVERHEAD
        from .atlas import group  # compiled: machines that only train may do without

        for members, layout in group([shapes[i].dilated for i in numbers], overhead, self.largest_canvas, self.align):
            together = [shapes[numbers[k]] for k in members]
            costs = self._costs(together, layout) if members[1:] else [self._cost_alone(numbers[members[0]], *together)]
            for k, shape, cost in zip(members, together, costs, strict=True):
                found[numbers[k]] = self._region(shape, cost)
        return {i: found[i] for i in boxes}

    def _cost_alone(self, number: int, shape: Shape) -> Floats32:
        """Steps 5 and 7, F_{R_i} in D(R_i), a_i and G_i, for one region: in its box."""
        if self.whole is not None:
            return self._cost(self.whole[(slice(None), *shape.box)], shape.core)
        if not self.descriptors.stride:
            labels = np.full(self.image.shape[2:], -1)
            labels[shape.box][shape.dilated] = 0
            return self._cost(self._compute(self.image, labels)[(slice(None), *shape.box)], shape.core)
        labels = np.where(shape.dilated, 0, -1)
        place = (slice(0, labels.shape[0]), slice(0, labels.shape[1]))
        if self.descriptors.warm is None or labels.size > REMEMBERED:
            return self._costs_on(self.image[(..., *shape.box)], labels, [shape], [place])[0]
        guesses = self._solved.guesses(number, shape)
        with torch.no_grad():
            found, solutions = self.descriptors.warm(self.image[(..., *shape.box)], self._tensor(labels)[None], guesses)
        self._solved.keep(number, shape, solutions)
        return self._cost(found[0], shape.core)

    def _costs(self, shapes: list[Shape], layout: Layout) -> list[Floats32]:
        """The same for regions that share a canvas, where they cannot see each other."""
        places = [
            (slice(y, y + shape.mask.shape[0]), slice(x, x + shape.mask.shape[1]))
            for (y, x), shape in zip(layout.corners, shapes, strict=True)
        ]
        # Blocks may go on beyond the picture's end, where boxes stop; what they miss is outside every region.
        height = max(layout.height, *(rows.stop for rows, _ in places))
        width = max(layout.width, *(columns.stop for _, columns in places))
        labels = np.full((height, width), -1)
        if any(have < want for have, want in zip(self._canvas.shape[2:], labels.shape, strict=True)):
            size = np.maximum(self._canvas.shape[2:], labels.shape).tolist()
            self._canvas = self.image[:, :, :1, :1].repeat(1, 1, *size)  # constant channels are done with this
        canvas = self._canvas[:, :, :height, :width]
        for number, (place, shape) in enumerate(zip(places, shapes, strict=True)):
            labels[place][shape.dilated] = number
            inside = self._tensor(shape.dilated)
            for channel in self._varying:
                here = canvas[(0, channel, *place)]
                here.copy_(torch.where(inside, self.image[(0, channel, *shape.box)], here))
        return self._costs_on(canvas, labels, shapes, places)

    def _costs_on(self, canvas: Tensor, labels: Labels, shapes: list[Shape], places: list[Box]) -> list[Floats32]:
        pairs = list(zip(places, shapes, strict=True))
        if self.descriptors.blocks is None:
            found = self._compute(canvas, labels)
            return [self._cost(found[(slice(None), *place)], shape.core) for place, shape in pairs]
        with torch.no_grad():
            rows, row_of_pixel = self.descriptors.blocks(canvas, self._tensor(labels)[None])
        return [self._compact_cost(rows, row_of_pixel[(0, *place)], shape) for place, shape in pairs]

    def _cost(self, features: Tensor, mask: Mask) -> Floats32:
        """‖F − a‖² of (D, H, W) with a the means over the mask; in strips of rows, so that temporaries are small."""
        inside = self._tensor(mask).to(features.dtype)
        side = cell_side(max(mask.shape), self.align)
        rows = max(1, CHUNK // (mask.shape[1] * side)) * side
        strips = [slice(first, first + rows) for first in range(0, mask.shape[0], rows)]
        total = torch.cat([_pooled(features[:, strip] * inside[strip], side) for strip in strips], dim=1)
        means = local_means(total, _pooled(inside[None], side), self.sigma / side).to(features.dtype)
        cost = [
            (features[:, strip] - _spread(means[:, strip.start // side :], side, features[:, strip]))
            .square_()
            .sum(dim=0)
            for strip in strips
        ]
        found: Floats32 = torch.cat(cost).float().cpu().numpy()
        return found

    def _compact_cost(self, rows: Tensor, row_of_pixel: Tensor, shape: Shape) -> Floats32:
        """The same in D(R_i), (h, w), from descriptors (n, D) that pixels of the region share; 0 elsewhere."""
        side = cell_side(max(shape.mask.shape), self.align)
        height, width = (-(-each // side) for each in shape.mask.shape)
        dilated, own = self._tensor(shape.dilated), self._tensor(shape.core)
        members = row_of_pixel[dilated]
        cell = members.new_zeros(len(rows))
        if self.sigma < inf:  # else all cells count as one
            y, x = dilated.nonzero(as_tuple=True)
            cell.index_copy_(0, members, y // side * width + x // side)
        used = members.new_zeros(len(rows)).index_fill(0, members, 1).nonzero().squeeze(1)
        pixels = torch.bincount(row_of_pixel[own], minlength=len(rows))[used].double()[:, None]
        sums = pixels.new_zeros(height * width, rows.shape[1] + 1)
        sums.index_add_(0, cell[used], torch.cat([rows[used] * pixels, pixels], dim=1))
        total = sums.T.reshape(-1, height, width)
        means = local_means(total[:-1], total[-1:], self.sigma / side).flatten(1).T
        cost = rows.new_zeros(len(rows))
        cost[used] = (rows[used] - means[cell[used]].to(rows.dtype)).square_().sum(dim=1)
        found: Floats32 = torch.where(dilated, cost[row_of_pixel], 0).float().cpu().numpy()
        return found

    def _compute(self, image: Tensor, labels: Labels) -> Tensor:
        with torch.no_grad():
            return self.descriptors.pixels(image, self._tensor(labels)[None])[0]

    def _tensor(self, values: Array) -> Tensor:
        return torch.from_numpy(values).to(self.image.device)

    def _region(self, shape: Shape, cost: Floats32) -> Region:
        rows, columns = shape.band.nonzero()
        band = (rows + shape.box[0].start) * self.image.shape[3] + columns + shape.box[1].start
        return Region(band, shape.phi, shape.slope, shape.curvature, cost[shape.band], cost[shape.mask])


def _area(box: Box) -> int:
    rows, columns = box
    return int((rows.stop - rows.start) * (columns.stop - columns.start))


def _pooled(values: Tensor, side: int) -> Tensor:
    """Sum (C, H, W) over cells, in double precision."""
    return avg_pool2d(values.double(), side, ceil_mode=True, divisor_override=1)


def _spread(means: Tensor, side: int, like: Tensor) -> Tensor:
    """Give each pixel of `like`, (D, h, w), the value of its cell, counted from the top left one."""
    rows, columns = (torch.arange(each, device=like.device) // side for each in like.shape[1:])
    return means[:, rows[:, None], columns]


def _overlap(first: Box, second: Box) -> tuple[Box, Box]:
    """Return the part that two boxes have in common, as it lies in the one and in the other."""
    common = [(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(first, second, strict=True)]
    inside = [
        [slice(low - side.start, max(low, high) - side.start) for (low, high), side in zip(common, box, strict=True)]
        for box in (first, second)
    ]
    return (inside[0][0], inside[0][1]), (inside[1][0], inside[1][1])
