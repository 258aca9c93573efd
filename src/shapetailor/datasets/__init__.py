"""Datasets: loaders of the publishers' layouts, and generators of textures and mosaics."""

from __future__ import annotations

from .brodatz import TextureFolder
from .bsds500 import BSDS500
from .folder import FolderDataset
from .mosaics import MosaicDataset, mosaic, random_regions, split_textures
from .outex import OutexUS
from .rwtsd import RWTSD
from .sample import Sample
from .stmd import SyntheticMultiRegion
from .textures import FAMILIES, ProceduralTextures, texture

__all__ = [
    "BSDS500",
    "FAMILIES",
    "RWTSD",
    "FolderDataset",
    "MosaicDataset",
    "OutexUS",
    "ProceduralTextures",
    "Sample",
    "SyntheticMultiRegion",
    "TextureFolder",
    "mosaic",
    "random_regions",
    "split_textures",
    "texture",
]
