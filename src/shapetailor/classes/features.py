"""What the head reads: descriptors of both networks and the channels before them, smoothed at several scales.

Descriptors have unit norm and so say nothing of contrast. The rich channels, standardised, do; smoothed at several α
they are the context of a pixel. A further channel says how much the oriented energies have one direction,
whichever it is, and features of the second order how lightness and energies are arranged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from ..arrays import Floats32
from ..network.masked import rich_channels
from ..network.stdnn import STDNN
from .second_order import second_order, second_order_sources, smooth_whole
from .standard import Raw, Standard

#: α of the smoothed channels, in cells² (a cell is a block of the second network); 0 is the channel as it is.
SCALES = (0.0, 0.5, 2.0, 8.0, 32.0, 128.0, 512.0)
DIRECTIONS = 4
#: Pictures from which on the second order is learnt from: one does not show how it differs between pictures.
FEWEST_ARRANGED = 2


def check_network(net: STDNN) -> None:
    """Raise unless a network has what the features are made of."""
    if net.fine is None or net.config.features != "rich" or net.fine.config.features != "rich":
        raise ValueError("classes need a model of two networks on rich features, such as the shipped texture")


def feature_count(net: STDNN) -> int:
    """Return how many features `describe` makes."""
    return len(feature_sources(net, 1))


def channel_count(net: STDNN) -> int:
    """Return how many channels there are before they are standardised."""
    assert net.fine is not None
    return net.fine.config.channels // 2


def feature_sources(net: STDNN, pictures: int) -> Tensor:
    """Number what the features come from, (features,): a channel is one source at all its scales.

    −1 is what a head that is taught with so few `pictures` shall not read.
    """
    assert net.fine is not None
    descriptors = net.config.widths[-1] + net.fine.config.widths[-1]
    channels, directed = channel_count(net), len(net.fine.config.energy_scales)
    first, second, third = torch.arange(descriptors + channels + directed).split([descriptors, channels, directed])
    fourth = descriptors + channels + directed + second_order_sources(1 + directed)
    if pictures < FEWEST_ARRANGED:
        fourth = torch.full_like(fourth, -1)
    return torch.cat([first, second.repeat(len(SCALES)), third.repeat(len(SCALES)), fourth])


def describe(net: STDNN, values: Floats32, standard: Standard | None) -> Tensor:
    """Describe a picture (C, H, W) of 0..1 by (features, h, w), on the network's device.

    A cell is a block of the second network. Without a `standard` a picture is standardised by itself.
    """
    with torch.no_grad():
        return features_of(net, raw_channels(net, torch.from_numpy(values)[None].to(net.mean.device)), standard)[0]


class Inputs(NamedTuple):
    """What features are made of and no weight changes; each (B, channels, h, w)."""

    first: Tensor  # channels of the first network's blocks
    second: Tensor  # of the second's
    fixed: Tensor  # features of these alone


def raw_channels(net: STDNN, pictures: Tensor) -> list[Raw]:
    """Compute the channels of pictures (B, C, H, W) where the layers of both networks work, not standardised."""
    assert net.fine is not None
    return [Raw(*rich_channels(each, pictures)) for each in (net, net.fine)]


def features_of(net: STDNN, raw: Sequence[Raw], standard: Standard | None) -> Tensor:
    """Describe pictures, differentiable in the networks' weights: (B, features, h, w)."""
    return features_from(net, inputs_of(net, raw, standard))


def inputs_of(net: STDNN, raw: Sequence[Raw], standard: Standard | None) -> Inputs:
    """Compute all that does not depend on the networks' weights."""
    assert net.fine is not None
    both = [own for _, own in raw] if standard is None else standard.of([own for _, own in raw])
    first, second = (
        torch.cat([channels, (channels - mean) * scale], dim=1)
        for (channels, _), (mean, scale) in zip(raw, both, strict=True)
    )
    channels, (mean, scale) = raw[1].channels, both[1]
    count = channels.shape[1]
    scales = [smooth_whole(channels, alpha) for alpha in SCALES]
    standardised = [(each - mean) * scale for each in scales]
    energies = slice(count - 5 * len(net.fine.config.energy_scales) + 1, 1 - len(net.fine.config.energy_scales))
    directed = [_directedness(each[:, energies]) for each in scales]
    sources = {
        alpha: torch.cat([each[:, 1:2], each[:, energies].unflatten(1, (-1, DIRECTIONS)).mean(dim=2)], dim=1)
        for alpha, each in zip(SCALES, standardised, strict=True)
    }
    return Inputs(first, second, torch.cat([*standardised, *directed, second_order(sources)], dim=1))


def features_from(net: STDNN, inputs: Inputs) -> Tensor:
    """Describe pictures, or parts of them, whose inputs are known."""
    assert net.fine is not None
    first, second = _embedded(net, inputs.first), _embedded(net.fine, inputs.second)
    first = interpolate(first, size=second.shape[2:], mode="bilinear", antialias=True)  # see `enlarged`
    return torch.cat([first, second, inputs.fixed], dim=1)


def _embedded(net: STDNN, channels: Tensor) -> Tensor:
    whole = torch.zeros(len(channels), *channels.shape[2:], dtype=torch.long, device=channels.device)
    return net.embed(channels, whole)


def _directedness(energies: Tensor) -> Tensor:
    """|E₀ − E₉₀ + i(E₄₅ − E₁₃₅)| / ΣE of log energies (1, 4·scales, h, w): (1, scales, h, w) of 0..1.

    The magnitude of the second harmonic over the directions: quarter turns and mirroring do not change it.
    """
    right, up, down, left = energies.exp().unflatten(1, (-1, DIRECTIONS)).unbind(2)
    directed: Tensor = torch.hypot(right - down, up - left) / (right + up + down + left)
    return directed
