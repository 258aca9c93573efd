"""Boundaries along what is seen: near a boundary, pixels go with those around them that look like them.

Descriptors tell what a neighbourhood is like; they cannot tell to the pixel where it ends. Colours can, where they
change there. So at last both decide: the mean field of a CRF [1]_ whose unary terms are the costs G_i of Alg. 2, and
whose pairs are the pixels of a window, weighted by how near and how alike they are. It is computed as it is defined,
but only at pixels that regions contest; all others are sure of theirs.

References
----------
.. [1] P. Krähenbühl and V. Koltun, "Efficient inference in fully connected CRFs with Gaussian edge potentials",
   NIPS 2011.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise, product
from math import exp
from typing import NamedTuple

import numpy as np
from numba import njit

from ..arrays import Floats32, Ints, Labels
from ..parallel import in_threads, thread_count
from .region_costs import Region

#: The window: every third pixel up to so many away, weighted by a Gaussian of this deviation.
WINDOW, STEP, NEAR = 18, 3, 12.0
#: Deviation, in each channel with values in [0, 1], of pixels that look alike.
ALIKE = 10 / 255
#: Costs that differ by this much are e times as likely, as in the training of descriptors (`loss.assignment_loss`).
TEMPERATURE = 0.2
ROUNDS = 5


class Claim(NamedTuple):
    """A region's claim on the pixels that it contests.

    Attributes
    ----------
    rows : ndarray, (n,)
        Which of the contested pixels these are.
    cost : ndarray, (n,)
        The region's costs, over `TEMPERATURE`, above the least that any region has there.
    """

    rows: Ints
    cost: Floats32


def follow(
    labels: Labels,
    regions: Mapping[int, Region],
    seen: Floats32,
    weight: float,
    fixed: Labels | None = None,
) -> Labels:
    """Decide about the pixels within reach of several regions by their costs and by what they look like.

    Parameters
    ----------
    labels : ndarray, (H, W)
    regions : mapping
        Number → region, whose `cost` is compared where the bands of several overlap. A region's own pixels are in its
        band wherever another's reaches.
    seen : ndarray, (C, H, W)
        Values in [0, 1].
    weight : float
        What all of the pixels around a pixel count for, in units of `TEMPERATURE` of the costs.
    fixed : ndarray, (H, W), optional
        Marked pixels, >= 0, keep their label.

    Returns
    -------
    ndarray, (H, W)
    """
    contested, claims = _claims(labels, regions, fixed)
    if not claims:
        return labels
    shape = tuple(side + 2 * WINDOW for side in labels.shape)
    rows, columns = np.divmod(contested, labels.shape[1])
    places = (rows + WINDOW) * shape[1] + columns + WINDOW  # in the picture with a border of the window's size
    offsets = _steps() @ [shape[1], 1]
    weights = _weights(seen, places, offsets)
    known = np.pad(labels, WINDOW, constant_values=-1).ravel()
    shares = {number: (known[places[claim.rows]] == number).astype(np.float32) for number, claim in claims.items()}
    for _ in range(ROUNDS):
        total = np.full(len(places), np.finfo(np.float32).tiny)
        for number, claim in claims.items():
            here = places[claim.rows]
            plane = (known == number).astype(np.float32)
            plane[here] = shares[number]
            votes = np.empty(len(here), np.float32)
            in_threads(
                partial(_vote, weights, claim.rows[part], here[part], offsets, plane, votes[part])
                for part in _parts(len(here))
            )
            shares[number] = np.exp(weight * (votes - 1) - claim.cost)
            total[claim.rows] += shares[number]
        shares = {number: shares[number] / total[claim.rows] for number, claim in claims.items()}
    best = np.zeros(len(places), np.float32)
    for number, claim in claims.items():
        wins = claim.rows[shares[number] > best[claim.rows]]
        known[places[wins]] = number
        best[claim.rows] = np.maximum(best[claim.rows], shares[number])
    inner = slice(WINDOW, -WINDOW)
    return known.reshape(shape)[inner, inner]


def _claims(labels: Labels, regions: Mapping[int, Region], fixed: Labels | None) -> tuple[Ints, dict[int, Claim]]:
    """Return the flat numbers of all pixels that at least two regions reach, and the regions' claims on them."""
    count = np.zeros(labels.size, np.int64)
    least = np.full(labels.size, np.inf, np.float32)
    for region in regions.values():
        count[region.band] += 1
        least[region.band] = np.minimum(least[region.band], region.cost)
    free = count > 1
    if fixed is not None:
        free &= fixed.ravel() < 0
    row = np.cumsum(free) - 1
    claims = {}
    for number, region in regions.items():
        mine = free[region.band]
        band = region.band[mine]
        if len(band):
            cost = (region.cost[mine] - least[band]) / np.float32(TEMPERATURE)
            claims[number] = Claim(row[band], cost)
    return free.nonzero()[0], claims


def _weights(seen: Floats32, places: Ints, offsets: Ints) -> Floats32:
    """Weigh the pixels around each place, (places, offsets); those beyond the picture count for nothing."""
    values = np.moveaxis(seen / np.float32(np.sqrt(2) * ALIKE), 0, 2)
    padded = np.pad(values, ((WINDOW, WINDOW), (WINDOW, WINDOW), (0, 0)), constant_values=np.inf)
    pixels = padded.reshape(-1, len(seen))
    near = np.exp(-(_steps() ** 2).sum(axis=1) / (2 * NEAR**2)).astype(np.float32)
    weights = np.empty((len(places), len(offsets)), np.float32)
    in_threads(partial(_weigh, pixels, places[part], offsets, near, weights[part]) for part in _parts(len(places)))
    return weights


def _parts(count: int) -> list[slice]:
    """Share so many pixels among the threads."""
    ends = np.linspace(0, count, thread_count() + 1).astype(int).tolist()
    return [slice(*each) for each in pairwise(ends)]


@njit(nogil=True, cache=True)
def _weigh(pixels: Floats32, places: Ints, offsets: Ints, near: Floats32, weights: Floats32) -> None:
    """Fill `weights` (places, offsets) with what the pixels around each place weigh, 1 in all."""
    for n in range(len(places)):
        here, total = pixels[places[n]], np.float32(0)
        for k in range(len(offsets)):
            there, unlike = pixels[places[n] + offsets[k]], np.float32(0)
            for channel in range(len(here)):
                unlike += (there[channel] - here[channel]) ** 2
            weights[n, k] = near[k] * exp(-unlike)
            total += weights[n, k]
        if total > 0:
            weights[n] /= total


@njit(nogil=True, cache=True)
def _vote(weights: Floats32, rows: Ints, places: Ints, offsets: Ints, plane: Floats32, votes: Floats32) -> None:
    """Fill `votes` with the weighted mean of `plane` around places, whose weights stand in these rows."""
    for n in range(len(places)):
        total = np.float32(0)
        for k in range(len(offsets)):
            total += weights[rows[n], k] * plane[places[n] + offsets[k]]
        votes[n] = total


def _steps() -> Ints:
    """The window's pixels, seen from its centre, which is not one of them: (n, 2) of rows and columns."""
    side = range(-WINDOW, WINDOW + 1, STEP)
    return np.array([step for step in product(side, side) if step != (0, 0)])
