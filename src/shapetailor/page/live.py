"""The engine behind the page: sessions of open pictures, one thread that computes, the newest wish first."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import numpy as np

from ..arrays import Array, Labels
from ..classes.names import IGNORE
from ..io.images import read_image, read_labels
from ..io.palette import region_colour
from ..segmentation.segmenter import Segmenter
from ..segmentation.session import WORK_PIXELS
from ..strokes.marks import Stroke
from .frames import Frame, frame, gray_png, labels_png, table
from .history import marks_anything
from .opened import Answer, Opened, give_marks, places_of, reduced_map, unsure_of
from .refusal import Refusal, words
from .views import Views
from .workspace import Workspace

log = logging.getLogger("shapetailor.page")

MODEL = "texture"
NOTHING = "There are no regions yet: mark two classes in this picture."
#: Pixels of a picture that is worked on; larger ones are halved. Longest side of a map of uncertainty.
MOST_PIXELS, UNSURE_SIDE = 2**22, 768
#: Sessions that are kept open.
MOST_OPEN = 3
#: Seconds that a stroke under way, and a preview that was just shown, keep refinements waiting.
STROKE, PAUSE = 5.0, 0.3


class Engine:
    """Answers strokes.

    Parameters
    ----------
    workspace, views
    tell : callable
        ``tell(picture, message)`` with a `Frame` or a message for whoever follows the picture; called in the engine's
        thread.
    warm : bool
        Load and compile all that the first stroke needs at once.
    """

    def __init__(
        self,
        workspace: Workspace,
        views: Views,
        tell: Callable[[str, Frame | dict[str, Any]], None],
        warm: bool = False,
    ) -> None:
        self.workspace, self.views, self.tell = workspace, views, tell
        self.is_followed: Callable[[str], bool] = lambda name: True
        self._opened: OrderedDict[str, Opened] = OrderedDict()
        self._wanted: OrderedDict[str, None] = OrderedDict()
        self._evolving: dict[str, int | str] = {}
        self._stopped: set[str] = set()
        self._awaited: set[str] = set()
        self._refused: dict[str, tuple[int, str]] = {}  # revisions that have no labels, and why
        self._change = Condition()
        self._ended = False
        self._hold_until = 0.0
        self._segmenter: Segmenter | None = None
        self._warm = warm
        self._thread = Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def want(self, name: str, evolve: int | str | None = None) -> None:
        """Ask for a picture's labels, or for its unaided evolution; what is asked last is done first."""
        with self._change:
            self._stopped.discard(name)
            if evolve is None:
                self._forget_evolution(name)
            else:
                self._evolving[name] = evolve
            self._wanted[name] = None
            self._wanted.move_to_end(name)
            self._hold_until = 0.0
            self._change.notify_all()

    def begin(self, name: str) -> None:
        """A stroke has begun: stop refining, and describe the picture if that has waited, for an early preview."""
        with self._change:
            found = self._opened.get(name)
        if found is None or found.key != self._key(name):
            self.want(name)
        self._hold_until = time.monotonic() + STROKE

    def drop(self, name: str) -> None:
        """Nobody looks at a picture any more."""
        with self._change:
            if name not in self._awaited:
                self._wanted.pop(name, None)

    def stop(self, name: str) -> None:
        """End a picture's evolution."""
        with self._change:
            self._stopped.add(name)
            self._forget_evolution(name)

    def _forget_evolution(self, name: str) -> None:
        """Say that an evolution will not begin; one that has begun shows its end."""
        if self._evolving.pop(name, None) is not None:
            self.tell(name, {"type": "stopped", "picture": name})

    def end(self) -> None:
        """End the thread after what it is doing."""
        with self._change:
            self._ended = True
            self._change.notify_all()
        self._thread.join(timeout=2)

    @property
    def is_working(self) -> bool:
        """Whether the thread has not ended yet."""
        return self._thread.is_alive()

    def answer(self, name: str) -> Answer | None:
        """The newest answer for the strokes as they are."""
        with self._change:
            found = self._opened.get(name)
            known = None if found is None else found.answer
        return known if known is not None and known.revision == self.workspace.history(name).revision else None

    def refined(self, name: str, timeout: float = 120) -> Answer:
        """Wait for the refined answer."""
        if not marks_anything(self.workspace.history(name).strokes):
            raise Refusal(404, NOTHING)
        until = time.monotonic() + timeout
        self._awaited.add(name)
        try:
            known = self.answer(name)
            if known is None or known.stage != "refined":
                self._refused.pop(name, None)
                self.want(name)
            while (known := self.answer(name)) is None or known.stage != "refined":
                revision, why = self._refused.get(name, (-1, ""))
                if revision == self.workspace.history(name).revision:
                    raise Refusal(404, why)
                if time.monotonic() > until or self._ended:
                    raise Refusal(503, "The regions are not ready yet. Try again in a moment.")
                with self._change:
                    self._change.wait(0.2)
            return known
        finally:
            self._awaited.discard(name)

    @property
    def is_ready(self) -> bool:
        """Whether the model is loaded, and all compiled."""
        return self._segmenter is not None

    def _loaded(self) -> Segmenter:
        if self._segmenter is None:
            loaded = Segmenter.from_pretrained(MODEL)
            if self._warm:
                noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
                session = loaded.open(noise)
                session.add(np.where(np.eye(64, dtype=bool), np.arange(64)[:, None] // 32, -1))
                session.result()
            self._segmenter = loaded
        return self._segmenter

    def _work(self) -> None:
        if self._warm:
            with suppress(Exception):  # what is wrong is told when something is wanted
                self._loaded()
        while True:
            with self._change:
                self._change.wait_for(lambda: self._wanted or self._ended)
                if self._ended:
                    return
                name = self._wanted.popitem()[0]
                evolve = self._evolving.pop(name, None)
            try:
                if evolve is not None:
                    self._evolve(self._loaded(), name, evolve)
                else:
                    self._answer(self._loaded(), name)
            except (Refusal, ValueError, TypeError, OSError, MemoryError) as error:
                self._give_up(name, "error", words(error))
            except Exception as error:  # the thread must live on
                log.exception("computing %s failed", name)
                self._give_up(
                    name, "error", f"Something went wrong while {name} was worked on ({type(error).__name__})."
                )

    def _give_up(self, name: str, kind: str, why: str) -> None:
        """Say why there are no labels."""
        with suppress(Refusal, ValueError, OSError):
            self._refused[name] = self.workspace.history(name).revision, why or NOTHING
        self.tell(name, {"type": kind, "picture": name, "text": why})

    def _later(self, name: str) -> None:
        """Do the rest when there is time."""
        with self._change:
            if name not in self._wanted and (self.is_followed(name) or name in self._awaited):
                self._wanted[name] = None
                self._wanted.move_to_end(name, last=False)

    def _is_old(self, *_: Any) -> bool:
        """Whether something newer is wanted, or about to be; also a callback of the engine."""
        return bool(self._wanted) or self._ended or time.monotonic() < self._hold_until

    def _is_calm(self) -> bool:
        """Wait while a stroke is drawn; return whether nothing newer is wanted."""
        calm_from = time.monotonic() + PAUSE
        with self._change:
            while not (self._wanted or self._ended) and time.monotonic() < max(calm_from, self._hold_until):
                self._change.wait(0.05)
            return not (self._wanted or self._ended)

    def _answer(self, segmenter: Segmenter, name: str) -> None:
        known = self.answer(name)
        opened = self._open(segmenter, name)
        if known is not None and known.stage == "refined" and opened.answer is known:
            return
        with self._change:  # what was asked until now is answered now
            if name not in self._evolving:
                self._wanted.pop(name, None)
        history = self.workspace.history(name)
        with history.lock:
            revision, strokes = history.revision, history.strokes
        values = give_marks(opened, strokes, self.workspace.classes)
        if values is None:
            self._give_up(name, "status", _hint(strokes))
            self._prepare(opened, 2)
            return
        if opened.answer is None:  # what was missing is there
            self.tell(name, {"type": "status", "picture": name, "text": ""})
        for refine in (False, True):
            if not refine and opened.answer is not None and opened.answer.revision == revision:
                continue  # it was shown before something newer came between
            if refine and not self._is_calm():
                self._later(name)
                return
            result = opened.session.result(refine, callback=self._is_old, stop=self._is_old)
            if refine and self._is_old():
                self._later(name)
                return
            labels = np.append(values, np.uint8(IGNORE))[result.labels]
            assert result.uncertainty is not None
            step = max(1, ceil(max(labels.shape) / UNSURE_SIDE))
            unsure = unsure_of(opened, result.labels, result.uncertainty, step)
            scale = 2**opened.level
            stage = "refined" if refine else "preview"
            answer = Answer(revision, stage, labels, unsure, scale, scale * step)
            with self._change:
                opened.answer = answer
                self._change.notify_all()
            self.tell(name, self.frame(name, answer))
        self._prepare(opened, len(values) + 1)

    def _prepare(self, opened: Opened, regions: int) -> None:
        """Get ready for a stroke of a further class, while nothing else is to be done."""
        if opened.init is None and regions <= len(self.workspace.classes):
            opened.session.prepare(regions, self._is_old)

    def frame(self, name: str, answer: Answer) -> Frame:
        """An answer as the page paints it."""
        width, height = self.views.get(self.workspace.picture(name)).size
        header = {
            "picture": name,
            "revision": answer.revision,
            "stage": answer.stage,
            "iteration": None,
            "energy": None,
            "width": width,
            "height": height,
            "scale": answer.scale,
            "table": table(answer.labels, answer.scale),
        }
        colours = {each.value: each.rgb for each in self.workspace.classes}
        unsure = {"scale": answer.unsure_scale, "table": []}, gray_png(answer.unsure)
        return frame(header, labels_png(answer.labels, colours), unsure)

    def _key(self, name: str) -> tuple[Any, ...]:
        """What a description depends on: the file, and the result that strokes mend."""
        path, applied = self.workspace.picture(name), self.workspace.applied(name)
        stamps = [None if each is None else each.stat().st_mtime_ns for each in (path, applied)]
        return path, *stamps, tuple(each.value for each in self.workspace.classes) if applied else None

    def _open(self, segmenter: Segmenter, name: str) -> Opened:
        """Describe a picture, unless it is; with its result, where there is one, as what strokes mend."""
        path, applied = self.workspace.picture(name), self.workspace.applied(name)
        classes = tuple(each.value for each in self.workspace.classes)
        key, found = self._key(name), self._opened.get(name)
        if found is None or found.key != key:
            self.tell(name, {"type": "status", "picture": name, "text": "Describing the picture…"})
            with self._change:
                self._opened.pop(name, None)
                while len(self._opened) >= MOST_OPEN:
                    self._opened.popitem(last=False)
            view = self.views.get(path)
            level = view.level_of(MOST_PIXELS)
            picture = view.picture(level)
            init = None if applied is None else places_of(read_labels(applied), classes, level, picture)
            session = segmenter.open(picture, None if init is None else len(classes), init)
            found = Opened(key, session, level, init)
            if applied is not None and init is not None:
                found.doubt = _doubt(applied.with_name(f"{name}.uncertainty.png"), level, session.shape)
            self.tell(name, {"type": "status", "picture": name, "text": ""})
        with self._change:
            self._opened[name] = found
            self._opened.move_to_end(name)
        return found

    def _evolve(self, segmenter: Segmenter, name: str, regions: int | str) -> None:
        """Let regions evolve without marks, and show every iteration."""
        view = self.views.get(self.workspace.picture(name))
        width, height = view.size
        level = view.level_of(MOST_PIXELS)
        energies: list[float] = []
        revision = self.workspace.history(name).revision
        small = Segmenter(segmenter.net, segmenter.device, WORK_PIXELS, segmenter.usage)
        self.tell(name, {"type": "status", "picture": name, "text": "Looking for regions…"})

        def show(iteration: int, labels: Labels, finished: bool) -> None:
            values = np.where(labels < 0, IGNORE, labels + 1).astype(np.uint8)
            scale = ceil(width / values.shape[1])
            header = {
                "picture": name,
                "revision": revision,
                "stage": "evolving",
                "iteration": iteration,
                "energy": list(energies),
                "width": width,
                "height": height,
                "scale": scale,
                "regions": int(labels.max()) + 1,
                "finished": finished,
                "table": table(values, scale),
            }
            colours = {number + 1: region_colour(number) for number in range(int(labels.max()) + 1)}
            self.tell(name, frame(header, labels_png(values, colours)))

        def watch(iteration: int, labels: Labels, energy: float) -> bool:
            energies.append(float(energy))
            show(iteration, labels, False)
            return name in self._stopped or self._is_old()

        found = small.segment(view.picture(level), regions, callback=watch)  # type: ignore[arg-type]
        show(found.iterations, found.labels, True)
        self.tell(name, {"type": "status", "picture": name, "text": ""})


def _doubt(path: Path, level: int, shape: tuple[int, int]) -> Array | None:
    """Where the model was unsure, if `apply` has left that."""
    try:
        return reduced_map(read_image(path), level, shape)
    except (OSError, ValueError):
        return None


def _hint(strokes: Sequence[Stroke]) -> str:
    marked = {stroke.region for stroke in strokes if stroke.region > 0}
    return "Mark a second class: the regions follow." if marked else ""
