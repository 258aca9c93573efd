"""Shape-tailored networks: texture segmentation whose descriptors never cross a region's boundary."""

from __future__ import annotations

from . import metrics, poisson
from ._version import __version__
from .poisson import smooth

__all__ = ["__version__", "metrics", "poisson", "smooth"]
