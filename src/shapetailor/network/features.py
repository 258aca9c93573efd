"""The feature layer f0: preprocessing of the whole picture (`prepare`), then channels inside regions (`channels`).

Statistics of the whole picture are taken in `prepare`, before there are regions. `channels` reads nothing from outside
a pixel's region: its only spatial operations are derivatives and solves inside regions.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from .pooling import Pooling
from .region_grid import DIRECTIONS, Domain

Kind = Literal["paper", "rich"]
Pool = Callable[[Tensor], Tensor]

#: Rec. 601 luma, for three channels; the gray value of any other number of channels is their mean.
LUMA = (0.299, 0.587, 0.114)
#: Added before a logarithm, for values of 0..1: to intensities, and to differences (one of 255 gray levels).
INTENSITY_FLOOR, ENERGY_FLOOR = 0.02, 1 / 255
#: Added to a channel's standard deviation over its picture: nearly constant ones are not blown up.
SPREAD_FLOOR = 0.01


def channel_count(image_channels: int, kind: Kind, energy_scales: int) -> int:
    """Return how many channels `channels` makes."""
    if kind == "paper":
        return image_channels + (image_channels > 1) + len(DIRECTIONS)
    return 2 * _rich_count(image_channels, energy_scales)


def prepared_count(image_channels: int, kind: Kind, energy_scales: int) -> int:
    """Return how many channels `prepare` makes."""
    return image_channels if kind == "paper" else image_channels + 2 * _rich_count(image_channels, energy_scales)


def _rich_count(image_channels: int, energy_scales: int) -> int:
    colour = 3 * (image_channels - 1) + 1 if image_channels > 1 else 0
    return 2 + colour + 4 * energy_scales + energy_scales - 1


def normalise(image: Tensor, inside: Tensor | None = None) -> Tensor:
    """Give each picture of (B, C, H, W) zero mean and unit variance over all its channels; a constant one becomes 0.

    Pixels that are not `inside`, (B, H, W), do not count and become 0.

    >>> normalise(torch.tensor([[[[1.0, 3.0]]], [[[7.0, 7.0]]]])).flatten(1)
    tensor([[-1.,  1.],
            [ 0.,  0.]])
    """
    check_image(image)
    if inside is not None:
        parts = [normalise(each[None, :, mask, None])[0, :, :, 0] for each, mask in zip(image, inside, strict=True)]
        empty = torch.zeros_like(image).movedim(1, 3)
        return empty.masked_scatter(inside[..., None], torch.cat(parts, dim=1).T).movedim(3, 1)
    values = image.double().flatten(1)
    centred = values - values.mean(dim=1, keepdim=True)
    std = centred.square().mean(dim=1, keepdim=True).sqrt()
    rounding = torch.finfo(image.dtype).eps * values.abs().amax(dim=1, keepdim=True)
    scaled = torch.where(std > rounding, centred / torch.where(std > rounding, std, 1), 0)
    return scaled.reshape(image.shape).to(image.dtype)


def prepare(
    image: Tensor, kind: Kind = "paper", energy_scales: tuple[float, ...] = (0.0, 1.0, 4.0),
    pooling: Pooling | None = None, tol: float = 1e-4, inside: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Preprocess whole pictures (B, C, H, W) into what the network takes.

    "paper": `normalise`. "rich": the picture, whose values must lie in 0..1, followed by constant maps: each rich
    channel's mean over the picture, then the reciprocals of their standard deviations. `channels` standardises with
    them. `pooling` is of the same pixels `inside`.
    """
    if kind == "paper":
        return normalise(image, inside)
    check_image(image)
    low, high = float(image.min()), float(image.max())
    if low < 0 or high > 1:
        raise ValueError(f"image must have values in 0..1 for rich features, got {low:g}..{high:g}")
    whole = torch.zeros(image.shape[0], *image.shape[2:], dtype=torch.long, device=image.device)
    if inside is not None:
        whole, image = inside.long() - 1, torch.where(inside[:, None], image, 0)
    pool = _identity if pooling is None else pooling.pool
    values = rich(image, Domain(whole, image.dtype, tol=tol), energy_scales, pool).flatten(2)
    if inside is None:
        mean, std = values.mean(dim=2), values.std(dim=2, correction=0)
    else:
        counts = (whole if pooling is None else pooling.labels).flatten(1) >= 0
        parts = [each[:, mask] for each, mask in zip(values, counts, strict=True)]
        mean = torch.stack([part.mean(dim=1) for part in parts])
        std = torch.stack([part.std(dim=1, correction=0) for part in parts])
    maps = torch.cat([mean, 1 / (std + SPREAD_FLOOR)], dim=1)[:, :, None, None]
    return torch.cat([image, maps.expand(-1, -1, *image.shape[2:])], dim=1)


def channels(
    image: Tensor, domain: Domain, image_channels: int, kind: Kind = "paper",
    energy_scales: tuple[float, ...] = (0.0, 1.0, 4.0), pooling: Pooling | None = None,
) -> Tensor:  # fmt: skip
    """Compute the channels of f0, before smoothing, from the output of `prepare` of the same kind.

    "paper": colours, gray (where there are several colours), absolute oriented gradients of the gray value. "rich":
    see `rich`; each channel as it is, then each standardised by its picture; energies at the scales α given.
    `domain` has the regions at the picture's resolution, `pooling` takes means over blocks inside them.
    """
    pool = _identity if pooling is None else pooling.pool
    inside = domain.inside[:, None]
    picture, maps = image[:, :image_channels], image[:, image_channels:]
    picture = torch.where(inside, picture, 0)
    if kind == "paper":
        return pool(_paper(picture, domain))
    raw = rich(picture, domain, energy_scales, pool)
    mean, scale = (torch.where(inside, maps, 0) if pooling is None else pooling.sample(maps)).chunk(2, dim=1)
    return torch.cat([raw, (raw - mean) * scale], dim=1)


def gray(image: Tensor) -> Tensor:
    """Return the gray value of (B, C, H, W) as (B, 1, H, W)."""
    if image.shape[1] != len(LUMA):
        return image.mean(dim=1, keepdim=True)
    red, green, blue = (weight * image[:, c : c + 1] for c, weight in enumerate(LUMA))
    return red + green + blue


def _paper(image: Tensor, domain: Domain) -> Tensor:
    value = gray(image)
    gradients = [domain.derivative(value, angle).abs() for angle in range(len(DIRECTIONS))]
    return torch.cat([image, *([value] if image.shape[1] > 1 else []), *gradients], dim=1)


def rich(image: Tensor, domain: Domain, energy_scales: tuple[float, ...], pool: Pool) -> Tensor:
    """Intensity, colour contrasts and the logarithms of oriented energies, which are pooled as squares."""
    value = gray(image)
    linear, squares = [value, _log(value)], []
    if image.shape[1] > 1:
        opponents = _contrasts(image)
        top, bottom = image.amax(dim=1, keepdim=True), image.amin(dim=1, keepdim=True)
        linear += [opponents, _contrasts(_log(image)), (top - bottom) / (top + INTENSITY_FLOOR)]
        squares.append(pool(domain.derivative(opponents, 0).square() + domain.derivative(opponents, 2).square()))
    pooled = pool(torch.cat(linear, dim=1))
    del linear  # frees memory: these are at the picture's size
    alphas = torch.tensor(energy_scales, dtype=image.dtype)
    smoothed = domain.smooth(value, alphas[:, None]).squeeze(2)
    along = [pool(domain.derivative(smoothed, angle).square()) for angle in range(len(DIRECTIONS))]
    squares.append(torch.stack(along, dim=2).flatten(1, 2))  # scale by scale
    if len(energy_scales) > 1:
        squares.append(pool((smoothed[:, :-1] - smoothed[:, 1:]).square()))
    energy = 0.5 * (torch.cat(squares, dim=1) + ENERGY_FLOOR**2).log()
    return torch.cat([pooled, energy], dim=1)


def _contrasts(image: Tensor) -> Tensor:
    """Mean of the first k channels minus the next, k = 1..C−1: R−G and (R+G)/2−B for three."""
    parts = [image[:, :k].mean(dim=1, keepdim=True) - image[:, k : k + 1] for k in range(1, image.shape[1])]
    return torch.cat(parts, dim=1)


def _log(intensity: Tensor) -> Tensor:
    return (intensity.clamp_min(0) + INTENSITY_FLOOR).log()


def _identity(x: Tensor) -> Tensor:
    return x


def check_image(image: Tensor) -> None:
    """Raise unless `image` is a floating-point tensor (B, C, H, W), not empty."""
    if not isinstance(image, Tensor):
        raise TypeError(f"image must be a torch.Tensor, got {type(image).__name__}")
    if image.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"image must be float32 or float64, got {image.dtype}")
    if image.ndim != 4 or image.numel() == 0:
        raise ValueError(f"image must have the shape (B, C, H, W), none of them 0; got {tuple(image.shape)}")
