"""Training images in 8 rotations and 5 scales, as the paper augments BSDS500."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy import ndimage

from ..arrays import Array, Labels
from ..datasets import Sample
from ..datasets.sample import consecutive

ANGLES = tuple(np.arange(8) * np.pi / 4)
#: How many times the cut-out square fits into the largest one: 1 to 2 in equal ratios.
ZOOMS = tuple(2.0 ** np.linspace(0.0, 1.0, 5))
#: A cut-out is of use where its second region has this share of it.
MIN_SHARE = 0.02
TRIES = 20


def variants(samples: Iterable[Sample], each: int, size: int, seed: int) -> list[Sample]:
    """Cut `each` of the 40 turned and scaled squares out of every sample, at random places.

    Of several annotators each cut-out follows one, drawn at random. Samples in which no place with two regions is
    found are left out.
    """
    found = []
    for number, sample in enumerate(samples):
        rng = np.random.default_rng([seed, number])
        kinds = [(angle, zoom) for angle in ANGLES for zoom in ZOOMS]
        for kind in rng.choice(len(kinds), each, replace=False):
            angle, zoom = kinds[kind]
            cut = _cut_with_regions(sample, angle, zoom, size, rng)
            found += [Sample(*cut, f"{sample.name}-{kind}")] if cut else []
    return found


def square(image: Array, centre: tuple[float, float], side: float, angle: float, size: int, order: int) -> Array:
    """Sample a square of `side` pixels, turned by `angle` about its centre (row, column), at size × size points."""
    steps = ((np.arange(size) + 0.5) / size - 0.5) * side
    y, x = np.meshgrid(steps, steps, indexing="ij")
    cos, sin = np.cos(angle), np.sin(angle)
    places = np.stack([centre[0] + cos * y - sin * x, centre[1] + sin * y + cos * x])
    planes = image[..., None] if image.ndim == 2 else image
    channels = [
        ndimage.map_coordinates(planes[..., c], places, order=order, mode="nearest") for c in range(planes.shape[2])
    ]
    return channels[0] if image.ndim == 2 else np.stack(channels, axis=-1)


def _cut_with_regions(
    sample: Sample, angle: float, zoom: float, size: int, rng: np.random.Generator
) -> tuple[Array, tuple[Labels]] | None:
    """Draw places until one shows two regions."""
    height, width = sample.truths[0].shape
    spread = abs(np.cos(angle)) + abs(np.sin(angle))  # of the turned square's bounding box
    side = min(height, width) / spread / zoom
    half = side * spread / 2
    for _ in range(TRIES):
        centre = (rng.uniform(half, height - half) - 0.5, rng.uniform(half, width - half) - 0.5)
        truth = sample.truths[rng.integers(len(sample.truths))]
        labels = consecutive(square(truth, centre, side, angle, size, order=0), ignore=-1)
        areas = np.sort(np.bincount(labels[labels >= 0]))
        if len(areas) > 1 and areas[-2] >= MIN_SHARE * labels.size:
            return square(sample.image, centre, side, angle, size, order=1), (labels,)
    return None
