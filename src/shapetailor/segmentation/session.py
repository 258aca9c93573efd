"""A session: a picture is described once, then strokes say which region is which, and every result follows at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from ..arrays import Floats32, Labels, Mask
from ..evolution import Callback, EvolutionConfig
from ..labels import most_likely
from ..strokes.marks import Mark, as_mark, partial_labels, rasterise
from .canvas import canvas_of
from .coarse_to_fine import Kept, sharpened
from .described import Described, missing
from .mending import mended, merged, opened
from .propagation import Scene, Unaided, one_hot
from .result import Segmentation
from .starts import ncut_start

if TYPE_CHECKING:
    from .segmenter import Segmenter

#: Most regions that may be asked for or given: time and memory grow with their number.
MOST_GIVEN = 1024
#: Least share of the picture that a connected piece has, unless asked otherwise.
MIN_SHARE = 0.005
#: Pixels less uncertain than this keep their region when boundaries are refined.
CERTAIN = 0.5
#: Most pixels that a session works on: strokes are answered while they are drawn.
WORK_PIXELS = 2**17


class _Walk(NamedTuple):
    """How likely regions are after the random walk, on the canvas and at the picture's size."""

    u: Floats32  # (K, h, w)
    movable: Mask  # (h, w), where boundaries may move
    wide: Floats32  # (K, H, W)
    unsure: Floats32  # (H, W)


class _Unmarked(NamedTuple):
    """What is known of so many regions before anything is marked."""

    scene: Scene  # with descriptors in the metric of these regions, where they were found by a cut
    unaided: Unaided


class Session:
    """One opened picture and its marks; `Segmenter.open` makes it.

    A result depends on which pixels are marked, not on the order of strokes nor on what was undone in between. Where
    strokes of several regions cover a pixel, the last one counts.

    Parameters
    ----------
    segmenter : Segmenter
    image : as for `Segmenter.segment`
    regions : int, optional
        How many regions there are, at most 1024; by default as many as are marked. More than are marked: the others
        are found among what is left.
    init : H×W integers, optional
        Regions to mend: a stroke changes the connected piece of them that it lies in, and nothing else.

    Examples
    --------
    >>> from shapetailor import Segmenter, Stroke
    >>> picture = np.tile(np.where(np.arange(64) < 32, 40, 200).astype(np.uint8), (64, 1))
    >>> session = Segmenter.from_pretrained("texture").open(picture)
    >>> session.add(Stroke(0, [(8, 30)])); session.add(Stroke(1, [(50, 30)]))
    >>> session.result().labels[0, [0, 63]]
    array([0, 1])
    """

    def __init__(self, segmenter: Segmenter, image: Any, regions: int | None = None, init: Any = None) -> None:
        net, usage = segmenter.net, segmenter.usage
        whole = isinstance(regions, (int, np.integer)) and not isinstance(regions, bool)
        if regions is not None and not (whole and 1 <= regions <= MOST_GIVEN):
            raise ValueError(f"regions must be a number from 1 to {MOST_GIVEN}, got {regions!r}")
        self.segmenter, self.regions, self.marks = segmenter, regions, list[Mark]()
        self._undone: list[list[Mark]] = []
        self._before: list[list[Mark]] = []
        canvas = canvas_of(
            image, net.image_channels, net.stride, min(segmenter.max_pixels, WORK_PIXELS), usage.intensity
        )
        self._described = Described.of(canvas, net, segmenter.device, usage.positions, needs_whole=True)
        first, self._fine = self._described.descriptors(), self._described.fine_descriptors()
        both = torch.from_numpy(first if self._fine is None else np.concatenate([self._fine, first]))
        self._whole = both.to(self._described.picture.device)
        self._unmarked: dict[int, _Unmarked] = {}
        self._kept = Kept()
        self._known: tuple[tuple[bytes, int], _Walk] | None = None
        self._init = None if init is None else self._checked(init)
        if regions is not None:
            self._without_marks(regions)

    def __repr__(self) -> str:
        height, width = self.shape
        return f"<Session on {height}×{width} pixels: {len(self.marks)} marks, regions={self.regions}>"

    def _checked(self, init: Any) -> tuple[Labels, Labels]:
        """Regions to mend, as given and on the canvas."""
        canvas, labels = self._described.canvas, partial_labels(init, "init")
        posed = canvas.labels_in(labels, "init")
        if (posed if canvas.inside is None else posed[canvas.inside]).min() < 0:
            raise ValueError("init must give every pixel of the picture a region from 0 on; got some without")
        most = self.regions or MOST_GIVEN
        if posed.max() >= most:
            raise ValueError(f"init names region {posed.max()}, but {most} regions are numbered from 0")
        return labels, posed

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the picture."""
        height, width = self._described.canvas.source.shape
        return height, width

    def add(self, mark: Any) -> None:
        """Add a `Stroke` (or the same as a mapping), or a partial label map; a bad one raises and changes nothing."""
        checked = as_mark(mark)
        rasterise([checked], self.shape, self.regions or MOST_GIVEN)
        self._change([*self.marks, checked])

    def remove(self, number: int) -> None:
        """Remove a mark by its number, from 0 in the order they were added."""
        if not 0 <= number < len(self.marks):
            raise IndexError(f"there are {len(self.marks)} marks, got number {number}")
        self._change([mark for each, mark in enumerate(self.marks) if each != number])

    def undo(self) -> bool:
        """Take the last change back; False if there is none."""
        return self._travel(self._before, self._undone)

    def redo(self) -> bool:
        """Do the last undone change again; False if there is none."""
        return self._travel(self._undone, self._before)

    def prepare(self, regions: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Find so many regions without marks: the first preview of that many wants them, and is then quick.

        Where `stop` turns True, nothing is kept; without this call a result does it.
        """
        if not stop():
            self._without_marks(regions, stop)

    def result(
        self,
        refine: bool = True,
        min_share: float = MIN_SHARE,
        evolution: EvolutionConfig | None = None,
        callback: Callback | None = None,
        return_descriptors: bool = False,
        stop: Callable[[], bool] = lambda: False,
    ) -> Segmentation:
        """Return the regions, with `probabilities` and `uncertainty`.

        Parameters
        ----------
        refine : bool
            Tailor descriptors to the regions and refine their boundaries; False is the preview, which takes a fraction
            of the time.
        min_share, evolution, callback, return_descriptors
            As for `Segmenter.segment`.
        stop : callable, optional
            Asked now and then while boundaries are refined; True ends that early.
        """
        marks = rasterise(self.marks, self.shape)
        highest = int(marks.max())
        if highest < 0:
            raise ValueError("nothing is marked; add a stroke, or use Segmenter.segment")
        canvas = self._described.canvas
        named = highest if self._init is None else max(highest, int(self._init[1].max()))
        count = self.regions or named + 1
        fixed = canvas.marks_in(marks, "marks")
        u, movable, wide, unsure = self._answered(fixed, count)
        labels, energy, converged = canvas.masked(most_likely(u)), list[float](), False
        moved = refine and bool(movable.any()) and not stop()
        if moved:
            config = evolution or replace(self.segmenter.usage.near, tailored=False)
            held = np.where(
                (fixed < 0) & movable & (_uncertainty(u) >= CERTAIN), -1, np.where(fixed < 0, labels, fixed)
            )
            run, labels = self._described.evolve(labels, config, held, min_share, callback, self._whole)
            energy, converged = run.energy, run.converged
        if refine and canvas.factor > 1:
            full = sharpened(labels, canvas, marks, self._kept, stop).astype(np.int64)
        else:
            full = most_likely(canvas.planes_out(one_hot(labels, count)) if moved else wide)
        if self._init is not None:
            given, posed = self._init
            full = merged(full, given, canvas.labels_out(posed), canvas.labels_out(movable.astype(np.int64)) > 0)
        np.copyto(full, marks, where=marks >= 0)
        if canvas.valid is not None:
            full = np.where(canvas.valid, full, -1)
        return Segmentation(
            labels=full,
            image=canvas.original,
            energy=energy,
            iterations=max(0, len(energy) - 1),
            converged=converged,
            vanished=missing(full, count),
            descriptors=self._described.final_descriptors(labels) if return_descriptors else None,
            probabilities=wide,
            uncertainty=unsure,
        )

    def _answered(self, fixed: Labels, count: int) -> _Walk:
        """What the walk says; kept until the marks change, since a preview and its refinement need the same."""
        key = fixed.tobytes(), count
        if self._known is None or self._known[0] != key:
            canvas, (u, movable) = self._described.canvas, self._propagated(fixed, count)
            walk = _Walk(u, movable, canvas.planes_out(u), canvas.planes_out(_uncertainty(u)[None])[0])
            for planes in (walk.wide, walk.unsure):  # results show them
                planes.setflags(write=False)
            self._known = key, walk
        return self._known[1]

    def _propagated(self, fixed: Labels, count: int) -> tuple[Floats32, Mask]:
        """How likely each region is, (K, h, w), and where boundaries may move (h, w)."""
        scene, unaided = self._without_marks(count)
        if self._init is None:
            u, agreed = scene.probabilities(fixed, count, unaided)
            return u, np.full(fixed.shape, not agreed)  # unaided regions are refined already
        pieces = opened(fixed, unaided.labels)
        return mended(scene, fixed, unaided, pieces, count), pieces > 0

    def _without_marks(self, count: int, stop: Callable[[], bool] = lambda: False) -> _Unmarked:
        """What is found without marks; kept for each number of regions, unless stopped."""
        if count not in self._unmarked:
            described, canvas = self._described, self._described.canvas
            labels = np.zeros(canvas.values.shape[1:], np.int64)
            if self._init is not None:
                labels = self._init[1]
            elif count > 1:
                start = ncut_start(described.descriptors(), count, np.random.default_rng(0), canvas.inside)
                start = canvas.masked(start)
                described = described.in_metric_of(start)
                _, labels = described.evolve(start, self.segmenter.usage.near, None, MIN_SHARE, lambda *_: stop())
            scene = Scene(described.descriptors(), self._fine, canvas.values)
            found = _Unmarked(scene, scene.unaided(labels, count))
            if stop():
                return found
            self._unmarked[count] = found
        return self._unmarked[count]

    def _change(self, marks: list[Mark]) -> None:
        self._before.append(self.marks)
        self._undone.clear()
        self.marks = marks

    def _travel(self, source: list[list[Mark]], target: list[list[Mark]]) -> bool:
        if not source:
            return False
        target.append(self.marks)
        self.marks = source.pop()
        return True


def _uncertainty(probabilities: Floats32) -> Floats32:
    """1 where two regions are equally likely, 0 where one is certain: (H, W)."""
    if len(probabilities) == 1:
        return np.zeros(probabilities.shape[1:], np.float32)
    ordered = np.partition(probabilities, -2, axis=0)
    unsure: Floats32 = 1 - (ordered[-1] - ordered[-2])
    return unsure
