"""Fine-tuning: networks and head learn together from crops of the marked pictures.

Some pictures are held out, or a part of each where there are only one or two. The start is a head that has not seen
them either; the weights that classify them best are kept. If these are the start's, fine-tuning does not help, and the
classifier stays as it was taught, with all marks.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..arrays import Floats32, Labels
from ..evaluate.classes import confusion, scores
from ..network.stdnn import STDNN
from ..segmentation.canvas import canvas_of
from ..training.loop import Loop, Pace
from ..training.run_state import state_path
from .classifier import Classifier
from .features import describe, feature_sources, features_of
from .head import Head, class_weights
from .lesson import LEFT_OUT, MAX_PIXELS, Taught, cell_classes, cell_side, choose_cells, class_numbers, learn


@dataclass(frozen=True)
class FineTuneConfig:
    """Steps of AdamW, crops in each, their side in pixels, and every how many steps held-out pictures are judged."""

    steps: int = 240
    batch: int = 2
    crop: int = 192
    learning_rate: float = 1e-3
    every: int = 40

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "crop", "every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


#: Share that is held out: of the pictures where there are at least so many, else of each picture's marks.
HELD_OUT, FEWEST = 0.2, 3
#: Largest change of contrast and brightness of a crop.
CONTRAST, BRIGHTNESS = 0.2, 0.08


class _Marked(NamedTuple):
    values: Floats32  # (C, H, W)
    marks: Labels  # (H, W), places of classes, negative where unmarked


class _Joint(nn.Module):
    """Networks and head as one module."""

    def __init__(self, net: STDNN, head: Head) -> None:
        super().__init__()
        self.net, self.head = net, head

    def forward(self, pictures: Tensor) -> Tensor:
        features = features_of(self.net, pictures)
        logits = self.head(features.movedim(1, 3).flatten(0, 2))
        return logits.unflatten(0, (len(pictures), *features.shape[2:])).movedim(3, 1)  # type: ignore[no-any-return]


def fine_tune(
    taught: Classifier,
    samples: list[Taught],
    config: FineTuneConfig | None = None,
    *,
    state: Path | None = None,
    progress: bool = False,
) -> Classifier:
    """Return a classifier whose networks have learnt too.

    Parameters
    ----------
    taught : Classifier
        Taught with the same samples.
    samples : list of Taught
    config : FineTuneConfig, optional
    state : path, optional
        Name beside which a stopped run's state lies; the same run, called again, goes on from there.
    """
    config = config or FineTuneConfig()
    seed = int(taught.record["seed"])
    marked = [_marked(taught, each) for each in samples]
    parts = _divided(marked, seed)
    head = _head(taught, parts.learnt, seed) if parts.judged else deepcopy(taught.head)
    joint = _Joint(deepcopy(taught.net), head).requires_grad_(True)
    pace = Pace(config.steps, config.learning_rate, config.every)
    run = {"marks": taught.record["marks"], "seed": seed, "config": vars(config)}
    loop = Loop(joint, pace, state, run, resume=True, title="fine-tune", progress=progress)
    judged = parts.judged
    if judged and loop.state.best_step == 0 and loop.state.step == 0:
        loop.state.best = _measure(joint, judged)
        loop.state.keep(joint)
    weights = _weights(parts.learnt, len(taught.classes))
    for step in loop:
        pictures, targets = _batch(parts.learnt, config, taught, np.random.default_rng([seed, step]))
        loop.take(lambda x=pictures, y=targets: _loss(joint, x, y, weights))  # type: ignore[misc]
        if loop.due:
            measure = _measure(joint, judged) if judged else None
            loop.record({} if measure is None else {"held_out_iou": measure}, measure)
    if loop.state.best_weights:
        joint.load_state_dict(loop.state.best_weights)
    if state is not None:
        state_path(state).unlink(missing_ok=True)
    joint.eval().requires_grad_(False)
    tuned = {
        "config": vars(config),
        "held_out": [samples[number].name for number in parts.held],
        "best_step": loop.state.best_step,
        "mean_iou": round(loop.state.best, 4) if judged else None,
    }
    record = {**taught.record, "fine_tune": tuned}
    if judged and not loop.state.best_step:
        return replace(taught, record=record)
    return replace(taught, net=joint.net, head=joint.head, record=record)


def _marked(taught: Classifier, sample: Taught) -> _Marked:
    canvas = canvas_of(sample.image, taught.net.image_channels, taught.net.stride, MAX_PIXELS, taught.intensity)
    marks = class_numbers(sample.marks, taught.classes, canvas.source.shape, sample.name)
    return _Marked(canvas.values, canvas.marks_in(marks, sample.name))


class _Parts(NamedTuple):
    learnt: list[_Marked]
    judged: list[_Marked]
    held: list[int]  # numbers of the pictures that are judged, whole or in part


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


def _head(taught: Classifier, learnt: list[_Marked], seed: int) -> Head:
    """Teach a head like `Classifier.teach`, with some of the marks."""
    side, count = cell_side(taught.net), len(taught.classes)
    cells = [
        choose_cells(describe(taught.net, values), cell_classes(marks, side, count), seed, number)
        for number, (values, marks) in enumerate(learnt)
    ]
    return learn(cells, count, feature_sources(taught.net, len(learnt)), seed)


def _weights(marked: list[_Marked], classes: int) -> Tensor:
    counts = torch.zeros(classes)
    for each in marked:
        counts += torch.from_numpy(np.bincount(each.marks[each.marks >= 0], minlength=classes))
    return class_weights(counts)


def _batch(
    marked: list[_Marked], config: FineTuneConfig, taught: Classifier, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Draw crops around marked pixels, turned and mirrored at random, with other tones; and the cells' classes."""
    assert taught.net.fine is not None
    side, stride = config.crop, taught.net.fine.stride
    pictures, targets = [], []
    for _ in range(config.batch):
        values, marks = marked[rng.integers(len(marked))]
        missing = [(0, max(0, side - length)) for length in marks.shape]
        values = np.pad(
            values, [(0, 0), *missing], mode="reflect" if min(marks.shape) > max(m for _, m in missing) else "edge"
        )
        marks = np.pad(marks, missing, constant_values=-1)
        places = np.flatnonzero(marks == rng.choice(np.unique(marks[marks >= 0])))
        centre = np.unravel_index(places[rng.integers(len(places))], marks.shape)
        top, left = (
            int(np.clip(c - rng.integers(side), 0, n - side)) for c, n in zip(centre, marks.shape, strict=True)
        )
        values, marks = values[:, top : top + side, left : left + side], marks[top : top + side, left : left + side]
        turns, mirrored = int(rng.integers(4)), bool(rng.integers(2))
        values, marks = np.rot90(values, turns, (1, 2)), np.rot90(marks, turns)
        if mirrored:
            values, marks = values[:, :, ::-1], marks[:, ::-1]
        contrast, brightness = rng.uniform(1 - CONTRAST, 1 + CONTRAST), rng.uniform(-BRIGHTNESS, BRIGHTNESS)
        toned = np.clip((values - 0.5) * contrast + 0.5 + brightness, 0, 1).astype(np.float32)
        pictures.append(torch.from_numpy(np.ascontiguousarray(toned)))
        targets.append(torch.from_numpy(cell_classes(marks, stride, len(taught.classes))).clamp_min(-1))
    return torch.stack(pictures), torch.stack(targets)


def _loss(joint: _Joint, pictures: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    if not (targets >= 0).any():
        return joint(pictures).sum() * 0  # type: ignore[no-any-return]
    return F.cross_entropy(joint(pictures), targets, weight=weights, ignore_index=-1)


def _measure(joint: _Joint, judged: list[_Marked]) -> float:
    """Mean IoU of the classes over held-out pictures' marked cells."""
    assert joint.net.fine is not None
    matrices = []
    for values, marks in judged:
        found = joint.head.probabilities(describe(joint.net, values))
        cells = cell_classes(marks, joint.net.fine.stride, len(found))
        matrices.append(confusion(cells, found.argmax(dim=0).numpy(), range(len(found))))
    return scores(matrices).mean_iou
