"""Changed copies of a marked picture: other pictures show its textures turned, and a little nearer or farther."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import interpolate

from ..arrays import Floats32, Labels
from ..segmentation.canvas import Pose

#: Poses of copies, the picture's own first: in the first four an edge comes in all directions.
POSES = tuple(
    Pose(*each)
    for each in (
        (False, False, False), (False, True, True), (False, True, False), (True, True, True),
        (True, True, False), (True, False, True), (True, False, False), (False, False, True),
    )
)  # fmt: skip
#: A copy is enlarged or reduced by this at most.
ZOOM = 1.25
#: Share of a picture's area that a crop shows, and the most pixels that any copy does.
CROP, MOST_COPIED = 1 / 3, 320_000


def copy_of(
    values: Floats32, marks: Labels, pose: Pose, share: float, rng: np.random.Generator
) -> tuple[Floats32, Labels]:
    """Cut a share of a picture (C, H, W) and of its marks (H, W) out, anywhere, bring it to a pose, and zoom it."""
    sides = [max(1, round(share**0.5 * length)) for length in marks.shape]
    top, left = (int(rng.integers(length - side + 1)) for side, length in zip(sides, marks.shape, strict=True))
    part = (..., slice(top, top + sides[0]), slice(left, left + sides[1]))
    values, marks = pose.apply(values[part]), pose.apply(marks[part])
    zoom = ZOOM ** rng.uniform(-1, 1)
    size = [max(1, round(zoom * length)) for length in marks.shape]
    places = (((np.arange(new) + 0.5) * old / new).astype(int) for new, old in zip(size, marks.shape, strict=True))
    zoomed = interpolate(torch.from_numpy(values)[None], size=size, mode="bilinear", antialias=True)[0]
    return zoomed.numpy(), marks[np.ix_(*places)]
