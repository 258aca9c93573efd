"""Training: a folder of images and masks in, a model out (Alg. 1)."""

from .sharpen import SharpenConfig, sharpen
from .train import RECIPES, TrainConfig, recipe, train

__all__ = ["RECIPES", "SharpenConfig", "TrainConfig", "recipe", "sharpen", "train"]
