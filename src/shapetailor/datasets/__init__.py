"""Datasets: loaders of the publishers' layouts, and generators of textures and mosaics."""
