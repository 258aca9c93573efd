"""One of the eight ways to turn and mirror a picture, chosen by the picture itself.

A network whose weights were learnt treats a picture and its mirror image a little differently, and so do tie-breaks in
clustering. Brought to the same pose first, a picture and all its turned and mirrored versions are the same array, and
their segmentations are the same but for the pose: the frame of a picture in the sense of frame averaging [1]_, of which
one member is enough here.

References
----------
.. [1] O. Puny et al., "Frame averaging for invariant and equivariant network design", ICLR 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)

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


def pose_of(picture: npt.NDArray[Any]) -> Pose:
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


def _moment(profile: npt.NDArray[np.float64]) -> float:
    """How much more lies behind the middle than before it; 0 where that is rounding."""
    lever = np.arange(len(profile)) - (len(profile) - 1) / 2
    moment = float(lever @ profile)
    return moment if abs(moment) > ROUNDING * float(np.abs(lever) @ np.abs(profile)) else 0.0
