"""The one way from stored numbers to values in 0..1, for training, segmentation and pictures for the eye.

8-bit integers are divided by 255. Floats that lie in 0..1 stay as they are. The type of anything else does not say
which number is white (a 12-bit camera fills a sixteenth of 16 bits), so the picture does: two percentiles of its values
become 0 and 1. All channels are treated alike, so that colours keep their hue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..arrays import RGB8, Array, Floats32, Mask

#: Percentiles are taken of at most about so many values, evenly spaced ones of a larger picture.
SAMPLE = 2**24


@dataclass(frozen=True)
class Intensity:
    """The rule, part of a model's file.

    Attributes
    ----------
    black, white : float
        Percentiles of the stored values that become 0 and 1 where the type does not say it.

    Examples
    --------
    >>> Intensity()(np.array([[0, 51], [102, 255]], np.uint8))
    array([[0. , 0.2],
           [0.4, 1. ]], dtype=float32)
    >>> Intensity(black=0, white=100)(np.array([[100, 300], [200, 500]], np.uint16))
    array([[0.  , 0.5 ],
           [0.25, 1.  ]], dtype=float32)
    """

    black: float = 0.1
    white: float = 99.9

    def __post_init__(self) -> None:
        numbers = all(isinstance(each, (int, float)) for each in (self.black, self.white))
        if not numbers or not 0 <= self.black < self.white <= 100:
            raise ValueError(
                f"black and white must be percentiles, black below white, got {self.black!r}, {self.white!r}"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Intensity:
        """Make a rule of JSON values, as `to_dict` returns them."""
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    def limits(self, stored: Array, inside: Mask | None = None) -> tuple[float, float]:
        """Return the stored numbers that become 0 and 1; values outside, or not finite, do not count."""
        if inside is not None and inside.any() and not inside.all():
            stored = stored[inside]
        if stored.dtype == np.uint8:
            return 0.0, 255.0
        if stored.dtype.kind == "f":
            finite = np.isfinite(stored)
            if stored.min(where=finite, initial=0.0) >= 0 and stored.max(where=finite, initial=1.0) <= 1:
                return 0.0, 1.0
        values = stored.reshape(-1)[:: max(1, stored.size // SAMPLE)].astype(np.float32)
        low, high = np.percentile(values[np.isfinite(values)], [self.black, self.white])
        return float(low), float(high)

    def __call__(self, stored: Array) -> Floats32:
        """Return all values in 0..1; what is not finite becomes 0."""
        return scaled(stored.astype(np.float32), *self.limits(stored))

    def bytes(self, stored: Array, inside: Mask | None = None) -> RGB8:
        """Return all values as 8-bit integers."""
        if stored.dtype == np.uint8:
            return stored
        with np.errstate(over="ignore"):  # what is outside may hold any number
            unit = scaled(stored.astype(np.float32), *self.limits(stored, inside))
        return np.rint(255 * unit).astype(np.uint8)


def scaled(values: Floats32, low: float, high: float) -> Floats32:
    """Map `low`..`high` to 0..1 and clip; a picture of one value becomes 0, and so does what is not finite."""
    if high <= low:
        return np.zeros_like(values)
    unit: Floats32 = np.clip((values - np.float32(low)) / np.float32(high - low), 0, 1)
    return np.nan_to_num(unit, copy=False)
