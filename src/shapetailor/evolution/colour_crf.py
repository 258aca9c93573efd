"""A conditional random field that puts boundaries where the colours change.

Descriptors are smooth and cannot say to the pixel where a texture ends; colours often can. After the evolution, pixels
near a boundary are decided by the mean field of a CRF (P. Krähenbühl and V. Koltun, "Efficient inference in fully
connected CRFs with Gaussian edge potentials", NIPS 2011): its unary terms are the costs G_i of Alg. 2, its pairwise
terms prefer equal labels for pixels of a window that are close and of similar colour. The mean field is computed
exactly, but only at pixels in the bands of several regions.
"""

from collections.abc import Mapping
from functools import partial
from itertools import pairwise, product
from math import log
from typing import NamedTuple, Protocol

import numpy as np

from ..arrays import Floats32, Ints, Labels
from ..parallel import compiled, in_threads, thread_count

#: The window: every third pixel up to so many away, weighted by a Gaussian of this deviation.
WINDOW, STEP, NEAR = 18, 3, 12.0
#: Standard deviation, in each channel, of colours that count as similar.
ALIKE = 10 / 255
#: Temperature of the costs, as in training (`loss.assignment_loss`).
TEMPERATURE = 0.2
ROUNDS = 5
#: What a compiler may do to make sums of vectors: take terms in another order. Infinity stays infinity.
VECTORISED = {"reassoc", "contract"}
#: Of a float of 32 bits: what is added to its exponent, and the bits of its mantissa.
BIAS, MANTISSA = 127, 23


class Banded(Protocol):
    """A region's costs near its boundary, such as a `Region`."""

    @property
    def band(self) -> Ints:
        """Flat numbers of pixels."""

    @property
    def cost(self) -> Floats32:
        """G_i there."""


class Band(NamedTuple):
    """A region's costs at pixels near its boundary, and nothing else of it."""

    band: Ints
    cost: Floats32


class Unary(NamedTuple):
    """A region's unary terms at the contested pixels in its band."""

    rows: Ints  # numbers of these pixels among all contested ones
    cost: Floats32  # G_i / TEMPERATURE, less the least of any region there


class Field(NamedTuple):
    """The mean field: flat numbers of the contested pixels, and each region's share of those in its band."""

    contested: Ints
    rows: dict[int, Ints]  # region → which of the contested pixels
    shares: dict[int, Floats32]


def follow(
    labels: Labels, regions: Mapping[int, Banded], seen: Floats32, weight: float, fixed: Labels | None = None
) -> Labels:
    """Decide the pixels of `labels` (H, W) in the bands of several regions by the mean field.

    A region's own pixels are in its band wherever another's reaches. `seen` (C, H, W) are colours in [0, 1], `weight`
    is that of the pairwise terms, in units of `TEMPERATURE` of the costs. Pixels `fixed` >= 0 keep their label.
    """
    field = mean_field(labels, regions, seen, weight, fixed)
    if not field.rows:
        return labels
    found = labels.copy().ravel()
    best = np.zeros(len(field.contested), np.float32)
    for number, rows in field.rows.items():
        share = field.shares[number]
        found[field.contested[rows[share > best[rows]]]] = number
        best[rows] = np.maximum(best[rows], share)
    return found.reshape(labels.shape)


def mean_field(
    labels: Labels, regions: Mapping[int, Banded], seen: Floats32, weight: float, fixed: Labels | None = None
) -> Field:
    """Compute the mean field; parameters as for `follow`."""
    contested, unaries = _unaries(labels, regions, fixed)
    if not unaries:
        return Field(contested, {}, {})
    shape = tuple(side + 2 * WINDOW for side in labels.shape)
    rows, columns = np.divmod(contested, labels.shape[1])
    places = (rows + WINDOW) * shape[1] + columns + WINDOW  # in the picture with a border of the window's size
    offsets = window_steps() @ [shape[1], 1]
    weights = _weights(seen, places, offsets)
    known = np.pad(labels, WINDOW, constant_values=-1).ravel()
    shares = {number: (known[places[unary.rows]] == number).astype(np.float32) for number, unary in unaries.items()}
    for _ in range(ROUNDS):
        total = np.full(len(places), np.finfo(np.float32).tiny)
        for number, unary in unaries.items():
            here = places[unary.rows]
            plane = (known == number).astype(np.float32)
            plane[here] = shares[number]
            votes = np.empty(len(here), np.float32)
            in_threads(
                partial(_vote, weights, unary.rows[part], here[part], offsets, plane, votes[part])
                for part in _parts(len(here))
            )
            shares[number] = np.exp(weight * (votes - 1) - unary.cost)
            total[unary.rows] += shares[number]
        shares = {number: shares[number] / total[unary.rows] for number, unary in unaries.items()}
    return Field(contested, {number: unary.rows for number, unary in unaries.items()}, shares)


def _unaries(labels: Labels, regions: Mapping[int, Banded], fixed: Labels | None) -> tuple[Ints, dict[int, Unary]]:
    """Return the flat numbers of all pixels in at least two bands, and the regions' unary terms there."""
    count = np.zeros(labels.size, np.int64)
    least = np.full(labels.size, np.inf, np.float32)
    for region in regions.values():
        count[region.band] += 1
        least[region.band] = np.minimum(least[region.band], region.cost)
    free = count > 1
    if fixed is not None:
        free &= fixed.ravel() < 0
    row = np.cumsum(free) - 1
    unaries = {}
    for number, region in regions.items():
        mine = free[region.band]
        band = region.band[mine]
        if len(band):
            cost = (region.cost[mine] - least[band]) / np.float32(TEMPERATURE)
            unaries[number] = Unary(row[band], cost)
    return free.nonzero()[0], unaries


def _weights(seen: Floats32, places: Ints, offsets: Ints) -> Floats32:
    """Return the pairwise weights of the window around each place, (places, offsets); 0 beyond the picture."""
    values = seen / np.float32(np.sqrt(2) * ALIKE)
    padded = np.pad(values, ((0, 0), (WINDOW, WINDOW), (WINDOW, WINDOW)), constant_values=np.inf)
    planes = padded.reshape(len(seen), -1)
    near = np.exp(-(window_steps() ** 2).sum(axis=1) / (2 * NEAR**2)).astype(np.float32)
    weights = np.empty((len(places), len(offsets)), np.float32)
    in_threads(partial(_weigh, planes, places[part], offsets, near, weights[part]) for part in _parts(len(places)))
    return weights


def _parts(count: int) -> list[slice]:
    """Divide so many pixels among the threads."""
    ends = np.linspace(0, count, thread_count() + 1).astype(int).tolist()
    return [slice(*each) for each in pairwise(ends)]


@compiled(fastmath=VECTORISED)
def _weigh(planes: Floats32, places: Ints, offsets: Ints, near: Floats32, weights: Floats32) -> None:
    """Fill `weights` (places, offsets); they sum to 1 at each place.

    exp(−u) is 2^t: the whole part of t goes to the exponent of a float, the rest into 2^f = exp(f·ln 2) by its power
    series, within 2e-5 of the value. Loops without calls are vectorised.
    """
    count = len(offsets)
    unlike, bits = np.empty(count, np.float32), np.empty(count, np.int32)
    powers = bits.view(np.float32)
    for n in range(len(places)):
        place = places[n]
        unlike[:] = 0
        for channel in range(len(planes)):
            here = planes[channel, place]
            for k in range(count):
                step = planes[channel, place + offsets[k]] - here
                unlike[k] += step * step
        for k in range(count):
            exponent = max(np.float32(BIAS) - unlike[k] * np.float32(1 / log(2)), np.float32(0))
            whole = np.int32(exponent)
            bits[k] = whole << np.int32(MANTISSA)
            unlike[k] = exponent - np.float32(whole)
        total = np.float32(0)
        for k in range(count):
            rest = unlike[k] * np.float32(log(2))
            series = np.float32(1 / 24) + rest * (np.float32(1 / 120) + rest * np.float32(1 / 720))
            series = np.float32(1) + rest * (np.float32(0.5) + rest * (np.float32(1 / 6) + rest * series))
            weights[n, k] = near[k] * powers[k] * (np.float32(1) + rest * series)
            total += weights[n, k]
        if total > 0:
            weights[n] /= total


@compiled(fastmath=VECTORISED)
def _vote(weights: Floats32, rows: Ints, places: Ints, offsets: Ints, plane: Floats32, votes: Floats32) -> None:
    """Fill `votes` with the weighted mean of `plane` around places; `rows` are their rows of `weights`."""
    for n in range(len(places)):
        total = np.float32(0)
        for k in range(len(offsets)):
            total += weights[rows[n], k] * plane[places[n] + offsets[k]]
        votes[n] = total


def window_steps() -> Ints:
    """Offsets of the window's pixels from its centre, without the centre: (n, 2) of rows and columns."""
    side = range(-WINDOW, WINDOW + 1, STEP)
    return np.array([step for step in product(side, side) if step != (0, 0)])
