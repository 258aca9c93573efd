"""Joint evolution of regions and descriptors: Alg. 2 of the paper (`alg:multilabel_scheme_supp`).

Regions and the descriptors computed inside them are updated in turn until the regions stand still, which
lowers the energy `eq:mulregions`::

    E(R) = Σ_i Σ_{x ∈ R_i} ‖F_{R_i}(x) − a_i‖² + β · length of the boundaries

This module knows no files and no plots, and takes any ``descriptors(image, labels)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .regions import boundary_length, bounding_box, dilate, signed_distance

Labels = NDArray[np.int64]
Array = NDArray[np.float64]
#: image (1, C, H, W) and labels (1, H, W) → descriptors (1, D, H, W), zero where labels are negative
Descriptors = Callable[[Tensor, Tensor], Tensor]
#: iteration, labels, energy → True to stop
Callback = Callable[[int, Labels, float], bool | None]

#: How many times longer Δτ becomes before regions that stand still count as converged.
SHARPEST = 16.0


@dataclass(frozen=True)
class EvolutionConfig:
    """How regions move.

    Attributes
    ----------
    iterations : int
        At most so many.
    beta : float
        Weight of the boundary's length, in units of the median ‖F − a‖² of the start.
    reach : int
        Radius of the dilations D(R_i): how far beyond a region its descriptors are computed. In pixels, or in the
        descriptors' blocks of pixels (see `align` of `evolve`).
    move : float
        Largest displacement of a boundary in one iteration, in the same unit; halved when it overshoots.
    tailored : bool
        Update the descriptors as the regions move. False keeps those of the whole image, for comparison.
    gradient : {"paper", "exact"}
        The paper's gradient takes the descriptors as given; the exact one adds how they change when the
        boundary's edges open and close, and needs descriptors that take `Edges`.
    """

    iterations: int = 40
    beta: float = 0.1
    reach: int = 2
    move: float = 1.0
    tailored: bool = True
    gradient: Literal["paper", "exact"] = "paper"


@dataclass
class Evolution:
    """Where the regions came to rest, and how."""

    labels: Labels
    energy: list[float] = field(default_factory=list)
    converged: bool = False
    vanished: tuple[int, ...] = ()

    @property
    def iterations(self) -> int:
        """Updates that were accepted."""
        return max(0, len(self.energy) - 1)


@dataclass
class _Region:
    """One region's descriptors in its box, kept while the region does not change."""

    mask: NDArray[np.bool_]
    box: tuple[slice, slice]
    cost: NDArray[np.float32]  # G_i = ‖F_{R_i} − a_i‖² on D(R_i), infinite elsewhere in the box
    within: float  # Σ_{R_i} G_i


def evolve(
    image: Tensor,
    labels: Labels,
    descriptors: Descriptors,
    config: EvolutionConfig | None = None,
    *,
    fixed: Labels | None = None,
    align: int = 1,
    callback: Callback | None = None,
) -> Evolution:
    """Move regions and descriptors together from a start to a low of the energy.

    Parameters
    ----------
    image : Tensor, (1, C, H, W)
        The picture as `descriptors` want it.
    labels : ndarray, (H, W)
        Regions 0..K−1 to start from (step 1).
    descriptors : callable
        ``descriptors(image, labels)``. It is called on each region's box, which changes nothing for
        descriptors that never look outside a region; `align` = 0 calls it on whole images.
    config : EvolutionConfig
    fixed : ndarray, (H, W), optional
        Marked pixels, >= 0, keep their label.
    align : int
        Side of the blocks of pixels that descriptors work on; boxes start and end at multiples of it.
    callback : callable, optional
        ``callback(iteration, labels, energy)`` after each accepted iteration; True stops.

    Returns
    -------
    Evolution
        The energies of the trace go down: a step that would raise the energy is taken back and tried at
        half the displacement.
    """
    config = config or EvolutionConfig()
    if fixed is not None:
        labels = np.where(fixed >= 0, fixed, labels)
    count = int(labels.max()) + 1
    present = set(np.unique(labels).tolist())
    describe = _Describer(image, descriptors, config, align, labels.shape)
    regions = describe(labels, {})
    beta = config.beta * _median_cost(regions)
    result = Evolution(labels.copy(), [_energy(labels, regions, beta)])
    move, gain = config.move * max(1, align), 1.0
    stop = bool(callback and callback(0, result.labels, result.energy[0]))
    for iteration in range(1, config.iterations + 1):
        if stop:
            break
        extra = describe.shape_gradient(result.labels) if config.gradient == "exact" else None
        proposal = _advance(result.labels, regions, count, beta, move, gain, describe.reach, extra)
        if fixed is not None:
            proposal = np.where(fixed >= 0, fixed, proposal)
        if np.array_equal(proposal, result.labels):
            if gain < SHARPEST:  # boundaries of little contrast may still have to move: a longer Δτ for all
                gain = SHARPEST
                continue
            result.converged = True  # step 11
            break
        tried = describe(proposal, regions)
        energy = _energy(proposal, tried, beta)
        if energy > result.energy[-1]:
            move /= 2
            if move <= 0.5:  # less than half a pixel flips nothing
                result.converged = True
                break
            continue
        result.labels, regions = proposal, tried
        result.energy.append(energy)
        stop = bool(callback and callback(iteration, proposal, energy))
    result.vanished = tuple(sorted(present - set(np.unique(result.labels).tolist())))
    return result


class _Describer:
    """Computes F_{R_i}, a_i and G_i of each region (steps 4 to 7), reusing what did not change."""

    def __init__(
        self, image: Tensor, descriptors: Descriptors, config: EvolutionConfig, align: int, shape: tuple[int, ...]
    ) -> None:
        self.image, self.descriptors, self.align = image, descriptors, align
        self.reach = config.reach * max(1, align)
        self.whole: Tensor | None = None
        if not config.tailored:
            self.whole = self._compute(image, torch.zeros((1, *shape), dtype=torch.int64))

    def _compute(self, image: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            return self.descriptors(image, labels.to(image.device))[0]

    def __call__(self, labels: Labels, known: dict[int, _Region]) -> dict[int, _Region]:
        """Return the regions of a label map; one that is as it was is taken over."""
        regions = {}
        for i in np.unique(labels[labels >= 0]).tolist():
            mask = labels == i
            before = known.get(i)
            same = before is not None and np.array_equal(before.mask, mask)
            regions[i] = before if before is not None and same else self._region(mask)
        return regions

    def _region(self, mask: NDArray[np.bool_]) -> _Region:
        reach = self.reach
        box = bounding_box(mask, reach, max(1, self.align))
        inside = mask[box]
        dilated = dilate(inside, reach)  # step 4: D(R_i)
        if self.whole is not None:
            features = self.whole[(slice(None), *box)]
        elif self.align:
            labels = torch.from_numpy(np.where(dilated, 0, -1))[None]
            features = self._compute(self.image[(..., *box)], labels)  # step 5: F_{R_i} in D(R_i)
        else:
            labels = torch.full((1, *mask.shape), -1)
            labels[(0, *box)] = torch.from_numpy(np.where(dilated, 0, -1))
            features = self._compute(self.image, labels)[(slice(None), *box)]
        here = torch.from_numpy(inside).to(features.device)
        mean = features[:, here].mean(dim=1)  # step 5: a_i
        cost = (features - mean[:, None, None]).square().sum(dim=0)  # step 7: G_i
        values = np.where(dilated, cost.float().cpu().numpy(), np.inf).astype(np.float32)
        return _Region(mask, box, values, float(values[inside].sum(dtype=np.float64)))

    def shape_gradient(self, labels: Labels) -> Array:
        """∂E/∂c of every edge's conductance, as (2, H, W): edges to the right, and down.

        The derivative of Σ‖F − a‖² through the descriptors' dependence on the regions' shape: exact, by
        the solver's derivative in the conductances.
        """
        from .poisson import Edges, edges_of

        maps = torch.from_numpy(labels)[None].to(self.image.device)
        closed = edges_of(maps, self.image.dtype)
        across, down = closed.across.requires_grad_(), closed.down.requires_grad_()
        edges = Edges(across, down, closed.inside)
        features = self.descriptors(self.image, maps, edges=edges)[0]  # type: ignore[call-arg]
        energy = features.new_zeros(())
        for i in np.unique(labels[labels >= 0]).tolist():
            part = features[:, maps[0] == i]
            energy = energy + (part - part.mean(dim=1, keepdim=True)).square().sum()
        gradients = torch.autograd.grad(energy, (across, down))
        out = np.zeros((2, *labels.shape))
        out[0, :, :-1] = gradients[0][0].cpu().numpy()
        out[1, :-1, :] = gradients[1][0].cpu().numpy()
        return out


def _median_cost(regions: dict[int, _Region]) -> float:
    costs = np.concatenate([r.cost[r.mask[r.box]] for r in regions.values()])
    return float(np.median(costs)) if costs.size else 0.0


def _energy(labels: Labels, regions: dict[int, _Region], beta: float) -> float:
    """`eq:mulregions`."""
    return sum(region.within for region in regions.values()) + beta * boundary_length(labels)


def _advance(
    labels: Labels,
    regions: dict[int, _Region],
    count: int,
    beta: float,
    move: float,
    gain: float,
    reach: int,
    edge_gradient: Array | None,
) -> Labels:
    """Steps 6 to 10: update the indicators φ_i near the boundaries and read the regions off them (step 3)."""
    cost = np.full((count, *labels.shape), np.inf, np.float32)
    phi = np.zeros((count, *labels.shape), np.float32)
    for i, region in regions.items():
        cost[(i, *region.box)] = region.cost
        phi[(i, *region.box)] = _indicator(region.mask[region.box], reach)
    if edge_gradient is not None:
        cost += _shape_terms(labels, edge_gradient, count)
    rival = _best_other(cost)
    with np.errstate(invalid="ignore"):
        difference = np.where(np.isfinite(cost) & np.isfinite(rival), cost - rival, 0.0)  # G_i − G_j on D(R_i) ∩ D(R_j)
    band = difference != 0
    if not band.any():
        return labels
    # Δτ is chosen for stability: a boundary with the median difference moves by about `move` pixels, none by more.
    scale = (float(np.median(np.abs(difference[band]))) + 1e-12) / gain
    new = phi.copy()
    for i, region in regions.items():
        box = (i, *region.box)
        slope, curvature = _slope_and_curvature(phi[box])
        speed = -difference[box] / scale + (beta / scale) * curvature  # steps 8 and 9
        new[box] += move * np.tanh(2.0 * speed) * slope
    np.clip(new, 0.0, 1.0, out=new)  # step 10
    # A region that is not present near a pixel cannot win it; ties stay with the present label.
    own = np.clip(labels, 0, None)[None]
    np.put_along_axis(new, own, np.take_along_axis(new, own, axis=0) + np.float32(1e-6), axis=0)
    return np.where(labels >= 0, new.argmax(axis=0), labels)


def _indicator(mask: NDArray[np.bool_], reach: int) -> NDArray[np.float32]:
    """Smooth indicator: 1/2 on the boundary, 1 and 0 from `reach` pixels inside and outside on."""
    return np.clip(0.5 + signed_distance(mask) / (2.0 * reach), 0.0, 1.0).astype(np.float32)


def _best_other(cost: NDArray[np.float32]) -> NDArray[np.float32]:
    """For each region and pixel the lowest cost of any other region."""
    order = np.sort(cost, axis=0)[:2] if len(cost) > 1 else np.concatenate([cost, np.full_like(cost, np.inf)])
    other: NDArray[np.float32] = np.where(cost <= order[0], order[1], order[0])
    return other


def _slope_and_curvature(phi: NDArray[np.float32]) -> tuple[Array, Array]:
    """|∇φ| and κ = div(∇φ/|∇φ|), with one-sided differences at the box's border."""
    padded = np.pad(phi.astype(np.float64), 2, mode="edge")
    dy, dx = np.gradient(padded)
    size = np.sqrt(dy**2 + dx**2)
    safe = np.maximum(size, 1e-8)
    curvature = np.gradient(dy / safe, axis=0) + np.gradient(dx / safe, axis=1)
    curvature[size < 1e-6] = 0.0
    inner = (slice(2, -2), slice(2, -2))
    # Central differences vanish on regions one pixel thin, which could never move then: take the steeper side.
    steps = [np.abs(np.diff(padded, axis=axis)) for axis in (0, 1)]
    steep_y = np.maximum(steps[0][1:], steps[0][:-1])[1:-1, 2:-2]
    steep_x = np.maximum(steps[1][:, 1:], steps[1][:, :-1])[2:-2, 1:-1]
    return np.sqrt(steep_y**2 + steep_x**2), np.clip(curvature[inner], -1.0, 1.0)


def _shape_terms(labels: Labels, edge_gradient: Array, count: int) -> NDArray[np.float32]:
    """First-order change of the energy through the descriptors when a pixel's edges open towards region i.

    A pixel that joins region i opens its edges to neighbours in i; one that leaves closes them. So region i is
    charged with the summed derivative of the edges towards it.
    """
    terms = np.zeros((count, *labels.shape), np.float32)
    grid = np.indices(labels.shape)

    def charge(gradient: Array, here: Any, there: Any) -> None:
        neighbour = labels[there]
        ok = neighbour >= 0
        rows, columns = grid[(slice(None), *here)][:, ok]
        np.add.at(terms, (neighbour[ok], rows, columns), gradient[ok])

    left, right = (slice(None), slice(None, -1)), (slice(None), slice(1, None))
    top, bottom = (slice(None, -1), slice(None)), (slice(1, None), slice(None))
    for gradient, one, other in ((edge_gradient[0][left], left, right), (edge_gradient[1][top], top, bottom)):
        charge(gradient, one, other)
        charge(gradient, other, one)
    return terms
