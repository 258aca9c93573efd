"""The multigrid hierarchy of an edge graph.

On every level, nodes of one 2×2 block are merged only where edges inside the block connect them: two regions never
share a coarse node. The last level has one node for each component.

A level's operator is ``V + αL``: V counts a node's pixels, and conductances between nodes are summed and halved, as
finite volumes on a grid of twice the spacing have it.
"""

from dataclasses import dataclass

import numpy as np

from ...arrays import Array
from ...parallel import compiled
from .grid_kernels import join, number_roots


@dataclass(frozen=True)
class Level:
    """A weighted graph in compressed rows, and where its nodes go on the next level."""

    start: Array  # (n+1,) int32: first edge of each node
    target: Array  # (m,) int32: the edge's other end
    weight: Array  # (m,) conductance
    degree: Array  # (n,) sum of a node's conductances
    volume: Array  # (n,) pixels in the node
    parent: Array  # (n,) int32: node of the next level; empty on the last


@compiled()
def _pixel_graph(cx: Array, cy: Array) -> tuple[Array, Array, Array]:
    height, width = cx.shape[0] - 2, cx.shape[1] - 2
    start = np.zeros(height * width + 1, np.int32)
    target = np.empty(4 * height * width, np.int32)
    weight = np.empty(4 * height * width, cx.dtype)
    m = 0
    for y in range(height):
        for x in range(width):
            i = y * width + x
            for c, j in (
                (cy[y + 1, x + 1], i - width),
                (cx[y + 1, x + 1], i - 1),
                (cx[y + 1, x + 2], i + 1),
                (cy[y + 2, x + 1], i + width),
            ):
                if c > 0:
                    target[m], weight[m] = j, c
                    m += 1
            start[i + 1] = m
    return start, target[:m].copy(), weight[:m].copy()


@compiled()
def _aggregate(start: Array, target: Array, row: Array, column: Array) -> tuple[Array, int, Array, Array]:
    """Merge nodes that an edge joins inside a 2×2 block; return parents, their count and block positions."""
    n = row.size
    tree = np.arange(n)
    for i in range(n):
        for e in range(start[i], start[i + 1]):
            j = target[e]
            if j > i and row[i] >> 1 == row[j] >> 1 and column[i] >> 1 == column[j] >> 1:
                join(tree, i, j)
    parent, count = number_roots(tree)
    coarse_row, coarse_column = np.empty(count, np.int32), np.empty(count, np.int32)
    for i in range(n):
        coarse_row[parent[i]], coarse_column[parent[i]] = row[i] >> 1, column[i] >> 1
    return parent, count, coarse_row, coarse_column


@compiled()
def _coarse_graph(
    start: Array, target: Array, weight: Array, volume: Array, parent: Array, count: int
) -> tuple[Array, Array, Array, Array]:
    """Sum volumes and, halved, the conductances between aggregates."""
    n = parent.size
    first = np.zeros(count + 1, np.int32)  # members of each aggregate, by counting sort
    coarse_volume = np.zeros(count, volume.dtype)
    for i in range(n):
        first[parent[i] + 1] += 1
        coarse_volume[parent[i]] += volume[i]
    first = np.cumsum(first).astype(np.int32)
    fill, member = first[:-1].copy(), np.empty(n, np.int32)
    for i in range(n):
        member[fill[parent[i]]] = i
        fill[parent[i]] += 1
    coarse_start = np.zeros(count + 1, np.int32)
    coarse_target, coarse_weight = np.empty(target.size, np.int32), np.empty(target.size, weight.dtype)
    place = np.full(count, -1, np.int32)  # where in the row under construction a target stands
    m = 0
    for a in range(count):
        begin = m
        for k in range(first[a], first[a + 1]):
            for e in range(start[member[k]], start[member[k] + 1]):
                b = parent[target[e]]
                if b == a:
                    continue
                if place[b] < begin:
                    place[b], coarse_target[m], coarse_weight[m] = m, b, 0
                    m += 1
                coarse_weight[place[b]] += weight[e] / 2
        coarse_start[a + 1] = m
    return coarse_start, coarse_target[:m].copy(), coarse_weight[:m].copy(), coarse_volume


@compiled()
def _degrees(start: Array, weight: Array) -> Array:
    degree = np.zeros(start.size - 1, weight.dtype)
    for i in range(degree.size):
        for e in range(start[i], start[i + 1]):
            degree[i] += weight[e]
    return degree


@dataclass(frozen=True)
class Hierarchy:
    """The levels above the pixel grid, which itself is worked on as a grid."""

    parent: Array  # (H·W,) int32: the node of the first level a pixel belongs to
    levels: list[Level]


def build_hierarchy(cx: Array, cy: Array) -> Hierarchy:
    """Coarsen the pixel graph until no edge is left."""
    height, width = cx.shape[0] - 2, cx.shape[1] - 2
    start, target, weight = _pixel_graph(cx, cy)
    volume = np.ones(height * width, cx.dtype)
    row, column = (grid.ravel() for grid in np.indices((height, width), np.int32))
    pixel_parent, count, row, column = _aggregate(start, target, row, column)
    start, target, weight, volume = _coarse_graph(start, target, weight, volume, pixel_parent, count)
    levels = []
    while target.size:
        parent, count, row, column = _aggregate(start, target, row, column)
        levels.append(Level(start, target, weight, _degrees(start, weight), volume, parent))
        start, target, weight, volume = _coarse_graph(start, target, weight, volume, parent, count)
    nowhere = np.empty(0, np.int32)
    levels.append(Level(start, target, weight, _degrees(start, weight), volume, nowhere))
    return Hierarchy(pixel_parent, levels)
