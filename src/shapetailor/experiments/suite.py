"""Methods side by side: who takes part, fitting, and the measures of every test image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..arrays import Labels
from ..baselines import Baseline, FitSettings, Method, stdnn_method
from ..datasets import MosaicDataset, ProceduralTextures, Sample
from ..evaluate.evaluation import measure
from ..evolution.config import EvolutionConfig
from ..segmentation.segmenter import Start
from .context import Context
from .results import Measures, Results

#: A fitted method and a sample → the label map to be judged.
Segment = Callable[[Method, Sample], Labels]

#: Large networks that a quick run leaves out.
SLOW = ("fcn-ce", "deeplab-ce", "deeplab-loss")
#: Images of a quick run.
QUICK_TRAIN, QUICK_TEST, QUICK_SIZE = 6, 2, 64


@dataclass(frozen=True)
class Split:
    """Training and test images, and words on where they come from."""

    train: Sequence[Sample]
    test: Sequence[Sample]
    words: str


@dataclass(frozen=True)
class Entry:
    """A method that takes part, and its start."""

    baseline: Baseline
    start: Start = "kmeans"

    @property
    def key(self) -> str:
        """Name of the folder of its parts."""
        return self.baseline.name if self.start == "kmeans" else f"{self.baseline.name}-{self.start}"

    def title(self, method: Method) -> str:
        """Title of its row: ST-DNN takes part with two starts."""
        if self.baseline.name != "stdnn":
            return method.title
        return f"{method.title}, {'common start and evolution' if self.start == 'kmeans' else 'as shipped'}"


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


def must_train(context: Context) -> bool:
    """Whether any method that takes part is trained here."""
    names = set(context.methods or context.baselines) - ({"stdnn"} if context.model else set())
    return any(context.baselines[name].learns for name in names)


def fit(
    context: Context, entry: Entry, part: str, samples: Sequence[Sample], evolution: EvolutionConfig | None = None
) -> Method:
    """Fit a method, or read it from ``out/models/PART``."""
    settings = FitSettings(
        seed=context.seed,
        quick=context.quick,
        device=context.device,
        weights=context.weights,
        start=entry.start,
        evolution=None if entry.start == "ncut" else evolution or EvolutionConfig(),  # None: as it is shipped
        progress=context.progress,
    )
    if context.model and entry.baseline.name == "stdnn":
        return stdnn_method(context.model, settings)
    return entry.baseline.fit(samples, context.folder(f"models/{part}/{entry.baseline.name}"), settings)


def judge(context: Context, part: str, method: Method, samples: Sequence[Sample], segment: Segment) -> Measures:
    """Segment and measure every sample that an earlier run has not; image → measures."""

    def one(sample: Sample) -> dict[str, float]:
        labels = context.remember_labels(f"{part}/{sample.name}", lambda: segment(method, sample))
        return measure(labels, sample.truths, ignore=-1)

    return {
        sample.name: context.remember(f"{part}/{sample.name}", partial(one, sample))
        for sample in context.watch(samples, part)
    }


def compare(
    context: Context,
    results: Results,
    split: Split,
    segment: Segment,
    part: str,
    *,
    beside: Mapping[str, str],
    suffix: str = "",
    without: Sequence[str] = (),
    evolution: EvolutionConfig | None = None,
) -> dict[str, str]:
    """Fit and judge all methods, a row of `results` each; return title → part, for pictures.

    `beside` maps a baseline's name to the paper's row, `suffix` is added to titles.
    """
    shown = {}
    for entry in entries(context, results, without):
        method = fit(context, entry, "all", split.train, evolution)
        title = entry.title(method) + suffix
        shown[title] = f"{part}/{entry.key}"
        images = judge(context, shown[title], method, split.test, segment)
        results.add(title, images, trained(context, entry, split.train), beside.get(entry.baseline.name, ""))
    return shown


def trained(context: Context, entry: Entry, samples: Sequence[Sample]) -> str:
    """Say what a method has learnt from."""
    if not entry.baseline.learns:
        return "learns nothing"
    if context.model and entry.baseline.name == "stdnn":
        return f"model {context.model}, not trained here: what it has seen is in its own record"
    return f"trained on {len(samples)} images"


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
    if context.quick:
        train, test = train[:QUICK_TRAIN], test[:QUICK_TEST]
    return list(train), list(test[: context.limit])
