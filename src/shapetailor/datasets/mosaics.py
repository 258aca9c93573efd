"""Mosaics: random regions, each filled with another texture, so that the truth is exact.

Two regions: the kind of the paper's synthetic Brodatz set. Three to five: made as in the synthetic multi-region set,
blobs of Gaussians and uniform patches whose edges a mode filter smooths. Six to twelve: cells of scattered points with
crooked boundaries.
"""

# mypy: disable-error-code="no-any-return"
# NumPy types its ufuncs as returning Any; the tests look at what comes out.

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from scipy import ndimage
from torch.utils.data import Dataset

from ..arrays import Array, Labels
from ..io.intensity import Intensity
from .noise import Shape, smooth_noise
from .sample import Sample

#: Number of regions → the smallest share of the picture that each has.
MIN_SHARE = {2: 0.18, 3: 0.08, 4: 0.06, 5: 0.05} | {regions: 0.25 / regions for regions in range(6, 13)}
#: Most regions that are painted one over the other.
PAINTED = 5


class Textures(Protocol):
    """A sized collection of textures: `TextureFolder`, `ProceduralTextures`, a list of samples."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Sample: ...


def random_regions(regions: int, size: int | Shape, rng: np.random.Generator) -> Labels:
    """Draw a label map with regions 0 … `regions` - 1, none of them small.

    Up to five, each region after the first is a blob painted over the ones before: a random chain of Gaussians,
    thresholded, with a few uniform rectangles where there are more than two regions. More are the cells of random
    points, in coordinates that smooth noise has bent. A mode filter then rounds the edges.

    Parameters
    ----------
    regions : int
        2 to 12.
    size : int or (int, int)
        Side, or height and width, in pixels; at least 16.
    rng : numpy.random.Generator
    """
    shape = (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
    if regions not in MIN_SHARE:
        raise ValueError(f"regions must be 2 to {max(MIN_SHARE)}, got {regions}")
    if min(shape) < 16:
        raise ValueError(f"size must be at least 16 pixels, got {size}")
    while True:
        labels = np.zeros(shape, np.int64) if regions <= PAINTED else _cells(shape, regions, rng)
        for region in range(1, regions if regions <= PAINTED else 0):
            labels[_blob(shape, regions, rng)] = region
        labels = _mode_filter(labels, regions, sigma=max(shape) / 100)
        shares = np.bincount(labels.ravel(), minlength=regions) / labels.size
        if shares.min() >= MIN_SHARE[regions]:
            return labels


def mosaic(textures: Sequence[Array], size: int | Shape, rng: np.random.Generator, name: str = "") -> Sample:
    """Fill random regions with one texture each, cropped, turned and scaled at random.

    Parameters
    ----------
    textures : sequence of ndarray
        2 to 12 images of 8 or 16 bits or floats in [0, 1], H×W or H×W×3; if one is in colour, so is the mosaic.
    size : int or (int, int)
        Side, or height and width, in pixels.
    rng : numpy.random.Generator
    name : str
        Of the sample.

    Returns
    -------
    Sample
        uint8 image, and the regions as its only truth: label k is where ``textures[k]`` shows.
    """
    for each in textures:
        if each.ndim != 2 and each.shape[2:] != (3,):
            raise ValueError(f"textures must be H×W or H×W×3, got shape {each.shape}")
    labels = random_regions(len(textures), size, rng)
    in_colour = any(each.ndim == 3 for each in textures)
    image = np.zeros((*labels.shape, 3) if in_colour else labels.shape, np.uint8)
    for region, each in enumerate(textures):
        inside = labels == region
        patch = _patch(Intensity().bytes(each), labels.shape, rng)[inside]
        image[inside] = patch if patch.ndim == image.ndim - 1 else patch[:, None]
    return Sample(image, (labels,), name)


#: Shortest side of a mosaic, in pixels.
SMALLEST = 8


class MosaicDataset(Dataset[Sample]):
    """A fixed collection of mosaics, made on access.

    Parameters
    ----------
    textures : Textures
        Each mosaic draws different ones from here. Kept in memory once read.
    count : int
        How many mosaics.
    regions : (int, int)
        The least and the greatest number of regions.
    size : int or (int, int)
        Side, or height and width, in pixels.
    seed : int
        Mosaic i depends on the textures, the seed and i alone.
    classes : sequence of str, optional
        The class of each texture: classes are drawn first, and of each of them one texture. By default each texture
        is a class of its own.
    """

    def __init__(
        self, textures: Textures, count: int, regions: tuple[int, int] = (2, 2), size: int | Shape = 256, seed: int = 0,
        classes: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        low, high = regions
        if not 2 <= low <= high <= max(MIN_SHARE):
            raise ValueError(f"regions must be a range within 2 to {max(MIN_SHARE)}, got {low} to {high}")
        if min((size, size) if isinstance(size, int) else size) < SMALLEST:
            raise ValueError(f"size must be at least {SMALLEST} pixels a side, got {size}")
        if classes is not None and len(classes) != len(textures):
            raise ValueError(f"classes must be one for each of {len(textures)} textures, got {len(classes)}")
        if len(textures) < high:
            raise ValueError(f"textures must be at least {high} for {high} regions, got {len(textures)}")
        members: dict[object, list[int]] = {}
        for index, name in enumerate(range(len(textures)) if classes is None else classes):
            members.setdefault(name, []).append(index)
        if len(members) < high:
            raise ValueError(f"textures must be of at least {high} classes for {high} regions, got {len(members)}")
        self._members = list(members.values())
        self.textures, self.count, self.regions, self.size, self.seed = textures, count, regions, size, seed
        self._images: dict[int, Array] = {}

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        chosen, rng = self._draw(index)
        for each in chosen:
            if each not in self._images:
                self._images[each] = self.textures[each].image
        return mosaic([self._images[each] for each in chosen], self.size, rng, f"{index:05d}")

    def chosen(self, index: int) -> tuple[int, ...]:
        """Return which textures mosaic `index` shows, in the order of its labels."""
        return self._draw(index)[0]

    def _draw(self, index: int) -> tuple[tuple[int, ...], np.random.Generator]:
        if not 0 <= index < self.count:
            raise IndexError(f"mosaic {index} of {self.count}")
        rng = np.random.default_rng([self.seed, index])
        regions = int(rng.integers(self.regions[0], self.regions[1] + 1))
        drawn = [self._members[each] for each in rng.choice(len(self._members), regions, replace=False)]
        return tuple(each[int(rng.integers(len(each)))] if len(each) > 1 else each[0] for each in drawn), rng


def split_textures(count: int, seed: int = 0) -> tuple[list[int], list[int]]:
    """Split the numbers 0 … `count` - 1 of textures at random: 60 % to train, 40 % to test.

    >>> train, test = split_textures(10)
    >>> len(train), len(test), set(train) & set(test)
    (6, 4, set())
    """
    order = np.random.default_rng(seed).permutation(count)
    first = count - round(0.4 * count)
    return sorted(order[:first].tolist()), sorted(order[first:].tolist())


def split_classes(classes: Sequence[str], seed: int = 0) -> tuple[list[int], list[int]]:
    """Split textures like `split_textures`, but by their classes: no class is in both parts.

    >>> split_classes(["bark", "wool", "bark", "cork", "wool", "tile", "foam"])
    ([3, 5, 6], [0, 1, 2, 4])
    """
    names = list(dict.fromkeys(classes))
    training = {names[each] for each in split_textures(len(names), seed)[0]}
    numbers = range(len(classes))
    return [i for i in numbers if classes[i] in training], [i for i in numbers if classes[i] not in training]


def _cells(shape: Shape, regions: int, rng: np.random.Generator) -> Labels:
    """Return which of some random points is the nearest, in bent coordinates."""
    bend = 0.08 * max(shape)
    y, x = (axis + bend * smooth_noise(shape, rng, max(shape) / 8) for axis in np.mgrid[: shape[0], : shape[1]])
    points = rng.uniform(0, 1, (regions, 2)) * shape
    distances = [(y - py) ** 2 + (x - px) ** 2 for py, px in points]
    return np.argmin(distances, axis=0).astype(np.int64)


def _blob(shape: Shape, regions: int, rng: np.random.Generator) -> Array:
    """Return a mask: a thresholded chain of Gaussians and, among many regions, uniform patches."""
    extent = 0.24 * np.array(shape) * rng.uniform(0.8, 1.2)
    margin = 0.25 if regions == 2 else 0.0
    centre = rng.uniform(margin, 1 - margin, 2) * shape
    y, x = np.mgrid[: shape[0], : shape[1]]
    field = np.zeros(shape)
    patches = np.zeros(shape, bool)
    for _ in range(int(rng.integers(3, 8))):
        sy, sx = extent * rng.uniform(0.3, 0.7, 2)
        field += np.exp(-0.5 * (((y - centre[0]) / sy) ** 2 + ((x - centre[1]) / sx) ** 2))
        if regions > 2 and rng.random() < 0.25:
            hy, hx = extent * rng.uniform(0.3, 0.7, 2)
            patches |= (np.abs(y - centre[0]) < hy) & (np.abs(x - centre[1]) < hx)
        centre = np.clip(centre + rng.normal(0, 0.8, 2) * extent, 0, shape)
    field += 0.15 * smooth_noise(shape, rng, max(shape) / 7)  # bays and capes
    return (field > rng.uniform(0.5, 0.8)) | patches


def _mode_filter(labels: Labels, regions: int, sigma: float) -> Labels:
    """Give each pixel the label most frequent around it, under a Gaussian window; drop stray pieces."""
    votes = np.stack([ndimage.gaussian_filter((labels == k).astype(float), sigma) for k in range(regions)])
    while True:
        labels = votes.argmax(0)
        pieces = [ndimage.label(labels == k)[0] for k in range(regions)]
        small = [(np.bincount(each.ravel()) < 0.01 * each.size)[each] & (each > 0) for each in pieces]
        if not np.any(small):
            return labels
        votes -= 2 * np.stack(small)


def _patch(image: Array, shape: Shape, rng: np.random.Generator) -> Array:
    """Sample a random crop of `image`, turned by any angle and scaled by 0.75 to 1.35."""
    scale, angle = rng.uniform(0.75, 1.35), rng.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) / scale
    half = (np.array(shape) - 1) / 2
    reach = np.abs(turn) @ half  # of the turned crop, from its centre; it stays inside where it can
    room = np.maximum((np.array(image.shape[:2]) - 1) / 2 - reach, 0)
    centre = (np.array(image.shape[:2]) - 1) / 2 + rng.uniform(-1, 1, 2) * room
    source = image.astype(np.float32)
    if scale < 1:  # against aliasing: a Gaussian of the output pixel's width
        source = ndimage.gaussian_filter(source, [0.5 * np.sqrt(scale**-2 - 1)] * 2 + [0] * (image.ndim - 2))
    planes = source[..., None] if source.ndim == 2 else source
    sampled = [
        ndimage.affine_transform(planes[..., c], turn, centre - turn @ half, output_shape=shape, order=1, mode="mirror")
        for c in range(planes.shape[2])
    ]
    patch = np.clip(np.rint(np.stack(sampled, -1)), 0, 255).astype(np.uint8)
    return patch[..., 0] if image.ndim == 2 else patch
