"""A region's shape: its box, its dilation, and the smooth indicator φ_i of Alg. 2 along its boundary."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from ..arrays import Box, Floats, Floats32, Ints, Mask
from ..labels import signed_distance

#: A core has at least this share of its region.
LEAST_CORE = 0.1


@dataclass(frozen=True)
class Shape:
    """A region in a box, (h, w), and its smooth indicator in a band along its boundary, (n,)."""

    box: Box
    mask: Mask  # R_i
    core: Mask  # R_i without its rim
    dilated: Mask  # D(R_i)
    band: Mask  # the pixels of D(R_i) where φ_i has a slope
    phi: Floats32  # φ_i in the band
    slope: Floats  # |∇φ_i| there
    curvature: Floats  # κ = div(∇φ_i/|∇φ_i|) there


def shape_of(labels: Ints, number: int, box: Box, reach: int, rim: int = 0) -> Shape:
    """Describe a region's shape; D(R_i) (Alg. 2, step 4) must lie in the box.

    φ is 1/2 on the boundary, 1 and 0 from `reach` pixels inside and outside on. D(R_i) has no pixel with a negative
    label. A region of which little is left without its rim of `rim` pixels, fewer than `reach`, is its own core.
    """
    outer, inner = widened(box, 3, labels.shape), _place(box, 3)  # derivatives look 2 pixels further
    mask = labels[outer] == number
    distance = signed_distance(mask, reach + 3)
    dilated = (distance >= 0.5 - reach) & (labels[outer] >= 0)
    phi = np.clip(0.5 + distance / (2.0 * reach), 0.0, 1.0).astype(np.float32)
    band = np.zeros_like(mask)
    band[inner] = (dilated & (distance < reach + 1))[inner]
    slope, curvature = _slope_and_curvature(phi, band)
    core = distance > rim
    if core.sum() < LEAST_CORE * mask.sum():
        core = mask
    return Shape(box, mask[inner], core[inner], dilated[inner], band[inner], phi[band], slope, curvature)


def boxes_of(labels: Ints) -> dict[int, Box]:
    """Smallest box of each region, in the order of their numbers."""
    found = ndimage.find_objects(np.maximum(labels + 1, 0))
    return {i: box for i, box in enumerate(found) if box is not None}


def widened(box: Box, margin: int, shape: tuple[int, ...], multiple: int = 1) -> Box:
    """Add a margin, go on to multiples, stop at the picture's end."""
    rows, columns = (
        slice(
            max(side.start - margin, 0) // multiple * multiple,
            min(-(-(side.stop + margin) // multiple) * multiple, end),
        )
        for side, end in zip(box, shape, strict=True)
    )
    return rows, columns


def _place(box: Box, margin: int) -> Box:
    """Where a box lies in the same box widened by a margin."""
    rows, columns = (slice(min(side.start, margin), min(side.start, margin) + side.stop - side.start) for side in box)
    return rows, columns


def _slope_and_curvature(phi: Floats32, where: Mask) -> tuple[Floats, Floats]:
    """|∇φ| and κ = div(∇φ/|∇φ|) at some pixels; φ goes on beyond the border as it is there."""
    padded = np.pad(phi.astype(np.float64), 2, mode="edge")
    pitch = padded.shape[1]
    rows, columns = where.nonzero()
    flat, here = padded.ravel(), (rows + 2) * pitch + columns + 2

    def normal(at: Ints) -> tuple[Floats, Floats, Floats]:
        dy, dx = (flat[at + pitch] - flat[at - pitch]) / 2, (flat[at + 1] - flat[at - 1]) / 2
        size = np.sqrt(dy**2 + dx**2)
        safe = np.maximum(size, 1e-8)
        return dy / safe, dx / safe, size

    down = (normal(here + pitch)[0] - normal(here - pitch)[0]) / 2
    curvature = down + (normal(here + 1)[1] - normal(here - 1)[1]) / 2
    curvature[normal(here)[2] < 1e-6] = 0.0
    # Central differences vanish on regions one pixel thin, which could never move then: take the steeper side.
    steep = [
        np.maximum(np.abs(flat[here + step] - flat[here]), np.abs(flat[here] - flat[here - step]))
        for step in (pitch, 1)
    ]
    return np.sqrt(steep[0] ** 2 + steep[1] ** 2), np.clip(curvature, -1.0, 1.0)
