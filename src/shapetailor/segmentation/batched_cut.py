"""The normalised cut of many pictures at once, on the device that their descriptors are on.

The same start as `starts.ncut_start`: block means in an order of their own, the graph of all pairs, its leading
eigenvectors, k-means of their rows with the same random draws; all that again in the metric of the clusters; and every
pixel to the nearest of their means.
"""

from __future__ import annotations

from math import log

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, pad

from ..arrays import Floats, Ints
from ..clustering import ITERATIONS, RANK, ROUNDING, SEEDINGS
from ..network.masked import Whole, spread
from .starts import GRID, SHRINKAGE, SIGMA2

#: Vectors that are iterated beyond those that are wanted, rounds, and the greatest degree of their polynomials.
SPARE, CYCLES, DEGREE = 30, 4, 12
#: The most that an eigenvector is amplified in a round, and the least bound of those that are not.
AMPLIFIED, LEAST = 1e6, 1e-2
#: Lloyd's iterations between two looks at whether anything still changes.
UNSEEN = 5


def ncut_starts(
    whole: Whole, size: tuple[int, int], inside: Tensor | None, regions: int, rngs: list[np.random.Generator]
) -> Tensor:
    """Cluster the descriptors of pictures of a size into regions: labels (P, h, w) of blocks, as `labels.in_order`.

    `inside` (P, H, W) are the pixels inside the pictures; None: all.
    """
    points, there = _points(whole, size, inside)
    metric = own_metrics(points, _cut(points, there, regions, rngs), there, regions)
    points = points @ metric
    means = _means(points, _cut(points, there, regions, rngs), there, regions)
    return _in_order(_assign(mapped(whole.descriptors, metric), means), regions)


def own_metrics(points: Tensor, clusters: Tensor, there: Tensor, regions: int) -> Tensor:
    """`starts.own_metric` of points (P, n, D) that are `there`, by their clusters (P, n): (P, D, D)."""
    size, there = points.shape[2], there[..., None]
    means = torch.nan_to_num(_means(points, clusters, there[..., 0], regions))
    spare = torch.where(there, points - means.gather(1, clusters[..., None].expand_as(points)), 0)
    count = there.sum(dim=1, keepdim=True)
    scatter = spare.mT @ spare / count
    variance = scatter.diagonal(dim1=1, dim2=2).mean(dim=1)[:, None, None]
    square = torch.where(there, points, 0).square().sum(dim=(1, 2), keepdim=True) / (count * size)
    known = variance > ROUNDING**2 * square
    one = torch.eye(size, dtype=points.dtype, device=points.device)
    shrunk = (1 - SHRINKAGE) * scatter / torch.where(known, variance, 1) + SHRINKAGE * one
    values, directions = torch.linalg.eigh(shrunk)
    return torch.where(known, directions / values.sqrt()[:, None] @ directions.mT, one)


def in_metrics_of(whole: Whole, labels: Tensor, inside: Tensor | None, regions: int) -> Whole:
    """The same in the metric of the regions that each picture was cut into (P, h, w): `Described.in_metric_of`."""
    there = torch.ones_like(labels, dtype=torch.bool)
    if inside is not None:
        there = inside[:, :: whole.side, :: whole.side]
    points = whole.descriptors.flatten(2).mT.double()
    metrics = own_metrics(points, labels.flatten(1), there.flatten(1), regions)
    return Whole(mapped(whole.descriptors, metrics), whole.side)


def mapped(descriptors: Tensor, metrics: Tensor) -> Tensor:
    """Apply metrics (P, D, D) to descriptors (P, D, h, w)."""
    found: Tensor = metrics.mT.to(descriptors.dtype) @ descriptors.flatten(2)
    return found.reshape(descriptors.shape)


def _cut(points: Tensor, there: Tensor, regions: int, rngs: list[np.random.Generator]) -> Tensor:
    """Clusters (P, n) of points by a normalised cut."""
    values, vectors = leading(_normalised(points, there), regions)
    counts, clusters = torch.stack([there.sum(dim=1), (values > RANK).sum(dim=1)]).tolist()
    kept = torch.arange(regions, device=points.device) < torch.tensor(clusters, device=points.device)[:, None]
    rows = torch.where(kept[:, None], vectors, 0)
    rows = rows / rows.norm(dim=2, keepdim=True).clamp_min(1e-12)
    draws = [_draws(rng, count, number, regions) for rng, count, number in zip(rngs, counts, clusters, strict=True)]
    first, further = (torch.from_numpy(np.stack(each)).to(points.device) for each in zip(*draws, strict=True))
    return _kmeans(torch.where(there[:, :, None], rows, 0), there, kept, first, further)


def _points(whole: Whole, size: tuple[int, int], inside: Tensor | None) -> tuple[Tensor, Tensor]:
    """`starts.block_means` as (P, n, D) in double precision, and which of them there are, (P, n): the first ones."""
    grid = min(size[0], GRID), min(size[1], GRID)
    pixels = spread(whole.descriptors, whole.side, size)
    if inside is None:
        points = adaptive_avg_pool2d(pixels, grid).flatten(2).mT.double()
        there = torch.ones(points.shape[:2], dtype=torch.bool, device=points.device)
    else:
        weight = inside[:, None].to(pixels.dtype)
        share = adaptive_avg_pool2d(weight, grid).flatten(2).mT.double()
        there = share[:, :, 0] > 0
        total = adaptive_avg_pool2d(pixels * weight, grid).flatten(2).mT.double()
        points = torch.where(there[:, :, None], total / share, 0)
    weights = torch.from_numpy(np.random.default_rng(0).standard_normal(points.shape[2])).to(points.device)
    order = torch.where(there, points @ weights, torch.inf).argsort(dim=1, stable=True)
    return points.gather(1, order[:, :, None].expand_as(points)), there.gather(1, order)


def _normalised(points: Tensor, there: Tensor) -> Tensor:
    """The affinities of all pairs of points, (P, n, n), normalised by their degrees."""
    norm = points.square().sum(dim=2)
    distance = (norm[:, :, None] + norm[:, None] - 2.0 * (points @ points.mT)).clamp_min(0.0)
    affinity = torch.exp(-distance / SIGMA2) * (there[:, :, None] & there[:, None])
    degree = affinity.sum(dim=2).sqrt()
    degree = torch.where(there, degree, 1)
    return affinity / (degree[:, :, None] * degree[:, None])


def leading(matrix: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` greatest eigenvalues of matrices (P, n, n) with eigenvalues in 0..1, and their vectors.

    Subspace iteration, filtered by Chebyshev polynomials [1]_: of the eigenvalues below the least in the subspace none
    is amplified, of those above the greatest most. Not by more than double precision can bear: the degree is lower
    where eigenvalues fall off fast, and fewer rounds would do.

    References
    ----------
    .. [1] Y. Zhou and Y. Saad, "A Chebyshev–Davidson algorithm for large symmetric eigenproblems", SIAM J. Matrix Anal.
       Appl. 29(3), 2007.
    """
    size = matrix.shape[1]
    width = min(size, count + SPARE)
    drawn = torch.from_numpy(np.random.default_rng(0).standard_normal((size, width))).to(matrix)
    values, vectors = _ritz(matrix, matrix @ drawn + LEAST * drawn)
    for _ in range(CYCLES):
        values, vectors = _ritz(matrix, _filtered(matrix, vectors, values[:, :1, None]))
    wanted = min(count, width)
    values, vectors = values.flip(1)[:, :wanted], vectors.flip(2)[:, :, :wanted]
    if wanted < count:  # fewer points than regions
        values, vectors = (pad(each, (0, count - wanted)) for each in (values, vectors))
    return values, vectors


def _filtered(matrix: Tensor, vectors: Tensor, bound: Tensor) -> Tensor:
    """Amplify what belongs to eigenvalues above a bound (P, 1, 1), by a Chebyshev polynomial of the matrix."""
    bound = bound.clamp(LEAST, 1 - LEAST)
    degree = (log(2 * AMPLIFIED) / torch.acosh(2 / bound - 1)).floor().clamp(1, DEGREE)
    going = torch.arange(DEGREE + 1, device=matrix.device)[:, None, None, None] <= degree
    doubled = matrix * (4 / bound)  # 2 (2/bound · matrix − 1), the polynomials' variable
    doubled.diagonal(dim1=1, dim2=2).sub_(2)
    before, now = vectors, 0.5 * (doubled @ vectors)
    for power in range(2, DEGREE + 1):
        before, now = now, torch.where(going[power], torch.baddbmm(before, doubled, now, beta=-1), now)
    return now


def _ritz(matrix: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues, ascending, and vectors of matrices (P, n, n) in the subspace that vectors span."""
    for _ in range(2):  # once leaves the square of what the condition of the vectors does to rounding
        vectors = vectors / vectors.norm(dim=1, keepdim=True)
        factor = torch.linalg.cholesky_ex(vectors.mT @ vectors).L
        vectors = torch.linalg.solve_triangular(factor.mT, vectors, upper=True, left=False)
    values, turns = torch.linalg.eigh(vectors.mT @ (matrix @ vectors))
    return values, vectors @ turns


def _draws(rng: np.random.Generator, points: int, clusters: int, most: int) -> tuple[Ints, Floats]:
    """What `clustering.kmeans` draws: each seeding's first point, and numbers in 0..1 for the further ones."""
    first, further = np.zeros(SEEDINGS, np.int64), np.zeros((SEEDINGS, most))
    for seeding in range(SEEDINGS if clusters > 1 else 0):
        first[seeding] = rng.integers(points)
        for number in range(1, clusters):
            further[seeding, number] = rng.random()
    return first, further


def _kmeans(rows: Tensor, there: Tensor, kept: Tensor, first: Tensor, further: Tensor) -> Tensor:
    """Cluster rows (P, n, D) that are `there` into the clusters `kept` (P, K): their numbers, (P, n)."""
    centres, used = _seeds(rows, there, kept, first, further)
    used = used[:, :, None]
    points = rows[:, None]
    clusters, distance = _nearest(points, centres, used)
    numbers = torch.arange(kept.shape[1], device=rows.device)
    for iteration in range(ITERATIONS):
        member = ((clusters[..., None] == numbers) & there[:, None, :, None]).to(rows.dtype)
        area = member.sum(dim=2)[..., None]
        centres = torch.where(area > 0, member.mT @ points / area.clamp_min(1), centres)
        before = clusters
        clusters, distance = _nearest(points, centres, used)
        if iteration % UNSEEN == UNSEEN - 1 and torch.equal(before, clusters):
            break
    best = torch.where(there[:, None], distance, 0).sum(dim=2).argmin(dim=1)
    return clusters[torch.arange(len(rows), device=rows.device), best]


def _seeds(rows: Tensor, there: Tensor, kept: Tensor, first: Tensor, further: Tensor) -> tuple[Tensor, Tensor]:
    """Seed k-means++ as `clustering` does: centres (P, S, K, D), and which of them there are, (P, S, K)."""
    picture = torch.arange(len(rows), device=rows.device)[:, None]
    centres, used = [rows[picture, first]], [torch.ones_like(first, dtype=torch.bool)]
    distance = torch.full((*first.shape, rows.shape[1]), torch.inf, dtype=rows.dtype, device=rows.device)
    negligible = ROUNDING**2 * rows.square().sum(dim=(1, 2))[:, None]
    for number in range(1, kept.shape[1]):
        distance = torch.minimum(distance, (rows[:, None] - centres[-1][:, :, None]).square().sum(dim=3))
        total = torch.where(there[:, None], distance, 0).cumsum(dim=2)
        last = total[..., -1]
        target = (further[..., number] * last)[..., None]
        place = torch.searchsorted(total, target, right=True)[..., 0].clamp_max(rows.shape[1] - 1)
        centres.append(rows[picture, place])
        used.append((last > negligible) & kept[:, number, None])
    return torch.stack(centres, dim=2), torch.stack(used, dim=2)


def _nearest(points: Tensor, centres: Tensor, used: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest of the centres (P, S, K, D) to each point (P, 1, n, D), and its squared distance."""
    table = (points[..., None, :] - centres[:, :, None]).square().sum(dim=4)
    distance, first = torch.where(used, table, torch.inf).min(dim=3)
    return first, distance


def _means(points: Tensor, clusters: Tensor, there: Tensor, regions: int) -> Tensor:
    """Mean points (P, K, D) of the clusters; NaN without any."""
    member = (clusters[..., None] == torch.arange(regions, device=points.device)) & there[..., None]
    return member.to(points.dtype).mT @ points / member.sum(dim=1)[..., None]


def _assign(descriptors: Tensor, means: Tensor) -> Tensor:
    """Give every place of (P, D, h, w) to the cluster with the nearest mean (P, K, D), NaN being none."""
    centres = means.to(descriptors.dtype)
    there = centres.isfinite().all(dim=2)
    centres = torch.where(there[..., None], centres, 0)
    # Taken from one of them: far from the origin, small distances would lose all digits.
    centre = centres[:, :1]
    points, centres = descriptors.flatten(2) - centre.mT, centres - centre
    table = centres.square().sum(dim=2)[..., None] - 2.0 * (centres @ points)
    table = torch.where(there[..., None], table, torch.inf)
    return table.argmin(dim=1).reshape(len(descriptors), *descriptors.shape[2:])


def _in_order(labels: Tensor, regions: int) -> Tensor:
    """Number the regions of label maps (P, h, w) by where they first appear."""
    flat = labels.flatten(1)
    place = torch.arange(flat.shape[1], device=labels.device)
    numbers = torch.arange(regions, device=labels.device)
    first = torch.where(flat[:, None] == numbers[:, None], place, flat.shape[1]).amin(dim=2)
    ranks = first.argsort(dim=1, stable=True).argsort(dim=1)
    return ranks.gather(1, flat).reshape(labels.shape)
