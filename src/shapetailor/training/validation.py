"""How good descriptors are: cluster them, and see how well the clusters cover the truth."""

import numpy as np
import torch
from torch import Tensor

from ..metrics import covering

#: Descriptors are clustered on a grid of at most this many points a side.
GRID = 64
STARTS = 4
ITERATIONS = 15


def clustered_covering(descriptors: Tensor, truth: Tensor) -> float:
    """Return the covering of the true regions (H, W) by a k-means clustering of the descriptors (D, H, W), K given.

    The descriptors must not know the truth, which is -1 where a pixel is not to be judged.
    """
    stride = -(-max(truth.shape) // GRID)
    descriptors, truth = descriptors[:, ::stride, ::stride], truth[::stride, ::stride]
    regions = len(truth[truth >= 0].unique())
    points = descriptors.flatten(1).T
    labels = k_means(points, regions, np.random.default_rng([4, regions]))
    return covering(labels.view(truth.shape), truth, ignore=-1)


def k_means(points: Tensor, clusters: int, rng: np.random.Generator) -> Tensor:
    """Cluster (P, D) points as `clustering.kmeans` does, on the points' device; return (P,) integers."""
    runs = [_lloyd(points, _spread_start(points, clusters, rng)) for _ in range(STARTS)]
    return min(runs, key=lambda run: run[0])[1]


def _spread_start(points: Tensor, clusters: int, rng: np.random.Generator) -> Tensor:
    """Draw points, each with a probability proportional to its squared distance from those before."""
    chosen = [int(rng.integers(len(points)))]
    for _ in range(clusters - 1):
        distance = torch.cdist(points, points[chosen]).amin(1).double().square().cpu().numpy()
        total = distance.cumsum()
        chosen.append(min(int(np.searchsorted(total, rng.random() * total[-1], side="right")), len(points) - 1))
    return points[chosen]


def _lloyd(points: Tensor, centres: Tensor) -> tuple[float, Tensor]:
    for _ in range(ITERATIONS):
        nearest = torch.cdist(points, centres).argmin(1)
        member = torch.nn.functional.one_hot(nearest, len(centres)).to(points)
        count = member.sum(0)[:, None]
        centres = torch.where(count > 0, member.T @ points / count.clamp(min=1), centres)
    distance, nearest = torch.cdist(points, centres).min(1)
    return float(distance.square().sum()), nearest
