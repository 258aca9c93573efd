"""Segmenting and warping in either order: S[I∘w] against S[I]∘w, and against the warped truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from zlib import crc32

import numpy as np
from tqdm import tqdm

from ..arrays import RGB8, Array, Labels
from ..baselines import Method
from ..datasets import Sample
from ..drawing.overlay import overlay
from ..evaluate.evaluation import measure
from ..metrics import align_labels
from .context import Context
from .results import Results
from .suite import Split, entries, fit, trained
from .warps import Warp

#: What runs unless methods are named: a network, hand-crafted descriptors, and colours alone.
METHODS = ("stdnn", "stld", "kmeans-colour")
MODEL = "texture"
ACCURACY = "GT-cov. of S[I∘w] against the truth ↑"
COLUMNS = ("covering", "rand_index", "variation_of_information", "mean_iou", "adjusted_rand", ACCURACY)


@dataclass(frozen=True, eq=False)
class Trial:
    """A test image, a warp that shows only its pixels, and the warp's name in file names."""

    sample: Sample
    warp: Warp
    key: str

    @property
    def image(self) -> Array:
        """I∘w."""
        return self.warp.image(self.sample.image)

    @property
    def regions(self) -> int:
        """Number of regions of the truth."""
        return int(max(truth.max() for truth in self.sample.truths)) + 1


@dataclass(frozen=True)
class Participant:
    """A fitted method; its label maps are kept under `key`."""

    method: Method
    key: str
    title: str
    note: str
    baseline: str

    def labels(self, context: Context, trial: Trial) -> tuple[Labels, Labels]:
        """S[I]∘w and S[I∘w], each computed once."""
        name, regions = trial.sample.name, trial.regions
        plain = context.remember_labels(
            f"{self.key}/plain/{name}", lambda: self.method.segment(trial.sample.image, regions, context.seed)
        )
        warped = context.remember_labels(
            f"{self.key}/{trial.key}/{name}", lambda: self.method.segment(trial.image, regions, context.seed)
        )
        return trial.warp.labels(plain), warped


def participants(context: Context, results: Results, split: Split) -> list[Participant]:
    """Fit the methods that take part; ST-DNN is the shipped model unless another is named."""
    asked = replace(context, methods=context.methods or METHODS, model=context.model or MODEL)
    found = []
    for entry in entries(asked, results):
        method, note = fit(asked, entry, "all", split.train), trained(asked, entry, split.train)
        found.append(Participant(method, entry.key, entry.title(method), note, entry.baseline.name))
    return found


def add_row(
    context: Context, results: Results, who: Participant, trials: Sequence[Trial], *, beside: str, suffix: str = ""
) -> None:
    """Run trials, one an image, and append their means; measures against the truth go to `results.images`."""
    consistency, accuracy = {}, {}
    for trial in tqdm(trials, desc=who.key + suffix, unit="image", disable=not context.progress):
        name = trial.sample.name
        record = context.remember(f"{who.key}/{trial.key}/{name}", partial(_judge, context, who, trial))
        consistency[name], accuracy[name] = record["consistency"], record["accuracy"]
    row = results.add(who.title + suffix, consistency, who.note, beside)
    row.values[ACCURACY] = float(np.mean([scores["covering"] for scores in accuracy.values()]))
    results.images[f"{who.title}{suffix}, against the truth"] = accuracy


def _judge(context: Context, who: Participant, trial: Trial) -> dict[str, dict[str, float]]:
    expected, found = who.labels(context, trial)
    truths = [trial.warp.labels(truth) for truth in trial.sample.truths]
    return {"consistency": measure(found, [expected]), "accuracy": measure(found, truths, ignore=-1)}


def pair_of_pictures(context: Context, who: Participant, trial: Trial) -> tuple[RGB8, RGB8]:
    """Draw S[I]∘w and S[I∘w] over the warped image, in the colours of the paired true regions."""
    truth = trial.warp.labels(trial.sample.truths[0])
    first, second = (
        overlay(trial.image, align_labels(labels, truth, ignore=-1)[0]) for labels in who.labels(context, trial)
    )
    return first, second


def generator(context: Context, sample: Sample, number: int = 0) -> np.random.Generator:
    """Return the generator of an image: it depends on no other image or method."""
    return np.random.default_rng([context.seed, crc32(sample.name.encode()), number])
