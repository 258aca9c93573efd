"""Joint evolution of regions and descriptors: Alg. 2 of the paper (`alg:multilabel_scheme_supp`).

Regions and the descriptors computed inside them are updated in turn until the regions stand still, which
lowers the energy `eq:mulregions`::

    E(R) = Σ_i Σ_{x ∈ R_i} ‖F_{R_i}(x) − a_i‖² + β · length of the boundaries

This module knows no files and no plots, and takes any ``descriptors(image, labels)``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ..arrays import Floats, Floats32, Labels
from ..labels import boundary_length
from ..network.describer import Descriptors, OfPixels
from ..poisson import Edges, edges_of
from .boundary_step import advance, settle
from .config import EvolutionConfig
from .region_costs import Region, Tailor

#: iteration, labels, energy → True to stop
Callback = Callable[[int, Labels, float], bool | None]

#: How many times longer Δτ becomes before regions that stand still count as converged.
SHARPEST = 16.0


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
    labels: Labels,  # (H, W), regions 0..K−1 to start from (step 1)
    descriptors: OfPixels | Descriptors,
    config: EvolutionConfig | None = None,
    *,
    fixed: Labels | None = None,  # (H, W): marked pixels, >= 0, keep their label
    align: int = 1,  # the stride of plain `OfPixels`: side of the blocks of pixels that they work on
    seen: Floats32 | None = None,  # (c, H, W), the picture in [0, 1] as people see it, for `EvolutionConfig.likeness`
    whole: Tensor | None = None,  # (D, H, W), descriptors of the whole image for `tailored=False`, where they are known
    callback: Callback | None = None,  # of iteration, labels and energy, after each accepted iteration; True stops
) -> Evolution:
    """Move regions and descriptors together from a start to a low of the energy.

    `descriptors` are called on crops of the image (1, C, H, W) and on canvases where the changed regions lie side by
    side, which changes nothing for descriptors that never look outside a region; with a stride of 0 on whole images,
    for one region at a time. The energies of the trace go down: of a step that would raise the energy, the changes are
    taken back that raise it at their own pixel (`boundary_step.settle`); if that does not help, it is tried at half the
    displacement.
    """
    config = config or EvolutionConfig()
    if not isinstance(descriptors, Descriptors):
        descriptors = Descriptors(descriptors, align)
    if fixed is not None:
        labels = np.where(fixed >= 0, fixed, labels)
    unit = max(1, descriptors.stride)
    sigma = config.locality * max(labels.shape)
    if config.tailored:
        whole = None
    elif whole is None:
        with torch.no_grad():
            whole = descriptors.pixels(image, torch.zeros(1, *labels.shape, dtype=torch.long, device=image.device))[0]
    tailor = Tailor(image, descriptors, config.reach * unit, whole, sigma, config.rim * unit)
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
        extra = shape_gradient(image, result.labels, descriptors.pixels) if config.gradient == "exact" else None
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
        from .colour_crf import follow  # compiled: machines that only train may do without

        result.labels = follow(result.labels, regions, seen, config.likeness, fixed)
    result.vanished = tuple(sorted(present - set(np.unique(result.labels).tolist())))
    return result


def _energy(labels: Labels, regions: dict[int, Region], beta: float) -> float:
    """`eq:mulregions`."""
    return sum(region.within for region in regions.values()) + beta * boundary_length(labels)


def shape_gradient(image: Tensor, labels: Labels, descriptors: OfPixels) -> Floats:
    """∂E/∂c of every edge's conductance, as (2, H, W): edges to the right, and down.

    E is Σ‖F − a‖²; exact, by the solver's derivative in the conductances.
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
