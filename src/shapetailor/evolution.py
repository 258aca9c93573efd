"""Joint evolution of regions and descriptors: Alg. 2 of the paper (`alg:multilabel_scheme_supp`).

Regions and the descriptors computed inside them are updated in turn until the regions stand still, which
lowers the energy `eq:mulregions`::

    E(R) = Σ_i Σ_{x ∈ R_i} ‖F_{R_i}(x) − a_i‖² + β · length of the boundaries

This module knows no files and no plots, and takes any ``descriptors(image, labels)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .likeness import follow
from .motion import advance, settle
from .poisson import Edges, edges_of
from .regions import boundary_length
from .tailoring import Array, Descriptors, Labels, Region, Tailor

#: iteration, labels, energy → True to stop
Callback = Callable[[int, Labels, float], bool | None]

Gradient = Literal["paper", "exact"]

#: How many times longer Δτ becomes before regions that stand still count as converged.
SHARPEST = 16.0


@dataclass(frozen=True)
class EvolutionConfig:
    """How regions move.

    Attributes
    ----------
    iterations : int
        At most so many; 0 leaves the start as it is.
    beta : float
        Weight of the boundary's length, in units of the median ‖F − a‖² of the start.
    reach : int
        Radius of the dilations D(R_i): how far beyond a region its descriptors are computed. In pixels, or in the
        descriptors' blocks of pixels (see `align` of `evolve`).
    move : float
        Largest displacement of a boundary in one iteration, in the same unit; halved when it overshoots. Less than
        `reach`: a region knows no descriptors further out.
    tailored : bool
        Update the descriptors as the regions move. False keeps those of the whole image, for comparison.
    locality : float
        How far the means a_i look from each pixel, as a share of the picture's longer side: `means.local_means`.
        Infinite is the paper's, one mean for a region.
    rim : int
        How much along a region's boundary the means a_i leave out, since it may not belong to the region; in the unit
        of `reach`, and less than it. The paper's is 0.
    likeness : float
        When the regions have come to rest, pixels within reach of several go with those around them that look like
        them, which weigh this much (`likeness.follow`, if `evolve` is told what is seen); 0: by their costs alone.
    gradient : {"paper", "exact"}
        The paper's gradient takes the descriptors as given; the exact one adds how they change when the
        boundary's edges open and close, and needs descriptors that take `Edges`.
    """

    iterations: int = 40
    beta: float = 0.1
    reach: int = 2
    move: float = 1.0
    tailored: bool = True
    locality: float = inf
    rim: int = 0
    likeness: float = 0.0
    gradient: Gradient = "paper"

    def __post_init__(self) -> None:
        if not (isinstance(self.iterations, (int, np.integer)) and self.iterations >= 0):
            raise ValueError(f"iterations must be a whole number from 0 on, got {self.iterations}")
        if not 0 <= self.beta < inf:
            raise ValueError(f"beta must be finite and not negative, got {self.beta}")
        if not (isinstance(self.reach, int) and self.reach >= 1):
            raise ValueError(f"reach must be a whole number from 1 on, got {self.reach}")
        if not 0 < self.move < self.reach:
            raise ValueError(f"move must be more than 0 and less than reach, {self.reach}; got {self.move}")
        if not self.locality > 0:
            raise ValueError(f"locality must be positive, got {self.locality}")
        if self.gradient not in get_args(Gradient):
            raise ValueError(f"gradient must be one of {get_args(Gradient)}, got {self.gradient!r}")
        if not (isinstance(self.rim, int) and 0 <= self.rim < self.reach):
            raise ValueError(f"rim must be an integer, not negative and less than reach, {self.reach}; got {self.rim}")
        if not 0 <= self.likeness < inf:
            raise ValueError(f"likeness must be finite and not negative, got {self.likeness}")
        if self.gradient == "exact" and (self.locality < inf or self.rim):
            raise ValueError(
                "the exact gradient is for one mean a region: it wants an infinite locality and a rim of 0"
            )


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


def evolve(
    image: Tensor,
    labels: Labels,
    descriptors: Descriptors,
    config: EvolutionConfig | None = None,
    *,
    fixed: Labels | None = None,
    align: int = 1,
    seen: NDArray[np.float32] | None = None,
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
        ``descriptors(image, labels)``. It is called on crops of the image and on canvases where the changed regions
        lie side by side, which changes nothing for descriptors that never look outside a region; `align` = 0 calls it
        on whole images, for one region at a time. If it has a method ``compact(image, labels)``, returning the
        descriptors of blocks (n, D) and the pixels' rows among them (1, H, W), that is used instead with `align` > 1.
    config : EvolutionConfig
    fixed : ndarray, (H, W), optional
        Marked pixels, >= 0, keep their label.
    align : int
        Side of the blocks of pixels that descriptors work on; boxes start and end at multiples of it.
    seen : ndarray, (c, H, W), optional
        The picture as people see it, values in [0, 1], for `EvolutionConfig.likeness`.
    callback : callable, optional
        ``callback(iteration, labels, energy)`` after each accepted iteration; True stops.

    Returns
    -------
    Evolution
        The energies of the trace go down: of a step that would raise the energy, the changes are taken back that raise
        it at their own pixel (`motion.settle`); if that does not help, it is tried at half the displacement.
    """
    config = config or EvolutionConfig()
    if fixed is not None:
        labels = np.where(fixed >= 0, fixed, labels)
    unit = max(1, align)
    sigma = config.locality * max(labels.shape)
    tailor = Tailor(image, descriptors, config.reach * unit, align, config.tailored, sigma, config.rim * unit)
    regions = tailor.start(labels)
    present = set(regions)
    costs = np.concatenate([region.own for region in regions.values()]) if regions else np.zeros(1)
    beta = config.beta * float(np.median(costs))
    result = Evolution(labels.copy(), [_energy(labels, regions, beta)])
    move, gain = config.move * unit, 1.0
    stop = bool(callback and callback(0, result.labels, result.energy[0]))
    for iteration in range(1, config.iterations + 1):
        if stop:
            break
        extra = shape_gradient(image, result.labels, descriptors) if config.gradient == "exact" else None
        proposal = advance(result.labels, regions, beta, move, gain, extra)
        if fixed is not None:
            proposal = np.where(fixed >= 0, fixed, proposal)
        if np.array_equal(proposal, result.labels):
            if gain < SHARPEST:  # boundaries of little contrast may still have to move: a longer Δτ for all
                gain = SHARPEST
                continue
            result.converged = True  # step 11
            break
        tried = tailor.update(proposal, result.labels, regions)
        energy = _energy(proposal, tried, beta)
        if energy > result.energy[-1]:
            settled = settle(result.labels, proposal, regions, beta)
            if not np.array_equal(settled, result.labels):
                proposal, tried = settled, tailor.update(settled, result.labels, regions)
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
    if config.likeness and config.iterations and seen is not None:
        result.labels = follow(result.labels, regions, seen, config.likeness, fixed)
    result.vanished = tuple(sorted(present - set(np.unique(result.labels).tolist())))
    return result


def _energy(labels: Labels, regions: dict[int, Region], beta: float) -> float:
    """`eq:mulregions`."""
    return sum(region.within for region in regions.values()) + beta * boundary_length(labels)


def shape_gradient(image: Tensor, labels: Labels, descriptors: Descriptors) -> Array:
    """∂E/∂c of every edge's conductance, as (2, H, W): edges to the right, and down.

    The derivative of Σ‖F − a‖² through the descriptors' dependence on the regions' shape: exact, by
    the solver's derivative in the conductances.
    """
    maps = torch.from_numpy(labels)[None].to(image.device)
    closed = edges_of(maps, image.dtype)
    across, down = closed.across.requires_grad_(), closed.down.requires_grad_()
    edges = Edges(across, down, closed.inside)
    features = descriptors(image, maps, edges=edges)[0]  # type: ignore[call-arg]
    energy = features.new_zeros(())
    for i in np.unique(labels[labels >= 0]).tolist():
        part = features[:, maps[0] == i]
        energy = energy + (part - part.mean(dim=1, keepdim=True)).square().sum()
    gradients = torch.autograd.grad(energy, (across, down))
    out = np.zeros((2, *labels.shape))
    out[0, :, :-1] = gradients[0][0].cpu().numpy()
    out[1, :-1, :] = gradients[1][0].cpu().numpy()
    return out
