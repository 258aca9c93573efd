"""Label maps against the truth: measures of images, and reports of them."""

from .evaluation import MEASURES, Evaluation, evaluate, measure

__all__ = ["MEASURES", "Evaluation", "evaluate", "measure"]
