"""Changed copies of a marked picture: other pictures show its textures turned, and a little nearer or farther."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import interpolate

from ..arrays import Floats32, Labels

#: Quarter turns of copies, and whether they are mirrored then: in the first four an edge comes in all directions.
POSES = ((0, False), (1, False), (0, True), (1, True), (2, False), (3, False), (2, True), (3, True))
#: A copy is enlarged or reduced by this at most.
ZOOM = 1.25
#: Share of a picture's area that a crop shows, and the most pixels that any copy does.
CROP, MOST_COPIED = 1 / 3, 320_000


def copy_of(values: Floats32, marks: Labels, pose: int, rng: np.random.Generator) -> tuple[Floats32, Labels]:
    """Turn a picture (C, H, W) and its marks (H, W) into one of the `POSES`, and change their size at random."""
    turns, mirrored = POSES[pose]
    values, marks = np.rot90(values, turns, axes=(1, 2)), np.rot90(marks, turns)
    if mirrored:
        values, marks = np.flip(values, 2), np.flip(marks, 1)
    zoom = ZOOM ** rng.uniform(-1, 1)
    size = [max(1, round(zoom * length)) for length in marks.shape]
    places = (((np.arange(new) + 0.5) * old / new).astype(int) for new, old in zip(size, marks.shape, strict=True))
    image = torch.from_numpy(np.ascontiguousarray(values))[None]
    return interpolate(image, size=size, mode="bilinear", antialias=True)[0].numpy(), marks[np.ix_(*places)]


def crop_of(values: Floats32, marks: Labels, share: float, rng: np.random.Generator) -> tuple[Floats32, Labels]:
    """Cut a share of a picture (C, H, W) and of its marks (H, W) out, of the same proportions, anywhere."""
    sides = [max(1, round(share**0.5 * length)) for length in marks.shape]
    rows, columns = (
        slice(start, start + side)
        for side, length in zip(sides, marks.shape, strict=True)
        for start in [int(rng.integers(length - side + 1))]
    )
    return values[:, rows, columns], marks[rows, columns]
