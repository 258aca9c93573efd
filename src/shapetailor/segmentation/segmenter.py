"""Image in, regions out: what most users import."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import nn

from .. import labels as maps
from ..arrays import Array, Labels, Mask, as_array
from ..evolution import Callback, EvolutionConfig
from ..network.checkpoint import read_model
from ..network.describer import Describer
from ..network.device import usable_device
from ..strokes.marks import partial_labels
from . import side_by_side, starts
from .canvas import Canvas, canvas_of
from .described import Described
from .end import End
from .many import BATCH_SIZE, Job, Options, segment_each
from .opinions import Opinion, groupings, second_opinions
from .region_count import auto_start, numbers
from .result import Segmentation
from .session import MOST_GIVEN, Session
from .usage import Usage

Start = Literal["ncut", "kmeans", "boxes"]

#: Most regions that `regions="auto"` looks for.
MOST_REGIONS = 16
#: Pixels on which regions are found, at most, unless more are asked for.
MAX_PIXELS = 400**2
#: So many regions, or a number to be found, are looked for on up to `FINER` times as many pixels.
MANY, FINER = 5, 2


class Segmenter:
    """Splits pictures into textured regions by their descriptors.

    Parameters
    ----------
    net : Describer
        A trained `STDNN`; other descriptors will do.
    device : str or torch.device
    max_pixels : int
        Regions of larger pictures are found at a reduced size, on means of blocks of 2×2, 3×3, … pixels; their
        boundaries are then refined level by level down to the pixel (`coarse_to_fine`). What a callback sees, and the
        descriptors that may be returned, have the reduced size. A texture finer than the blocks is lost; with more
        pixels, time and memory grow in proportion: 2**20 (1024²) take about 2.5 GB. Five regions or more, and a number
        to be found, get up to twice as many pixels.
    usage : Usage, optional
        How the network is used; a model's file says it.

    Examples
    --------
    >>> segmenter = Segmenter.from_pretrained("texture")
    >>> half = np.where(np.arange(64) < 32, 40, 200).astype(np.uint8)
    >>> result = segmenter.segment(np.tile(half, (64, 1)), regions=2)
    >>> result.labels.shape, len(np.unique(result.labels))
    ((64, 64), 2)
    """

    def __init__(
        self,
        net: Describer,
        device: str | torch.device = "cpu",
        max_pixels: int = MAX_PIXELS,
        usage: Usage | None = None,
    ) -> None:
        if max_pixels < 1:
            raise ValueError(f"max_pixels must be at least 1, got {max_pixels}")
        self.net, self.device, self.max_pixels = net, usable_device(device), max_pixels
        self._sharpens = True  # False: boundaries in steps of a block, for comparison
        self._planes = self.device.type != "cpu"  # whole planes suit a GPU, compiled code on bands a CPU
        self.usage = usage or Usage.usual(net.stride, net.fine is not None)
        if isinstance(net, nn.Module):
            net.to(self.device).eval()

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | os.PathLike[str],
        device: str | torch.device = "cpu",
        max_pixels: int = MAX_PIXELS,
    ) -> Segmenter:
        """Load a shipped model by its name ("texture"), or a model file."""
        model = read_model(name_or_path)
        try:
            usage = Usage.from_dict(model.usage) if model.usage else None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{name_or_path}: what it says of its usage cannot be understood: {error}") from error
        return cls(model.net, device, max_pixels, usage)

    def __repr__(self) -> str:
        name = type(self.net).__name__
        channels = "1 channel" if self.net.image_channels == 1 else f"{self.net.image_channels} channels"
        blocks = f"{name} for {channels}, blocks of {self.net.stride} pixels"
        second = "" if self.net.fine is None else f" and {self.net.fine.stride}"
        return f"<Segmenter: {blocks}{second}, on {self.device}, max_pixels={self.max_pixels}>"

    @property
    def evolution(self) -> EvolutionConfig:
        """How regions move unless `segment` is told otherwise, on ordinary pictures and from its own start."""
        return self.usage.near

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
        alternatives: int = 0,
    ) -> Segmentation:
        """Segment one picture.

        Parameters
        ----------
        image : H×W or H×W×C array, tensor (the same, or C×H×W), PIL image, path or `io.Picture`
            Gray, colour or up to 16 channels; 8-bit, 16-bit or floating point. Nodata, NaN, infinite, masked and wholly
            transparent pixels are outside the picture, and −1 in the labels.
        regions : int or "auto"
            How many regions, at most 1024; "auto" chooses, 1 to 16, by how little the parts of the picture are alike.
            Not needed with `init` or `scribbles`.
        init : H×W integers, optional
            Regions to start from, at most 1024. Numbers that are left out are closed up, unless there are scribbles or
            `regions` counts them.
        scribbles : H×W integers, optional
            Marked pixels, which keep their region; −1 is unmarked.
        start : {"ncut", "kmeans", "boxes"}
            Where to start from otherwise: a normalised cut or k-means of whole-image descriptors, or the paper's boxes.
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
        alternatives : int
            How many other ways to see the picture the result shall have, see `Segmentation.alternatives`: other cuts
            into as many regions, or with "auto" also into other numbers. Not with `init` or `scribbles`.

        Returns
        -------
        Segmentation
            Regions that could not be found, or that vanished, are named in `vanished`; no number is given twice.
        """
        if start not in get_args(Start):
            raise ValueError(f"start must be one of {get_args(Start)}, got {start!r}")
        if iterations is not None and evolution is not None:
            raise ValueError("give iterations or an evolution, which has its own; got both")
        if evolution is not None and not isinstance(evolution, EvolutionConfig):
            raise TypeError(f"evolution must be an EvolutionConfig, got {type(evolution).__name__}")
        _check_seed(seed)
        _check_alternatives(alternatives, init is not None or scribbles is not None)
        if scribbles is not None and init is None:
            if isinstance(regions, str) and regions == "auto":
                raise ValueError('regions is "auto", but the scribbles say how many; leave regions out')
            session = self.open(image, None if regions is None else _whole_number(regions))
            session.add(maps.from_scribbles(scribbles) if regions is None else partial_labels(scribbles))
            moves = evolution or self.usage.near
            moves = moves if iterations is None else replace(moves, iterations=iterations)
            found = session.result(True, min_share, moves, callback, return_descriptors)
            return replace(found, seed=seed)
        canvas = self._canvas(image, self.max_pixels)
        given = _given(canvas, regions, init, scribbles)
        side, finer = max(canvas.values.shape[1:]), given.start is None and _wants_finer(canvas, given.number)
        if finer:
            most = min(FINER * self.max_pixels, self.usage.fine_pixels)
            canvas = self._canvas(canvas.source, max(self.max_pixels, most))
        config = evolution or self._evolution(canvas, given.start is not None or start == "boxes", iterations)
        end = End(canvas, config, min_share, self._sharpens, seed, given.marks)
        ordinary = given.start is None and start == "ncut" and callback is None and not finer
        if ordinary and not alternatives and not return_descriptors and self._side_by_side(end, given.number):
            return side_by_side.segmented(self.net, end, given.number, self.usage.positions, self.device)
        positions = self.usage.positions if self._is_fine(canvas) and config.iterations else 1
        described = Described.of(canvas, self.net, self.device, positions, given.start is None, side)
        begin = _begin(described, given, start, seed, alternatives)
        if not described.averaged:  # descriptors of all pixels are the largest thing there is
            described = replace(described, whole=None)
        way = _Way(described, given.fixed, end, return_descriptors, given.start is None and start != "boxes")
        others = tuple(way.to_regions(each, int(each.max()) + 1, score=score) for each, score in begin.others)
        return way.to_regions(begin.labels, begin.number, callback, score=begin.score, alternatives=others)

    def segment_many(
        self,
        images: Iterable[Any],
        regions: int | Literal["auto"],
        *,
        iterations: int | None = None,
        min_share: float = 0.005,
        seed: int = 0,
        batch_size: int = BATCH_SIZE,
    ) -> Iterator[Segmentation]:
        """Segment pictures one after the other, on a GPU side by side, from the segmenter's own start.

        On a GPU, pictures of one size are a batch; others are read, and results finished, while it is computed.

        Parameters
        ----------
        images : iterable
            Pictures, as for `segment`. At most two batches of them are held at a time.
        regions, iterations, min_share, seed
            As for `segment`.
        batch_size : int
            Most pictures of a batch on a GPU. Where its memory does not suffice, batches are smaller, with a warning.

        Yields
        ------
        Segmentation
            Of each picture, in their order.
        """
        _check_seed(seed)
        options = Options(_count(regions, None, None), iterations, min_share, seed)
        if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
            raise ValueError(f"batch_size must be a number from 1 on, got {batch_size!r}")
        if self._planes:
            return self._batches(images, options, batch_size)
        return (self.segment(image, regions, iterations=iterations, min_share=min_share, seed=seed) for image in images)

    def _batches(self, images: Iterable[Any], options: Options, batch_size: int) -> Iterator[Segmentation]:
        for done in segment_each(self, images, _as_job, options, batch_size):
            if done.error is not None:
                raise done.error
            assert done.result is not None
            yield done.result

    def _end(self, image: Any, iterations: int | None, min_share: float, seed: int) -> End:
        """Bring a picture to its canvas, and say how it goes on from the segmenter's own start."""
        canvas = self._canvas(image, self.max_pixels)
        return End(canvas, self._evolution(canvas, False, iterations), min_share, self._sharpens, seed)

    def _side_by_side(self, end: End, regions: int) -> bool:
        """Whether a picture goes side by side with others, or in a batch of one."""
        if not self._planes or not self._is_fine(end.canvas):
            return False
        if _wants_finer(end.canvas, regions):
            return False
        return side_by_side.applies(self.net, regions, self.usage.positions, end.config)

    def open(self, image: Any, regions: int | None = None, init: Any = None) -> Session:
        """Describe a picture once, for strokes to follow: ``session.add(stroke)``, ``session.result()``.

        Parameters
        ----------
        image : as for `segment`
        regions : int, optional
            How many regions, at most 1024; by default as many as are marked.
        init : H×W integers, optional
            Regions to mend: a stroke changes the connected piece of them that it lies in, and nothing else.
        """
        return Session(self, image, regions, init)

    def _canvas(self, image: Any, max_pixels: int) -> Canvas:
        return canvas_of(image, self.net.image_channels, self.net.stride, max_pixels, self.usage.intensity)

    def _is_fine(self, canvas: Canvas) -> bool:
        """Whether a picture is small enough for all that the model has."""
        return bool(canvas.values[0].size <= self.usage.fine_pixels)

    def _evolution(self, canvas: Canvas, far: bool, iterations: int | None) -> EvolutionConfig:
        """How regions move by default."""
        usage = self.usage
        config = usage.coarse if not self._is_fine(canvas) else usage.far if far else usage.near
        return config if iterations is None else replace(config, iterations=iterations)


def _wants_finer(canvas: Canvas, regions: int) -> bool:
    """Whether regions are looked for on more pixels: many, or an unknown number, on a reduced picture."""
    return canvas.factor > 1 and (regions == 0 or regions >= MANY)


class _Given(NamedTuple):
    """What a user says of the regions."""

    number: int  # 0: to be found
    start: Labels | None  # on the canvas
    marks: Labels | None  # in the picture
    fixed: Labels | None  # the marks on the canvas


def _given(canvas: Canvas, regions: Any, init: Any, scribbles: Any) -> _Given:
    """Check what is given, and bring it to the canvas."""
    marks = None if scribbles is None else maps.from_scribbles(scribbles)
    first = None if init is None else _as_start(init, canvas.valid, regions, marks)
    return _Given(
        number=_count(regions, first, marks),
        start=None if first is None else canvas.labels_in(first, "init"),
        marks=marks,
        fixed=None if marks is None else canvas.marks_in(marks, "scribbles"),
    )


class _Begin(NamedTuple):
    """Regions to start from on the canvas, their number, and the other opinions with their scores."""

    labels: Labels
    number: int
    score: float | None = None
    others: tuple[Opinion, ...] = ()


def _begin(described: Described, given: _Given, start: Start, seed: int, alternatives: int) -> _Begin:
    if given.start is not None:
        return _Begin(given.start, given.number)
    canvas, whole = described.canvas, described.descriptors()
    first, count = _start(whole, given.number, start, np.random.default_rng(seed), canvas.inside)
    first = canvas.masked(first)
    if not alternatives:
        return _Begin(first, count)
    asked = given.number
    ways = groupings(whole, asked, canvas.inside) if asked else numbers(whole, MOST_REGIONS, canvas.inside)
    score, others = second_opinions(whole, first, ways, alternatives)
    return _Begin(first, count, score, tuple(each._replace(labels=canvas.masked(each.labels)) for each in others))


@dataclass(frozen=True)
class _Way:
    """The last steps, which the first cut and its alternatives go alike: evolve, refine, canvas out."""

    described: Described
    fixed: Labels | None
    end: End
    return_descriptors: bool
    is_cut: bool  # regions begin as descriptors have them: these may be seen in the regions' metric

    def to_regions(self, begin: Labels, count: int, callback: Callback | None = None, **more: Any) -> Segmentation:
        """Go from a start on the canvas to the result."""
        end, described = self.end, self.described.in_metric_of(begin) if self.is_cut else self.described
        run, labels = described.evolve(begin, end.config, self.fixed, end.min_share, callback)
        descriptors = self.described.final_descriptors(labels) if self.return_descriptors else None
        return end.result(run, labels, count, self.described, descriptors=descriptors, **more)


def _as_start(init: Any, valid: Mask | None, regions: Any, marks: Labels | None) -> Labels:
    """Check initial regions and number those that exist 0, 1, … in their order; −1 outside the picture.

    With scribbles, or as many regions as the highest number says, numbers stay.
    """
    labels = as_array(init, "init")
    if labels.ndim != 2 or labels.dtype.kind not in "iu":
        raise ValueError(f"init must be H×W integers, got shape {labels.shape} of {labels.dtype}")
    if labels.size == 0 or (valid is not None and valid.shape != labels.shape):
        return labels.astype(np.int64)  # its size is refused where it is brought to the canvas
    known = labels if valid is None else labels[valid]
    if known.min() < 0:
        raise ValueError(f"init must give every pixel a region from 0 on, got {int(known.min())}; see scribbles")
    numbers = np.unique(known)
    if marks is not None or regions == int(numbers[-1]) + 1:
        numbers = np.arange(min(int(numbers[-1]), MOST_GIVEN) + 1)
    if len(numbers) > MOST_GIVEN:
        raise ValueError(f"init must have at most {MOST_GIVEN} regions, got more: {int(known.max())} is the highest")
    renumbered = np.searchsorted(numbers, labels).astype(np.int64)
    return renumbered if valid is None else np.where(valid, renumbered, -1)


def _as_job(image: Any) -> Job[Segmentation]:
    return Job(image, lambda result: result)


def _check_seed(seed: Any) -> None:
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed must be a whole number from 0 on, got {seed!r}")


def _check_alternatives(alternatives: Any, marked: bool) -> None:
    if isinstance(alternatives, bool) or not isinstance(alternatives, (int, np.integer)) or alternatives < 0:
        raise ValueError(f"alternatives must be a number from 0 on, got {alternatives!r}")
    if alternatives and marked:
        raise ValueError("alternatives are other cuts of a picture; leave them out with init or scribbles")


def _count(regions: int | str | None, init: Labels | None, scribbles: Labels | None) -> int:
    """How many regions are asked for; 0 stands for "auto"."""
    marked = max((int(labels.max()) + 1 for labels in (init, scribbles) if labels is not None), default=None)
    if marked is not None and marked > MOST_GIVEN:
        raise ValueError(f"scribbles must name at most {MOST_GIVEN} regions, got {marked}")
    if regions is None and marked is not None:
        return marked
    if isinstance(regions, str) and regions == "auto":
        if marked is None:
            return 0
        raise ValueError(f'regions is "auto", but init or scribbles name {marked}; leave regions out')
    wanted = _whole_number(regions)
    if marked is not None and marked != wanted:
        raise ValueError(f"regions is {regions}, but init or scribbles name {marked}")
    return wanted


def _whole_number(regions: Any) -> int:
    if isinstance(regions, bool) or not isinstance(regions, (int, np.integer)) or not 1 <= regions <= MOST_GIVEN:
        raise ValueError(f"regions must be a number from 1 to {MOST_GIVEN}, or 'auto'; got {regions!r}")
    return int(regions)


def _start(whole: Array, count: int, start: Start, rng: np.random.Generator, inside: Mask | None) -> tuple[Labels, int]:
    """Regions to start from, and how many were asked for."""
    if count == 0:
        chosen = auto_start(whole, MOST_REGIONS, rng, inside)
        count = int(chosen.max()) + 1
        if start == "ncut":
            return maps.in_order(starts.reassigned(whole, chosen)), count
    if count == 1:
        return np.zeros(whole.shape[1:], np.int64), 1
    if start == "boxes":
        return maps.boxes(whole.shape[1:], count, per_side=max(8, isqrt(count - 1) + 1)), count
    found = (starts.ncut_start if start == "ncut" else starts.kmeans_start)(whole, count, rng, inside)
    return maps.in_order(found), count
