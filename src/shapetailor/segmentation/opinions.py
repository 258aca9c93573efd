"""Second opinions: other cuts of a picture than the one it starts from, distinct ones, those that promise most first.

Normalised cuts into a few more clusters than there are regions are grouped into regions in all ways. Each such
hypothesis weighs ``exp(−SHARPNESS · Ncut)``. An opinion is the hypothesis that most raises the expected covering
(to the power `POWER`) of a truth drawn from them by the best of the opinions so far. This greedy facility location is
within 1 − 1/e of the best choice [1]_.

References
----------
.. [1] G. Nemhauser, L. Wolsey and M. Fisher, "An analysis of approximations for maximizing submodular set functions",
   Mathematical Programming 14, 1978.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..arrays import Array, Floats, Ints, Labels, Mask
from ..clustering import affinities, cut_by, leading
from . import starts

#: How much a hypothesis loses with its normalised cut, and the power of the covering that opinions are chosen by.
SHARPNESS, POWER = 20.0, 4
#: Opinions cover each other by less than this.
DISTINCT = 0.9
#: Most hypotheses, and most clusters that are grouped.
MOST_HYPOTHESES, MOST_CLUSTERS = 200, 12
#: Cells along a side on which hypotheses are compared.
CELLS = 32


class Hypothesis(NamedTuple):
    """Clusters of points, the region of each cluster, and what the hypothesis weighs."""

    means: Floats  # (clusters, D)
    region: Ints  # (clusters,)
    weight: float

    def labels(self, descriptors: Array) -> Labels:
        """The regions of all pixels."""
        return self.region[starts.assign(descriptors, self.means)]


class Opinion(NamedTuple):
    """Regions (H, W), and their weight; 1 in all, with the regions that came first."""

    labels: Labels
    score: float


def second_opinions(
    descriptors: Array, first: Labels, hypotheses: list[Hypothesis], count: int
) -> tuple[float, list[Opinion]]:
    """Return what the `first` regions weigh, and up to `count` opinions beside them, the best first.

    Negative labels of `first` are outside the picture.
    """
    cells = np.ix_(*(np.linspace(0, n - 1, min(n, CELLS)).round().astype(int) for n in first.shape))
    seen = first[cells].ravel()
    small = descriptors[:, cells[0], cells[1]]
    maps = np.stack([seen, *(each.labels(small).ravel() for each in hypotheses)])[:, seen >= 0]
    alike = coverings(maps)[:, 1:] ** POWER
    weights = np.array([each.weight for each in hypotheses])
    weights /= weights.sum()
    chosen, best = [0], alike[0]
    while len(chosen) <= count and best.min() < DISTINCT**POWER:
        expected = np.where(best < DISTINCT**POWER, np.maximum(alike[1:], best) @ weights, -1.0)
        chosen.append(int(expected.argmax()) + 1)
        best = np.maximum(best, alike[chosen[-1]])
    scores = weights[[int(alike[0].argmax()), *(i - 1 for i in chosen[1:])]]
    scores /= scores.sum()
    pairs = zip(chosen[1:], scores[1:].tolist(), strict=True)
    found = [Opinion(hypotheses[i - 1].labels(descriptors), score) for i, score in pairs]
    return float(scores[0]), sorted(found, key=lambda each: -each.score)


def groupings(descriptors: Array, regions: int, inside: Mask | None = None) -> list[Hypothesis]:
    """Return the hypotheses of `regions` regions."""
    points = starts.block_means(descriptors, regions, starts.GRID, inside)
    affinity = affinities(points, starts.SIGMA2)
    _, vectors = leading(affinity, min(MOST_CLUSTERS, len(points)))
    found: list[Hypothesis] = []
    for clusters in range(regions, vectors.shape[1] + 1):
        ways = list(_ways(clusters, regions, MOST_HYPOTHESES - len(found)))
        if not ways:
            break
        number = cut_by(vectors[:, :clusters], np.random.default_rng(0))
        member = (number == np.arange(clusters)[:, None]).astype(np.float64)
        links = member @ affinity @ member.T
        means = starts.region_means(points.T[:, None], number[None], clusters)
        found += [Hypothesis(means, way, float(np.exp(-SHARPNESS * _cut_value(links, way)))) for way in ways]
    return found


def coverings(maps: Ints) -> Floats:
    """Return how well each of (N, n) label maps from 0 on covers each other one (columns), (N, N)."""
    regions = int(maps.max()) + 1
    hot = (maps[:, None] == np.arange(regions)[:, None]).reshape(-1, maps.shape[1]).astype(np.float32)
    common, area = hot @ hot.T, hot.sum(axis=1)
    overlap = common / np.maximum(area[:, None] + area - common, 1)
    best = overlap.reshape(len(maps), regions, -1).max(axis=1)  # (N, N·regions)
    covered: Floats = (best * area).reshape(len(maps), len(maps), regions).sum(axis=2) / maps.shape[1]
    return covered


def _cut_value(links: Floats, way: Ints) -> float:
    """The normalised cut: the share of each region's links that leave it, summed (of two regions)."""
    member = (way == np.arange(way.max() + 1)[:, None]).astype(np.float64)
    between = member @ links @ member.T
    return float(2 * (1 - np.diag(between) / np.maximum(between.sum(axis=1), 1e-300)).mean())


def _ways(clusters: int, regions: int, most: int) -> Iterator[Ints]:
    """All ways to group clusters into regions, by restricted growth strings; none if there are more than `most`."""
    if _stirling(clusters, regions) > most:
        return
    ways = [[0]]
    for place in range(1, clusters):
        ways = [
            [*way, each]
            for way in ways
            for each in range(min(max(way) + 2, regions))
            if max(*way, each) + clusters - place >= regions  # enough clusters are left for the regions
        ]
    yield from (np.array(way) for way in ways)


def _stirling(clusters: int, regions: int) -> int:
    """Stirling's number of the second kind."""
    row = [1]
    for _ in range(clusters):
        pairs = zip([*row[1:], 0], row, strict=True)
        row = [0, *(k * here + before for k, (here, before) in enumerate(pairs, start=1))]
    return row[regions] if regions < len(row) else 0
