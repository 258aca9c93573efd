"""Shared by tests of experiments: methods that keep count, and the norm of a displacement."""

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


def squared_sobolev_norm(displacement):
    """Return ‖v‖² = |a₀|² + Σ |k|² |a_k|² of a displacement (2, H, W) by the fast Fourier transform."""
    height, width = displacement.shape[1:]
    coefficients = np.fft.fft2(displacement) / (height * width)
    squares = np.fft.fftfreq(height, 1 / height)[:, None] ** 2 + np.fft.fftfreq(width, 1 / width) ** 2
    return float((np.where(squares == 0, 1, squares) * np.abs(coefficients) ** 2).sum())
