"""Shape-tailored networks: texture segmentation whose descriptors never cross a region's boundary."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import datasets, metrics, poisson
    from .classes import Classification, Classifier
    from .evolution import EvolutionConfig
    from .network import STDNN, STDNNConfig
    from .poisson import smooth
    from .segmentation import Segmentation, Segmenter
    from .strokes import Stroke

#: Public name → the module it comes from. Imported on first use, so that the command line starts at once.
_SOURCES = {
    "datasets": "datasets",
    "metrics": "metrics",
    "poisson": "poisson",
    "Classification": "classes",
    "Classifier": "classes",
    "EvolutionConfig": "evolution",
    "STDNN": "network",
    "STDNNConfig": "network",
    "Segmentation": "segmentation",
    "Segmenter": "segmentation",
    "Stroke": "strokes",
    "smooth": "poisson",
}

__all__ = [
    "STDNN",
    "Classification",
    "Classifier",
    "EvolutionConfig",
    "STDNNConfig",
    "Segmentation",
    "Segmenter",
    "Stroke",
    "__version__",
    "datasets",
    "metrics",
    "poisson",
    "smooth",
]


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{_SOURCES[name]}", __name__)
    value = module if name == _SOURCES[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
