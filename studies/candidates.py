"""Ten ways to cut an image's descriptors into a given number of regions, for `choose.py` to choose among."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import numpy.typing as npt
import scipy.sparse.linalg

from shapetailor.clustering import cut_by
from shapetailor.segmentation.starts import SIGMA2, assign, kmeans_start, region_means

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

#: Side of the blocks whose means are cut.
POOL = 2
#: Least affinity's share and range of the spatial factors; ranges are shares of the image's side.
NEAR, NEARER = (0.3, 0.3), (0.0, 0.6)
#: The normalised cuts: sigma2, and the spatial factor if there is one.
CUTS = {
    "cut, σ² = .05": (0.05, None),
    "cut, σ² = .1": (0.1, None),
    "cut, σ² = .2": (0.2, None),
    "cut, σ² = .4": (0.4, None),
    "cut, σ² = .1, weighted by distance": (0.1, NEAR),
    "cut, σ² = .1, near only": (0.1, NEARER),
    "cut, σ² = .05, weighted by distance": (0.05, NEAR),
    "cut, σ² = .2, weighted by distance": (0.2, NEAR),
}
#: The library's start, with which others are compared.
KEPT = "cut, σ² = .1"


def candidates(descriptors: Array, regions: int) -> dict[str, Labels]:
    """Return label maps of (D, h, w) descriptors by name; Ward's is left out without scikit-learn."""
    found = {
        name: cut(descriptors, affinity(descriptors, sigma2, spatial), regions)
        for name, (sigma2, spatial) in CUTS.items()
    }
    found["k-means"] = kmeans_start(descriptors, regions, np.random.default_rng(0))
    if find_spec("sklearn"):
        found["Ward, connected"] = ward(descriptors, regions)
    return found


def block_means(descriptors: Array) -> Array:
    """Return the means of POOL × POOL blocks, (D, h/POOL, w/POOL)."""
    dimension, height, width = descriptors.shape
    return descriptors.reshape(dimension, height // POOL, POOL, width // POOL, POOL).mean(axis=(2, 4))


def affinity(descriptors: Array, sigma2: float = SIGMA2, spatial: tuple[float, float] | None = None) -> Array:
    """Return ``exp(−‖F_p − F_q‖²/sigma2)`` of all pairs of block means.

    With ``spatial = (least, range)`` it is multiplied by ``least + (1 − least)·exp(−‖p − q‖²/range²)``.
    """
    means = block_means(descriptors)
    weights = np.exp(-_squared_distances(means.reshape(len(means), -1).T.astype(np.float64)) / sigma2)
    if spatial is None:
        return weights
    least, reach = spatial
    height, width = means.shape[1:]
    places = np.stack(np.mgrid[:height, :width], axis=-1).reshape(-1, 2) / max(height, width)
    return weights * (least + (1 - least) * np.exp(-_squared_distances(places) / reach**2))


def spectrum(weights: Array, count: int) -> tuple[Array, Array]:
    """Return the greatest eigenvalues of a normalised affinity, falling, and their vectors."""
    degree = np.sqrt(weights.sum(axis=1))
    normalised = weights / (degree[:, None] * degree)
    values, vectors = scipy.sparse.linalg.eigsh(normalised, count, which="LA", v0=np.ones(len(degree)))
    return values[::-1], vectors[:, ::-1]


def cut(descriptors: Array, weights: Array, regions: int) -> Labels:
    """Cut the graph of block means; every block of the descriptors then goes to the nearest mean."""
    return spread(descriptors, cut_by(spectrum(weights, regions)[1], np.random.default_rng(0)))


def spread(descriptors: Array, clusters: Labels) -> Labels:
    """Give every pixel to the nearest mean of clustered block means."""
    means = block_means(descriptors)
    return assign(descriptors, region_means(means, clusters.reshape(means.shape[1:])))


def ward(descriptors: Array, regions: int) -> Labels:
    """Merge neighbouring blocks by Ward's criterion, and then take three steps of k-means."""
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.feature_extraction.image import grid_to_graph

    means = block_means(descriptors)
    merging = AgglomerativeClustering(regions, connectivity=grid_to_graph(*means.shape[1:]))
    labels = spread(descriptors, merging.fit_predict(means.reshape(len(means), -1).T))
    for _ in range(2):
        labels = assign(descriptors, region_means(descriptors, labels, regions))
    return labels


def _squared_distances(points: Array) -> Array:
    norm = np.square(points).sum(axis=1)
    return np.maximum(norm[:, None] + norm - 2 * points @ points.T, 0)
