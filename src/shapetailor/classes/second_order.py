"""Features of the second order: how lightness and energies are arranged, whichever way they are turned.

A mean over the surroundings does not tell a few bright lines from as many bright dots, nor coarse patches from an even
grain. Here are means along straight lines, deviations from the surroundings' mean, and slopes of the smoothed channels
(the idea of scattering: J. Bruna and S. Mallat, "Invariant scattering convolution networks", PAMI 2013).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import ceil, cos, floor, pi, sin, sqrt

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from ..poisson import smooth

#: Lengths in cells of the lines along which means are taken, and in how many directions.
LENGTHS, LINE_DIRECTIONS = (7, 15, 31), 8
#: Sources of lines, at most: lightness and the energies of the smallest scales.
LINE_SOURCES = 3
#: α of what is taken off lightness and energies before; that at which the lines' features are smoothed too.
LIGHT_GROUND, ENERGY_GROUND, AROUND = 8.0, 32.0, 32.0
#: α of deviations.
DEVIATIONS = (2.0, 8.0, 32.0, 128.0)
#: α of the channels whose slopes are taken; times these, of the slopes.
SLOPES, SLOPES_AROUND = (0.5, 2.0, 8.0, 32.0), (4.0, 32.0)
#: Added to a slope before its logarithm, and to a variance before its root.
SLOPE_FLOOR, VARIANCE_FLOOR = 0.02, 1e-4


def second_order_sources(count: int) -> Tensor:
    """Number what the features of `count` sources come from: see `shapetailor.classes.features.feature_sources`."""
    lines = torch.arange(min(count, LINE_SOURCES)).repeat(2 * len(LENGTHS))
    deviations = torch.arange(count).repeat(len(DEVIATIONS))
    slopes = torch.arange(count).repeat(len(SLOPES) * len(SLOPES_AROUND))
    parts, first = [], 0
    for part in (lines, lines, deviations, slopes):
        parts.append(first + part)
        first += int(part.max()) + 1
    return torch.cat(parts)


def second_order(sources: Mapping[float, Tensor]) -> Tensor:
    """Compute the features of standardised lightness and energies, (B, n, h, w) for each α: (B, features, h, w)."""
    sharp = sources[0.0]
    count = min(sharp.shape[1], LINE_SOURCES)
    ground = torch.cat([sources[LIGHT_GROUND][:, :1], sources[ENERGY_GROUND][:, 1:count]], dim=1)
    lines = line_means(sharp[:, :count] - ground)
    squares = sharp.square()
    deviations = [
        (smooth_whole(squares, alpha) - sources[alpha].square()).clamp_min(VARIANCE_FLOOR).sqrt()
        for alpha in DEVIATIONS
    ]
    slopes = []
    for alpha in SLOPES:
        steepness = (sqrt(alpha) * _slope(sources[alpha]) + SLOPE_FLOOR).log()
        slopes += [smooth_whole(steepness, times * alpha) for times in SLOPES_AROUND]
    return torch.cat([lines, smooth_whole(lines, AROUND), *deviations, *slopes], dim=1)


def line_means(x: Tensor) -> Tensor:
    """Return the largest and the least of the means along lines through each cell, for each length.

    (B, n, h, w) becomes (B, 2·lengths·n, h, w): for each length the largest of all channels, then the least.
    """
    found = []
    for length in LENGTHS:
        around = pad(x, (length // 2,) * 4, mode="replicate").flatten(0, 1)[:, None]
        means = conv2d(around, _line_kernels(length).to(x.device)).unflatten(0, x.shape[:2])
        found += [means.amax(dim=2), means.amin(dim=2)]
    return torch.cat(found, dim=1)


def smooth_whole(x: Tensor, alpha: float) -> Tensor:
    """Solve on the whole picture as one region; α = 0 leaves it as it is."""
    if not alpha:
        return x
    smoothed: Tensor = smooth(x, torch.zeros(len(x), *x.shape[2:], dtype=torch.long, device=x.device), alpha)
    return smoothed


def _slope(x: Tensor) -> Tensor:
    around = pad(x, (1, 1, 1, 1), mode="replicate")
    across = around[:, :, 1:-1, 2:] - around[:, :, 1:-1, :-2]
    down = around[:, :, 2:, 1:-1] - around[:, :, :-2, 1:-1]
    return torch.hypot(across, down) / 2


@cache
def _line_kernels(length: int) -> Tensor:
    """Return (directions, 1, length, length): points along each line, spread over the four cells around them."""
    reach = length // 2
    kernels = torch.zeros(LINE_DIRECTIONS, 1, length, length)
    for direction, kernel in enumerate(kernels[:, 0]):
        angle = pi * direction / LINE_DIRECTIONS
        for point in range(-2 * reach, 2 * reach + 1):
            row, column = (round(reach + point / 2 * part, 9) for part in (sin(angle), cos(angle)))
            for y in {floor(row), ceil(row)}:
                for x in {floor(column), ceil(column)}:
                    kernel[y, x] += (1 - abs(row - y)) * (1 - abs(column - x))
    return kernels / kernels.sum(dim=(2, 3), keepdim=True)
