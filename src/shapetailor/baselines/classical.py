"""Classical methods, none of which learns from other images: k-means of colours, a random forest, Chan–Vese."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

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
class KMeansColour:
    """k-means of the pixels' colours."""

    title: str = "k-means of colours"
    parameters: int = 0

    def segment(self, image: Array, regions: int, seed: int = 0) -> Labels:
        """Cluster the colours."""
        return kmeans_start(_values(image), regions, np.random.default_rng(seed))


@dataclass(frozen=True)
class Forest:
    """scikit-image's trainable segmentation with seeds of its own.

    A random forest on `multiscale_basic_features` learns from seeds and labels the rest [1]_. The seeds come from the
    image itself: its blurred colours are clustered by k-means, and the half of each cluster nearest to the mean is
    seed.

    References
    ----------
    .. [1] "Trainable segmentation using local features and random forests" in scikit-image's gallery.
    """

    title: str = "random forest, self-trained"
    parameters: int = 0

    def segment(self, image: Array, regions: int, seed: int = 0) -> Labels:
        """Learn from the seeds, label all."""
        from skimage.future import fit_segmenter, predict_segmenter
        from sklearn.ensemble import RandomForestClassifier

        values = _values(image)
        marks = sure_pixels(values, regions, np.random.default_rng(seed))
        if len(np.unique(marks[marks > 0])) < 2:
            return np.zeros(values.shape[1:], np.int64)
        features = multiscale_basic_features(np.moveaxis(values, 0, 2), channel_axis=2)
        forest = fit_segmenter(marks, features, RandomForestClassifier(**FOREST, random_state=seed))
        return np.asarray(predict_segmenter(features, forest), np.int64) - 1


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


@dataclass(frozen=True)
class ChanVese:
    """scikit-image's Chan–Vese: two regions of nearly constant gray value with a short boundary [1]_.

    A ValueError refuses any other number of regions.

    References
    ----------
    .. [1] T. Chan and L. Vese, "Active contours without edges", IEEE Transactions on Image Processing 10(2), 2001.
    """

    title: str = "Chan–Vese"
    parameters: int = 0

    def segment(self, image: Array, regions: int, seed: int = 0) -> Labels:
        """Evolve a checkerboard's level set; `seed` has no effect."""
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


BASELINES = (
    Baseline("kmeans-colour", KMeansColour.title, False, lambda *_: KMeansColour()),
    Baseline("forest", Forest.title, False, lambda *_: Forest(), _needs_sklearn),
    Baseline("chan-vese", ChanVese.title, False, lambda *_: ChanVese()),
)
