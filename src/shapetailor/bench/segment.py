"""`shapetailor bench segment`: whole segmentations with our solver, against a cold torch solver and scikit-image.

A picture of two generated textures is segmented by each shipped model: with our solver, and by the same evolution with
backend="torch", plain Chebyshev steps from zero. It starts from the inner half of one region, so that the boundary has
a way to go. Chan–Vese and the random walker of scikit-image give the scale; they solve easier problems. Then the call
that a user makes, at sizes of photographs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.ndimage import distance_transform_edt
from skimage.color import rgb2gray
from skimage.segmentation import chan_vese, random_walker
from torch import Tensor

from .. import metrics
from ..arrays import Labels
from ..datasets import Sample, mosaic, texture
from ..evolution.config import EvolutionConfig
from ..network.checkpoint import load_model
from ..network.describer import Describer, Descriptors
from ..network.stdnn import STDNN
from ..poisson.solve import Backend
from ..segmentation.segmenter import Segmenter
from . import scale
from .measure import Outcome, best_times, chosen_sizes, machine, peak_memory, progress
from .report import NOTHING, Data, duration, megabytes, page, text_table, verdict

SIZES, QUICK_SIZES = (256, 512, 1024, 2048), (64,)
ITERATIONS, FEW = 20, 3
#: Model → iterations in the comparison with the cold solver, which is slow.
MODELS = {"paper": FEW, "texture": ITERATIONS}
#: Model → largest size that does not take too long.
LARGEST = {"paper": 512, "texture": 4096}
#: Where memory is taken.
MEMORY_MODEL, MEMORY_SIZE, MEMORY_ITERATIONS = "texture", 4096, 1
SHIPPED = "texture, both networks"
#: The second texture is darkened by this factor, so that the boundary moves on with any model.
TEXTURES, DARK = ("weave", "pebbles"), 0.4
MANY = 20
#: Height and width of pictures that are segmented as a user would, and the seconds that this may take; bytes.
WHOLE = {(512, 512): 1.5, (1024, 1024): 3.0, (2048, 2048): 6.0, (4000, 6000): 15.0}
TARGET_WHOLE_MEMORY = 2e9
BACKENDS: tuple[Backend, Backend] = ("torch", "auto")
#: Share of pixels on which two solvers must agree.
AGREEMENT = 0.95
#: The targets' size, seconds, times faster than the cold solver, growth of time per pixel, time of 20 regions over 2,
#: bytes at `MEMORY_SIZE`.
TARGET_SIZE, TARGET_SECONDS, TARGET_SPEED, TARGET_GROWTH, TARGET_MANY, TARGET_MEMORY = 256, 2.0, 20.0, 1.5, 2.0, 16e9


@dataclass(frozen=True)
class Case:
    """One segmentation to time; `cells`: start from so many random cells instead of a shrunk region."""

    model: str
    size: int
    iterations: int
    backend: Backend = "auto"
    cells: int | None = None


@dataclass(frozen=True)
class Timing:
    """What a case took; areas are in pictures."""

    case: Case
    iterations: int  #: accepted updates of the regions
    first: float  #: area of all D(R_i) given to the network at the start
    area: float  #: the same in all
    whole: float  #: how often the whole picture was described as one region, for the final boundaries
    seconds: float
    rand: float  #: adjusted Rand index with the truth
    labels: Labels

    @property
    def described(self) -> float:
        """All that the network was given."""
        return self.area + self.whole

    @property
    def per_pixel(self) -> float:
        """Seconds for each pixel described."""
        return self.seconds / self.described / self.case.size**2

    def row(self) -> Data:
        """Return the figures by name."""
        names = ("first", "area", "whole", "described", "seconds")
        counts = {"accepted": self.iterations, "adjusted_rand": self.rand}
        return asdict(self.case) | counts | {name: getattr(self, name) for name in names}


class Counted(Describer):
    """A network that lists the areas it describes; those of the whole picture as one region apart."""

    image_channels = stride = 0

    def __init__(self, net: STDNN, areas: list[int], wholes: list[int]) -> None:
        self.net, self.areas, self.wholes = net, areas, wholes
        self.image_channels, self.stride = net.image_channels, net.stride

    @property
    def descriptors(self) -> Descriptors:
        """The network's forms, counted."""
        forms = self.net.descriptors
        blocks, warm = (form and self._counted(form) for form in (forms.blocks, forms.warm))
        return Descriptors(self._counted(forms.pixels), forms.stride, blocks, warm)

    def prepare(self, image: Tensor) -> Tensor:
        """Preprocess as the network does."""
        return self.net.prepare(image)

    def rescaled(self, resolution: int) -> Counted:
        """Return the network for another size; it adds to the same lists."""
        return Counted(self.net.rescaled(resolution), self.areas, self.wholes)

    def __call__(self, image: Tensor, labels: Tensor) -> Tensor:
        """Describe pixels."""
        return self.descriptors.pixels(image, labels)

    def _counted(self, describe: Callable[..., Any]) -> Callable[..., Any]:
        def counted(image: Tensor, labels: Tensor, *guesses: Any) -> Any:
            areas = self.areas if bool((labels != 0).any()) else self.wholes
            areas.append(int((labels >= 0).sum()))
            return describe(image, labels, *guesses)

        return counted


def run(sizes: Sequence[int] | None = None, quick: bool = False) -> Outcome:
    """Measure everything and report it."""
    chosen = chosen_sizes(sizes, QUICK_SIZES if quick else SIZES, 32)
    begin, where = time.perf_counter(), machine()
    timings = [measure(case) for case in cases(chosen, quick)]
    others = time_others(chosen[0])
    agreements = agreement(timings)
    memory = None if quick else peak_memory(prepare_memory)
    wholes = [] if quick else [scale.measure("coarse to fine", shape) for shape in WHOLE]
    data: Data = {
        "benchmark": "segment",
        "machine": where,
        "settings": {"sizes": chosen, "iterations": ITERATIONS, "few": FEW, "textures": TEXTURES},
        "rows": [each.row() for each in timings],
        "others": others,
        "agreement": agreements,
        "memory": memory,
        "wholes": wholes,
        "targets": judge(timings, chosen[0], others, memory) + judge_wholes(wholes),
    }
    data["seconds"] = time.perf_counter() - begin
    return Outcome(_report(data), data, min(agreements.values()) >= AGREEMENT)


def cases(sizes: Sequence[int], quick: bool) -> list[Case]:
    """List what is timed: the full run, cold against ours, growth with the size, many regions."""
    base, wanted = sizes[0], []
    for model, usual in MODELS.items():
        iterations = FEW if quick else usual
        if not quick:
            wanted.append(Case(model, base, ITERATIONS))
        wanted += [Case(model, base, iterations, backend) for backend in BACKENDS]
        wanted += [Case(model, size, FEW) for size in sizes if size <= max(base, LARGEST[model])]
        wanted += [Case(model, base, FEW, cells=count) for count in (2, MANY)]
    return list(dict.fromkeys(wanted))


def measure(case: Case) -> Timing:
    """Segment, count what was done, and take the best of up to three times if it is short."""
    net = load_model(case.model)[0]
    net.backend = case.backend
    areas: list[int] = []
    wholes: list[int] = []
    segmenter = Segmenter(Counted(net, areas, wholes), max_pixels=case.size**2)
    settings = EvolutionConfig(iterations=case.iterations)
    segmenter.segment(picture(32).image, 2, evolution=settings)  # compile, start what starts once
    sample = picture(case.size)
    first: list[int] = []
    call = partial(segmenter.segment, sample.image, init=start(case.cells, sample.truths[0]), evolution=settings)
    areas.clear()
    wholes.clear()
    begin = time.perf_counter()
    result = call(callback=lambda iteration, *_: None if iteration else first.append(sum(areas)))
    seconds = time.perf_counter() - begin
    at_start, area, whole = (sum(each) / case.size**2 for each in (first, areas, wholes))
    best = best_times({"": call}, 10.0, 3, {"": seconds})[""]
    progress(f"{case}: {duration(best)}, {result.iterations} iterations, {area + whole:.1f} pictures")
    rand = float(metrics.adjusted_rand(result.labels, sample.truths[0]))
    return Timing(case, result.iterations, at_start, area, whole, best, rand, result.labels)


def prepare_memory(size: int = MEMORY_SIZE, small: int = 512) -> Callable[[], object]:
    """Make a large colour picture, a small one enlarged with noise, and return its segmentation as a call."""
    sample, times = picture(small), size // small
    large = np.minimum(sample.image, 247).repeat(times, axis=0).repeat(times, axis=1)
    large += np.random.default_rng(0).integers(0, 9, large.shape, dtype=np.uint8)
    init = np.kron(start(None, sample.truths[0]), np.ones((times, times), np.int64))
    settings = EvolutionConfig(iterations=MEMORY_ITERATIONS)
    segmenter = Segmenter.from_pretrained(MEMORY_MODEL, max_pixels=size**2)
    segmenter.segment(sample.image[:64, :64], 2, evolution=settings)
    progress(f"memory at {size}²")
    return partial(segmenter.segment, large, init=init, evolution=settings)


def picture(size: int) -> Sample:
    """Make a picture of two textures, a dark one in a lighter one."""
    rng = np.random.default_rng(5)
    made = mosaic([texture(family, size, rng, colour=True) for family in TEXTURES], size, rng)
    dark = np.where(made.truths[0][..., None] == 1, DARK * made.image, made.image)
    return replace(made, image=dark.astype(np.uint8))


def start(cells: int | None, truth: Labels) -> Labels:
    """Shrink region 1 to its inner half; or divide the picture into Voronoi cells of random points."""
    if cells is None:
        depth = distance_transform_edt(truth == 1)
        inner: Labels = (depth > 0.5 * depth.max()).astype(np.int64)
        return inner
    points = np.full(truth.shape, -1, np.int64)
    points.flat[np.random.default_rng(0).choice(points.size, cells, replace=False)] = np.arange(cells)
    rows, columns = distance_transform_edt(points < 0, return_distances=False, return_indices=True)
    nearest: Labels = points[rows, columns]
    return nearest


def time_others(size: int) -> list[Data]:
    """Time the shipped model, with both networks, and scikit-image's methods on the same picture."""
    sample = picture(size)
    gray, truth = rgb2gray(sample.image), sample.truths[0]
    # The walker is shown the innermost fifth of each region; Chan–Vese has no texture model.
    depth = [distance_transform_edt(truth == k) for k in (0, 1)]
    seeds = sum((k + 1) * (depth[k] > 0.8 * depth[k].max()) for k in (0, 1))
    shipped = Segmenter.from_pretrained(MEMORY_MODEL)
    calls: dict[str, Callable[[], Any]] = {
        SHIPPED: lambda: shipped.segment(sample.image, 2).labels,
        f"chan_vese, {ITERATIONS} iterations": partial(chan_vese, gray, max_num_iter=ITERATIONS),
        "chan_vese": partial(chan_vese, gray),
        "random_walker": partial(random_walker, sample.image, seeds, mode="cg_j", channel_axis=-1),
    }
    times = best_times(calls, 1.0, 3)
    found = {name: np.asarray(call()).astype(np.int64) for name, call in calls.items()}
    return [
        {"method": name, "seconds": times[name], "rand": float(metrics.adjusted_rand(found[name], truth))}
        for name in calls
    ]


def agreement(timings: Sequence[Timing]) -> dict[str, float]:
    """Return, for each model, on what share of the pixels ours and the cold solver agree."""
    by_case = {each.case: each for each in timings}
    return {
        cold.case.model: float(np.mean(by_case[replace(cold.case, backend="auto")].labels == cold.labels))
        for cold in timings
        if cold.case.backend == "torch"
    }


def judge(timings: Sequence[Timing], base: int, others: Sequence[Data] = (), memory: int | None = None) -> list[Data]:
    """Compare what was measured with the targets, which are for 256² as the smallest size."""
    if base != TARGET_SIZE:
        return []
    by_case = {each.case: each for each in timings}
    verdicts = [each for model in MODELS for each in _judge_model(model, base, by_case)]
    for other in others:
        if other["method"] == SHIPPED:
            verdicts.append(verdict(f"{SHIPPED}: seconds at {base}²", other["seconds"], TARGET_SECONDS, at_least=False))
    if memory is not None:
        what = f"{MEMORY_MODEL}: GB at {MEMORY_SIZE}² in colour"
        verdicts.append(verdict(what, memory / 1e9, TARGET_MEMORY / 1e9, at_least=False))
    return verdicts


def judge_wholes(wholes: Sequence[Data]) -> list[Data]:
    """Compare whole calls with their targets."""
    verdicts = []
    for row in wholes:
        what, target = f"whole call, {row['height']}×{row['width']}", WHOLE[row["height"], row["width"]]
        verdicts.append(verdict(f"{what}: seconds", row["seconds"], target, at_least=False))
        if row["bytes"] is not None:
            verdicts.append(verdict(f"{what}: GB", row["bytes"] / 1e9, TARGET_WHOLE_MEMORY / 1e9, at_least=False))
    return verdicts


def _judge_model(model: str, base: int, by_case: Mapping[Case, Timing]) -> list[Data]:
    verdicts = []
    full = by_case.get(Case(model, base, ITERATIONS))
    if full:
        # A run that came to rest early is charged for all iterations, at what the start described in each.
        seconds = full.seconds / full.described * (full.first * (1 + ITERATIONS) + full.whole)
        what = f"{model}: seconds at {base}² for 2 regions, {ITERATIONS} iterations"
        verdicts.append(verdict(what, seconds, TARGET_SECONDS, at_least=False))
    (cold,) = (each for case, each in by_case.items() if (case.model, case.backend) == (model, "torch"))
    ratio = cold.seconds / by_case[replace(cold.case, backend="auto")].seconds
    what = f"{model}: times faster than the cold torch solver at {base}²"
    verdicts.append(verdict(what, ratio, TARGET_SPEED, at_least=True))
    small = by_case[Case(model, base, FEW)]
    for case, each in by_case.items():
        if case == replace(small.case, size=case.size) and case.size > base:
            what = f"{model}: time per pixel described at {case.size}² over {base}²"
            verdicts.append(verdict(what, each.per_pixel / small.per_pixel, TARGET_GROWTH, at_least=False))
    two, many = (by_case[Case(model, base, FEW, cells=count)] for count in (2, MANY))
    what = f"{model}: time of {MANY} regions over 2 at {base}², {FEW} iterations"
    verdicts.append(verdict(what, many.seconds / two.seconds, TARGET_MANY, at_least=False))
    return verdicts


def _report(data: Data) -> str:
    words = (
        "One picture of two textures; each time is of a whole Segmenter.segment, best of up to three where short."
        "\nDone: accepted updates of the regions (the evolution stops when they stand still). Described: area that the"
        "\nnetwork was given (dilated regions that changed; the whole picture), in pictures."
        "\ntexture: its first network alone. ARI: adjusted Rand index with the truth."
    )
    lines = []
    for row in data["rows"]:
        case = [row["model"], "ours" if row["backend"] == "auto" else "cold torch", f"{row['size']}²"]
        case.append(f"{row['cells']} cells" if row["cells"] else "shrunk")
        done = [f"{row['accepted']} of {row['iterations']}", f"{row['described']:.1f}", duration(row["seconds"])]
        per_pixel = f"{1e9 * row['seconds'] / row['described'] / row['size'] ** 2:.0f} ns"
        lines.append([*case, *done, per_pixel, f"{row['adjusted_rand']:.2f}"])
    head = ["model", "solver", "size", "start", "done", "described", "time", "time / pixel", "ARI"]
    others = [[each["method"], duration(each["seconds"]), f"{each['rand']:.2f}"] for each in data["others"]]
    agreements = ", ".join(f"{model} {share:.1%}" for model, share in data["agreement"].items()) or NOTHING
    sections = [
        text_table(head, lines),
        f"The shipped model, which starts from nothing, and scikit-image at {data['settings']['sizes'][0]}²\n\n"
        + text_table(["method", "time", "ARI"], others),
        f"Pixels on which ours and the cold solver agree: {agreements} (at least {AGREEMENT:.0%} wanted)",
    ]
    if data["memory"] is not None:
        what = f"{MEMORY_MODEL} at {MEMORY_SIZE}² in colour, {MEMORY_ITERATIONS} iteration"
        sections.append(f"Peak memory above the picture's, {what}: {megabytes(data['memory'])}")
    if data["wholes"]:
        calls = [
            [f"{row['height']}×{row['width']}", duration(row["seconds"]), megabytes(row["bytes"]), f"{row['f']:.3f}"]
            for row in data["wholes"]
        ]
        what = f"Whole calls by {scale.MODEL}, {scale.REGIONS} regions, on the picture of `bench scale`"
        sections.append(f"{what}\n\n" + text_table(["size", "time", "peak memory", "boundary F"], calls))
    return page("Segmentation benchmark", data["machine"], words, sections, data["targets"])
