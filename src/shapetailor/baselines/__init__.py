"""Other methods to compare with, each of which turns an image and a number of regions into labels.

A `Recipe` says how to get a method: `fit` trains what has to be trained, once, and returns a `Method`. Methods that
only differ in their descriptors share the starts and the evolution of `Segmenter`.

>>> from shapetailor.baselines import RECIPES, FitSettings
>>> from pathlib import Path
>>> import numpy as np
>>> stld = RECIPES["stld"].fit([], Path(), FitSettings())
>>> stripes = np.tile(np.where(np.arange(32) < 16, 40, 200).astype(np.uint8), (32, 1))
>>> np.unique(stld.segment(stripes, regions=2)).tolist()
[0, 1]
"""

from __future__ import annotations

from . import classical, cnn_recipes, stld, trained
from .method import FitSettings, Method, Recipe
from .trained import stdnn_method

__all__ = ["RECIPES", "FitSettings", "Method", "Recipe", "stdnn_method"]

#: Every recipe by its name, in the order of tables.
RECIPES: dict[str, Recipe] = {
    recipe.name: recipe for recipe in (*trained.RECIPES, *stld.RECIPES, *cnn_recipes.RECIPES, *classical.RECIPES)
}
