"""What a method is, how one is fitted, and the kind that most are: descriptors under the common evolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import nn

from ..arrays import Array, Labels
from ..datasets import Sample
from ..evolution.config import EvolutionConfig
from ..network.describer import Describer
from ..segmentation.segmenter import Segmenter, Start


class Method(Protocol):
    """A fitted method."""

    @property
    def title(self) -> str:
        """Its row in a table."""

    @property
    def parameters(self) -> int:
        """Learned numbers: weights and biases."""

    def segment(self, image: Array, regions: int, seed: int = 0) -> Labels:
        """Split an H×W or H×W×C image into regions 0..K−1; a number may be missing where a region was not found."""


@dataclass(frozen=True)
class FitSettings:
    """What fitting and segmenting depend on besides the data.

    Attributes
    ----------
    seed : int
        Of everything random in the fit.
    quick : bool
        Train for a few small steps only, to see that everything runs.
    device : str
        Where networks are trained and run: "cpu", "cuda" or another of torch's.
    weights : path, optional
        Folder with pretrained weights of torchvision's networks, under torchvision's file names.
    start : {"kmeans", "ncut", "best", "boxes"}
        Where the evolution starts, see `Segmenter.segment`. k-means by default, as the paper does for several regions.
    evolution : EvolutionConfig, optional
        How regions move.
    progress : bool
        Show progress bars on stderr.
    """

    seed: int = 0
    quick: bool = False
    device: str = "cpu"
    weights: Path | None = None
    start: Start = "kmeans"
    evolution: EvolutionConfig | None = None
    progress: bool = False


Fit = Callable[[Sequence[Sample], Path, FitSettings], Method]


def _always() -> None:
    return None


@dataclass(frozen=True)
class Recipe:
    """How to get a method.

    Attributes
    ----------
    name : str
        What it is called on the command line.
    title : str
        What it is called in a table; a fitted method's own title may say more.
    learns : bool
        Whether `fit` reads the samples.
    fit : callable
        ``fit(samples, folder, settings)`` returns the method. A learned one keeps its model in `folder`: if it is
        there, of the same data and settings, it is read and not trained again.
    available : callable
        Returns None, or why the method cannot run here.
    """

    name: str
    title: str
    learns: bool
    fit: Fit
    available: Callable[[], str | None] = _always


@dataclass(frozen=True)
class DescriptorMethod:
    """Descriptors under the common starts and evolution.

    Attributes
    ----------
    title : str
    parameters : int
    describer : callable
        Channels of a picture → what describes it.
    settings : FitSettings
    """

    title: str
    parameters: int
    describer: Callable[[int], Describer]
    settings: FitSettings

    def segment(self, image: Array, regions: int, seed: int = 0) -> Labels:
        """Start from the whole image's descriptors and let the regions evolve."""
        channels = 1 if image.ndim == 2 else image.shape[2]
        segmenter = Segmenter(self.describer(channels), self.settings.device)
        settings = self.settings
        return segmenter.segment(image, regions, start=settings.start, evolution=settings.evolution, seed=seed).labels


def count_parameters(net: nn.Module) -> int:
    """Return how many numbers a network learns."""
    return sum(each.numel() for each in net.parameters())
