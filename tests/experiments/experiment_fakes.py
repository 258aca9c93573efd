"""Methods for tests of experiments: they know the truth, or nothing, and keep count."""

from dataclasses import dataclass, field

import numpy as np

from shapetailor.baselines import Recipe
from shapetailor.experiments import suite


@dataclass
class Fake:
    """Splits the picture into vertical stripes, and remembers whom it saw."""

    title: str = "fake"
    parameters: int = 7
    asked: list = field(default_factory=list)
    dies_at: int | None = None

    def segment(self, image, regions, seed=0):
        if len(self.asked) == self.dies_at:
            raise KeyboardInterrupt
        self.asked.append(regions)
        width = image.shape[1]
        return np.tile(np.arange(width) * regions // width, (len(image), 1))


def install(monkeypatch, method=None, name="fake", learns=True, unavailable=None):
    """Make a fake the only recipe; return it and the list of the training images' names of each fit."""
    method, fits = method or Fake(), []

    def fit(samples, folder, settings):
        fits.append([sample.name for sample in samples])
        return method

    monkeypatch.setattr(suite, "RECIPES", {name: Recipe(name, method.title, learns, fit, lambda: unavailable)})
    return method, fits
