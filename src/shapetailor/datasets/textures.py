"""Procedural textures: nineteen families; each call of `texture` draws a family's parameters anew."""

# mypy: disable-error-code="no-any-return"
# NumPy types its ufuncs as returning Any; the tests look at what comes out.

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch.utils.data import Dataset

from ..arrays import Floats32
from . import noise, patterns
from .noise import Field, Shape
from .sample import Sample

_PAINTERS: dict[str, Callable[[Shape, np.random.Generator], Field]] = {
    painter.__name__: painter
    for painter in (
        *(noise.grain, noise.gabor, noise.fractal, noise.leather, noise.marble, noise.wood, noise.bark),
        *(noise.grass, patterns.cells, patterns.pebbles, patterns.reaction, patterns.weave, patterns.bricks),
        *(patterns.hexagons, patterns.dots, patterns.stripes, patterns.scales, patterns.herringbone),
        patterns.plaid,
    )
}

#: The names that `texture` takes.
FAMILIES: tuple[str, ...] = tuple(_PAINTERS)


def texture(family: str, size: int | Shape, rng: np.random.Generator, colour: bool = False) -> Floats32:
    """Paint a random member of a family of textures.

    Parameters
    ----------
    family : str
        One of `FAMILIES`.
    size : int or (int, int)
        Side, or height and width, in pixels; at least 8.
    rng : numpy.random.Generator
    colour : bool
        Map the grays to a random ramp of colours.

    Returns
    -------
    ndarray
        float32 in [0, 1], H×W or H×W×3. The mean gray is near one half in every family, so that
        brightness alone tells no two textures apart.
    """
    if family not in _PAINTERS:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}, got {family!r}")
    shape = (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
    if min(shape) < 8:
        raise ValueError(f"size must be at least 8 pixels, got {size}")
    gray = _standard_contrast(_PAINTERS[family](shape, rng), rng)
    return (_coloured(gray, rng) if colour else gray).astype(np.float32)


class ProceduralTextures(Dataset[Sample]):
    """A fixed collection of procedural textures, families in turn, painted on access.

    Parameters
    ----------
    count : int
        How many; number i belongs to family i modulo their number.
    size, colour
        As of `texture`.
    seed : int
    """

    def __init__(self, count: int, size: int | Shape, seed: int = 0, colour: bool = False) -> None:
        if count < 1:
            raise ValueError(f"count must be positive, got {count}")
        self.size, self.seed, self.colour = size, seed, colour
        rounds = -(-count // len(FAMILIES))
        self.names = [f"{family}-{turn:03d}" for turn in range(rounds) for family in FAMILIES][:count]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"texture {index} of {len(self)}")
        family = FAMILIES[index % len(FAMILIES)]
        painted = texture(family, self.size, np.random.default_rng([self.seed, index]), self.colour)
        return Sample(np.rint(255 * painted).astype(np.uint8), (), self.names[index])


def _standard_contrast(field: Field, rng: np.random.Generator) -> Field:
    """Bring a field to a mean near 1/2 and a standard deviation near 0.2, in [0, 1]."""
    mean, deviation = rng.uniform(0.44, 0.56), rng.uniform(0.16, 0.22)
    standard = (field - field.mean()) / (field.std() + 1e-12)
    return np.clip(mean + deviation * standard, 0, 1)


def _coloured(gray: Field, rng: np.random.Generator) -> Field:
    """Map grays to a ramp from a dark to a light colour of neighbouring hues."""
    hue, turn = rng.uniform(0, 1), rng.uniform(-0.12, 0.12)
    saturation = rng.uniform(0.25, 0.65)
    ramp_hue = hue + turn * (gray - 0.5)
    strength = saturation * (1.1 - 0.6 * gray)
    # HSV to RGB: each channel is a trapezoid of the hue, 0, 1/3 and 2/3 of a turn apart.
    offsets = np.array([5, 3, 1])
    k = np.mod(offsets + 6 * ramp_hue[..., None], 6)
    trapezoid = np.clip(np.minimum(k, 4 - k), 0, 1)
    return gray[..., None] * (1 - strength[..., None] * trapezoid)
