"""What the channels of a picture are standardised by: partly its own statistics, partly those of the marked pictures.

A picture is darker than others because there was less light, or because it shows more of a dark class. The first is to
be taken off, the second is not: else a picture of one class would be standardised into a mixture of all. Where a class
is marked in several pictures, its marks tell how much of the difference between these is light.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..arrays import Labels
from ..network.masked import Statistics

#: The share of a difference that is light if marks say nothing of it, and how much they must say to be believed half:
#: the sum over pictures of squared differences, in units of a channel's variance in a picture.
LIGHT, BELIEF = 0.8, 0.02
#: Cells of a class that a picture must show at least for its mean to count.
FEWEST_CELLS = 10
#: Rounds, and what pulls the pictures' differences in light to 0: as if half a class more were seen in each.
ROUNDS, PULL = 50, 0.5


class Raw(NamedTuple):
    """Channels of pictures (B, c, h, w), not standardised, and their statistics."""

    channels: Tensor
    own: Statistics


class Measured(NamedTuple):
    """What a marked picture says: its statistics for both networks, and the mean channels of the second's cells."""

    own: tuple[Statistics, ...]
    classes: Tensor  # (K, c), of the cells marked with each class; NaN where there are too few


@dataclass(frozen=True)
class Standard:
    """What pictures are standardised by.

    Attributes
    ----------
    light : Tensor, (c,)
        Of how much a picture differs from the marked ones, the share that is light, for each channel.
    usual : tuple of Statistics
        Those of all marked pictures together, for both networks.
    """

    light: Tensor
    usual: tuple[Statistics, ...]

    def of(self, own: Sequence[Statistics]) -> list[Statistics]:
        """Return what pictures with statistics of their `own` are standardised by, for both networks."""
        found = []
        for usual, each in zip(self.usual, own, strict=True):
            light = self.light[:, None, None].to(each.mean)
            mean, scale = (whole.to(each.mean) for whole in usual)
            scales = torch.lerp(scale.log(), each.scale.log(), light).exp()
            found.append(Statistics(torch.lerp(mean, each.mean, light), scales))
        return found

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file holds of it."""
        named = {"light": self.light}
        for name, (mean, scale) in zip(("first", "second"), self.usual, strict=True):
            named |= {f"{name}.mean": mean.flatten(), f"{name}.scale": scale.flatten()}
        return named

    @classmethod
    def from_tensors(cls, named: dict[str, Tensor], channels: int) -> Standard:
        """Read what `tensors` wrote; a KeyError or ValueError where it is none for so many channels."""
        light = named["light"]
        usual = tuple(
            Statistics(*(named[f"{name}.{part}"][None, :, None, None] for part in ("mean", "scale")))
            for name in ("first", "second")
        )
        if light.shape != (channels,) or any(part.shape != (1, channels, 1, 1) for each in usual for part in each):
            raise ValueError(f"its standard is not one of {channels} channels")
        if not ((light >= 0) & (light <= 1)).all() or not all((each.scale > 0).all() for each in usual):
            raise ValueError("its standard has shares of light beyond 0 to 1, or scales that are not positive")
        return cls(light, usual)


def measured(raw: Sequence[Raw], cells: Labels, classes: int) -> Measured:
    """Measure a marked picture, whose second network's cells (h, w) have these classes, negative where unmarked."""
    channels, places = raw[1].channels[0].flatten(1).T.cpu(), torch.from_numpy(cells.ravel())
    means = torch.full((classes, channels.shape[1]), torch.nan)
    for number in range(classes):
        here = channels[places == number]
        if len(here) >= FEWEST_CELLS:
            means[number] = here.mean(dim=0)
    return Measured(tuple(Statistics(*(part.cpu() for part in own)) for _, own in raw), means)


def standard_of(pictures: Sequence[Measured]) -> Standard:
    """Return what pictures are standardised by, from the marked ones."""
    usual = []
    for level in zip(*(each.own for each in pictures), strict=True):
        means, deviations = torch.cat([own.mean for own in level]), 1 / torch.cat([own.scale for own in level])
        mean = means.mean(dim=0, keepdim=True)
        variance = (deviations.square() + means.square()).mean(dim=0, keepdim=True) - mean.square()
        usual.append(Statistics(mean, variance.clamp_min(1e-12).rsqrt()))
    return Standard(_light(pictures), tuple(usual))


def _light(pictures: Sequence[Measured]) -> Tensor:
    """Return the share of light in the differences of pictures' means, for each channel, 0..1.

    The mean of a class in a picture is taken to be that of the class plus the picture's light, which least squares find
    in turn. The share is the slope of the line of light over the differences of the whole pictures' means; each
    channel's slope is drawn to that of all, and this to `LIGHT`.
    """
    own = np.stack([each.own[1].mean.flatten().double().numpy() for each in pictures])
    variance = np.mean([each.own[1].scale.flatten().double().numpy() ** -2.0 for each in pictures], axis=0)
    means = np.stack([each.classes.double().numpy() for each in pictures])
    seen = np.isfinite(means[:, :, :1])
    means, light = np.where(seen, means, 0), np.zeros_like(own)
    for _ in range(ROUNDS):
        classes = (seen * (means - light[:, None])).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        light = (seen * (means - classes)).sum(axis=1) / (seen.sum(axis=1) + PULL)
        light -= light.mean(axis=0)
    differences = own - own.mean(axis=0)
    explained = (light * differences / variance).sum(axis=0)
    all_ = (np.square(differences) / variance).sum(axis=0)
    differ = all_ > 0
    together = [each[differ].mean() if differ.any() else 0.0 for each in (explained, all_)]
    share = (explained + together[0] + BELIEF * LIGHT) / (all_ + together[1] + BELIEF)
    return torch.from_numpy(np.clip(share, 0, 1)).float()
