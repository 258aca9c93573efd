"""Shape-tailored networks: texture segmentation whose descriptors never cross a region's boundary."""

from __future__ import annotations

from ._version import __version__

__all__ = ["__version__"]
