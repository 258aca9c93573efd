"""Datasets: loaders of published and own data, generators of textures and mosaics."""

from .folder import FolderDataset
from .mosaics import MosaicDataset, mosaic, random_regions, split_classes, split_textures
from .published import BSDS500, RWTSD, OutexUS, SyntheticMultiRegion, TextureFolder
from .sample import Sample
from .textures import FAMILIES, ProceduralTextures, texture

__all__ = [
    "BSDS500", "FAMILIES", "RWTSD", "FolderDataset", "MosaicDataset", "OutexUS", "ProceduralTextures", "Sample",
    "SyntheticMultiRegion", "TextureFolder", "mosaic", "random_regions", "split_classes", "split_textures", "texture",
]  # fmt: skip
