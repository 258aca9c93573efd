"""The data of the Poisson benchmark, and the error of an answer.

The task is the paper's first layer: 8 channels at 5 scales, 40 solves in all. In the case "shared", 8 channels are
each solved for at all scales; in the case "distinct", there are 40, 8 for each scale. An answer is (5, 8, H, W).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Array
from ..datasets.noise import fractal_noise, smooth_noise

SCALES = (5.0, 10.0, 15.0, 20.0, 25.0)
CHANNELS = 8
CASES = ("shared", "distinct")


@dataclass(frozen=True)
class Problem:
    """One image to smooth."""

    channels: Array  # float32, (1, 8, H, W) if shared, (5, 8, H, W) if distinct
    labels: Array  # int64, (H, W)
    alphas: tuple[float, ...]  # five scales

    @property
    def shared(self) -> bool:
        """Whether each channel is solved for at every scale."""
        return len(self.channels) == 1

    def at_scale(self, index: int) -> Array:
        """Return the channels (8, H, W) of one of the scales."""
        channels: Array = self.channels[index % len(self.channels)]
        return channels

    def first(self, channels: int) -> Problem:
        """Return the same problem with only the first channels of each scale."""
        return replace(self, channels=self.channels[:, :channels])


def make_problem(size: int, factor: float, case: str, seed: int = 0) -> Problem:
    """Make channels like a picture's (a mean, 1/f noise, fine noise) and two large regions."""
    rng = np.random.default_rng([seed, size])
    shape = (size, size)
    blob = smooth_noise(shape, rng, size / 3)
    scene = fractal_noise(shape, rng).astype(np.float32)
    channels = np.empty((1 if case == "shared" else len(SCALES), CHANNELS, *shape), np.float32)
    for channel in channels.reshape(-1, *shape):
        # One scene, displaced, serves all channels: one for each would take longer than the benchmark.
        scenery = np.roll(scene, tuple(rng.integers(0, size, 2)), axis=(0, 1))
        channel[:] = 0.5 + 0.2 * scenery + 0.05 * rng.standard_normal(shape, np.float32)
    return Problem(channels, (blob > np.median(blob)).astype(np.int64), tuple(factor * scale for scale in SCALES))


def relative_error(answer: Array, reference: Array) -> float:
    """Return the largest ``‖u − u*‖ / ‖u*‖`` of a channel; infinite where the answer is not finite."""
    if answer.shape != reference.shape:
        raise ValueError(f"answer must have the shape {reference.shape}, got {answer.shape}")
    worst = 0.0
    for u, exact in zip(answer.reshape(-1, answer[0, 0].size), reference.reshape(-1, answer[0, 0].size), strict=True):
        error = float(np.linalg.norm(u - exact) / np.linalg.norm(exact))
        worst = max(worst, error if np.isfinite(error) else np.inf)
    return worst
