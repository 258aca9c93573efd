"""What Alg. 2 knows of each region: its descriptors' costs near the boundary, and the boundary's shape there.

Everything is kept on bands of pixels along the boundaries, so that memory follows their length and the picture's area,
not the number of regions times the area.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor

from .packing import group, pack
from .regions import Box, signed_distance

Labels = NDArray[np.int64]
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
#: image (1, C, H, W) and labels (1, H, W) → descriptors (1, D, H, W), zero where labels are negative
Descriptors = Callable[[Tensor, Tensor], Tensor]

#: Pixels that take as long as a further call of a network does.
OVERHEAD = 2**14
#: Most pixels of a canvas that several regions share, for the sake of memory.
CANVAS = 2**22
#: Pixels whose costs are computed at once.
CHUNK = 2**15


@dataclass(frozen=True)
class Region:
    """One region, kept as long as it does not change.

    Attributes
    ----------
    band : ndarray, (n,)
        Flat numbers of the pixels of D(R_i) where the smooth indicator φ_i has a slope.
    phi, slope, curvature : ndarray, (n,)
        φ_i, |∇φ_i| and κ = div(∇φ_i/|∇φ_i|) there.
    cost : ndarray, (n,)
        G_i = ‖F_{R_i} − a_i‖² there.
    own : ndarray
        G_i at all pixels of R_i.
    """

    band: NDArray[np.int64]
    phi: NDArray[np.float32]
    slope: Array
    curvature: Array
    cost: NDArray[np.float32]
    own: NDArray[np.float32]

    @property
    def within(self) -> float:
        """Σ_{R_i} G_i."""
        return float(self.own.sum(dtype=np.float64))


@dataclass(frozen=True)
class _Shape:
    """A region before its descriptors: its pixels and those of D(R_i) in a box, and its indicator in the band."""

    box: Box
    mask: Mask
    dilated: Mask
    band: Mask
    phi: NDArray[np.float32]
    slope: Array
    curvature: Array


class Tailor:
    """Computes F_{R_i}, a_i and G_i of each region (Alg. 2, steps 4 to 7), reusing what did not change.

    Parameters
    ----------
    image : Tensor, (1, C, H, W)
    descriptors : callable
    reach : int
        Radius of the dilations, in pixels.
    align : int
        Side of the blocks of pixels that descriptors work on; 0: they want whole images.
    tailored : bool
        False: descriptors of the whole image, computed once.
    """

    def __init__(self, image: Tensor, descriptors: Descriptors, reach: int, align: int, tailored: bool = True) -> None:
        self.image, self.descriptors, self.reach, self.align = image, descriptors, reach, align
        self.whole = None if tailored else self._compute(image, np.zeros(image.shape[2:], np.int64))

    def start(self, labels: Labels) -> dict[int, Region]:
        """Return the regions of a label map."""
        return self._regions(labels, _boxes(labels))

    def update(self, labels: Labels, before: Labels, known: dict[int, Region]) -> dict[int, Region]:
        """Return the regions of a label map; those that are as they were in the map `before` are taken over."""
        moved = labels != before
        changed = {*np.unique(labels[moved]).tolist(), *np.unique(before[moved]).tolist()}
        boxes = _boxes(labels)
        fresh = self._regions(labels, {i: box for i, box in boxes.items() if i in changed})
        return {i: fresh.get(i) or known[i] for i in boxes}

    def _regions(self, labels: Labels, boxes: dict[int, Box]) -> dict[int, Region]:
        wide = {i: _widened(box, self.reach, labels.shape, max(1, self.align)) for i, box in boxes.items()}
        found = {}
        for numbers in self._groups(wide):
            shapes = [self._shape(labels, i, wide[i]) for i in numbers]
            for i, shape, features in zip(numbers, shapes, self._features(shapes), strict=True):
                found[i] = self._region(shape, features)
        return found

    def _groups(self, boxes: dict[int, Box]) -> list[list[int]]:
        """Which regions share a canvas."""
        numbers = list(boxes)
        if self.whole is not None or not self.align:
            return [[i] for i in numbers]
        sizes = [(rows.stop - rows.start, columns.stop - columns.start) for rows, columns in boxes.values()]
        return [[numbers[k] for k in members] for members in group(sizes, OVERHEAD, CANVAS)]

    def _shape(self, labels: Labels, number: int, box: Box) -> _Shape:
        """Step 4, D(R_i), and the smooth indicator with its derivatives."""
        reach = self.reach
        outer, inner = _widened(box, 3, labels.shape), _inside(box, 3)  # derivatives look 2 pixels further
        mask = labels[outer] == number
        distance = signed_distance(mask, reach + 3)
        dilated = (distance >= 0.5 - reach) & (labels[outer] >= 0)
        # 1/2 on the boundary, 1 and 0 from `reach` pixels inside and outside on.
        phi = np.clip(0.5 + distance / (2.0 * reach), 0.0, 1.0).astype(np.float32)
        band = np.zeros_like(mask)
        band[inner] = (dilated & (distance < reach + 1))[inner]
        slope, curvature = _slope_and_curvature(phi, band)
        return _Shape(box, mask[inner], dilated[inner], band[inner], phi[band], slope, curvature)

    def _features(self, shapes: list[_Shape]) -> list[Tensor]:
        """Step 5: F_{R_i} in D(R_i), for regions that share a canvas; they cannot see each other there."""
        if self.whole is not None:
            return [self.whole[(slice(None), *shape.box)] for shape in shapes]
        if not self.align:
            (shape,) = shapes
            labels = np.full(self.image.shape[2:], -1)
            labels[shape.box][shape.dilated] = 0
            return [self._compute(self.image, labels)[(slice(None), *shape.box)]]
        if len(shapes) == 1:
            return [self._compute(self.image[(..., *shapes[0].box)], np.where(shapes[0].dilated, 0, -1))]
        step = self.align
        layout = pack([(-(-h // step), -(-w // step)) for h, w in (shape.mask.shape for shape in shapes)])
        canvas = self.image.new_zeros((1, self.image.shape[1], step * layout.height, step * layout.width))
        labels = np.full(canvas.shape[2:], -1)
        places = [
            (slice(step * y, step * y + height), slice(step * x, step * x + width))
            for (y, x), (height, width) in zip(layout.corners, (shape.mask.shape for shape in shapes), strict=True)
        ]
        for number, (place, shape) in enumerate(zip(places, shapes, strict=True)):
            canvas[(..., *place)] = self.image[(..., *shape.box)]
            labels[place][shape.dilated] = number
        found = self._compute(canvas, labels)
        return [found[(slice(None), *place)] for place in places]

    def _compute(self, image: Tensor, labels: Labels) -> Tensor:
        with torch.no_grad():
            return self.descriptors(image, torch.from_numpy(labels)[None].to(image.device))[0]

    def _region(self, shape: _Shape, features: Tensor) -> Region:
        """Steps 5 and 7: a_i and G_i."""
        cost = _cost(features, torch.from_numpy(shape.mask).to(features.device)).cpu().numpy()
        rows, columns = shape.band.nonzero()
        band = (rows + shape.box[0].start) * self.image.shape[3] + columns + shape.box[1].start
        return Region(band, shape.phi, shape.slope, shape.curvature, cost[shape.band], cost[shape.mask])


def _cost(features: Tensor, mask: Tensor) -> Tensor:
    """‖F − a‖² of (D, H, W) with a the mean over the mask; in strips of rows, so that temporaries are small."""
    rows = max(1, CHUNK // mask.shape[1])
    strips = [slice(first, first + rows) for first in range(0, mask.shape[0], rows)]
    total = features.new_zeros(len(features), dtype=torch.float64)
    for strip in strips:
        total += (features[:, strip].flatten(1) @ mask[strip].flatten().to(features.dtype)).double()
    mean = (total / mask.sum()).to(features.dtype)[:, None, None]
    return torch.cat([(features[:, strip] - mean).square_().sum(dim=0) for strip in strips]).float()


def _boxes(labels: Labels) -> dict[int, Box]:
    """Smallest box of each region, in the order of their numbers."""
    found = ndimage.find_objects(np.maximum(labels + 1, 0))
    return {i: box for i, box in enumerate(found) if box is not None}


def _widened(box: Box, margin: int, shape: tuple[int, ...], multiple: int = 1) -> Box:
    """Add a margin, go on to multiples, stop at the picture's end."""
    rows, columns = (
        slice(
            max(side.start - margin, 0) // multiple * multiple,
            min(-(-(side.stop + margin) // multiple) * multiple, end),
        )
        for side, end in zip(box, shape, strict=True)
    )
    return rows, columns


def _inside(box: Box, margin: int) -> Box:
    """Where a box lies in the same box widened by a margin."""
    rows, columns = (slice(min(side.start, margin), min(side.start, margin) + side.stop - side.start) for side in box)
    return rows, columns


def _slope_and_curvature(phi: NDArray[np.float32], where: Mask) -> tuple[Array, Array]:
    """|∇φ| and κ = div(∇φ/|∇φ|) at some pixels; φ goes on beyond the border as it is there."""
    padded = np.pad(phi.astype(np.float64), 2, mode="edge")
    pitch = padded.shape[1]
    rows, columns = where.nonzero()
    flat, here = padded.ravel(), (rows + 2) * pitch + columns + 2

    def normal(at: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        dy, dx = (flat[at + pitch] - flat[at - pitch]) / 2, (flat[at + 1] - flat[at - 1]) / 2
        size = np.sqrt(dy**2 + dx**2)
        safe = np.maximum(size, 1e-8)
        return dy / safe, dx / safe, size

    curvature = (normal(here + pitch)[0] - normal(here - pitch)[0]) / 2 + (
        normal(here + 1)[1] - normal(here - 1)[1]
    ) / 2
    curvature[normal(here)[2] < 1e-6] = 0.0
    # Central differences vanish on regions one pixel thin, which could never move then: take the steeper side.
    steep = [
        np.maximum(np.abs(flat[here + step] - flat[here]), np.abs(flat[here] - flat[here - step]))
        for step in (pitch, 1)
    ]
    return np.sqrt(steep[0] ** 2 + steep[1] ** 2), np.clip(curvature, -1.0, 1.0)
