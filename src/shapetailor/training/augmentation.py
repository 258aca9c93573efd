"""Augmentation: photographs and mosaics, and the regions that descriptors are computed in.

Sample `index` of step `step` depends on the seed and these two numbers alone, so that a resumed run, or one shared by
several processes, sees the same batches as any other.

*Photographs* are turned, mirrored and lightly changed in brightness, contrast and tint. *Mosaics* fill random smooth
regions with textures cut from the training images' own regions, turned, scaled and changed likewise. Several folders
are drawn from equally often, and a mosaic has the textures of one: gray ones beside coloured ones would be too easy.
*Perturbed regions* are what descriptors meet when an image is segmented: the whole image, boxes, the truth with a
region grown or with its boundaries moved. The loss compares with the true regions all the same.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..datasets import random_regions
from .corpus import Corpus

MOSAIC_SHARE = 0.5
#: Mosaic regions are so many coarse ones, turned at random; new ones for each sample would take too long.
MASKS = 512
#: Share of the photographs that are turned by any angle and enlarged, so that no corner is empty.
TURNED_SHARE = 0.5
MASK_SIDE = 64
#: Least and greatest scale of a texture in a mosaic; much below 1 would alias.
SCALES = (0.8, 1.6)
#: How often the regions are of each kind.
KINDS = {"whole": 0.5, "true": 0.15, "grown": 0.1, "moved": 0.15, "boxes": 0.1}


class Batch(NamedTuple):
    """Images (B, C, S, S), true regions (B, S, S), and the regions to compute descriptors in, likewise."""

    images: Tensor
    truths: Tensor
    regions: Tensor


class Batches:
    """Training samples by step and index, made on the corpus's device.

    `mosaics` makes half of the samples mosaics, and turns, mirrors and tints the photographs. With `perturb`,
    descriptors are computed in perturbed regions, not in the true ones only.
    """

    def __init__(self, corpus: Corpus, seed: int, mosaics: bool = True, perturb: bool = True) -> None:
        self.corpus, self.seed, self.mosaics, self.perturb = corpus, seed, mosaics, perturb
        self._groups = [np.array(group) for group in corpus.groups]
        textures = corpus.textures() if mosaics else np.zeros((0, 5), np.int64)
        self._textures = [textures[np.isin(textures[:, 0], group)] for group in self._groups]
        self._masks: dict[int, Tensor] = {}

    def __call__(self, step: int, indices: range) -> Batch:
        """Return the samples `indices` of the batch of `step`."""
        drawn = [self._sample(np.random.default_rng([1, self.seed, step, index])) for index in indices]
        images, truths, regions = (torch.stack(each) for each in zip(*drawn, strict=True))
        return Batch(images, truths, regions)

    def _sample(self, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        group = int(rng.integers(len(self._groups)))
        if len(self._textures[group]) > 1 and rng.random() < MOSAIC_SHARE:
            image, truth = self._mosaic(self._textures[group], rng)
        else:
            chosen = int(rng.choice(self._groups[group]))
            image, truth = self.corpus.images[chosen], self.corpus.truths[chosen]
            if self.mosaics:
                quarter_turns, mirrored = int(rng.integers(4)), bool(rng.integers(2))
                image, truth = (_turned(each, quarter_turns, mirrored) for each in (image, truth))
                if rng.random() < TURNED_SHARE:
                    image, truth = turn(image, truth, rng.uniform(0, 2 * np.pi))
                image = change_tones(image[None], rng)[0]
        return image, truth, perturbed_regions(truth, rng) if self.perturb else truth

    def _mosaic(self, textures: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        number = int(rng.integers(MASKS))
        if number not in self._masks:
            self._masks[number] = _coarse_mask(self.corpus.size, self.seed, number).to(self.corpus.truths.device)
        mask = _refined(self._masks[number], self.corpus.size)
        mask = _turned(mask, int(rng.integers(4)), bool(rng.integers(2)))
        regions = min(int(mask.max()) + 1, len(textures))
        mask = mask % regions
        chosen = textures[rng.choice(len(textures), regions, replace=False)]
        patches = change_tones(cut_textures(self.corpus.images, chosen, rng), rng)
        filled = patches.gather(0, mask.expand(1, patches.shape[1], *mask.shape))[0]
        return filled, mask


def cut_textures(images: Tensor, rectangles: np.ndarray, rng: np.random.Generator) -> Tensor:
    """Fill a whole picture from each rectangle of `images`, turned and scaled at random, mirrored at its edges.

    Images (N, C, S, S) and rectangles (K, 5), as `Corpus.textures` returns them, give (K, C, S, S).
    """
    size, device = images.shape[-1], images.device
    number, top, left, height, width = rectangles.T
    scale, angle = rng.uniform(*SCALES, len(rectangles)), rng.uniform(0, 2 * np.pi, len(rectangles))
    turn = np.stack([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1)
    start = rng.uniform(0, size, (len(rectangles), 2))
    along = torch.arange(size, dtype=torch.float32, device=device)
    pixels = torch.stack(torch.meshgrid(along, along, indexing="xy"), -1)  # (S, S, 2) of x and y
    moves = torch.as_tensor(turn / scale[:, None, None], dtype=torch.float32).to(device)
    shift = torch.as_tensor(start, dtype=torch.float32).to(device)[:, None, None]
    places = torch.einsum("kij,yxj->kyxi", moves, pixels) + shift
    reach = torch.as_tensor(np.stack([width, height], -1) - 1).to(device)[:, None, None]
    corner = torch.as_tensor(np.stack([left, top], -1)).to(device)[:, None, None]
    folded = reach - (places.remainder(2 * reach) - reach).abs() + corner  # a triangle wave: mirrored copies
    return F.grid_sample(images[torch.as_tensor(number)], folded * (2 / (size - 1)) - 1, align_corners=True)


def turn(image: Tensor, truth: Tensor, angle: float) -> tuple[Tensor, Tensor]:
    """Turn an image (C, S, S) and its truth (S, S) about the centre, enlarged until the square is filled.

    Where fewer than two regions would be left, nothing is done.
    """
    shrink = 1 / (abs(np.cos(angle)) + abs(np.sin(angle)))
    rows = [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0]]
    matrix = shrink * torch.tensor([rows], dtype=image.dtype, device=image.device)
    places = F.affine_grid(matrix, [1, 1, *truth.shape], align_corners=False)
    values = truth.to(image.dtype)[None, None]
    labels = F.grid_sample(values, places, "nearest", "border", align_corners=False)[0, 0].to(truth.dtype)
    if len(labels[labels >= 0].unique()) < 2:
        return image, truth
    return F.grid_sample(image[None], places, "bilinear", "border", align_corners=False)[0], labels


def change_tones(images: Tensor, rng: np.random.Generator) -> Tensor:
    """Change gamma and contrast of each image, and of its channels, a little; the values stay in [0, 1]."""
    count, channels = images.shape[:2]
    gamma = np.exp(rng.uniform(-0.2, 0.2, (count, 1)) + rng.normal(0, 0.03, (count, channels)))
    gain = rng.uniform(0.8, 1.0, (count, 1)) * np.ones((1, channels))
    gamma_gain = torch.as_tensor(np.stack([gamma, gain]), dtype=images.dtype).to(images.device)[..., None, None]
    return gamma_gain[1] * images ** gamma_gain[0]


def perturbed_regions(truth: Tensor, rng: np.random.Generator) -> Tensor:
    """Draw regions (S, S) for the descriptors of an image from its true ones: see `KINDS`."""
    kind = rng.choice(list(KINDS), p=list(KINDS.values()))
    if kind == "whole":
        return torch.zeros_like(truth)
    if kind == "boxes":
        return _boxes(truth, int(rng.integers(1, 5)), int(rng.integers(1, 5)))
    if kind == "grown":
        region, radius = rng.integers(int(truth.max()) + 1), rng.integers(1, 2 + truth.shape[-1] // 10)
        return grow(truth, int(region), int(radius))
    return move_boundaries(truth, rng) if kind == "moved" else truth


def grow(truth: Tensor, region: int, radius: int) -> Tensor:
    """Give `region` all pixels in a square of `radius` around its own, at its neighbours' cost."""
    mask = (truth == region).float()[None, None]
    grown = F.max_pool2d(mask, 2 * radius + 1, stride=1, padding=radius)[0, 0] > 0
    return torch.where(grown, region, truth)


def move_boundaries(truth: Tensor, rng: np.random.Generator) -> Tensor:
    """Deform the regions by a smooth random displacement of up to a tenth of the image or so."""
    amplitude = rng.uniform(0.0, 0.1)  # grid_sample measures the image's side as 2
    return displaced(truth, rng.normal(0, amplitude, (1, 2, 5, 5)))


def displaced(truth: Tensor, points: np.ndarray) -> Tensor:
    """Deform regions (S, S) by a displacement given on a coarse grid, (1, 2, n, n); the image's side is 2."""
    size = truth.shape[-1]
    coarse = torch.as_tensor(points, dtype=torch.float32).to(truth.device)
    displacement = F.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=True)[0]
    along = torch.linspace(-1, 1, size, device=truth.device)
    places = torch.stack(torch.meshgrid(along, along, indexing="xy")) + displacement
    values = truth.float()[None, None]
    sampled = F.grid_sample(values, places.permute(1, 2, 0)[None], "nearest", "border", align_corners=True)
    return sampled[0, 0].to(truth.dtype)


def _boxes(truth: Tensor, rows: int, columns: int) -> Tensor:
    along = torch.arange(truth.shape[-1], device=truth.device)
    row, column = (along * count // truth.shape[-1] for count in (rows, columns))
    return (row[:, None] * columns + column).to(truth.dtype)


def _turned(planes: Tensor, quarter_turns: int, mirrored: bool) -> Tensor:
    turned = planes.rot90(quarter_turns, (-2, -1))
    return turned.flip(-1) if mirrored else turned


def _coarse_mask(size: int, seed: int, index: int) -> Tensor:
    rng = np.random.default_rng([2, seed, index])
    return torch.from_numpy(random_regions(int(rng.integers(2, 6)), max(16, min(size, MASK_SIDE)), rng))


def _refined(mask: Tensor, size: int) -> Tensor:
    """Bring a label map to `size` pixels a side with smooth edges: the regions' interpolated shares decide."""
    shares = F.one_hot(mask).permute(2, 0, 1)[None].float()
    return F.interpolate(shares, size=(size, size), mode="bilinear")[0].argmax(0)
