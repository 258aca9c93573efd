"""Shared by tests of experiments: methods that keep count."""

from dataclasses import dataclass, field, replace

import numpy as np

from shapetailor.baselines import Baseline


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


def with_fake(context, method=None, name="fake", learns=True, unavailable=None):
    """Make a fake the only method; return the context, the fake, and the training images' names of each fit."""
    method, fits = method or Fake(), []

    def fit(samples, folder, settings):
        fits.append([sample.name for sample in samples])
        return method

    fake = Baseline(name, method.title, learns, fit, lambda: unavailable)
    return replace(context, baselines={name: fake}), method, fits
