"""The classifier: taught with marked pictures, applied to others, kept in one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ..arrays import Array, Floats32
from ..io.intensity import Intensity
from ..io.pixel_size import checked_size
from ..labels import most_likely
from ..network.checkpoint import check_finite, model_path, read_model, read_tensors, write_tensors
from ..network.device import usable_device
from ..network.stdnn import STDNN, STDNNConfig
from ..segmentation.canvas import Canvas, canvas_of, enlarged
from ..segmentation.usage import Usage
from .boundaries import follow_colours
from .classification import Classification, PixelSize
from .features import channel_count, check_network, describe, feature_count
from .head import Head
from .lesson import MAX_PIXELS, Lesson, Taught, cell_side
from .names import IGNORE, ClassName, as_classes
from .standard import Standard

#: Since format 2 there are features of the second order, after all others; since 3 `colours_tell`; since 4 a
#: head may have a context; since 5 there is a `standard`.
FORMAT, FORMAT_VERSION = "classifier", 5


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
    standard : Standard or None
        What pictures are standardised by; None, in older files: each by itself.
    resolution : int
        Longest side of the pictures it was taught with: the networks' scales are set for it, and stay the same for
        pictures of other sizes, so that a part of a picture is classified like the whole.
    intensity : Intensity
        The way from stored numbers to 0..1.
    colours_tell : bool
        Whether boundaries follow the colours, since these tell the classes apart in the taught pictures.
    record : dict
        What it was taught with: seed, fingerprint of the marks, names of the pictures, marked pixels of each class; and
        `held_out`, None below three pictures: mean IoU, IoU of each class and accuracy on marked pictures that were
        left out.

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
    standard: Standard | None
    resolution: int
    intensity: Intensity
    colours_tell: bool
    record: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Classifier of {', '.join(each.name for each in self.classes)}, at {self.resolution} pixels>"

    @classmethod
    def teach(
        cls,
        samples: Iterable[tuple[Any, Any] | Taught],
        classes: Iterable[Any],
        *,
        model: str | os.PathLike[str] = "texture",
        seed: int = 0,
        device: str | torch.device = "cpu",
        watch: Callable[[Iterable[str]], Iterable[str]] = iter,
    ) -> Classifier:
        """Learn a head from marked pictures, all at once.

        Parameters
        ----------
        samples : iterable of (image, marks) or Taught
            Pictures as `Segmenter.segment` takes them. Only one is in memory at a time; what is still needed of the
            others lies in temporary files.
        classes : iterable of ClassName, mappings or names
        model : str or path
            The networks: a shipped model's name or a model file.
        seed : int
        device : str or torch.device
            Where pictures are described. The classifier itself is on the CPU.
        watch : callable, optional
            Is given the names of the pictures, which are described as they are taken from what it returns: for
            progress.
        """
        place = usable_device(device)
        if not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ValueError(f"seed must be a whole number from 0 on, got {seed!r}")
        known = as_classes(classes)
        loaded = read_model(model)
        check_network(loaded.net)
        usage = Usage.from_dict(loaded.usage) if loaded.usage else Usage()
        with TemporaryDirectory(prefix="shapetailor-") as folder:
            lesson = Lesson(known, loaded.net.to(place), usage.intensity, seed, Path(folder))
            numbers = count()
            for sample in samples:
                lesson.add(_taught(sample, next(numbers)))
                del sample  # before the next is read
            head, standard, record = lesson.learn(watch)
        net = lesson.net.cpu()
        return cls(known, net, head, standard, lesson.resolution, usage.intensity, lesson.colours_tell, record)

    def apply(self, image: Any, pixel_size: PixelSize | tuple[float, str] | None = None) -> Classification:
        """Classify one picture; `pixel_size` is the side of a pixel and its unit."""
        size = None if pixel_size is None else checked_size(pixel_size)
        canvas = canvas_of(image, self.net.image_channels, self.net.stride, MAX_PIXELS, self.intensity)
        cells = self.head.probabilities(describe(self.net, canvas.values, self.standard))
        probabilities = canvas.planes_out(pixels_of(cells, canvas, cell_side(self.net), self.colours_tell))
        labels: Array = np.array([each.value for each in self.classes], np.uint8)[most_likely(probabilities)]
        if canvas.valid is not None:  # outside the picture there is no class
            labels = np.where(canvas.valid, labels, np.uint8(IGNORE))
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
        if self.standard is not None:
            tensors |= {f"standard.{name}": each for name, each in self.standard.tensors().items()}
        header = {
            "config": self.net.config.to_dict(),
            "classes": [each.to_dict() for each in self.classes],
            "resolution": self.resolution,
            "intensity": self.intensity.to_dict(),
            "colours_tell": self.colours_tell,
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
            check_network(net)
            classes = as_classes(header["classes"])
            state = _under("head.", tensors)
            head = Head(feature_count(net), len(classes), context="context.out.weight" in state)
            if header["format_version"] == 1:  # its head does not read what it has not known
                missing = feature_count(net) - len(state["mean"])
                state |= {name: pad(state[name], (0, missing)) for name in ("mean", "scale", "hidden.weight")}
            head.load_state_dict(state)
            kept = _under("standard.", tensors)
            standard = Standard.from_tensors(kept, channel_count(net)) if kept else None
            intensity = Intensity.from_dict(header["intensity"])
            colours_tell = bool(header.get("colours_tell"))
            resolution, record = int(header["resolution"]), dict(header["record"])
        except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise ValueError(f"{path}: what it holds does not fit this version's classifier: {error}") from error
        check_finite(path, tensors)
        head.eval().requires_grad_(False)
        return cls(classes, net.eval(), head, standard, resolution, intensity, colours_tell, record)


def pixels_of(probabilities: Tensor, canvas: Canvas, side: int, colours_tell: bool) -> Floats32:
    """Bring probabilities of cells (K, h, w) to the canvas's pixels; boundaries follow the colours if these tell."""
    pixels = enlarged(probabilities[None], side)[0].cpu().numpy()
    height, width = canvas.values.shape[1:]
    found = np.ascontiguousarray(pixels[:, :height, :width])
    return follow_colours(found, canvas.values) if colours_tell else found


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}


def _taught(sample: Any, number: int) -> Taught:
    if isinstance(sample, Taught):
        return sample
    if not isinstance(sample, (tuple, list)) or len(sample) != 2:
        raise TypeError(f"samples must be pairs of image and marks, got {type(sample).__name__} as number {number}")
    return Taught(f"sample {number}", *sample)
