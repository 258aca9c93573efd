"""A picture in, its regions out."""

from .result import Segmentation
from .segmenter import Segmenter

__all__ = ["Segmentation", "Segmenter"]
