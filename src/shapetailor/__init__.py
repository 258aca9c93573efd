"""Shape-tailored networks: texture segmentation whose descriptors never cross a region's boundary."""

from __future__ import annotations

from . import metrics, poisson
from ._version import __version__
from .evolution import EvolutionConfig
from .network import STDNN, STDNNConfig
from .poisson import smooth
from .segmentation import Segmentation
from .segmenter import Segmenter

__all__ = [
    "STDNN",
    "EvolutionConfig",
    "STDNNConfig",
    "Segmentation",
    "Segmenter",
    "__version__",
    "metrics",
    "poisson",
    "smooth",
]
