"""A picture in, its regions out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result import Segmentation
    from .segmenter import Segmenter

__all__ = ["Segmentation", "Segmenter"]

_SOURCES = {"Segmentation": ".result", "Segmenter": ".segmenter"}


def __getattr__(name: str) -> Any:  # on first use: training needs `usage` alone, and may do without compiled code
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_SOURCES[name], __name__), name)
