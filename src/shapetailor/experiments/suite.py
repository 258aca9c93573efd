"""Methods side by side: who takes part, fitting, and the measures of every test image."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ..arrays import Labels
from ..baselines import Baseline, FitSettings, Method, stdnn_method
from ..datasets import MosaicDataset, ProceduralTextures, Sample
from ..evaluate.evaluation import measure
from ..evolution.config import EvolutionConfig
from ..segmentation.segmenter import Start
from .results import Context, Measures, Results

#: A fitted method and a sample → the label map to be judged.
Segment = Callable[[Method, Sample], Labels]

#: Large networks that a quick run leaves out.
SLOW = ("fcn-ce", "deeplab-ce", "deeplab-loss")
#: Images of a quick run.
QUICK_TRAIN, QUICK_TEST, QUICK_SIZE = 6, 2, 64


class Split(NamedTuple):
    """Training and test images, and words on where they come from."""

    train: Sequence[Sample]
    test: Sequence[Sample]
    words: str


class Entry(NamedTuple):
    """A method that takes part, and its start."""

    baseline: Baseline
    start: Start = "kmeans"


class Participant(NamedTuple):
    """A fitted method."""

    method: Method
    name: str  #: of the baseline
    key: str  #: of the folder of its parts
    title: str  #: of its row
    note: str  #: what it has learnt from


def entries(context: Context, results: Results, without: Sequence[str] = ()) -> list[Entry]:
    """Return the methods that take part; the notes of `results` say which of them cannot run here, and why.

    ST-DNN comes twice: as it is shipped, which starts from a normalised cut and has a second network for boundaries,
    and its first network with the k-means start and the evolution of all others.
    """
    names = context.methods or tuple(name for name in context.baselines if name not in without)
    if context.quick and context.methods is None:
        names = tuple(name for name in names if name not in SLOW)
        results.notes.append(f"A quick run leaves out {', '.join(SLOW)} unless --methods asks for them.")
    found = []
    for name in names:
        baseline = context.baselines[name]
        reason = "not made for this experiment" if name in without else baseline.available()
        if reason:
            results.notes.append(f"{baseline.title}: {reason}.")
            continue
        found += [Entry(baseline, "ncut")] if name == "stdnn" else []
        found.append(Entry(baseline))
    return found


def fit(
    context: Context, entry: Entry, part: str, samples: Sequence[Sample], evolution: EvolutionConfig | None = None
) -> Participant:
    """Fit a method, or read it from ``out/models/PART``."""
    baseline, start = entry
    names = ("seed", "quick", "device", "weights", "progress")
    settings = FitSettings(
        start=start,
        evolution=None if start == "ncut" else evolution or EvolutionConfig(),  # None: as it is shipped
        **{name: getattr(context, name) for name in names},
    )
    if context.model and baseline.name == "stdnn":
        method = stdnn_method(context.model, settings)
        note = f"model {context.model}, not trained here: what it has seen is in its own record"
    else:
        folder = context.file(f"models/{part}/{baseline.name}")
        folder.mkdir(exist_ok=True)
        method = baseline.fit(samples, folder, settings)
        note = f"trained on {len(samples)} images" if baseline.learns else "learns nothing"
    key, title = baseline.name, method.title
    if baseline.name == "stdnn":  # it takes part with two starts
        key += "" if start == "kmeans" else f"-{start}"
        title += ", common start and evolution" if start == "kmeans" else ", as shipped"
    return Participant(method, baseline.name, key, title, note)


def judge(context: Context, part: str, method: Method, samples: Sequence[Sample], segment: Segment) -> Measures:
    """Segment and measure every sample that an earlier run has not; image → measures."""

    def measures(sample: Sample) -> dict[str, float]:
        labels = context.remember_labels(f"{part}/{sample.name}", lambda: segment(method, sample))
        return measure(labels, sample.truths, ignore=-1)

    watched = context.watch(samples, part)
    return {each.name: context.remember(f"{part}/{each.name}", partial(measures, each)) for each in watched}


def compare(
    context: Context, results: Results, split: Split, segment: Segment, part: str, *, beside: Mapping[str, str],
    suffix: str = "", without: Sequence[str] = (), evolution: EvolutionConfig | None = None,
) -> dict[str, str]:  # fmt: skip
    """Fit and judge all methods, a row of `results` each; return title → part, for pictures.

    `beside` maps a baseline's name to the paper's row, `suffix` is added to titles.
    """
    shown = {}
    for entry in entries(context, results, without):
        who = fit(context, entry, "all", split.train, evolution)
        title = who.title + suffix
        shown[title] = f"{part}/{who.key}"
        images = judge(context, shown[title], who.method, split.test, segment)
        results.add(title, images, who.note, beside.get(who.name, ""))
    return shown


def given(context: Context, regions: int) -> Segment:
    """Return the segmentation into a fixed number of regions."""
    return lambda method, sample: method.segment(sample.image, regions, context.seed)


def halves(count: int, seed: int) -> tuple[list[int], list[int]]:
    """Split the numbers below `count` into two random halves, sorted; the first may have one more."""
    order = np.random.default_rng(seed).permutation(count)
    middle = (count + 1) // 2
    return sorted(order[:middle].tolist()), sorted(order[middle:].tolist())


def generated(context: Context, regions: tuple[int, int] = (2, 2), colour: bool = True) -> Split:
    """Return small mosaics of procedural textures, none of them in both parts, for a quick run without data."""
    parts = []
    for number, (name, count) in enumerate((("train", QUICK_TRAIN), ("test", QUICK_TEST))):
        seed = 2 * context.seed + number
        textures = ProceduralTextures(12, 2 * QUICK_SIZE, seed, colour)
        mosaics = MosaicDataset(textures, count, regions, QUICK_SIZE, seed)
        parts.append([replace(mosaics[index], name=f"{name}{index}") for index in range(count)])
    train, test = parts[0], parts[1][: context.limit]
    words = f"generated mosaics of {QUICK_SIZE}×{QUICK_SIZE} pixels, {len(train)} to train, {len(test)} to test"
    return Split(train, test, words)


def cut(context: Context, train: Sequence[int], test: Sequence[int]) -> tuple[list[int], list[int]]:
    """Shorten the numbers of training and test images for a quick run or a limit."""
    if not train or not test:
        raise ValueError(f"data: {context.data} gives {len(train)} images to train and {len(test)} to test; name more")
    if context.quick:
        train, test = train[:QUICK_TRAIN], test[:QUICK_TEST]
    return list(train), list(test[: context.limit])
