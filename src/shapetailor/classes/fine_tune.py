"""Fine-tuning: networks, head and a context learn together from crops of changed copies of the marked pictures.

Weights are averaged over the steps, and no step is chosen: all marked pictures are learnt from. Whether that helps is
tried before without some of the pictures, or without a part of each where there are only one or two. If a head that has
not seen these either classifies them as well, the classifier stays as it was taught.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from math import cos, pi, sin
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..arrays import Floats32, Labels
from ..evaluate.classes import confusion, scores
from ..network.device import usable_device
from ..network.stdnn import STDNN
from ..segmentation.canvas import canvas_of, enlarged
from ..training.distributed import Processes
from ..training.loop import Loop, Pace
from ..training.run_state import state_path
from .classifier import Classifier
from .context import Context
from .features import Inputs, describe, feature_sources, features_from, inputs_of, raw_channels
from .head import HIDDEN, Head, class_weights
from .lesson import LEFT_OUT, MAX_PIXELS, SURE, Taught, cell_classes, cell_side, class_numbers, described_cells, learn
from .standard import Standard


@dataclass(frozen=True)
class FineTuneConfig:
    """Steps of AdamW, crops in each, their side in pixels, and every how many steps the state of a run is saved."""

    steps: int = 200
    batch: int = 4
    crop: int = 192
    learning_rate: float = 1e-3
    every: int = 25

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "crop", "every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


#: Share that is held out for the trial: of the pictures where there are at least so many, else of each one's marks.
HELD_OUT, FEWEST = 0.2, 3
#: Decay of the averaged weights.
AVERAGING = 0.99
#: Largest changes of a copy: of contrast and brightness, exponent of its tones, zoom.
CONTRAST, BRIGHTNESS, GAMMA, ZOOM = 0.25, 0.1, 1.25, 1.25
#: Copies at hand, at most; bytes that they take, about; steps after which another takes the oldest one's place.
COPIES, MOST_BYTES, REPLACED = 32, 2**31, 8
#: Places of a class that crops are drawn around, in each copy, about.
PLACES = 500


class _Marked(NamedTuple):
    values: Floats32  # (C, H, W)
    marks: Labels  # (H, W), places of classes, negative where unmarked


class _Parts(NamedTuple):
    learnt: list[_Marked]
    judged: list[_Marked]
    held: list[int]  # numbers of the pictures that are judged, whole or in part


def fine_tune(
    taught: Classifier,
    samples: list[Taught],
    config: FineTuneConfig | None = None,
    *,
    state: Path | None = None,
    progress: bool = False,
    device: str | torch.device = "cpu",
) -> Classifier:
    """Return a classifier whose networks have learnt too, and whose head has a context.

    Parameters
    ----------
    taught : Classifier
        Taught with the same samples.
    samples : list of Taught
    config : FineTuneConfig, optional
    state : path, optional
        Name beside which a stopped run's state lies; the same run, called again, goes on from there.
    progress : bool
    device : str or torch.device
        Where to train. The classifier comes back on the CPU.
    """
    config, place = config or FineTuneConfig(), usable_device(device)
    seed, classes = int(taught.record["seed"]), len(taught.classes)
    run = {"marks": taught.record["marks"], "seed": seed, "config": vars(config)}
    marked = [_marked(taught, each) for each in samples]
    parts = _divided(marked, seed)
    net, standard = deepcopy(taught.net).to(place), taught.standard
    trial = None if state is None else state.with_name(f"{state.stem}-trial{state.suffix}")
    tuned: dict[str, Any] = {"config": vars(config), "held_out": [samples[number].name for number in parts.held]}
    if parts.judged:
        first = _head(net, standard, parts.learnt, classes, seed).to(place)
        tried = _tuned(net, first, standard, parts.learnt, config, seed, trial, run, progress, "trial")
        tuned["before"], tuned["after"] = (_measure(*each, standard, parts.judged) for each in ((net, first), tried))
    tuned["helped"] = not parts.judged or _helped(tuned["before"], tuned["after"])
    result = replace(taught, record={**taught.record, "fine_tune": tuned})
    if tuned["helped"]:
        head = deepcopy(taught.head).to(place)
        net, head = _tuned(net, head, standard, marked, config, seed, state, run, progress, "fine-tune")
        result = replace(result, net=net.cpu(), head=head.cpu())
    for each in (state, trial):
        if each is not None:
            state_path(each).unlink(missing_ok=True)
    if trial is not None:
        trial.with_suffix(".log.jsonl").unlink(missing_ok=True)
    return result


def _helped(before: dict[str, float], after: dict[str, float]) -> bool:
    """Whether held-out marks get better by one of the measures: few pictures would not tell more."""
    return any(after[name] > before[name] for name in before)


# --- marks ------------------------------------------------------------------------------------------------------------


def _marked(taught: Classifier, sample: Taught) -> _Marked:
    canvas = canvas_of(sample.image, taught.net.image_channels, taught.net.stride, MAX_PIXELS, taught.intensity)
    marks = class_numbers(sample.marks, taught.classes, canvas.source.shape, sample.name)
    if canvas.valid is not None:  # nothing is learnt from outside the picture
        marks = np.where(canvas.valid, marks, LEFT_OUT)
    return _Marked(canvas.values, canvas.marks_in(marks, sample.name))


def _divided(marked: list[_Marked], seed: int) -> _Parts:
    """Hold out pictures, or a part of each: never the last marks of a class; nothing where that is impossible."""
    if len(marked) < FEWEST:
        return _divided_pictures(marked)
    wanted, held = max(1, round(HELD_OUT * len(marked))), list[int]()
    for number in np.random.default_rng(seed).permutation(len(marked)).tolist():
        rest = [each for other, each in enumerate(marked) if other not in (*held, number)]
        if len(held) < wanted and _classes(rest) == _classes(marked):
            held.append(number)
    held.sort()
    learnt = [each for number, each in enumerate(marked) if number not in held]
    return _Parts(learnt, [marked[number] for number in held], held)


def _divided_pictures(marked: list[_Marked]) -> _Parts:
    """Hold out the marks of the right of each picture."""
    learnt, judged = [], []
    for values, marks in marked:
        columns = np.arange(marks.shape[1])
        right = columns > np.quantile(np.nonzero(marks >= 0)[1], 1 - HELD_OUT)
        learnt.append(_Marked(values, np.where(right, LEFT_OUT, marks)))
        judged.append(_Marked(values, np.where(right, marks, LEFT_OUT)))
    if _classes(learnt) != _classes(marked) or not _classes(judged):
        return _Parts(marked, [], [])
    return _Parts(learnt, judged, list(range(len(marked))))


def _classes(marked: list[_Marked]) -> set[int]:
    return {int(place) for each in marked for place in np.unique(each.marks) if place >= 0}


def _head(net: STDNN, standard: Standard | None, learnt: list[_Marked], classes: int, seed: int) -> Head:
    """Teach a head like `Classifier.teach`, with some of the marks."""
    count = len(learnt)
    numbered = enumerate(learnt, start=1)
    kept = [described_cells(net, standard, *each, classes, seed, number, count) for number, each in numbered]
    return learn(kept, classes, feature_sources(net, count), seed)


def _guessed(net: STDNN, head: Head, standard: Standard | None, marked: _Marked) -> _Marked:
    """Take what a head is sure of for the class where nothing is marked, as it has learnt itself."""
    values, marks = marked
    if not (marks == -1).any():
        return marked
    height, width = marks.shape
    cells = head.probabilities(describe(net, values, standard))
    best, place = enlarged(cells[None], cell_side(net))[0, :, :height, :width].max(dim=0)
    sure = torch.where(best > SURE, place, -1).cpu().numpy()
    return _Marked(values, np.where(marks == -1, sure, marks))


def _measure(net: STDNN, head: Head, standard: Standard | None, judged: list[_Marked]) -> dict[str, float]:
    """Judge held-out pictures' marked cells."""
    matrices = []
    for values, marks in judged:
        found = head.probabilities(describe(net, values, standard))
        cells = cell_classes(marks, cell_side(net), len(found))
        matrices.append(confusion(cells, found.argmax(dim=0).cpu().numpy(), range(len(found))))
    found_scores = scores(matrices)
    return {"mean_iou": round(found_scores.mean_iou, 4), "accuracy": round(found_scores.accuracy, 4)}


# --- changed copies and crops of them ---------------------------------------------------------------------------------


class _Copy(NamedTuple):
    """Inputs of a whole picture in half precision, its cells' classes, −1 where nothing is learnt, and some of each.

    A crop keeps the standardisation of its picture, as `Classifier.apply` has it.
    """

    inputs: Inputs  # each (channels, h, w)
    targets: Tensor  # (h, w)
    places: list[Labels]  # for each class that is there, (n, 2)


class _Copies:
    """Copies of the pictures in turn, endlessly: the first of each as it is, the others changed at random."""

    def __init__(self, net: STDNN, standard: Standard | None, marked: list[_Marked], classes: int, seed: int) -> None:
        self.net, self.standard, self.marked, self.classes, self.seed = net, standard, marked, classes, seed
        size = 2 * sum(each.numel() for each in self._made(0).inputs)
        self.at_hand = max(1, min(COPIES, MOST_BYTES // size))
        self.made = lru_cache(self.at_hand)(self._made)

    def at(self, step: int, rng: np.random.Generator) -> _Copy:
        """Draw one of those at hand in a step."""
        return self.made(step // REPLACED + int(rng.integers(self.at_hand)))

    def _made(self, number: int) -> _Copy:
        turn, which = divmod(number, len(self.marked))
        values, marks = (torch.from_numpy(each).to(self.net.mean.device) for each in self.marked[which])
        if turn:
            values, marks = _changed(values, marks, turn % 2 == 1, np.random.default_rng([self.seed, number]))
        with torch.no_grad():
            inputs = inputs_of(self.net, raw_channels(self.net, values[None]), self.standard)
        cells = cell_classes(marks.cpu().numpy(), cell_side(self.net), self.classes).clip(min=-1)
        places = [np.argwhere(cells == number) for number in range(self.classes)]
        some = [each[:: len(each) // PLACES + 1] for each in places if len(each)]
        targets = torch.from_numpy(cells).to(values.device)
        return _Copy(Inputs(*(each[0].half() for each in inputs)), targets, some)


def _changed(values: Tensor, marks: Tensor, affine: bool, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Mirror a picture and its marks, turn them, by any angle and with a zoom if `affine`, and change the tones."""
    turns, mirrored, angle = int(rng.integers(4)), bool(rng.integers(2)), rng.uniform(0, 2 * pi)
    zoom, gamma = ZOOM ** rng.uniform(-1, 1), GAMMA ** rng.uniform(-1, 1)
    contrast, brightness = rng.uniform(1 - CONTRAST, 1 + CONTRAST), rng.uniform(-BRIGHTNESS, BRIGHTNESS)
    if mirrored:
        values, marks = values.flip(2), marks.flip(1)
    if affine:
        height, width = marks.shape
        across, along = cos(angle) / zoom, sin(angle) / zoom
        rows = [[across, -along * height / width, 0], [along * width / height, across, 0]]
        matrix = torch.tensor(rows, dtype=torch.float32, device=values.device)
        where = F.affine_grid(matrix[None], [1, 1, height, width], align_corners=False)
        values = F.grid_sample(values[None], where, "bicubic", "reflection", align_corners=False)[0]
        numbers = (marks - LEFT_OUT).float()[None, None]  # 0, outside of the picture too, is left out
        marks = F.grid_sample(numbers, where, "nearest", "zeros", align_corners=False)[0, 0].long() + LEFT_OUT
    else:
        values, marks = values.rot90(turns, (1, 2)), marks.rot90(turns)
    toned = (values.clamp(0, 1) ** gamma - 0.5) * contrast + 0.5 + brightness
    return toned.clamp(0, 1).contiguous(), marks


def _batch(copies: _Copies, config: FineTuneConfig, step: int) -> tuple[Inputs, Tensor]:
    """Cut crops and their cells' classes; every second one holds a cell of a class that is drawn first."""
    rng = np.random.default_rng([copies.seed, step])
    blocks = copies.net.stride // cell_side(copies.net)  # cells along the side of a block of the first network
    drawn = [copies.at(step, rng) for _ in range(config.batch)]
    side = min(config.crop // cell_side(copies.net), *(length for each in drawn for length in each.targets.shape))
    side = max(side // blocks, 1) * blocks
    parts, targets = [], []
    for number, copy in enumerate(drawn):
        last = np.array(copy.targets.shape) - side
        corner = rng.integers(last + 1)
        if number % 2 and copy.places:
            places = copy.places[rng.integers(len(copy.places))]
            corner = np.clip(places[rng.integers(len(places))] - rng.integers(side, size=2), 0, last)
        top, left = (int(each) // blocks for each in corner)
        coarse = slice(top, top + side // blocks), slice(left, left + side // blocks)
        fine = slice(top * blocks, top * blocks + side), slice(left * blocks, left * blocks + side)
        first, second, fixed = copy.inputs
        parts.append((first[:, *coarse], second[:, *fine], fixed[:, *fine]))
        targets.append(copy.targets[fine])
    return Inputs(*(torch.stack(each).float() for each in zip(*parts, strict=True))), torch.stack(targets)


# --- learning ---------------------------------------------------------------------------------------------------------


class _Joint(nn.Module):
    """Networks and head as one module, and the average of their weights over the steps."""

    def __init__(self, net: STDNN, head: Head, seed: int) -> None:
        super().__init__()
        head = deepcopy(head)
        context = Context(HIDDEN, head.out.out_features).initialise(torch.Generator().manual_seed(seed))
        head.context = context.to(head.mean.device)
        self.learning = nn.ModuleList([deepcopy(net), head]).requires_grad_(True)
        self.average = deepcopy(self.learning).requires_grad_(False)

    def forward(self, inputs: Inputs) -> Tensor:
        net, head = self.learning
        return head.maps(features_from(net, inputs))  # type: ignore[operator, arg-type, no-any-return]

    @torch.no_grad()
    def average_step(self, step: int) -> None:
        """Let the average follow; faster in the first steps, so that the start does not stay in it."""
        decay = min(AVERAGING, (1 + step) / (10 + step))
        for old, new in zip(self.average.parameters(), self.learning.parameters(), strict=True):
            old.lerp_(new, 1 - decay)


def _tuned(
    net: STDNN, head: Head, standard: Standard | None, marked: list[_Marked], config: FineTuneConfig, seed: int,
    state: Path | None, run: dict[str, Any], progress: bool, title: str,
) -> tuple[STDNN, Head]:  # fmt: skip
    """Train copies of networks and head, with a context, and return the average over the steps."""
    place = net.mean.device
    joint = _Joint(net, head, seed)
    guessed = [_guessed(net, head, standard, each) for each in marked]
    copies = _Copies(net, standard, guessed, head.out.out_features, seed)
    weights = _weights(copies.marked, copies.classes).to(place)
    pace, one = Pace(config.steps, config.learning_rate, config.every), Processes(0, 1, place)
    loop = Loop(joint, pace, state, run, resume=True, processes=one, title=title, progress=progress)
    for step in loop:
        inputs, targets = _batch(copies, config, step)
        loop.take(lambda x=inputs, y=targets: _loss(joint(x), y, weights))  # type: ignore[misc]
        joint.average_step(step)
        if loop.due:
            loop.record({})
    tuned, tuned_head = joint.average.eval()
    return tuned, tuned_head  # type: ignore[return-value]


def _weights(marked: list[_Marked], classes: int) -> Tensor:
    counts = torch.zeros(classes)
    for each in marked:
        counts += torch.from_numpy(np.bincount(each.marks[each.marks >= 0], minlength=classes))
    return class_weights(counts)


def _loss(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    if not (targets >= 0).any():
        return logits.sum() * 0
    return F.cross_entropy(logits, targets, weight=weights, ignore_index=-1)
