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
from .suite import Entry, Measures, Split, entries, fit, trained
from .warps import Warp

#: What runs unless methods are named: a network, hand-crafted descriptors, and colours alone.
METHODS = ("stdnn", "stld", "kmeans-colour")
MODEL = "texture"
ACCURACY = "GT-cov. of S[I∘w] against the truth ↑"
COLUMNS = ("covering", "rand_index", "variation_of_information", "mean_iou", "adjusted_rand", ACCURACY)


@dataclass(frozen=True, eq=False)
class Trial:
    """A test image, a warp that shows only its pixels, and what to call the pair among those of the image."""

    sample: Sample
    warp: Warp
    key: str

    @property
    def image(self) -> Array:
        """I∘w."""
        return self.warp.image(self.sample.image)

    @property
    def regions(self) -> int:
        """How many the image has."""
        return int(max(truth.max() for truth in self.sample.truths)) + 1


@dataclass(frozen=True)
class Participant:
    """A fitted method, and where its label maps are kept."""

    method: Method
    key: str
    title: str
    note: str
    recipe: str

    def labels(self, context: Context, trial: Trial) -> tuple[Labels, Labels]:
        """S[I]∘w and S[I∘w]; what was computed once is read."""
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
    return [_participant(asked, entry, split) for entry in entries(asked, results)]


def _participant(context: Context, entry: Entry, split: Split) -> Participant:
    method = fit(context, entry, "all", split.train)
    return Participant(method, entry.key, entry.title(method), trained(context, entry, split.train), entry.recipe.name)


def add_row(
    context: Context,
    results: Results,
    who: Participant,
    trials: Sequence[Trial],
    *,
    suffix: str = "",
    beside: str = "",
) -> None:
    """Run trials, one an image, and append the row of their means; the truth's measures go to `results.images` too."""
    consistency: Measures = {}
    accuracy: Measures = {}
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
    """Draw S[I]∘w and S[I∘w] over the warped image, partners of true regions in these regions' colours."""
    truth = trial.warp.labels(trial.sample.truths[0])
    first, second = (
        overlay(trial.image, align_labels(labels, truth, ignore=-1)[0]) for labels in who.labels(context, trial)
    )
    return first, second


def generator(context: Context, sample: Sample, number: int = 0) -> np.random.Generator:
    """Return the random numbers of an image: the same whatever other images and methods take part."""
    return np.random.default_rng([context.seed, crc32(sample.name.encode()), number])
