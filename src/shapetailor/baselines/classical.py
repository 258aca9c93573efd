"""Classical methods, none of which learns from other images: k-means of colours, a random forest, Chan–Vese."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from skimage.feature import multiscale_basic_features
from skimage.segmentation import chan_vese

from ..arrays import Array, Floats32, Labels
from ..io.intensity import Intensity
from ..segmentation.starts import kmeans_start, region_means
from .method import Baseline

#: Standard deviation, in pixels, of the blur before colours are clustered into a forest's seeds.
SEED_BLUR = 8.0
#: As in scikit-image's own example.
FOREST = {"n_estimators": 50, "max_depth": 10, "max_samples": 0.05}
CHAN_VESE_ITERATIONS = 300


@dataclass(frozen=True)
class Classical:
    """A function of an image, the number of regions and a seed, as a method."""

    title: str
    segment: Callable[..., Labels]
    parameters: int = 0


def kmeans_colour(image: Array, regions: int, seed: int = 0) -> Labels:
    """Cluster the pixels' colours by k-means."""
    return kmeans_start(_values(image), regions, np.random.default_rng(seed))


def forest(image: Array, regions: int, seed: int = 0) -> Labels:
    """scikit-image's "trainable segmentation using local features and random forests", with seeds of its own.

    A random forest on `multiscale_basic_features` learns from seeds and labels the rest. The seeds come from the image
    itself: see `sure_pixels`.
    """
    from skimage.future import fit_segmenter, predict_segmenter
    from sklearn.ensemble import RandomForestClassifier

    values = _values(image)
    marks = sure_pixels(values, regions, np.random.default_rng(seed))
    if len(np.unique(marks[marks > 0])) < 2:
        return np.zeros(values.shape[1:], np.int64)
    features = multiscale_basic_features(np.moveaxis(values, 0, 2), channel_axis=2)
    trained = fit_segmenter(marks, features, RandomForestClassifier(**FOREST, random_state=seed))
    return np.asarray(predict_segmenter(features, trained), np.int64) - 1


def sure_pixels(values: Floats32, regions: int, rng: np.random.Generator) -> Labels:
    """Cluster blurred colours (C, H, W); return 1..K for the half of each cluster nearest to its mean, 0 elsewhere."""
    blurred = np.stack([gaussian_filter(channel, SEED_BLUR, mode="nearest") for channel in values])
    clusters = kmeans_start(blurred, regions, rng)
    means = region_means(blurred, clusters, regions)
    distance = np.square(blurred - means.T[:, clusters]).sum(axis=0)
    marks = np.zeros(clusters.shape, np.int64)
    for cluster in np.unique(clusters).tolist():
        inside = clusters == cluster
        marks[inside & (distance <= np.median(distance[inside]))] = cluster + 1
    return marks


def two_by_chan_vese(image: Array, regions: int, seed: int = 0) -> Labels:
    """scikit-image's Chan–Vese: two regions of nearly constant gray value with a short boundary.

    T. Chan and L. Vese, "Active contours without edges", IEEE Transactions on Image Processing 10(2), 2001.
    """
    if regions != 2:
        raise ValueError(f"Chan–Vese finds 2 regions, regions is {regions}")
    gray = _values(image).mean(axis=0).astype(np.float64)
    return np.asarray(chan_vese(gray, max_num_iter=CHAN_VESE_ITERATIONS), np.int64)


def _values(image: Array) -> Floats32:
    """(C, H, W) in 0..1."""
    values = Intensity()(image)
    return values[None] if values.ndim == 2 else np.moveaxis(values, 2, 0)


def _needs_sklearn() -> str | None:
    return None if find_spec("sklearn") else "scikit-learn is not installed: pip install 'shapetailor[baselines]'"


def _baseline(name: str, title: str, segment: Callable[..., Labels], **options: Any) -> Baseline:
    return Baseline(name, title, False, lambda *_: Classical(title, segment), **options)


BASELINES = (
    _baseline("kmeans-colour", "k-means of colours", kmeans_colour),
    _baseline("forest", "random forest, self-trained", forest, available=_needs_sklearn),
    _baseline("chan-vese", "Chan–Vese", two_by_chan_vese),
)
