"""One step of the boundaries: Alg. 2, steps 6 to 10, on the bands where regions compete."""

import math

import numpy as np

from ..arrays import Floats, Floats32, Ints, Labels
from ..labels import boundary_length
from .region_costs import Region

#: What a pixel's own region is ahead of the others: ties stay as they are.
AHEAD = np.float32(1e-6)
#: Label of the frame around a picture, across which there is no boundary.
FRAME = -(2**40)
#: Most passes over the changed pixels when they settle.
SWEEPS = 10


def advance(
    labels: Labels, regions: dict[int, Region], beta: float, move: float, gain: float, edges: Floats | None = None
) -> Labels:
    """Update the indicators φ_i near the boundaries and read the regions off them (step 3).

    A boundary with the median difference of costs moves by about `move` pixels, none by more; `gain` makes Δτ longer
    than that. `edges` (2, H, W) is the derivative of the energy in the conductance of the edges to the right, and down.
    """
    costs = {
        i: region.cost if edges is None else region.cost + _shape_term(labels, edges, i, region.band)
        for i, region in regions.items()
    }
    differences = _differences(labels.size, regions, costs)
    nonzero = [np.abs(each[each != 0]) for each in differences.values()]
    if not any(len(each) for each in nonzero):
        return labels
    # Δτ is chosen for stability.
    scale = (float(np.median(np.concatenate(nonzero))) + 1e-12) / gain
    flat = labels.ravel()
    best = np.full(labels.size, 1 + AHEAD, np.float32)  # away from its boundary a region has its pixels for certain
    for i, region in regions.items():
        best[region.band[flat[region.band] == i]] = 0
    winner = flat.copy()
    for i, region in regions.items():
        speed = -differences[i] / scale + (beta / scale) * region.curvature  # steps 8 and 9
        phi = (region.phi + move * np.tanh(2.0 * speed) * region.slope).astype(np.float32)
        np.clip(phi, 0.0, 1.0, out=phi)  # step 10
        phi[flat[region.band] == i] += AHEAD
        ahead = phi > best[region.band]
        won = region.band[ahead]
        best[won], winner[won] = phi[ahead], i
    return winner.reshape(labels.shape)


def _differences(pixels: int, regions: dict[int, Region], costs: dict[int, Floats32]) -> dict[int, Floats32]:
    """G_i − G_j with the best other region j, on D(R_i) ∩ D(R_j) (step 6), 0 elsewhere; for each region in its band."""
    lowest, second = (np.full(pixels, np.inf, np.float32) for _ in range(2))
    for i, region in regions.items():
        cost, low = costs[i], lowest[region.band]
        second[region.band] = np.minimum(second[region.band], np.maximum(low, cost))
        lowest[region.band] = np.minimum(low, cost)
    found = {}
    for i, region in regions.items():
        cost, low, next_low = costs[i], lowest[region.band], second[region.band]
        rival = np.where(cost <= low, next_low, low)
        found[i] = np.where(np.isfinite(rival), cost - rival, np.float32(0))
    return found


def _shape_term(labels: Labels, edge_gradient: Floats, number: int, pixels: Ints) -> Floats32:
    """First-order change of the energy through the descriptors when pixels' edges open towards region i.

    A pixel that joins region i opens its edges to neighbours in i; one that leaves closes them. So region i is
    charged with the summed derivative of the edges towards it.
    """
    rows, columns = np.unravel_index(pixels, labels.shape)
    term = np.zeros(len(pixels), np.float32)
    for axis, (down, right) in ((0, (0, 1)), (1, (1, 0))):
        for sign in (1, -1):
            y, x = rows + sign * down, columns + sign * right
            there = (y >= 0) & (x >= 0) & (y < labels.shape[0]) & (x < labels.shape[1])
            there[there] = labels[y[there], x[there]] == number
            # The edge belongs to the pixel on its left, or above it.
            edge = (rows, columns) if sign == 1 else (y, x)
            term[there] += edge_gradient[axis, edge[0][there], edge[1][there]]
    return term


def settle(labels: Labels, proposal: Labels, regions: dict[int, Region], beta: float) -> Labels:
    """Take back the changes of a proposal that raise the energy at their own pixel.

    The indicators' update weighs costs pixel by pixel and the length by the curvature of a smooth boundary: where costs
    are noisy, or β is large, pixels change that make the boundary ragged. Here each changed pixel has the old or the
    new label, whichever gives less energy with its neighbours as they are: iterated conditional modes (J. Besag, "On
    the statistical analysis of dirty pictures", J. R. Stat. Soc. B 48, 1986), on four interleaved grids of pixels that
    are no neighbours. It begins from the proposal and from the old labels, and the lower outcome is returned; costs are
    those of the old regions.
    """
    changed = np.flatnonzero(labels != proposal)
    old, new = labels.ravel()[changed], proposal.ravel()[changed]
    price = _cost_at(changed, new, regions) - _cost_at(changed, old, regions)
    found = [_relax(start, labels.shape, changed, old, new, price, beta) for start in (proposal, labels)]
    flat = [each.ravel()[changed] == new for each in found]
    energies = [
        float(price[taken].sum(dtype=np.float64)) + beta * boundary_length(each)
        for each, taken in zip(found, flat, strict=True)
    ]
    return found[int(np.argmin(energies))]


def _cost_at(pixels: Ints, numbers: Labels, regions: dict[int, Region]) -> Floats32:
    """G_i of pixels, which ascend and lie in the bands, each in the region with its number."""
    cost = np.zeros(len(pixels), np.float32)
    for i in np.unique(numbers).tolist():
        mine = numbers == i
        cost[mine] = regions[i].cost[np.searchsorted(regions[i].band, pixels[mine])]
    return cost


def _relax(
    start: Labels, shape: tuple[int, ...], pixels: Ints, old: Labels, new: Labels, price: Floats32, beta: float
) -> Labels:
    frame = np.pad(start, 1, constant_values=FRAME)
    now, pitch = frame.ravel(), frame.shape[1]
    rows, columns = np.divmod(pixels, shape[1])
    places = (rows + 1) * pitch + columns + 1
    grids = [np.flatnonzero((rows % 2 == y) & (columns % 2 == x)) for y in (0, 1) for x in (0, 1)]
    for _ in range(SWEEPS):
        before = now[places]
        for grid in grids:
            here, a, b = places[grid], old[grid], new[grid]
            longer = np.zeros(len(grid))
            for weight, offsets in (1.0, (1, pitch)), (math.sqrt(0.5), (pitch + 1, pitch - 1)):
                for offset in (*offsets, *(-each for each in offsets)):
                    other = now[here + offset]
                    longer += weight * ((other != b).astype(float) - (other != a)) * (other != FRAME)
            now[here] = np.where(price[grid] + beta * math.pi / 8 * longer < 0, b, a)
        if np.array_equal(before, now[places]):
            break
    return np.ascontiguousarray(frame[1:-1, 1:-1])
