"""Segmenting and warping in either order: S[I∘w] against S[I]∘w, and against the warped truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from zlib import crc32

import numpy as np
from tqdm import tqdm

from ..arrays import Array, Labels
from ..datasets import Sample
from ..drawing.overlay import as_rgb8, overlay
from ..evaluate.evaluation import measure
from ..metrics import align_labels
from .figures import add_sheet
from .results import Context, Results
from .suite import Participant, Split, entries, fit
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


def _labels(context: Context, who: Participant, trial: Trial) -> tuple[Labels, Labels]:
    """S[I]∘w and S[I∘w], each computed once."""
    regions = int(max(truth.max() for truth in trial.sample.truths)) + 1

    def segmented(part: str, image: Array) -> Labels:
        key = f"{who.key}/{part}/{trial.sample.name}"
        return context.remember_labels(key, lambda: who.method.segment(image, regions, context.seed))

    return trial.warp.labels(segmented("plain", trial.sample.image)), segmented(trial.key, trial.image)


def compare_orders(
    context: Context, results: Results, split: Split, trials: Mapping[str, Sequence[Trial]], beside: Mapping[str, str]
) -> list[Participant]:
    """Append a row for each method and each kind of trials, whose key is added to the title; return the methods.

    ST-DNN is the shipped model unless another is named. `beside` maps a baseline's name to the paper's row.
    """
    asked = replace(context, methods=context.methods or METHODS, model=context.model or MODEL)
    methods = []
    for entry in entries(asked, results):
        who = fit(asked, entry, "all", split.train)
        methods.append(who)
        for suffix, group in trials.items():
            found = {}
            for trial in tqdm(group, desc=who.key + suffix, unit="image", disable=not context.progress):
                key = f"{who.key}/{trial.key}/{trial.sample.name}"
                found[trial.sample.name] = context.remember(key, partial(_judge, context, who, trial))
            consistency, accuracy = (
                {name: each[kind] for name, each in found.items()} for kind in ("consistency", "accuracy")
            )
            row = results.add(who.title + suffix, consistency, who.note, beside.get(who.name, "") + suffix)
            row.values[ACCURACY] = float(np.mean([scores["covering"] for scores in accuracy.values()]))
            results.images[f"{who.title}{suffix}, against the truth"] = accuracy
    return methods


def _judge(context: Context, who: Participant, trial: Trial) -> dict[str, dict[str, float]]:
    expected, found = _labels(context, who, trial)
    truths = [trial.warp.labels(truth) for truth in trial.sample.truths]
    return {"consistency": measure(found, [expected]), "accuracy": measure(found, truths, ignore=-1)}


def add_grid(
    context: Context, results: Results, trials: Sequence[Trial], methods: Sequence[Participant], head: str,
    orders: Sequence[str],
) -> None:  # fmt: skip
    """Draw S[I]∘w and S[I∘w], or only the latter if `orders` names one, in the colours of the paired true regions."""
    rows = []
    for trial in trials:
        truth = trial.warp.labels(trial.sample.truths[0])
        maps = [labels for who in methods for labels in _labels(context, who, trial)[-len(orders) :]]
        cells = [overlay(trial.image, align_labels(labels, truth, ignore=-1)[0]) for labels in maps]
        rows.append([as_rgb8(trial.sample.image), as_rgb8(trial.image), *cells])
    add_sheet(context, results, ["image", head, *(who.title + order for who in methods for order in orders)], rows)


def generator(context: Context, sample: Sample, number: int = 0) -> np.random.Generator:
    """Return the generator of an image: it depends on no other image or method."""
    return np.random.default_rng([context.seed, crc32(sample.name.encode()), number])
