"""Clustering of points: k-means, and the normalised cut."""

from contextlib import suppress

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from .arrays import Array, Floats, Ints

#: Seedings of k-means. Lloyd's iterations at most; they end earlier as a rule, when no point changes its cluster.
SEEDINGS, ITERATIONS = 8, 50
#: Points whose spread is below this share of their size are one point: what differs is rounding.
ROUNDING = 1e-5
#: Eigenvalues of a normalised affinity are at most 1; those below this tell no clusters apart.
RANK = 1e-3
#: Restarts of Lanczos' method, about 17 products each; whole reduction of a matrix takes less than further ones.
RESTARTS = 30


def kmeans(points: Floats, clusters: int, rng: np.random.Generator) -> Ints:
    """Cluster (P, D) points by Lloyd's iterations from k-means++ seedings; the least sum of squares wins.

    Points that differ by rounding only are one cluster. The result depends on the order of the points.
    D. Arthur and S. Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007.
    """
    if clusters == 1:
        return np.zeros(len(points), dtype=np.int64)
    runs = [_lloyd(points, _seeds(points, clusters, rng)) for _ in range(SEEDINGS)]
    return min(runs, key=lambda run: run[0])[1]


def normalised_cut(points: Floats, clusters: int, rng: np.random.Generator, sigma2: float) -> Ints:
    """Cluster (P, D) points by a normalised cut (J. Shi and J. Malik, PAMI 22(8), 2000) of the graph of all pairs.

    A pair weighs ``exp(−‖F_p − F_q‖² / sigma2)``. The first eigenvectors of the normalised affinity, rows scaled to
    unit length, are clustered by k-means (A. Ng, M. Jordan and Y. Weiss, "On spectral clustering", NIPS 2001). Unlike
    k-means of the points, this follows clusters that are stretched or of unequal width.
    """
    values, vectors = spectrum(points, clusters, sigma2)
    # The graph of fewer clusters has no more vectors that matter; the rest is noise.
    return cut_by(vectors[:, values > RANK], rng)


def spectrum(points: Floats, count: int, sigma2: float) -> tuple[Floats, Floats]:
    """Return the `count` greatest eigenvalues of the normalised affinity of (P, D) points, and their vectors.

    The greatest is 1. As many are 1 as the graph has parts without a link; as many are near 1 as it has parts that hang
    together by little.
    """
    return leading(affinities(points, sigma2), min(count, len(points)))


def affinities(points: Floats, sigma2: float) -> Floats:
    """Return the affinities ``exp(−‖F_p − F_q‖² / sigma2)`` of all pairs of (P, D) points."""
    norm = np.square(points).sum(axis=1)
    distance = np.maximum(norm[:, None] + norm - 2.0 * (points @ points.T), 0.0)
    affinity: Floats = np.exp(-distance / sigma2)
    return affinity


def leading(affinity: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the `count` greatest eigenvalues of an affinity normalised by its degrees, and their vectors."""
    degree = np.sqrt(affinity.sum(axis=1))
    values, vectors = _leading(affinity / (degree[:, None] * degree), count)
    return values[::-1], vectors[:, ::-1]


def cut_by(vectors: Floats, rng: np.random.Generator) -> Ints:
    """Cluster points into as many clusters as there are eigenvectors, by k-means of their rows at unit length."""
    rows = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return kmeans(rows, vectors.shape[1], rng)


def _leading(matrix: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the greatest eigenvalues of a symmetric matrix, and their vectors."""
    size = len(matrix)
    if 4 * count + 20 <= size:  # Lanczos: a few products with the matrix instead of its whole reduction
        with suppress(scipy.sparse.linalg.ArpackNoConvergence):  # eigenvalues that lie close together want very many
            values, vectors = scipy.sparse.linalg.eigsh(matrix, count, which="LA", v0=np.ones(size), maxiter=RESTARTS)
            return values, vectors
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=[size - count, size - 1])
    return values, vectors


def nearest(points: Array, centres: Array) -> tuple[Ints, Array]:
    """Return for each of (P, D) points the nearest of (K, D) centres, and its squared distance."""
    # Taken from the first centre: far from the origin, ‖x‖² − 2x·a + ‖a‖² loses all digits of a small distance.
    points, centres = points - centres[0], centres - centres[0]
    table = np.square(centres).sum(axis=1) - 2.0 * (points @ centres.T)
    first = table.argmin(axis=1)
    distance = np.square(points).sum(axis=1) + np.take_along_axis(table, first[:, None], axis=1)[:, 0]
    return first, np.maximum(distance, 0.0)


def _seeds(points: Floats, clusters: int, rng: np.random.Generator) -> Floats:
    """Draw points, each with a probability proportional to its squared distance from those before."""
    chosen = [points[rng.integers(len(points))]]
    distance = np.full(len(points), np.inf)
    negligible = ROUNDING**2 * float(np.square(points).sum())
    while len(chosen) < clusters:
        distance = np.minimum(distance, np.square(points - chosen[-1]).sum(axis=1))
        total = distance.cumsum()
        if total[-1] <= negligible:  # fewer distinct points than clusters
            break
        chosen.append(points[np.searchsorted(total, rng.random() * total[-1], side="right")])
    return np.stack(chosen)


def _lloyd(points: Floats, centres: Floats) -> tuple[float, Ints]:
    clusters, distance = nearest(points, centres)
    for _ in range(ITERATIONS):
        member = clusters == np.arange(len(centres))[:, None]
        area = member.sum(axis=1, keepdims=True)
        centres = np.where(area > 0, member.astype(points.dtype) @ points / np.maximum(area, 1), centres)
        before = clusters
        clusters, distance = nearest(points, centres)
        if np.array_equal(clusters, before):
            break
    return float(distance.sum()), clusters
