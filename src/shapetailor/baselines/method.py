"""A method, how it is fitted, and the common kind: descriptors under our starts and evolution."""

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
        """Split an H×W or H×W×C image into regions 0..K−1, some of which may be empty."""


@dataclass(frozen=True)
class FitSettings:
    """What fitting and segmenting depend on besides the data."""

    seed: int = 0
    quick: bool = False  #: train for a few small steps only, to see that everything runs
    device: str = "cpu"
    weights: Path | None = None  #: folder with torchvision's pretrained weights, under torchvision's file names
    start: Start = "kmeans"  #: as of `Segmenter.segment`; k-means, as the paper does for several regions
    evolution: EvolutionConfig | None = None
    progress: bool = False


@dataclass(frozen=True)
class Baseline:
    """How to get a method.

    ``fit(samples, folder, settings)`` returns it. A learned one keeps its model in `folder`: if it is there, of the
    same data and settings, it is read and not trained again. `available` returns None, or why it cannot run here.
    """

    name: str  #: on the command line
    title: str  #: in a table; a fitted method's own title may say more
    learns: bool  #: whether `fit` reads the samples
    fit: Callable[[Sequence[Sample], Path, FitSettings], Method]
    available: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class DescriptorMethod:
    """Descriptors under our starts and evolution; `describer` maps a picture's channels to what describes it."""

    title: str
    parameters: int
    describer: Callable[[int], Describer]
    settings: FitSettings

    def segmenter(self, image: Array) -> Segmenter:
        """Return the segmenter for an image's channels."""
        return Segmenter(self.describer(1 if image.ndim == 2 else image.shape[2]), self.settings.device)

    def segment(self, image: Array, regions: int, seed: int = 0) -> Labels:
        """Start from descriptors of the whole image, then evolve."""
        start, evolution = self.settings.start, self.settings.evolution
        return self.segmenter(image).segment(image, regions, start=start, evolution=evolution, seed=seed).labels


def count_parameters(net: nn.Module) -> int:
    """Return how many numbers a network learns."""
    return sum(each.numel() for each in net.parameters())
