"""Image in, regions out: what most users import."""

from __future__ import annotations

import os
from dataclasses import replace
from math import isqrt
from typing import Any, Literal, Protocol, Self, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn

from .. import labels as maps
from ..arrays import Floats32, Labels
from ..evolution.config import EvolutionConfig
from ..evolution.evolve import Callback, evolve
from ..network.checkpoint import load_model
from ..network.stdnn import STDNN
from ..network.two_level import TwoLevels, describe_whole
from . import starts
from .canvas import as_picture
from .cleanup import remove_small
from .pose import Frame, frame_of
from .result import Segmentation

Start = Literal["best", "ncut", "kmeans", "boxes"]

#: Larger pictures have blocks small enough, and are not described in several positions of the grid of blocks.
FINE_PIXELS = 2**20
#: How regions move where a second network says where boundaries lie (`levels`): by up to 8 pixels at once.
SHARP = EvolutionConfig(iterations=2, reach=5, move=4.0, locality=0.1875, rim=2, likeness=4.0)
#: The same from regions that may be far from right, where means of the whole region pull boundaries over a distance.
FAR = EvolutionConfig(iterations=40, reach=5, move=4.0, likeness=4.0)
#: How regions move by one network on blocks of pixels.
ALONE = EvolutionConfig(likeness=4.0)
#: Most regions that `regions="auto"` looks for.
MOST_REGIONS = 8
#: Pixels to work on, at most, unless more are asked for. The shipped model takes about 3.5 GB for so many.
MAX_PIXELS = 2**22


class Describer(Protocol):
    """What computes descriptors: an `STDNN`, or any module that has these.

    It may have `STDNN.compact`, if it works on blocks, and `STDNN.warm`, if first guesses save it time.
    """

    @property
    def image_channels(self) -> int:
        """Channels of the pictures that `prepare` takes."""

    @property
    def stride(self) -> int:
        """Side of the blocks of pixels it works on; 0 where it looks beyond regions and wants whole images."""

    def prepare(self, image: Tensor) -> Tensor:
        """Preprocess whole pictures (1, C, H, W) with values in 0..1."""

    def rescaled(self, resolution: int) -> Self:
        """Return the same for pictures of another longest side."""

    def __call__(self, image: Tensor, labels: Tensor) -> Tensor:
        """Prepared pictures and labels (1, H, W) in, descriptors (1, D, H, W) out; zero where labels are negative."""


class Segmenter:
    """Splits pictures into textured regions by their descriptors.

    Parameters
    ----------
    net : Describer
        A trained `STDNN`; other descriptors will do.
    device : str or torch.device
    max_pixels : int
        Larger pictures are reduced for the work, by averaging blocks of 2×2, 3×3, … pixels. The label map has the full
        size again, with boundaries in steps of a block; what a callback sees, and the descriptors that may be returned,
        have the reduced size. Memory and time grow in proportion: 2**24 (4096²) take about 11 GB.

    Examples
    --------
    >>> segmenter = Segmenter.from_pretrained("texture")
    >>> half = np.where(np.arange(64) < 32, 40, 200).astype(np.uint8)
    >>> result = segmenter.segment(np.tile(half, (64, 1)), regions=2)
    >>> result.labels.shape, len(np.unique(result.labels))
    ((64, 64), 2)
    """

    def __init__(self, net: Describer, device: str | torch.device = "cpu", max_pixels: int = MAX_PIXELS) -> None:
        if max_pixels < 1:
            raise ValueError(f"max_pixels must be at least 1, got {max_pixels}")
        self.net, self.device, self.max_pixels = net, torch.device(device), max_pixels
        if isinstance(net, nn.Module):
            net.to(device).eval()

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | os.PathLike[str],
        device: str | torch.device = "cpu",
        max_pixels: int = MAX_PIXELS,
    ) -> Segmenter:
        """Load a shipped model by its name ("texture"), or a model file."""
        return cls(load_model(name_or_path)[0], device, max_pixels)

    @property
    def evolution(self) -> EvolutionConfig:
        """How regions move unless `segment` is told otherwise, on pictures of up to 1024² and from its own start."""
        return _usual(self.net, getattr(self.net, "fine", None) is not None, far=False)

    def segment(
        self,
        image: Any,
        regions: int | Literal["auto"] | None = None,
        *,
        init: Any = None,
        scribbles: Any = None,
        start: Start = "ncut",
        iterations: int | None = None,
        evolution: EvolutionConfig | None = None,
        min_share: float = 0.005,
        seed: int = 0,
        callback: Callback | None = None,
        return_descriptors: bool = False,
    ) -> Segmentation:
        """Segment one picture.

        Parameters
        ----------
        image : H×W or H×W×C array, tensor (the same, or C×H×W), PIL image or path
            Gray, colour or up to 16 channels; 8-bit, 16-bit or floating point.
        regions : int or "auto"
            How many regions; "auto" chooses, 1 to 8, by how little the parts of the picture are alike. Not needed with
            `init` or `scribbles`.
        init : H×W integers, optional
            Regions to start from, numbered from 0.
        scribbles : H×W integers, optional
            Marked pixels, which keep their region; −1 is unmarked.
        start : {"ncut", "kmeans", "best", "boxes"}
            Where to start from otherwise: a normalised cut or k-means of whole-image descriptors, whichever of these
            two has the lower energy, or the paper's boxes.
        iterations : int, optional
            Of the evolution, at most; else the model's own number for such a start and picture. 0 leaves the start.
        evolution : EvolutionConfig, optional
            How the regions move; ``dataclasses.replace(segmenter.evolution, ...)`` changes the model's own way.
        min_share : float
            Connected pieces below this share of the picture are given to their neighbours at the end.
        seed : int
            Of everything random.
        callback : callable, optional
            ``callback(iteration, labels, energy)`` as the regions evolve; True stops. Labels have the size that is
            worked at, see `max_pixels`.
        return_descriptors : bool
            Keep the descriptors of the final regions in the result, at the size that is worked at.

        Returns
        -------
        Segmentation
            Regions that could not be found, or that vanished, are named in `vanished`; no number is given twice.
        """
        if start not in get_args(Start):
            raise ValueError(f"start must be one of {get_args(Start)}, got {start!r}")
        if iterations is not None and evolution is not None:
            raise ValueError("give iterations or an evolution, which has its own; got both")
        picture = as_picture(image, self.net.image_channels, self.max_pixels)
        marks = None if scribbles is None else maps.from_scribbles(scribbles)
        first = None if init is None else _as_start(init)
        count = _count(regions, first, marks)
        frame = frame_of(picture.values, self.net.stride)
        values = frame.picture(picture.values)
        fixed = None if marks is None else frame.labels(picture.reduce_marks(marks, "scribbles"))
        given = None if first is None else frame.labels(picture.reduce_labels(first, "init"))
        net = self.net.rescaled(max(values.shape[1:]))
        with torch.no_grad():
            prepared = net.prepare(torch.from_numpy(values)[None].to(self.device))
        small = values[0].size <= FINE_PIXELS
        fine = getattr(net, "fine", None) if small else None
        config = evolution or _usual(net, fine is not None, far=given is not None or start == "boxes")
        if iterations is not None:
            config = replace(config, iterations=iterations)
        several = net.stride > 1 and config.iterations > 0 and small
        whole = self._whole(net, prepared, fine=several) if given is None or several else None
        if given is None:
            assert whole is not None
            given, count = _start(whole, count, fixed, start, np.random.default_rng(seed))
        watch = None if callback is None else _unframed(callback, frame)
        if fine is not None and whole is not None and several:
            levels = TwoLevels(fine, len(whole))
            joined = levels.prepare(torch.from_numpy(values)[None].to(self.device), torch.from_numpy(whole))
            run = evolve(joined, given, levels, config, fixed=fixed, align=fine.stride, seen=values, callback=watch)
            labels = _finish(run.labels, fixed, fine.stride, min_share)
        else:
            if not several:
                whole = None  # descriptors of all pixels are the largest thing there is
            run = evolve(prepared, given, net, config, fixed=fixed, align=net.stride, seen=values, callback=watch)
            labels = run.labels
            if whole is not None and not config.likeness:
                labels = starts.snap(whole, labels, config.reach * net.stride)
            labels = _finish(labels, fixed, net.stride / 2, min_share)
        full = picture.restore_labels(frame.undo(labels))
        if marks is not None:
            full = np.where(marks >= 0, marks, full)
        present = set(np.unique(full if marks is not None or frame.zoom > 1 else labels).tolist())
        return Segmentation(
            labels=full,
            energy=run.energy,
            iterations=run.iterations,
            converged=run.converged,
            vanished=tuple(sorted(set(range(count)) - present)),
            descriptors=frame.undo(self._describe(net, prepared, labels)) if return_descriptors else None,
            image=picture.original,
            seed=seed,
        )

    def _whole(self, net: Describer, prepared: Tensor, fine: bool) -> Floats32:
        """Descriptors (D, H, W) of the whole picture as one region; with `fine`, in four positions of the blocks."""
        whole: Floats32 = describe_whole(cast(STDNN, net), prepared, 2 if fine else 1)[0].cpu().numpy()
        return whole

    def _describe(self, net: Describer, prepared: Tensor, labels: Labels) -> Floats32:
        """Descriptors (D, H, W) of all pixels."""
        maps = torch.from_numpy(labels)[None].to(self.device)
        with torch.no_grad():
            if net.stride <= 1 or not hasattr(net, "compact"):
                found: Floats32 = net(prepared, maps)[0].cpu().numpy()
                return found
            rows, row_of_pixel = (each.cpu() for each in net.compact(prepared, maps))
        # Channel by channel: the network's own way from blocks to pixels takes several times the memory.
        pixels = np.empty((rows.shape[1], *labels.shape), np.float32)
        for channel, values in zip(pixels, rows.T.contiguous(), strict=True):
            channel[...] = values[row_of_pixel[0]].numpy()
        return pixels


def _usual(net: Describer, both: bool, far: bool) -> EvolutionConfig:
    """How regions move by default: by both networks, by one on blocks of pixels, or as in the paper."""
    if both:
        return FAR if far else SHARP
    return ALONE if net.stride > 1 else EvolutionConfig()


def _unframed(callback: Callback, frame: Frame) -> Callback:
    """Show a callback the regions as the picture lies."""
    return lambda iteration, labels, energy: callback(iteration, frame.undo(labels), energy)


def _finish(labels: Labels, fixed: Labels | None, radius: float, min_share: float) -> Labels:
    """Smooth away what is narrower than a radius of one pixel or more, and small pieces; marked pixels stay."""
    if radius >= 1:
        labels = maps.smooth_boundaries(labels, radius)
    if fixed is None:
        return remove_small(labels, min_share)[0]
    return np.where(fixed >= 0, fixed, labels)


def _as_start(init: Any) -> Labels:
    labels = np.asarray(init.detach().cpu() if isinstance(init, Tensor) else init)
    if labels.ndim != 2 or labels.dtype.kind not in "iu":
        raise ValueError(f"init must be H×W integers, got shape {labels.shape} of {labels.dtype}")
    if labels.min() < 0:
        raise ValueError(f"init must give every pixel a region from 0 on, got {int(labels.min())}; see scribbles")
    return labels.astype(np.int64)


def _count(regions: int | str | None, init: Labels | None, scribbles: Labels | None) -> int:
    """How many regions are asked for; 0 stands for "auto"."""
    marked = max((int(labels.max()) + 1 for labels in (init, scribbles) if labels is not None), default=None)
    if regions is None and marked is not None:
        return marked
    if regions == "auto" and marked is None:
        return 0
    if isinstance(regions, bool) or not isinstance(regions, (int, np.integer)) or regions < 1:
        raise ValueError(f"regions must be a number from 1 on, or 'auto'; got {regions!r}")
    if marked is not None and marked != regions:
        raise ValueError(f"regions is {regions}, but init or scribbles name {marked}")
    return int(regions)


def _start(
    whole: Floats32, count: int, fixed: Labels | None, start: Start, rng: np.random.Generator
) -> tuple[Labels, int]:
    """Regions to start from, and how many were asked for."""
    if fixed is not None:
        return starts.scribble_start(whole, fixed), count
    if count == 0:
        chosen = starts.auto_start(whole, MOST_REGIONS, rng)
        count = int(chosen.max()) + 1
        if start == "ncut":
            return chosen, count
    if count == 1:
        return np.zeros(whole.shape[1:], np.int64), 1
    if start == "boxes":
        return maps.boxes(whole.shape[1:], count, per_side=max(8, isqrt(count - 1) + 1)), count
    candidates = []
    if start in ("best", "ncut"):
        candidates.append(starts.ncut_start(whole, count, rng))
    if start in ("best", "kmeans"):
        candidates.append(starts.kmeans_start(whole, count, rng))
    if len(candidates) == 1:
        return candidates[0], count
    return min(candidates, key=lambda labels: starts.within_energy(whole, labels)), count
