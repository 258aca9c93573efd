"""What one would try first: k-means of colours, a random forest, Chan–Vese. None learns from other images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter
from skimage.feature import multiscale_basic_features
from skimage.segmentation import chan_vese

from ..arrays import Array, Floats32, Labels
from ..datasets import Sample
from ..io.intensity import Intensity
from ..segmentation.starts import kmeans_start, region_means
from .method import FitSettings, Method, Recipe

Values = Floats32  # (C, H, W) in 0..1

#: Standard deviation, in pixels, of the blur before colours are clustered into a forest's seeds.
SEED_BLUR = 8.0
#: Trees, their depth and the share of the marked pixels that each sees: as in scikit-image's own example.
FOREST = {"n_estimators": 50, "max_depth": 10, "max_samples": 0.05}
#: Chan–Vese's iterations at most; its length term has scikit-image's default weight.
CHAN_VESE_ITERATIONS = 300


@dataclass(frozen=True)
class KMeansColour:
    """k-means of the pixels' colours, each pixel by itself: no texture, no neighbourhood."""

    title: str = "k-means of colours"
    parameters: int = 0

    def segment(self, image: Array, regions: int, seed: int = 0) -> Labels:
        """Cluster the colours."""
        return kmeans_start(_values(image), regions, np.random.default_rng(seed))


@dataclass(frozen=True)
class Forest:
    """scikit-image's trainable segmentation, which marks its own training pixels.

    Made for a person who marks some pixels of an image: a random forest on `multiscale_basic_features` (intensity,
    gradient and Hessian at several scales) learns from the marks and labels the rest [1]_. Textures are not shared
    between images, so a forest cannot be trained on others; and the truth must not be told. The marks are therefore
    made from the image itself: its strongly blurred colours are clustered by k-means, and the half of each cluster
    that lies nearest to the cluster's mean is marked. The forest then labels every pixel.

    References
    ----------
    .. [1] `skimage.future.fit_segmenter`, and "Trainable segmentation using local features and random forests" in
       scikit-image's gallery.
    """

    title: str = "random forest, self-trained"
    parameters: int = 0

    def segment(self, image: Array, regions: int, seed: int = 0) -> Labels:
        """Mark the sure pixels, learn from them, label all."""
        from skimage.future import fit_segmenter, predict_segmenter
        from sklearn.ensemble import RandomForestClassifier

        values = _values(image)
        marks = sure_pixels(values, regions, np.random.default_rng(seed))
        if len(np.unique(marks[marks > 0])) < 2:
            return np.zeros(values.shape[1:], np.int64)
        features = multiscale_basic_features(np.moveaxis(values, 0, 2), channel_axis=2)
        forest = fit_segmenter(marks, features, RandomForestClassifier(**FOREST, random_state=seed))
        return np.asarray(predict_segmenter(features, forest), np.int64) - 1


def sure_pixels(values: Values, regions: int, rng: np.random.Generator) -> Labels:
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

    It has two phases by construction. Another number of regions than two is refused by a ValueError, rather than
    answered by some extension that its authors did not mean.

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


def _values(image: Array) -> Values:
    values = Intensity()(image)
    return values[None] if values.ndim == 2 else np.moveaxis(values, 2, 0)


def _no_fit(method: Method, samples: Sequence[Sample], folder: Path, settings: FitSettings) -> Method:
    return method


def _needs_sklearn() -> str | None:
    if find_spec("sklearn") is None:
        return "scikit-learn is not installed: pip install 'shapetailor[baselines]'"
    return None


RECIPES = (
    Recipe("kmeans-colour", KMeansColour.title, False, partial(_no_fit, KMeansColour())),
    Recipe("forest", Forest.title, False, partial(_no_fit, Forest()), _needs_sklearn),
    Recipe("chan-vese", ChanVese.title, False, partial(_no_fit, ChanVese())),
)
