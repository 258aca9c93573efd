"""From stored numbers to the channels that a network takes, found once for a whole picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Floats32, Mask
from ..io.intensity import scaled


@dataclass(frozen=True)
class Components:
    """The first principal components of many channels, brought to 0..1."""

    mean: Floats32  # (C, 1)
    vectors: Floats32  # (C, c)
    low: float
    high: float


@dataclass(frozen=True)
class Colours:
    """The way from stored numbers to values in 0..1 in a number of channels.

    A gray picture is repeated; other numbers of channels are expressed in their first principal components, or padded
    with their mean.
    """

    limits: tuple[float, float]  # stored numbers that become 0 and 1
    channels: int
    components: Components | None = None

    @classmethod
    def of(cls, stored: Floats32, limits: tuple[float, float], channels: int, inside: Mask | None) -> Colours:
        """Find it for a picture, (C, h, w); pixels that are not `inside` do not count."""
        if 1 < channels < len(stored):
            return cls(limits, channels, _components(scaled(stored, *limits), channels, inside))
        return cls(limits, channels)

    def __call__(self, stored: Floats32) -> Floats32:
        """Bring (C, h, w) to (channels, h, w)."""
        values, channels = scaled(stored, *self.limits), self.channels
        count = len(values)
        if count == channels:
            return values
        if count == 1:
            return np.repeat(values, channels, axis=0)
        if count < channels:
            return np.concatenate([values, np.repeat(values.mean(0, keepdims=True), channels - count, axis=0)])
        if self.components is None:
            return np.asarray(values.mean(0, keepdims=True), np.float32)
        parts, low, high = _parts(values, self.components), self.components.low, self.components.high
        spread = np.float32(high) - np.float32(low)
        return np.clip((parts - np.float32(low)) / spread, 0, 1) if high > low else np.zeros_like(parts)


def _components(values: Floats32, channels: int, inside: Mask | None) -> Components:
    flat = values.reshape(len(values), -1)
    known = flat if inside is None else flat[:, inside.ravel()]
    mean = known.mean(1, keepdims=True)
    centred = known - mean
    _, vectors = np.linalg.eigh(centred @ centred.T / centred.shape[1])
    vectors = vectors[:, ::-1][:, :channels]
    vectors *= np.where(vectors.sum(0) < 0, -1, 1)  # a sign that does not depend on the library
    parts = _parts(values, Components(mean, vectors, 0, 0))
    return Components(mean, vectors, float(parts.min()), float(parts.max()))


def _parts(values: Floats32, found: Components) -> Floats32:
    centred = values.reshape(len(values), -1) - found.mean
    parts: Floats32 = (found.vectors.T @ centred).reshape(-1, *values.shape[1:]).astype(np.float32)
    return parts
