"""How regions move: the settings of Alg. 2 and what goes beyond it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, Literal, get_args

import numpy as np

Gradient = Literal["paper", "exact"]


@dataclass(frozen=True)
class EvolutionConfig:
    """How regions move.

    Attributes
    ----------
    iterations : int
        At most so many; 0 leaves the start as it is.
    beta : float
        Weight of the boundary's length, in units of the median ‖F − a‖² of the start.
    reach : int
        Radius of the dilations D(R_i): how far beyond a region its descriptors are computed. In pixels, or in the
        descriptors' blocks of pixels (see `align` of `evolve`).
    move : float
        Largest displacement of a boundary in one iteration, in the same unit; halved when it overshoots. Less than
        `reach`: a region knows no descriptors further out.
    tailored : bool
        Update the descriptors as the regions move. False keeps those of the whole image, for comparison.
    locality : float
        How far the means a_i look from each pixel, as a share of the picture's longer side: `local_means`.
        Infinite is the paper's, one mean for a region.
    rim : int
        How much along a region's boundary the means a_i leave out, since it may not belong to the region; in the unit
        of `reach`, and less than it. The paper's is 0.
    likeness : float
        When the regions have come to rest, pixels within reach of several go with those around them that look like
        them, which weigh this much (`colour_crf.follow`, if `evolve` is given the colours); 0: by their costs alone.
    gradient : {"paper", "exact"}
        The paper's gradient takes the descriptors as given; the exact one adds how they change when the
        boundary's edges open and close, and needs descriptors that take `Edges`.
    """

    iterations: int = 40
    beta: float = 0.1
    reach: int = 2
    move: float = 1.0
    tailored: bool = True
    locality: float = inf
    rim: int = 0
    likeness: float = 0.0
    gradient: Gradient = "paper"

    def __post_init__(self) -> None:
        if not (isinstance(self.iterations, (int, np.integer)) and self.iterations >= 0):
            raise ValueError(f"iterations must be a whole number from 0 on, got {self.iterations}")
        if not 0 <= self.beta < inf:
            raise ValueError(f"beta must be finite and not negative, got {self.beta}")
        if not (isinstance(self.reach, int) and self.reach >= 1):
            raise ValueError(f"reach must be a whole number from 1 on, got {self.reach}")
        if not 0 < self.move < self.reach:
            raise ValueError(f"move must be more than 0 and less than reach, {self.reach}; got {self.move}")
        if not self.locality > 0:
            raise ValueError(f"locality must be positive, got {self.locality}")
        if self.gradient not in get_args(Gradient):
            raise ValueError(f"gradient must be one of {get_args(Gradient)}, got {self.gradient!r}")
        if not (isinstance(self.rim, int) and 0 <= self.rim < self.reach):
            raise ValueError(f"rim must be an integer, not negative and less than reach, {self.reach}; got {self.rim}")
        if not 0 <= self.likeness < inf:
            raise ValueError(f"likeness must be finite and not negative, got {self.likeness}")
        if self.gradient == "exact" and (self.locality < inf or self.rim):
            raise ValueError(
                "the exact gradient is for one mean a region: it wants an infinite locality and a rim of 0"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; an infinite locality, which JSON has no number for, is None."""
        return {**asdict(self), "locality": None if self.locality == inf else self.locality}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> EvolutionConfig:
        """Make a config of JSON values, as `to_dict` returns them."""
        locality = values.get("locality")
        return cls(**{**values, "locality": inf if locality is None else locality})
