"""What `cross_validate.py` compares: which data a network is trained on, by which loss, at which scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from shapetailor import STDNNConfig
from shapetailor.loss import separation_loss
from shapetailor.training.train import recipe

FOLDS = 4
#: Kinds of samples that are made for each fold of RWTSD: its photographs upright, or also turned by any angle.
FOLDED = ("r", "q")
#: Blocks of an image that `pair_loss` compares.
PAIRED = 384


@dataclass(frozen=True)
class Variant:
    """One way to train.

    Attributes
    ----------
    sources : mapping
        How often samples are drawn from "r" or "q" (RWTSD's training folds), "s" (the multi-region set), "b" (Brodatz
        mosaics), "t" (mosaics of a folder of textures, by class) and "n" (BSDS500); only the ratios count.
    pairs : (float, float), optional
        sigma2 of `pair_loss`, and its weight beside the scatter and assignment losses.
    network : mapping
        Changes to the recipe's architecture.
    """

    sources: Mapping[str, float]
    pairs: tuple[float, float] | None = None
    network: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> STDNNConfig:
        """The architecture, for colour images."""
        return replace(recipe("texture").network, image_channels=3, **self.network)

    def mix(self, fold: int) -> dict[str, float]:
        """Return how often each part of the bank is drawn from by the network that `fold` is held out from."""
        parts: dict[str, float] = {}
        for source, weight in self.sources.items():
            if source in FOLDED:
                others = [each for each in range(FOLDS) if each != fold]
                parts |= {f"{source}{each}": weight / len(others) for each in others}
            else:
                parts[source] = weight
        return parts

    def loss(self, descriptors: Tensor, truths: Tensor, places: Tensor) -> Tensor:
        """Return the batch's mean loss; `places` are the blocks to compare in pairs."""
        loss = separation_loss(descriptors, truths)
        if self.pairs is None:
            return loss
        sigma2, weight = self.pairs
        return loss + weight * pair_loss(descriptors, truths, places, sigma2)


_QSB = {"q": 1.0, "s": 0.7, "b": 0.7}
_QSBT = {"q": 1.0, "s": 0.7, "b": 0.5, "t": 0.8}

VARIANTS = {
    "RS": Variant({"r": 1.0, "s": 1.0}),
    "RSB": Variant({"r": 1.0, "s": 0.7, "b": 0.7}),
    "QSB": Variant(_QSB),
    "RSBN": Variant({"r": 1.0, "s": 0.6, "b": 0.6, "n": 0.6}),
    "pair0.25": Variant(_QSB, pairs=(0.25, 1.0)),
    "pair0.1": Variant(_QSB, pairs=(0.1, 0.5)),
    "QSBT": Variant(_QSBT),
    "coarse": Variant(_QSBT, network={"energy_scales": (0.0, 1.0, 4.0, 16.0)}),
    "large": Variant(_QSBT, network={"premix": 96, "widths": (320, 192, 32)}),
    "flat": Variant(_QSBT, network={"premix": 64, "widths": (192, 96, 32), "derivatives": False}),
    "no-derivatives": Variant(_QSB, network={"derivatives": False}),
    "larger": Variant(_QSB, network={"premix": 48, "widths": (128, 64, 32)}),
    "large-scales": Variant(_QSB, network={"scales": (0.4, 2.0, 8.0, 40.0), "alpha": (0.5, 2.0, 8.0)}),
    "small-scales": Variant(_QSB, network={"scales": (0.2, 0.8, 2.5, 10.0), "alpha": (0.15, 0.6, 2.0)}),
}


def pair_loss(descriptors: Tensor, truths: Tensor, places: Tensor, sigma2: float) -> Tensor:
    """Balanced cross-entropy of the affinity ``exp(−‖F_p − F_q‖²/sigma2)`` as the probability of one region.

    A pair inside a region costs ``d²/sigma2``, another ``−log(1 − exp(−d²/sigma2 − 1e-4))``. The first kind is averaged
    over each region and then over the regions, the second over each two regions and then over those; the two averages
    weigh the same.

    Parameters
    ----------
    descriptors : Tensor, (B, D, h, w)
    truths : integer Tensor, (B, h, w)
        Negative where a block does not count.
    places : integer Tensor, (P,)
        Numbers of the blocks whose pairs are compared.
    sigma2 : float
    """
    points = descriptors.flatten(2)[:, :, places].transpose(1, 2)
    labels = truths.flatten(1)[:, places]
    member = one_hot(labels.clamp(min=0)).to(points) * (labels >= 0)[..., None]
    norm = points.square().sum(dim=2)
    exponent = (norm[:, :, None] + norm[:, None] - 2 * points @ points.transpose(1, 2)).clamp_min(0) / sigma2
    apart = -torch.log(-torch.expm1(-exponent - 1e-4))
    size = member.sum(dim=1)
    pairs = size[:, :, None] * size[:, None]
    same, other = (member.transpose(1, 2) @ cost @ member / pairs.clamp_min(1) for cost in (exponent, apart))
    diagonal = torch.eye(size.shape[1], dtype=torch.bool, device=size.device)
    return ((_mean_where(same, diagonal & (pairs > 0)) + _mean_where(other, ~diagonal & (pairs > 0))) / 2).mean()


def _mean_where(values: Tensor, chosen: Tensor) -> Tensor:
    """Average the chosen entries of each image's (K, K) table; 0 where there is none."""
    return (values * chosen).sum(dim=(1, 2)) / chosen.sum(dim=(1, 2)).clamp_min(1)
