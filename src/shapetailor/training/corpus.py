"""The training images in memory: one size, one number of channels, values in [0, 1]."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..arrays import Floats32, Ints
from ..datasets import FolderDataset, Sample, SyntheticMultiRegion
from ..datasets.mosaics import Textures as Samples
from ..io.images import as_image
from ..io.intensity import Intensity
from ..labels import largest_rectangle

#: Texture rectangles are looked for on a grid of this many cells a side, and are at least this many cells wide.
CELLS = 32
MIN_CELLS = 5

#: A folder, several, or any sized collection of samples.
Data = str | os.PathLike[str] | Samples | list[str | os.PathLike[str]]


@dataclass(frozen=True)
class Corpus:
    """Images with their true regions."""

    images: Tensor  # (N, C, S, S), float32
    truths: Tensor  # (N, S, S), int64; -1 where a pixel is in no region
    names: tuple[str, ...]
    folders: tuple[int, ...] = ()  # which of several folders each image is from; empty if there is one

    @property
    def groups(self) -> list[list[int]]:
        """The images' numbers, folder by folder."""
        if not self.folders:
            return [list(range(len(self.names)))]
        return [[i for i, folder in enumerate(self.folders) if folder == each] for each in sorted(set(self.folders))]

    @property
    def size(self) -> int:
        """Side of the images in pixels."""
        return int(self.images.shape[-1])

    def to(self, device: torch.device) -> Corpus:
        """Return the same on `device`."""
        return replace(self, images=self.images.to(device), truths=self.truths.to(device))

    def take(self, chosen: list[int]) -> Corpus:
        """Return some of the images."""
        folders = tuple(self.folders[each] for each in chosen) if self.folders else ()
        return Corpus(self.images[chosen], self.truths[chosen], tuple(self.names[each] for each in chosen), folders)

    def split(self, share: float, seed: int) -> tuple[Corpus, Corpus]:
        """Hold out `share` of the images, at least one and at random; return the others and these."""
        order = np.random.default_rng([3, seed]).permutation(len(self.names)).tolist()
        held_out = min(max(1, round(share * len(order))), len(order) - 1)
        return self.take(sorted(order[held_out:])), self.take(sorted(order[:held_out]))

    def fingerprint(self) -> str:
        """Return a digest of every name, pixel and label: equal for equal data only."""
        digest = hashlib.sha256("\n".join(self.names).encode())
        for tensor in (self.images, self.truths):
            digest.update(tensor.cpu().numpy().tobytes())
        return digest.hexdigest()

    def textures(self) -> Ints:
        """Find the textures to make mosaics of: in every region the greatest rectangle, unless it is small.

        Rows of (M, 5) are the number of the image, and in it top, left, height and width.
        """
        cell = max(1, self.size // CELLS)
        found = []
        for number, truth in enumerate(self.truths.cpu()):
            for region in range(int(truth.max()) + 1):
                outside = (truth != region).float()[None, None]
                inside = F.max_pool2d(outside, cell)[0, 0] == 0  # cells that lie in the region entirely
                rows, columns = largest_rectangle(inside.numpy())
                height, width = rows.stop - rows.start, columns.stop - columns.start
                if min(height, width) >= MIN_CELLS:
                    found.append([number, *(cell * each for each in (rows.start, columns.start, height, width))])
        return np.array(found, np.int64).reshape(-1, 5)


def read_corpus(
    data: Data, size: int, ignore: int | None = None, stride: int = 1, most: int | None = None, seed: int = 0,
    intensity: Intensity | None = None,
) -> Corpus:  # fmt: skip
    """Read folders with `images/` and `masks/`, or any dataset, and resize everything to `size` × `size`.

    Values become 0..1 by `intensity`, the rule of the model. Gray images among coloured ones get three equal channels.
    Of several annotators the first is taken. Two regions must be left of each image on the grid of every `stride`-th
    pixel, where the loss looks at it. Of each folder at most `most` images are taken, drawn by `seed`. A ValueError
    names everything that cannot be trained on: files that cannot be read or have no partner, masks of another size than
    their image, images that are not finite, with fewer than two regions or an unlike number of channels.
    """
    datasets = [_opened(each, ignore) for each in _parts(data)]
    problems = [each for part in datasets if isinstance(part, FolderDataset) for each in part.problems(min_regions=2)]
    pictures, truths, names, folders = [], [], [], []
    if not problems:
        chosen = ((number, index) for number, part in enumerate(datasets) for index in _chosen(len(part), most, seed))
        for number, index in chosen:
            sample = datasets[number][index]
            try:
                values = (intensity or Intensity())(as_image(sample.image))
            except (TypeError, ValueError) as error:
                problems.append(f"{sample.name}: {error}")
                continue
            folders.append(number)
            pictures.append(_resized(values, size))
            truths.append(_first_truth(sample, size))
            names.append(sample.name)
            seen = truths[-1][stride // 2 :: stride, stride // 2 :: stride]
            if len(seen[seen >= 0].unique()) < 2:
                side = len(seen)
                problems.append(f"{sample.name}: fewer than 2 regions are left on a grid of {side}×{side} pixels")
        problems += _unlike_channels(pictures, names)
        problems += [f"{len(names)} image(s): at least 2 are needed, one of them to validate"] if len(names) < 2 else []
    if problems:
        raise ValueError("the training data cannot be used:\n" + "\n".join(f"  {each}" for each in problems))
    channels = max(len(each) for each in pictures)
    images = torch.stack([each.expand(channels, size, size) for each in pictures])
    return Corpus(images, torch.stack(truths), tuple(names), tuple(folders) if len(datasets) > 1 else ())


def _parts(data: Data) -> list[Any]:
    """Several folders as they are; a folder or a collection of samples as one part."""
    if isinstance(data, list) and data and all(isinstance(each, str | os.PathLike) for each in data):
        return data
    return [data]


def _opened(data: str | os.PathLike[str] | Samples, ignore: int | None) -> Samples:
    if not isinstance(data, str | os.PathLike):
        return data
    if (Path(data) / "groundtruth").is_dir() and not (Path(data) / "masks").is_dir():
        return SyntheticMultiRegion(data, "train")
    return FolderDataset(data, ignore)


def _chosen(count: int, most: int | None, seed: int) -> list[int]:
    if most is None or count <= most:
        return list(range(count))
    chosen: list[int] = np.random.default_rng([6, seed]).choice(count, most, replace=False).tolist()
    return sorted(chosen)


def _resized(image: Floats32, size: int) -> Tensor:
    """Return (C, size, size) of H×W or H×W×C values in 0..1."""
    values = torch.from_numpy(image)
    planes = values[None] if values.ndim == 2 else values.permute(2, 0, 1)
    if planes.shape[1:] == (size, size):
        return planes.contiguous()
    return F.interpolate(planes[None], (size, size), mode="bilinear", antialias=True)[0].clamp(0, 1)


def _first_truth(sample: Sample, size: int) -> Tensor:
    truth = torch.from_numpy(np.ascontiguousarray(sample.truths[0]))
    return F.interpolate(truth[None, None].double(), (size, size), mode="nearest-exact")[0, 0].long()


def _unlike_channels(pictures: list[Tensor], names: list[str]) -> list[str]:
    most = max((len(each) for each in pictures), default=1)
    return [
        f"{name}: has {len(each)} channels, other images {most}"
        for each, name in zip(pictures, names, strict=True)
        if len(each) not in (1, most) or (len(each) == 1 and most > 3)
    ]


def data_name(data: Data) -> str:
    """Say in a model's record where its data came from, without the path that it lay under."""
    names = (Path(p).resolve().name if isinstance(p, str | os.PathLike) else type(p).__name__ for p in _parts(data))
    return ", ".join(names)
