"""From marks to regions: strokes claim cells, and a random walk with these claims as its prior makes regions of them.

The result is a pure function of the marked pixels: the order of strokes does not matter, nor what was undone.

1. A `Scene` is what is known of a picture before it is marked, on a grid of at most `CELLS` cells along a side:
   descriptors of both networks, colours, normalised cuts into 2 to 7 parts and their spectral embedding.
2. Each stroke is a prototype. What speaks for its claim on a cell is `EVIDENCE`: how alike they are, if the unaided
   segmentation puts them into one region, how far the cell is, and what rival strokes have to say. The claim is their
   weighted sum, the weights learnt from simulated strokes: where a region has several, they reach less far. A region's
   claim is the largest of its strokes', and a little more where several agree.
3. The random walk with priors [1]_ is one screened Poisson equation a region, ``(Λ + L_w) u_k = Λ p_k``, solved by
   `smooth` with a screening Λ that is small where nothing is marked. Conductances w are small where descriptors change.
4. The same walk on pixels, with conductances from colours and u as the prior, places the boundaries.

Where all strokes agree with the unaided segmentation, that is the answer.

References
----------
.. [1] L. Grady, "Multilabel random walker image segmentation using prior models", CVPR 2005.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.ndimage import distance_transform_edt, find_objects, label, uniform_filter
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from torch.nn.functional import adaptive_avg_pool2d, interpolate

from ..arrays import Array, Floats, Floats32, Ints, Labels, Mask
from ..clustering import cut_by, spectrum
from ..poisson import Edges, smooth
from . import starts

#: Cells along a side, at most. A stroke of `LONGEST` cells along a side or more is cut into tiles.
CELLS, LONGEST, TILE = 128, 12, 8
#: Numbers of parts of the normalised cuts, and dimension of the spectral embedding.
CUTS, EMBEDDING = (2, 3, 4, 5, 7), 7
#: Strokes that the weights know about, at most.
MOST = 12
#: Screening of marked cells and pixels: they keep their region.
MARKED = 1e3
#: On pixels: screening, weight of changes of colour, least conductance.
PIXEL_SCREENING, PIXEL_COLOUR, PIXEL_FLOOR = 0.04, 1.07, 1e-3
#: What speaks for the claim of a stroke on a cell, with weights learnt from simulated strokes: those of a region's only
#: stroke; what the weights of others change by; and that for each unit of the other two of `_company`.
EVIDENCE = {
    "distance in the first network's descriptors": (-3.700, -0.014, 0.030, -0.169),
    "distance in the second network's": (-0.776, -0.153, -0.193, -0.125),
    "distance in colour": (-0.692, 0.030, 0.058, -0.068),
    "distance in the spectral embedding": (-0.162, 0.042, 0.063, -0.064),
    "same unaided region": (2.750, 0.089, -0.170, -0.003),
    "same part of the cuts": (1.664, -0.014, -0.255, 0.123),
    "logarithm of the distance in the picture": (0.630, 0.365, 0.090, 0.361),
    "logarithm of the geodesic distance": (-0.819, 0.009, -0.102, -0.056),
    "logarithm of the stroke's depth in its unaided region": (0.072, -0.047, 0.049, 0.302),
    "depth over that of the deepest stroke there": (1.323, 0.218, 0.238, 0.335),
    "distance of the nearest rival stroke in descriptors": (2.017, -0.078, -0.128, 0.062),
    "a rival stroke in the same unaided region": (-0.371, -0.023, -0.277, -0.125),
    "a rival stroke in the cell's unaided region": (0.639, -0.091, -0.267, -0.254),
    "geodesic distance beyond the nearest rival's": (-0.260, -0.083, 0.001, -0.319),
}
#: Learnt with them: how near claims of a region's strokes are where they count together.
TOGETHER = 0.598
#: Learnt too: weights of changes of both descriptors, of colour and of the unaided regions in the conductances, the
#: least conductance, the screening, and the share of the prior that all regions have alike.
BY_FIRST, BY_SECOND, BY_COLOUR, BY_UNAIDED, FLOOR, SCREENING, ALIKE = 1.082, 0.406, 0.0366, 0.789, 5e-4, 4.34e-3, 2.3e-3


@dataclass(frozen=True)
class Unaided:
    """The regions that were found without marks, on a scene's cells and pixels."""

    labels: Labels  # (H, W) on pixels
    share: Floats32  # (K, h, w), of each cell
    depth: Floats32  # (h, w), cells to the nearest one of another region
    steps: tuple[Floats32, Floats32]  # how much `share` changes to the right, and down
    geodesic: coo_array  # costs of steps between cells of the coarser graph


class Prototypes(NamedTuple):
    """Strokes on the cells."""

    region: Ints  # (P,)
    weight: Floats32  # (P, n), what the cells weigh, 1 in all
    marked: Mask  # (P, n)


class Scene:
    """What is known of a picture before it is marked.

    Parameters
    ----------
    whole : ndarray, (D, H, W)
        The first network's descriptors of the whole picture.
    fine : ndarray, (D', H, W), optional
        Those of the second network.
    values : ndarray, (C, H, W)
        Colours in 0..1.
    """

    def __init__(self, whole: Floats32, fine: Floats32 | None, values: Floats32) -> None:
        self.size: tuple[int, int] = (values.shape[1], values.shape[2])
        scale = min(1.0, CELLS / max(self.size))
        self.grid = (max(1, round(scale * self.size[0])), max(1, round(scale * self.size[1])))
        colours = _opponent(values)
        self.whole, self.colour = pooled(whole, self.grid), pooled(colours, self.grid)
        self.fine = np.zeros((1, *self.grid), np.float32) if fine is None else pooled(fine, self.grid)
        self.cuts, self.spectrum = _spectral(self.whole)
        self.steps = [relative_steps(each) for each in (self.whole, self.fine, self.colour)]
        self.contrast = _contrast(self.steps[0])
        self.pixel_steps = relative_steps(colours)
        rows, columns = np.indices(self.grid) / max(self.grid)
        self.place = np.stack([rows.ravel(), columns.ravel()]).astype(np.float32)

    def unaided(self, labels: Labels, count: int) -> Unaided:
        """Prepare the regions that were found without marks, (H, W)."""
        share = pooled(one_hot(labels, count), self.grid)
        top = share.argmax(axis=0)
        depth = np.full(self.grid, 64.0, np.float32)
        if top.min() != top.max():
            depth = np.sum([distance_transform_edt(top == i) for i in np.unique(top)], axis=0).astype(np.float32)
        return Unaided(labels, share, depth, _changes(share), self._graph(share))

    def probabilities(self, marks: Labels, count: int, unaided: Unaided) -> tuple[Floats32, bool]:
        """Return how likely each of `count` regions is, (K, H, W), for marks (H, W), −1 where nothing is marked.

        Also return whether all strokes agree with the unaided regions, which are the likeliest then.
        """
        hot = one_hot(marks, count)
        shares = pooled(hot, self.grid)
        found = self.prototypes(_with_unmarked(shares, unaided, self.cuts))
        claims = self.claims(found, unaided)
        best = regional(found.region, claims, count)
        prior = np.exp(best - best.max(axis=0))
        prior = (1 - ALIKE) * prior / prior.sum(axis=0) + ALIKE / count
        u = self._on_cells(prior.reshape(count, *self.grid), shares, unaided)
        likely = self._on_pixels(u, hot, marks >= 0)
        agreed = _agreed(found, unaided, count)
        if agreed is None:
            return likely, False
        same = np.where(marks >= 0, hot, one_hot(agreed[unaided.labels], count))
        return ((same + likely) / 2).astype(np.float32), True

    def prototypes(self, shares: Floats32) -> Prototypes:
        """Take connected strokes apart; `shares` (K, h, w) say how much of a cell is marked."""
        masks, regions = [], []
        for region, share in enumerate(shares):
            for mask in _strokes(share > 0):
                masks.append((mask * np.maximum(share, 1e-3)).ravel())
                regions.append(region)
        weight = np.array(masks, np.float32)
        return Prototypes(np.array(regions), weight / weight.sum(axis=1, keepdims=True), weight > 0)

    def claims(self, found: Prototypes, unaided: Unaided) -> Floats32:
        """How much each prototype claims each cell, (P, n)."""
        table = np.array(list(EVIDENCE.values()), np.float32)
        weights = table[:, 0] + self.company(found) @ table[:, 1:].T
        claims: Floats32 = (self.evidence(found, unaided) @ weights[:, :, None])[:, :, 0]
        return claims

    def company(self, found: Prototypes) -> Floats32:
        """What distinguishes prototypes that are not their region's only one, (P, 3); 0 for those that are.

        One; how much the descriptors change there, as mixed descriptors beside a boundary do; the number of strokes.
        """
        several = (found.region[:, None] == found.region).sum(axis=1) > 1
        number = np.full(len(several), np.log(min(len(several), MOST) / 4))
        columns = np.stack([np.ones(len(several)), found.weight @ self.contrast - 1, number], axis=1)
        return np.asarray(several[:, None] * columns, np.float32)

    def evidence(self, found: Prototypes, unaided: Unaided) -> Floats32:
        """Return what speaks for each prototype at each cell, (P, n, F)."""
        region, weight, marked = found
        out: list[Floats32] = []
        between = np.zeros((len(region), len(region)), np.float32)
        for planes in (self.whole, self.fine, self.colour, self.spectrum):
            flat = planes.reshape(len(planes), -1)
            centres = weight @ flat.T
            out.append(_distances(centres, flat))
            if planes is self.whole:
                between = _distances(centres, centres.T)
        out[3] = np.minimum(out[3], 6.0)
        share = unaided.share.reshape(len(unaided.share), -1)
        home = weight @ share.T
        agree = np.asarray(home @ share, np.float32)
        out.append(agree)
        same_part = [
            (weight @ (cut[:, None] == np.arange(parts)).astype(np.float32)) @ (np.arange(parts)[:, None] == cut)
            for cut, parts in zip(self.cuts, CUTS, strict=True)
        ]
        out.append(np.mean(same_part, axis=0).astype(np.float32))
        out.append(np.log(_distances(weight @ self.place.T, self.place) + np.float32(0.02)))
        geodesic = np.log(self._geodesics(found, unaided) + np.float32(0.3))
        out.append(geodesic)
        depth = unaided.depth.ravel()
        own = np.where(marked, depth, 0).max(axis=1)
        at = home.argmax(axis=1)
        deepest = np.array([own[at == each].max() for each in at])
        shape = agree.shape
        out += [_wide(np.log(own + 1), shape), _wide(own / np.maximum(deepest, 1), shape)]
        rivals = region[:, None] != region
        out.append(_wide(np.minimum(np.where(rivals, between, 9.0).min(axis=1), 3.0), shape))
        out.append(_wide(np.where(rivals, home @ home.T, 0.0).max(axis=1), shape))
        contested, nearer = np.zeros(shape, np.float32), np.full(shape, 9.0, np.float32)
        for each in np.unique(region):
            mine, others = region == each, region != each
            if others.any():
                contested[mine], nearer[mine] = agree[others].max(axis=0), geodesic[others].min(axis=0)
        out += [contested, np.clip(geodesic - nearer, -4, 4)]
        return np.stack(out, axis=2).astype(np.float32)

    def _graph(self, share: Floats32) -> coo_array:
        """A graph on coarser cells: a step costs what descriptors and unaided regions change, and a little."""
        size = (max(1, self.grid[0] // 2), max(1, self.grid[1] // 2))
        parts = ((0.7, relative_steps(pooled(self.whole, size))), (0.25, relative_steps(pooled(self.fine, size))))
        changes = _changes(pooled(share, size))
        costs = [
            np.minimum(sum(weight * steps[axis] ** 2 for weight, steps in parts) + 0.5 * changes[axis], 8) + 0.05
            for axis in (0, 1)
        ]
        node = np.arange(size[0] * size[1]).reshape(size)
        here, there = (node[:, :-1], node[:-1]), (node[:, 1:], node[1:])
        ends = tuple(np.concatenate([each.ravel() for each in side]) for side in (here, there))
        return coo_array((np.concatenate([each.ravel() for each in costs]), ends), shape=(node.size, node.size))

    def _geodesics(self, found: Prototypes, unaided: Unaided) -> Floats32:
        """Least cost of a way from each prototype to each cell, (P, n)."""
        size = (max(1, self.grid[0] // 2), max(1, self.grid[1] // 2))
        graph, away = unaided.geodesic.tocsr(), []
        for mask in found.marked:
            near = pooled(mask.reshape(1, *self.grid).astype(np.float32), size)[0] > 0
            cost = dijkstra(graph, directed=False, indices=np.flatnonzero(near), min_only=True)
            away.append(cost.reshape(size))
        return spread(np.array(away, np.float32), self.grid).reshape(len(away), -1)

    def conductances(self, unaided: Unaided) -> tuple[Floats, Floats]:
        """Conductances between cells, to the right and down."""
        across, down = (
            np.exp(
                -BY_FIRST * self.steps[0][axis] ** 2
                - BY_SECOND * self.steps[1][axis] ** 2
                - BY_COLOUR * self.steps[2][axis] ** 2
                - BY_UNAIDED * unaided.steps[axis]
            )
            + FLOOR
            for axis in (0, 1)
        )
        return across, down

    @property
    def pixel_conductances(self) -> tuple[Floats, Floats]:
        """Conductances between pixels, to the right and down."""
        across, down = (np.exp(-PIXEL_COLOUR * steps) + PIXEL_FLOOR for steps in self.pixel_steps)
        return across, down

    def _on_cells(self, prior: Floats32, shares: Floats32, unaided: Unaided) -> Floats32:
        return walk(*held(prior, shares), self.conductances(unaided), 1e-4)

    def _on_pixels(self, u: Floats32, hot: Floats32, marked: Mask) -> Floats32:
        target = np.where(marked, hot, spread(u, self.size))
        return walk(target, np.where(marked, MARKED, PIXEL_SCREENING), self.pixel_conductances, 1e-3)


def regional(region: Ints, claims: Floats32, count: int) -> Floats32:
    """Claims of `count` regions, (K, n): their strokes' largest, more where several agree; −∞ where there is none."""
    best = np.full((count, claims.shape[1]), -np.inf, np.float32)
    for each, claim in zip(region, claims, strict=True):
        best[each] = np.logaddexp(best[each], claim / np.float32(TOGETHER))
    return best * np.float32(TOGETHER)


def held(prior: Floats32, shares: Floats32) -> tuple[Floats, Floats]:
    """What the walk on cells aims at, (K, h, w), and how strongly: marks where there are some."""
    most = shares.max(axis=0)
    winner = (shares == most) & (shares > 0)
    target = np.where(most > 0, winner / np.maximum(winner.sum(axis=0), 1), prior)
    return target, np.where(most >= 0.5, MARKED, np.where(most > 0, most, SCREENING))


def pooled(planes: Array, size: tuple[int, int]) -> Floats32:
    """Average (C, h, w) to a smaller size."""
    means: Floats32 = adaptive_avg_pool2d(torch.from_numpy(np.ascontiguousarray(planes, np.float32)), size).numpy()
    return means


def spread(planes: Floats32, size: tuple[int, int]) -> Floats32:
    """Bring (C, h, w) to a larger size, linearly between the cells."""
    if planes.shape[1:] == size:
        return planes
    wide: Floats32 = interpolate(torch.from_numpy(planes)[None], size, mode="bilinear", antialias=True)[0].numpy()
    return wide


def relative_steps(planes: Array) -> tuple[Floats, Floats]:
    """Return how far cells of (C, h, w) are from their right and lower neighbours, in units of the mean."""
    across, down = (np.sqrt(np.square(np.diff(planes, axis=axis)).sum(axis=0)) for axis in (2, 1))
    mean = (across.sum() + down.sum()) / max(1, across.size + down.size) + 1e-12
    return across / mean, down / mean


def _contrast(steps: tuple[Floats, Floats]) -> Floats32:
    """The mean step around each cell, (n,), at most 4 times that of the picture."""
    across, down = steps
    total = np.zeros((across.shape[0], down.shape[1]))
    total[:, :-1] += across
    total[:, 1:] += across
    total[:-1] += down
    total[1:] += down
    return np.asarray(np.minimum(uniform_filter(total / 4, 5), 4).ravel(), np.float32)


def walk(prior: Array, screening: Array, conductances: tuple[Floats, Floats], tol: float) -> Floats32:
    """Solve ``(Λ + L_w) u_k = Λ p_k`` for a prior (K, h, w); the u_k sum to 1, so that the first needs no solve."""
    across, down = (torch.from_numpy(each.astype(np.float64))[None] for each in conductances)
    edges = Edges(across, down, torch.ones(1, *prior.shape[1:], dtype=torch.bool))
    u = np.zeros(prior.shape, np.float32)
    if len(prior) > 1:
        data = torch.from_numpy(np.ascontiguousarray(prior[1:], np.float64))[None]
        u[1:] = smooth(data, edges, 1.0, tol, screening=torch.from_numpy(screening.astype(np.float64))[None])[0].numpy()
    u[0] = 1 - u[1:].sum(axis=0)
    return u


def _spectral(whole: Floats32) -> tuple[Ints, Floats32]:
    """Normalised cuts of descriptors (D, h, w), (cuts, n), and the spectral embedding of the cells, (d, h, w).

    The embedding has the eigenvectors of the random walk on the graph of block means [1]_, carried to cells by a step.

    References
    ----------
    .. [1] R. Coifman and S. Lafon, "Diffusion maps", Applied and Computational Harmonic Analysis 21, 2006.
    """
    points = starts.block_means(whole, EMBEDDING + 1, starts.GRID)
    sigma2 = starts.SIGMA2 * float(np.square(points).sum(axis=1).mean()) or 1.0
    _, vectors = spectrum(points, EMBEDDING + 1, sigma2)
    rng = np.random.default_rng(0)
    cuts = [starts.spread(whole, points, cut_by(vectors[:, :parts], rng)).ravel() for parts in CUTS]
    walk_vectors = vectors[:, 1:] / vectors[:, :1]  # the first is the square root of the degrees
    cells = whole.reshape(len(whole), -1).T.astype(np.float64)
    planes = []
    for part in np.array_split(cells, max(1, len(cells) // 4096)):
        affinity = np.exp(-(_distances(part, points.T) ** 2) / sigma2).astype(np.float64)
        planes.append(affinity @ walk_vectors / np.maximum(affinity.sum(axis=1, keepdims=True), 1e-300))
    embedding = np.concatenate(planes).T.reshape(-1, *whole.shape[1:]).astype(np.float32)
    return np.stack(cuts), embedding


def _agreed(found: Prototypes, unaided: Unaided, count: int) -> Ints | None:
    """Return the region of each unaided one where all strokes agree with them, one for one."""
    home = (found.weight @ unaided.share.reshape(len(unaided.share), -1).T).argmax(axis=1)
    pairs = set(zip(home.tolist(), found.region.tolist(), strict=True))
    if len(pairs) != count or len({a for a, _ in pairs}) != count or len({b for _, b in pairs}) != count:
        return None
    return np.array([region for _, region in sorted(pairs)])


def _with_unmarked(shares: Floats32, unaided: Unaided, cuts: Ints) -> Floats32:
    """Give each region without a mark a small place, deep in a part of the picture that holds none.

    Parts are the unaided regions, then those of finer cuts; the deepest come first.
    """
    waiting = [region for region, share in enumerate(shares) if not share.any()]
    if not waiting:
        return shares
    shares, taken = shares.copy(), shares.max(axis=0) > 0
    grid = taken.shape
    for parts in (unaided.share.argmax(axis=0), *(cut.reshape(grid) for cut in cuts)):
        inner = {int(i): distance_transform_edt(np.pad(parts == i, 1))[1:-1, 1:-1] for i in np.unique(parts)}
        for i in sorted(inner, key=lambda i: (-inner[i].max(), i)):
            if waiting and not taken[parts == i].any():
                y, x = np.unravel_index(int(inner[i].argmax()), grid)
                place = np.zeros(grid, bool)
                place[max(0, y - 2) : y + 3, max(0, x - 2) : x + 3] = True
                shares[waiting.pop(0)][place & (parts == i)] = 1e-3  # a place to speak for, not a mark
                taken |= place & (parts == i)
    return shares


def _strokes(marked: Mask) -> list[Mask]:
    """Return connected strokes; a long one in pieces."""
    pieces, _ = label(marked, np.ones((3, 3)))
    found = []
    tile = np.arange(marked.shape[0])[:, None] // TILE * marked.shape[1] + np.arange(marked.shape[1]) // TILE
    for number, box in enumerate(find_objects(pieces), start=1):
        mask = pieces == number
        long = max(side.stop - side.start for side in box) > LONGEST
        found += [mask & (tile == each) for each in np.unique(tile[mask])] if long else [mask]
    return found


def _opponent(values: Floats32) -> Floats32:
    """Brightness and two opponent colours of (C, H, W); of other pictures, brightness and the channels less it."""
    bright = values.mean(axis=0)
    if len(values) == 3:
        red, green, blue = values
        return np.stack([bright, 1.5 * (red - green), 1.5 * ((red + green) / 2 - blue)])
    return np.stack([bright, *(plane - bright for plane in values[1:])])


def _distances(a: Array, b: Array) -> Floats32:
    """Distances of (P, D) from (D, n): (P, n)."""
    squares = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=0) - 2 * a @ b
    return np.asarray(np.sqrt(np.maximum(squares, 0)), np.float32)


def _changes(planes: Floats32) -> tuple[Floats32, Floats32]:
    """How much (K, h, w) changes to the right, (h, w−1), and down, (h−1, w)."""
    return np.abs(np.diff(planes, axis=2)).sum(axis=0), np.abs(np.diff(planes, axis=1)).sum(axis=0)


def one_hot(labels: Labels, count: int) -> Floats32:
    """Return a plane of 0 and 1 for each of `count` labels, (K, H, W)."""
    return np.asarray(labels == np.arange(count)[:, None, None], np.float32)


def _wide(column: Array, shape: tuple[int, ...]) -> Floats32:
    return np.broadcast_to(column[:, None], shape).astype(np.float32)
