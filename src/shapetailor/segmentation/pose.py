"""The frame that a picture is worked in: its own pose, and enlarged where it is small.

A network whose weights were learnt treats a picture and its mirror image a little differently, and so do tie-breaks in
clustering. Brought to the same pose first, a picture and all its turned and mirrored versions are the same array, and
their segmentations are the same but for the pose: the frame of a picture in the sense of frame averaging [1]_, of which
one member is enough here.

A network that works on blocks of pixels sees little in a small picture: its regions are a few blocks wide.

References
----------
.. [1] O. Puny et al., "Frame averaging for invariant and equivariant network design", ICLR 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import interpolate

from ..arrays import Array, Floats, Floats32

Scalar = TypeVar("Scalar", bound=np.generic)

#: Pictures of fewer blocks a side are enlarged, at most so many times.
FEWEST_BLOCKS, LARGEST = 32, 8
#: Moments below this share of their size are rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Pose:
    """How a picture is brought to its pose: mirrored up and down, left and right, and then across its diagonal."""

    rows: bool
    columns: bool
    diagonal: bool

    def apply(self, picture: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Bring (..., H, W) to the pose."""
        turned = picture[..., :: -1 if self.rows else 1, :: -1 if self.columns else 1]
        return np.ascontiguousarray(turned.swapaxes(-1, -2) if self.diagonal else turned)

    def undo(self, posed: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Bring (..., H, W) back from the pose."""
        turned = posed.swapaxes(-1, -2) if self.diagonal else posed
        return np.ascontiguousarray(turned[..., :: -1 if self.rows else 1, :: -1 if self.columns else 1])


@dataclass(frozen=True)
class Frame:
    """A pose, and by what a picture is enlarged in it."""

    pose: Pose
    zoom: int

    def picture(self, values: Floats32) -> Floats32:
        """Bring (C, H, W) values into the frame."""
        posed = self.pose.apply(values)
        if self.zoom == 1:
            return posed
        enlarged: Floats32 = interpolate(
            torch.from_numpy(posed)[None], scale_factor=self.zoom, mode="bilinear", align_corners=False
        )[0].numpy()
        return enlarged.clip(0, 1)

    def labels(self, labels: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Bring (H, W) labels into the frame."""
        return self.pose.apply(labels).repeat(self.zoom, axis=0).repeat(self.zoom, axis=1)

    def undo(self, framed: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Bring (..., H, W) back from the frame, by what stands at the pixels' centres."""
        centres = slice(self.zoom // 2, None, self.zoom)
        return self.pose.undo(framed[..., centres, centres])


def frame_of(picture: Array, stride: int) -> Frame:
    """Return the frame of (C, H, W) for a network that works on blocks of `stride` pixels a side."""
    wanted = FEWEST_BLOCKS * stride if stride > 1 else 1
    return Frame(pose_of(picture), min(LARGEST, ceil(wanted / max(picture.shape[1:]))))


def pose_of(picture: Array) -> Pose:
    """Return the pose in which (C, H, W) is wide, and brighter on the right and at the bottom.

    A square is put so that it is brighter more to the right than to the bottom.

    Examples
    --------
    >>> picture = np.array([[[5.0, 1.0, 0.0], [2.0, 0.0, 0.0]]])
    >>> pose = pose_of(picture)
    >>> pose.apply(picture)
    array([[[0., 0., 2.],
            [0., 1., 5.]]])
    >>> all(np.array_equal(pose_of(turned).apply(turned), pose.apply(picture))
    ...     for turned in (picture[..., ::-1], picture.swapaxes(1, 2), np.rot90(picture, 1, (1, 2))))
    True
    """
    profile = picture.astype(np.float64).sum(axis=0)
    down, right = (_moment(profile.sum(axis=1 - axis)) for axis in (0, 1))
    height, width = profile.shape
    # The same picture turned has the same two numbers with other signs, or exchanged: up to rounding.
    tall = height > width or (height == width and abs(down) - abs(right) > ROUNDING * (abs(down) + abs(right)))
    return Pose(down < 0, right < 0, tall)


def _moment(profile: Floats) -> float:
    """How much more lies behind the middle than before it; 0 where that is rounding."""
    lever = np.arange(len(profile)) - (len(profile) - 1) / 2
    moment = float(lever @ profile)
    return moment if abs(moment) > ROUNDING * float(np.abs(lever) @ np.abs(profile)) else 0.0
