"""Pictures of one size side by side on one device: described, cut, evolved and smoothed as one batch.

The steps and the results are those of `Described` and `starts`, up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..arrays import Array
from ..evolution import Evolution, EvolutionConfig
from ..evolution.dense.costs import Tailor
from ..evolution.dense.evolve import evolve
from ..evolution.dense.shapes import masks_of
from ..network.describer import Describer
from ..network.masked import describe_wholes, spread, statistics, takes, whole_side
from .batched_cut import in_metrics_of, ncut_starts
from .cleanup import remove_small
from .described import Described, fitting
from .end import End
from .result import Segmentation

#: Most regions: planes are computed for each, however small.
MOST_REGIONS = 16
#: Gaussians end at so many standard deviations, as SciPy's do.
TRUNCATE = 4.0


class Alike(NamedTuple):
    """What pictures of one batch have in common."""

    size: tuple[int, int]
    masked: bool  # some pixels are outside
    config: EvolutionConfig


def alike(end: End) -> Alike:
    """Return what the pictures of a batch must have in common with this one."""
    height, width = end.canvas.values.shape[1:]
    return Alike((height, width), end.canvas.inside is not None, end.config)


def applies(net: Describer, regions: int, positions: int, config: EvolutionConfig) -> bool:
    """Whether pictures can be segmented side by side: two networks on blocks, tailored, for a few regions."""
    return (
        takes(net)
        and takes(net.fine)
        and positions > 1
        and whole_side(net, positions) % net.fine.stride == 0
        and 1 < regions <= MOST_REGIONS
        and config.iterations > 0
        and config.tailored
        and config.gradient == "paper"
    )


def segmented(net: Describer, end: End, regions: int, positions: int, device: torch.device) -> Segmentation:
    """Segment one picture, as a batch of one."""
    (run,) = regions_of(net, [end], regions, positions, device)
    return finished(net, end, run, regions, device)


def finished(net: Describer, end: End, run: Evolution, regions: int, device: torch.device) -> Segmentation:
    """Remove small pieces and bring the regions to the picture's size."""
    described = Described.of(end.canvas, net, device, 1, needs_whole=False) if end.canvas.factor > 1 else None
    return end.result(run, remove_small(run.labels, end.min_share)[0], regions, described)


@torch.no_grad()
def regions_of(
    net: Describer, ends: Sequence[End], regions: int, positions: int, device: torch.device
) -> list[Evolution]:
    """Find the regions of pictures that are `alike`; boundaries are smoothed, small pieces are still there."""
    canvases, config = [end.canvas for end in ends], ends[0].config
    fitted = fitting(net, canvases[0])
    fine = fitted.fine
    assert takes(fitted)
    assert takes(fine)
    pictures = _stacked([canvas.values for canvas in canvases], device)
    inside = None
    if canvases[0].inside is not None:
        inside = _stacked([canvas.inside for canvas in canvases if canvas.inside is not None], device)
    height, width = pictures.shape[2:]
    whole = describe_wholes(fitted, pictures, positions, inside)
    rngs = [np.random.default_rng(end.seed) for end in ends]
    start = ncut_starts(whole, (height, width), inside, regions, rngs)
    whole = in_metrics_of(whole, start, inside, regions)
    labels = spread(start, whole.side, (height, width))
    seen = pictures
    if inside is not None:
        labels, seen = torch.where(inside, labels, -1), torch.where(inside[:, None], pictures, torch.inf)
    unit = fine.stride
    blocks = -(-height // unit), -(-width // unit)
    tailor = Tailor(
        fine, pictures, statistics(fine, pictures, inside), spread(whole.descriptors, whole.side // unit, blocks),
        regions, config.reach * unit, config.rim * unit, config.locality * max(height, width),
    )  # fmt: skip
    found = evolve(labels, tailor, config, seen)
    smooth = smooth_boundaries(found.labels, regions, float(unit)).cpu().numpy()
    return [
        Evolution(each, energy, converged)
        for each, energy, converged in zip(smooth, found.energy, found.converged, strict=True)
    ]


def smooth_boundaries(labels: Tensor, regions: int, radius: float) -> Tensor:
    """Smooth the boundaries of label maps (P, H, W) as `labels.smooth_boundaries` does."""
    down, right = (_gaussian(side, radius, labels.device) for side in labels.shape[1:])
    weights = down @ masks_of(labels, regions).float() @ right.mT
    return torch.where(labels >= 0, weights.argmax(dim=1), labels)


def _gaussian(side: int, radius: float, device: torch.device) -> Tensor:
    """The matrix of a Gaussian filter along a line, whose ends go on as they are."""
    reach = int(TRUNCATE * radius + 0.5)
    steps = torch.arange(-reach, reach + 1, device=device)
    weights = torch.exp(-0.5 * (steps / radius).square())
    places = (torch.arange(side, device=device)[:, None] + steps).clamp(0, side - 1)
    matrix = torch.zeros(side, side, device=device)
    return matrix.scatter_add(1, places, (weights / weights.sum()).expand(side, -1))


def _stacked(arrays: Sequence[Array], device: torch.device) -> Tensor:
    return torch.from_numpy(np.stack(arrays)).to(device)
