"""Starting regions for the evolution, from descriptors of the whole image.

Every function takes descriptors as a (D, H, W) array, and may be told which pixels (H, W) are inside the picture: the
others do not count, and their labels mean nothing. Clustering works on block means of a coarse grid, so that its
cost does not depend on the image's size, and then gives every pixel to the nearest of the clusters' means. Before
anything is drawn, points are put in an order that depends on their values only: flip or turn the image, and the start
moves with it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import adaptive_avg_pool2d

from ..arrays import Array, Floats, Ints, Mask
from ..clustering import ROUNDING, kmeans, nearest, normalised_cut

#: Pixels handled at once where a table of distances is made.
CHUNK = 2**20
#: Squared distance at which the affinity of two descriptors of unit norm has fallen to 1/e.
SIGMA2 = 0.1
#: Block means a side, at most, that are cut, and that are clustered by k-means.
GRID, KMEANS_GRID = 32, 64
#: How far the scatter inside regions is taken towards that of a sphere before a metric is made of it.
SHRINKAGE = 0.6


def region_means(descriptors: Array, labels: Ints, regions: int | None = None) -> Floats:
    """Return the mean descriptor a_i of each region (Alg. 2, step 5) as (K, D); NaN for a region without pixels.

    Negative labels count nowhere. K is the highest label plus one, unless given.
    """
    inside = labels >= 0
    numbers = labels[inside]
    count = int(numbers.max(initial=-1)) + 1 if regions is None else regions
    area = np.bincount(numbers, minlength=count)
    sums = np.stack([np.bincount(numbers, channel[inside], minlength=count) for channel in descriptors], axis=1)
    means: Floats = np.divide(sums, area[:, None], out=np.full_like(sums, np.nan), where=area[:, None] > 0)
    return means


def assign(descriptors: Array, means: Array) -> Ints:
    """Give every pixel to the region with the nearest mean, the first of several; a mean of NaN gets none."""
    shape = descriptors.shape[1:]
    points = descriptors.reshape(len(descriptors), -1)
    labels = np.empty(points.shape[1], dtype=np.int64)
    present = np.flatnonzero(np.isfinite(means).all(axis=1))
    centres = means[present].astype(points.dtype)
    for start in range(0, len(labels), CHUNK):
        part = slice(start, start + CHUNK)
        labels[part] = present[nearest(points[:, part].T, centres)[0]]
    return labels.reshape(shape)


def kmeans_start(descriptors: Array, regions: int, rng: np.random.Generator, inside: Mask | None = None) -> Ints:
    """Cluster the descriptors into regions by k-means (the paper's start for several regions).

    At most `regions` come out; fewer where the descriptors have fewer distinct values.
    """
    points = block_means(descriptors, regions, KMEANS_GRID, inside)
    return spread(descriptors, points, kmeans(points, regions, rng))


def ncut_start(descriptors: Array, regions: int, rng: np.random.Generator, inside: Mask | None = None) -> Ints:
    """Cluster the descriptors into regions by a normalised cut; arguments as of `kmeans_start`.

    The picture is cut twice: the second time in the metric that the first cut's clusters suggest (`own_metric`).
    """
    points = block_means(descriptors, regions, GRID, inside)
    metric = own_metric(points, normalised_cut(points, regions, rng, SIGMA2))
    points = points @ metric
    return spread(mapped(descriptors, metric), points, normalised_cut(points, regions, rng, SIGMA2))


def own_metric(points: Floats, clusters: Ints) -> Floats:
    """Return a map (D, D) of descriptors under which clusters of (P, D) points vary alike in all directions.

    It is that of Fisher's linear discriminant: the inverse root of the scatter inside clusters, divided by its mean
    variance, so that distances keep their scale, and first shrunk a good part of the way to a sphere.
    """
    size = points.shape[1]
    spare = points - region_means(points.T[:, None], clusters[None])[clusters]
    scatter = spare.T @ spare / len(points)
    variance = float(scatter.trace()) / size
    if not variance > ROUNDING**2 * float(np.square(points).mean()):  # flat clusters: nothing is known of them
        return np.eye(size)
    values, directions = np.linalg.eigh((1 - SHRINKAGE) * scatter / variance + SHRINKAGE * np.eye(size))
    found: Floats = (directions / np.sqrt(values)) @ directions.T
    return found


def metric_of(descriptors: Array, labels: Ints) -> Floats:
    """Return the metric of regions (H, W) by every second pixel of (D, H, W); negative labels do not count."""
    seen = labels[::2, ::2]
    inside = seen >= 0
    if not inside.any():
        return np.eye(len(descriptors))
    return own_metric(descriptors[:, ::2, ::2][:, inside].T.astype(np.float64), seen[inside])


def reassigned(descriptors: Array, labels: Ints) -> Ints:
    """Give every pixel to the region with the nearest mean in the regions' metric, unless that takes all of a region's.

    Negative labels stay.
    """
    seen = mapped(descriptors, metric_of(descriptors, labels))
    found = np.where(labels >= 0, assign(seen, region_means(seen, labels)), labels)
    return found if len(np.unique(found)) == len(np.unique(labels)) else labels


def mapped(descriptors: Array, metric: Floats) -> Array:
    """Apply a metric (D, D) to descriptors (D, H, W)."""
    found: Array = np.tensordot(metric.astype(descriptors.dtype), descriptors, axes=(0, 0))
    return found


def scribble_start(descriptors: Array, scribbles: Ints) -> Ints:
    """Give each pixel to the region whose marked pixels' mean is nearest; marked pixels (>= 0) keep their region."""
    alike = assign(descriptors, region_means(descriptors, scribbles))
    return np.where(scribbles >= 0, scribbles, alike)


def block_means(descriptors: Array, regions: int, grid: int, inside: Mask | None = None) -> Floats:
    """Check the arguments of a start and return at most grid² block means as (P, D), ordered by their values.

    Blocks without a pixel inside are left out.
    """
    if descriptors.ndim != 3 or descriptors.size == 0:
        raise ValueError(f"descriptors must be (D, H, W) with at least one pixel, got shape {descriptors.shape}")
    if not np.isfinite(descriptors).all():
        raise ValueError("descriptors must be finite, got NaN or infinite values")
    if regions < 1:
        raise ValueError(f"regions must be at least 1, got {regions}")
    height, width = descriptors.shape[1:]
    size = min(height, grid), min(width, grid)
    # Adaptive pooling lays its blocks symmetrically in the image, also where they do not fit evenly.
    means = adaptive_avg_pool2d(torch.from_numpy(np.ascontiguousarray(descriptors)), size).flatten(1).double()
    if inside is not None:
        weight = torch.from_numpy(inside.astype(descriptors.dtype))[None]
        share = adaptive_avg_pool2d(weight, size).flatten().double()
        total = adaptive_avg_pool2d(torch.from_numpy(np.ascontiguousarray(descriptors)) * weight, size).flatten(1)
        means = (total.double() / share)[:, share > 0]
    points: Floats = means.numpy().T
    # One number a point, summed channel by channel: a matrix product may round by place.
    weights = np.random.default_rng(0).standard_normal((points.shape[1],))
    key = np.zeros(len(points))
    for weight, channel in zip(weights, points.T, strict=True):
        key += weight * channel
    return np.ascontiguousarray(points[np.argsort(key, kind="stable")])


def spread(descriptors: Array, points: Floats, clusters: Ints) -> Ints:
    """Give every pixel to the nearest mean of the clustered points."""
    return assign(descriptors, region_means(points.T[:, None], clusters[None]))
