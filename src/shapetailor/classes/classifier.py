"""The classifier: taught with marked pictures, applied to others, kept in one file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from ..arrays import Floats32, Labels
from ..io.intensity import Intensity
from ..network.checkpoint import model_path, read_model, read_tensors, write_tensors
from ..network.stdnn import STDNN, STDNNConfig
from ..segmentation.canvas import Canvas, canvas_of
from ..segmentation.usage import Usage
from .classification import Classification, PixelSize
from .features import check_network, describe, feature_count
from .head import Head, fit
from .names import IGNORE, UNLABELLED, ClassName, as_classes

FORMAT, FORMAT_VERSION = "classifier", 1
#: Larger pictures are reduced for the work.
MAX_PIXELS = 2**22
#: Marked cells of a picture that are learnt from, at most.
MOST_CELLS = 12_000


class Taught(NamedTuple):
    """A marked picture: its name for messages, the picture, and its marks.

    Marks are H×W integers: values of classes, 0 or negative where nothing is marked, 255 where nothing shall be learnt.
    """

    name: str
    image: Any
    marks: Any


@dataclass(frozen=True, eq=False)
class Classifier:
    """Gives every pixel of a picture its class.

    Made by `teach` or `load`.

    Attributes
    ----------
    classes : tuple of ClassName
    net : STDNN
        Both networks.
    head : Head
    resolution : int
        Longest side of the pictures it was taught with: the networks' scales are set for it, and stay the same for
        pictures of other sizes, so that a part of a picture is classified like the whole.
    intensity : Intensity
        The way from stored numbers to 0..1.
    record : dict
        What it was taught with: seed, fingerprint of the marks, names of the pictures, marked pixels of each class.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> image = (rng.random((64, 96)) * np.where(np.arange(96) < 48, 60, 255)).astype(np.uint8)
    >>> marks = np.zeros((64, 96), int)
    >>> marks[:, 4:40], marks[:, 56:92] = 1, 2
    >>> taught = Classifier.teach([(image, marks)], ["dark", "bright"])
    >>> [row.value for row in taught.apply(image).table if row.fraction > 0.4]
    [1, 2]
    """

    classes: tuple[ClassName, ...]
    net: STDNN
    head: Head
    resolution: int
    intensity: Intensity
    record: dict[str, Any]

    @classmethod
    def teach(
        cls,
        samples: Iterable[tuple[Any, Any] | Taught],
        classes: Iterable[Any],
        *,
        model: str | os.PathLike[str] = "texture",
        seed: int = 0,
    ) -> Classifier:
        """Learn a head from marked pictures, all at once.

        Parameters
        ----------
        samples : iterable of (image, marks) or Taught
            Pictures as `Segmenter.segment` takes them. Only one is in memory at a time.
        classes : iterable of ClassName, mappings or names
        model : str or path
            The networks: a shipped model's name or a model file.
        seed : int
        """
        known = as_classes(classes)
        loaded = read_model(model)
        check_network(loaded.net)
        usage = Usage.from_dict(loaded.usage) if loaded.usage else Usage()
        lesson = Lesson(known, loaded.net, usage.intensity, seed)
        for number, sample in enumerate(samples):
            lesson.add(_taught(sample, number))
        features, targets = lesson.cells()
        head = fit(features, targets, len(known), seed)
        return cls(known, lesson.net, head, lesson.resolution, usage.intensity, lesson.record)

    def apply(self, image: Any, pixel_size: PixelSize | tuple[float, str] | None = None) -> Classification:
        """Classify one picture; `pixel_size` is the side of a pixel and its unit."""
        canvas = canvas_of(image, self.net.image_channels, self.net.stride, MAX_PIXELS, self.intensity)
        features = describe(self.net, canvas.values)
        probabilities = _upright(self.head.probabilities(features), canvas, _cell_side(self.net))
        values = np.array([each.value for each in self.classes], np.uint8)
        labels = values[probabilities.argmax(axis=0)]
        if canvas.valid is not None:  # outside the picture there is no class
            labels = np.where(canvas.valid, labels, np.uint8(IGNORE))
        size = None if pixel_size is None else PixelSize(*pixel_size)
        return Classification(
            labels=labels,
            probabilities=probabilities,
            image=canvas.original,
            classes=self.classes,
            pixel_size=size,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, atomically; equal classifiers give equal files."""
        tensors = {f"net.{name}": each for name, each in self.net.state_dict().items()}
        tensors |= {f"head.{name}": each for name, each in self.head.state_dict().items()}
        header = {
            "config": self.net.config.to_dict(),
            "classes": [each.to_dict() for each in self.classes],
            "resolution": self.resolution,
            "intensity": self.intensity.to_dict(),
            "record": self.record,
        }
        write_tensors(model_path(path), tensors, FORMAT, FORMAT_VERSION, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Classifier:
        """Read what `save` wrote; a ValueError says what a file is that is none of this kind."""
        path = Path(path)
        tensors, header = read_tensors(path, FORMAT, FORMAT_VERSION)
        try:
            net = STDNN(STDNNConfig.from_dict(header["config"]))
            net.load_state_dict(_under("net.", tensors))
            classes = as_classes(header["classes"])
            head = Head(feature_count(net), len(classes))
            head.load_state_dict(_under("head.", tensors))
            intensity = Intensity.from_dict(header["intensity"])
            resolution, record = int(header["resolution"]), dict(header["record"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{path}: what it holds does not fit this version's classifier: {error}") from error
        return cls(classes, net.eval(), head.eval().requires_grad_(False), resolution, intensity, record)


class Lesson:
    """Marked cells of all pictures, collected one picture at a time."""

    def __init__(self, classes: tuple[ClassName, ...], net: STDNN, intensity: Intensity, seed: int) -> None:
        self.classes, self.net, self.intensity, self.seed = classes, net, intensity, seed
        self.resolution = 0
        self._names: list[str] = []
        self._pixels = np.zeros(len(classes), np.int64)
        self._digest = hashlib.sha256()
        self._features: list[Tensor] = []
        self._targets: list[Tensor] = []

    @property
    def record(self) -> dict[str, Any]:
        """What is kept in the file."""
        pixels = {each.name: int(count) for each, count in zip(self.classes, self._pixels, strict=True)}
        digest = self._digest.hexdigest()
        return {"seed": self.seed, "marks": digest, "pictures": self._names, "marked_pixels": pixels}

    def add(self, sample: Taught) -> None:
        """Describe a picture and keep its marked cells, a random part of them where there are very many."""
        canvas = canvas_of(sample.image, self.net.image_channels, self.net.stride, MAX_PIXELS, self.intensity)
        marks = class_numbers(sample.marks, self.classes, canvas.source.shape, sample.name)
        self._digest.update(
            canvas.original.tobytes() + marks.astype(np.int16).tobytes() + bytes(str(marks.shape), "ascii")
        )
        self._names.append(sample.name)
        if (marks < 0).all():
            raise ValueError(f"{sample.name}: it marks no pixel with a class")
        self._pixels += np.bincount(marks[marks >= 0], minlength=len(self.classes))
        if not self.resolution:
            self.resolution = max(canvas.values.shape[1:])
            self.net = self.net.rescaled(self.resolution)
        features = describe(self.net, canvas.values)
        cells = cell_classes(canvas.marks_in(marks, sample.name), _cell_side(self.net), len(self.classes))
        chosen = np.flatnonzero(cells >= 0)
        if len(chosen) > MOST_CELLS:
            rng = np.random.default_rng([self.seed, len(self._names)])
            chosen = np.sort(rng.choice(chosen, MOST_CELLS, replace=False))
        self._features.append(features.flatten(1)[:, torch.from_numpy(chosen)].T.contiguous())
        self._targets.append(torch.from_numpy(cells.ravel()[chosen]))

    def cells(self) -> tuple[Tensor, Tensor]:
        """Return features (n, F) and classes (n,) of all marked cells."""
        if not self._names:
            raise ValueError("samples must hold at least one marked picture, got none")
        if np.count_nonzero(self._pixels) < 2:
            only = ", ".join(each.name for each, count in zip(self.classes, self._pixels, strict=True) if count)
            raise ValueError(f"marks must be of at least two classes, got {only} only")
        return torch.cat(self._features), torch.cat(self._targets)


def class_numbers(marks: Any, classes: tuple[ClassName, ...], shape: tuple[int, ...], name: str) -> Labels:
    """Check a map of classes' values and return the classes' places in `classes`, −1 where nothing is to be learnt."""
    array = np.asarray(marks.detach().cpu() if isinstance(marks, Tensor) else marks)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: marks must hold integers, got {array.dtype}")
    if array.shape != tuple(shape):
        raise ValueError(f"{name}: marks must have the picture's size {tuple(shape)}, got {array.shape}")
    values = [each.value for each in classes]
    present = np.unique(array[(array > UNLABELLED) & (array != IGNORE)])
    unknown = np.setdiff1d(present, values)
    if len(unknown):
        known = ", ".join(f"{each.value} {each.name}" for each in classes)
        raise ValueError(f"{name}: marks name the unknown class {', '.join(map(str, unknown))}; classes are {known}")
    places = np.full(256, -1, np.int64)
    places[values] = np.arange(len(values))
    numbers: Labels = places[np.clip(array, 0, 255)]
    return numbers


def cell_classes(marks: Labels, side: int, classes: int) -> Labels:
    """Return the class that most marked pixels of each block have, (h, w); −1 where none is marked."""
    rest = [(0, -length % side) for length in marks.shape]
    whole = np.pad(marks, rest, constant_values=-1)
    blocks = whole.reshape(whole.shape[0] // side, side, whole.shape[1] // side, side)
    votes = np.stack([(blocks == number).sum(axis=(1, 3)) for number in range(classes)])
    found: Labels = np.where(votes.any(axis=0), votes.argmax(axis=0), -1)
    return found


def _cell_side(net: STDNN) -> int:
    assert net.fine is not None
    return net.fine.stride


def _upright(probabilities: Tensor, canvas: Canvas, side: int) -> Floats32:
    """Bring probabilities of cells (K, h, w) to the picture's size."""
    pixels = interpolate(probabilities[None], scale_factor=side, mode="bilinear", align_corners=False)[0].numpy()
    height, width = canvas.values.shape[1:]
    upright = canvas.upright(pixels[:, :height, :width])
    if canvas.factor > 1:
        upright = upright.repeat(canvas.factor, axis=1).repeat(canvas.factor, axis=2)
    height, width = canvas.source.shape
    return np.ascontiguousarray(upright[:, :height, :width])


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}


def _taught(sample: Any, number: int) -> Taught:
    if isinstance(sample, Taught):
        return sample
    if not isinstance(sample, (tuple, list)) or len(sample) != 2:
        raise TypeError(f"samples must be pairs of image and marks, got {type(sample).__name__} as number {number}")
    return Taught(f"sample {number}", *sample)
