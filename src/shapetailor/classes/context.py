"""The context: small layers that see a head's hidden units far around, smoothed by the PDE.

What a cell is depends on what lies around it. Each layer smooths a few mixtures of its units at several α and reads
them, and how steep they are there, beside the units themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ..parallel import in_threads, without_torch
from ..poisson import edges_of, smooth

#: α in cells²; mixtures that are smoothed at each, units, layers.
ALPHAS, MIXTURES, UNITS, LAYERS = (1.0, 4.0, 16.0, 64.0, 256.0), 24, 64, 2
#: Of the solves: nothing here needs more.
TOLERANCE = 1e-3
#: Added to a squared slope before its root.
FLOOR = 1e-6
#: Cells of a band of rows, about.
BAND = 2**12


class Context(nn.Module):
    """Maps hidden units to what is added to the logits; at first nothing."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.mix, self.read = nn.ModuleList(), nn.ModuleList()
        for _ in range(LAYERS):
            self.mix.append(nn.Linear(inputs, MIXTURES))
            self.read.append(nn.Linear(inputs + 2 * len(ALPHAS) * MIXTURES, UNITS))
            inputs = UNITS
        self.out = nn.Linear(inputs, classes)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def initialise(self, generator: torch.Generator) -> Context:
        """Draw the layers' weights; what is added to the logits stays nothing."""
        for each in (*self.mix, *self.read):
            for parameter in each.parameters():
                with torch.no_grad():
                    parameter.copy_(each.in_features**-0.5 * (2 * torch.rand(parameter.shape, generator=generator) - 1))
        return self

    def forward(self, units: Tensor) -> Tensor:
        """Map (B, units, h, w) to (B, classes, h, w)."""
        whole = torch.zeros(len(units), *units.shape[2:], dtype=torch.long, device=units.device)
        edges, alphas = edges_of(whole, units.dtype), torch.tensor(ALPHAS)[:, None]
        for mix, read in zip(self.mix, self.read, strict=True):
            assert isinstance(mix, nn.Linear)
            assert isinstance(read, nn.Linear)
            mixtures = by_bands(partial(mapped, mix, units), units)
            smoothed = smooth(mixtures, edges, alphas, TOLERANCE)
            units = by_bands(partial(_read, read, units, smoothed), units)
        return by_bands(partial(mapped, self.out, units), units)


def by_bands(function: Callable[[slice], Tensor], x: Tensor) -> Tensor:
    """Put together what a function makes of bands of rows of (B, n, h, w), which fit the cache, side by side.

    Each has one thread of torch: the last bits of its products and of softmax depend on the number. On a GPU, and for a
    gradient, all is one band.
    """
    height, width = x.shape[2:]
    if torch.is_grad_enabled() or x.device.type != "cpu":
        return function(slice(0, height))
    rows = max(1, BAND // width)
    bands = [slice(top, min(top + rows, height)) for top in range(0, height, rows)]
    with without_torch():
        return torch.cat(in_threads([partial(torch.no_grad()(function), band) for band in bands]), dim=2)


def mapped(layer: nn.Linear, x: Tensor, band: slice = slice(None)) -> Tensor:
    """Apply a layer to each cell of (B, n, h, w), or of a band of its rows."""
    x = x[:, :, band]
    found: Tensor = (layer.weight @ x.flatten(2)).unflatten(2, x.shape[2:])
    return found.add_(layer.bias[:, None, None])


def _read(layer: nn.Linear, units: Tensor, smoothed: Tensor, band: slice) -> Tensor:
    """Read units, smoothed mixtures (B, α, n, h, w) and their slopes in a band."""
    steep = smoothed.new_tensor(ALPHAS).sqrt()[:, None, None, None] * _slope(smoothed, band)
    around = torch.stack([smoothed[:, :, :, band], steep], dim=2)
    return mapped(layer, torch.cat([units[:, :, band], around.flatten(1, 3)], dim=1)).relu_()


def _slope(x: Tensor, band: slice) -> Tensor:
    """Twice the steepness of (B, α, n, h, w) in a band, with a derivative where there is none."""
    first, last = max(band.start - 1, 0), min(band.stop + 1, x.shape[3])
    margins = (1, 1, first + 1 - band.start, band.stop + 1 - last)
    around = pad(x[:, :, :, first:last].flatten(1, 2), margins, mode="replicate").unflatten(1, x.shape[1:3])
    across = around[..., 1:-1, 2:] - around[..., 1:-1, :-2]
    down = around[..., 2:, 1:-1] - around[..., :-2, 1:-1]
    steep: Tensor = (across.square() + down.square() + FLOOR).sqrt()
    return steep
