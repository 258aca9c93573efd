"""How a model is used: part of its file, so that a network is used as it was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..evolution.config import EvolutionConfig
from ..io.intensity import Intensity


@dataclass(frozen=True)
class Usage:
    """What a `Segmenter` does with a network.

    Attributes
    ----------
    intensity : Intensity
        The way from stored numbers to 0..1.
    near : EvolutionConfig
        How regions move from a start that is nearly right: the segmenter's own.
    far : EvolutionConfig
        The same from regions that may be far from right: given ones, or the paper's boxes.
    coarse : EvolutionConfig
        The same on pictures of more than `fine_pixels`.
    positions : int
        The first network's descriptors of a whole picture are the mean over so many positions of its grid of blocks
        along each side.
    fine_pixels : int
        Larger pictures are described by the first network alone, in one position: their blocks are small enough.
    """

    intensity: Intensity = field(default_factory=Intensity)
    near: EvolutionConfig = field(default_factory=EvolutionConfig)
    far: EvolutionConfig = field(default_factory=EvolutionConfig)
    coarse: EvolutionConfig = field(default_factory=EvolutionConfig)
    positions: int = 1
    fine_pixels: int = 2**20

    def __post_init__(self) -> None:
        for name in ("positions", "fine_pixels"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a whole number from 1 on, got {value!r}")

    @classmethod
    def usual(cls, stride: int, two_networks: bool) -> Usage:
        """Return how a network is used that has learnt nothing else: by the side of its blocks of pixels.

        On pixels that is the paper's way. This is also what model files mean that were written before they said it.
        """
        if stride <= 1:
            return cls()
        blocks = EvolutionConfig(likeness=4.0)
        if not two_networks:
            return cls(near=blocks, far=blocks, coarse=blocks, positions=2)
        near = EvolutionConfig(iterations=2, reach=5, move=4.0, locality=0.1875, rim=2, likeness=4.0)
        # Means of the whole region pull boundaries over a distance; local ones do not.
        far = EvolutionConfig(iterations=40, reach=5, move=4.0, likeness=4.0)
        return cls(near=near, far=far, coarse=blocks, positions=2)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        parts = {name: getattr(self, name).to_dict() for name in ("intensity", "near", "far", "coarse")}
        return {**parts, "positions": self.positions, "fine_pixels": self.fine_pixels}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Usage:
        """Make it of JSON values, as `to_dict` returns them."""
        moves = {name: EvolutionConfig.from_dict(values[name]) for name in ("near", "far", "coarse")}
        return cls(**{**values, **moves, "intensity": Intensity.from_dict(values["intensity"])})
