"""`shapetailor bench segment`: whole segmentations with our solver, against a cold torch solver and scikit-image.

A picture of two generated textures is segmented by each shipped model: with our solver, and by the same evolution with
backend="torch", plain Chebyshev steps from zero. It starts from the inner half of one region, so that there is a way to
go. Chan–Vese and the random walker of scikit-image are there for scale; they solve easier problems.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
from ..datasets.mosaics import mosaic
from ..datasets.sample import Sample
from ..datasets.textures import texture
from ..evolution.config import EvolutionConfig
from ..network.checkpoint import load_model
from ..network.describer import Describer, Descriptors
from ..network.stdnn import STDNN
from ..poisson.solve import Backend
from ..segmentation.segmenter import Segmenter
from .measure import NOTHING, Outcome, best_times, machine, peak_memory, progress, text_table
from .report import duration, heading, megabytes, targets, verdict

Data = dict[str, Any]

SIZES, QUICK_SIZES = (256, 512, 1024, 2048), (64,)
ITERATIONS, FEW = 20, 3
#: Model → iterations in comparisons that would take too long otherwise.
MODELS = {"paper": FEW, "texture": ITERATIONS}
#: Model → largest size that does not take too long.
LARGEST = {"paper": 512, "texture": 4096}
#: Where memory is taken: model, size, iterations.
MEMORY_MODEL, MEMORY_SIZE, MEMORY_ITERATIONS = "texture", 4096, 1
SHIPPED = "texture, both networks"
#: The second is darkened so far: the boundary has to keep moving, with any model, for the iterations to be counted.
TEXTURES, DARK = ("weave", "pebbles"), 0.4
MANY = 20
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
class Row:
    """What a case took.

    Attributes
    ----------
    iterations : int
        Accepted updates of the regions.
    first, area, whole : float
        What was described at the start, and in all: the area of all D(R_i) given to the network, in pictures; and how
        often the whole picture was described besides, as one region, for the final boundaries.
    seconds : float
        The best time.
    rand : float
        Agreement with the truth.
    """

    case: Case
    iterations: int
    first: float
    area: float
    seconds: float
    rand: float
    labels: Labels
    whole: float = 0.0

    @property
    def described(self) -> float:
        """All that the network was given, in pictures."""
        return self.area + self.whole


class Counted(Describer):
    """A network that lists the areas it is asked to describe.

    Those of the whole picture as one region are listed apart.
    """

    def __init__(self, net: STDNN, areas: list[int], wholes: list[int]) -> None:
        self.net, self.areas, self.wholes = net, areas, wholes

    def prepare(self, image: Tensor) -> Tensor:
        """Preprocess as the network does."""
        return self.net.prepare(image)

    @property
    def image_channels(self) -> int:
        """Those of the network."""
        return self.net.image_channels

    @property
    def stride(self) -> int:
        """That of the network."""
        return self.net.stride

    @property
    def descriptors(self) -> Descriptors:
        """The network's forms, counted."""
        blocks = self.stride > 1
        return Descriptors(self, self.stride, self.compact if blocks else None, None if blocks else self.warm)

    def rescaled(self, resolution: int) -> Counted:
        """Return the network for another size; it adds to the same lists."""
        return Counted(self.net.rescaled(resolution), self.areas, self.wholes)

    def __call__(self, image: Tensor, labels: Tensor) -> Tensor:
        """Describe pixels."""
        self._count(labels)
        descriptors: Tensor = self.net(image, labels)
        return descriptors

    def compact(self, image: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Describe blocks."""
        self._count(labels)
        return self.net.compact(image, labels)

    def warm(self, image: Tensor, labels: Tensor, guesses: Sequence[Tensor] = ()) -> tuple[Tensor, list[Tensor]]:
        """Describe pixels, from first guesses."""
        self._count(labels)
        return self.net.warm(image, labels, guesses)

    def _count(self, labels: Tensor) -> None:
        areas = self.areas if bool((labels != 0).any()) else self.wholes
        areas.append(int((labels >= 0).sum()))


def run(sizes: Sequence[int] | None = None, quick: bool = False) -> Outcome:
    """Measure everything and report it."""
    chosen = sorted(set(sizes or (QUICK_SIZES if quick else SIZES)))
    if min(chosen) < 32:
        raise ValueError(f"sizes must be at least 32 pixels, got {min(chosen)}")
    begin, where = time.perf_counter(), machine()
    rows = [measure(case) for case in cases(chosen, quick)]
    others = scale(chosen[0])
    agreements = compare(rows)
    memory = None if quick else peak_memory(_prepare_memory)
    data: Data = {
        "benchmark": "segment",
        "machine": where,
        "settings": {"sizes": chosen, "iterations": ITERATIONS, "few": FEW, "textures": TEXTURES},
        "rows": [asdict(row.case) | _figures(row) for row in rows],
        "others": others,
        "agreement": agreements,
        "memory": memory,
        "targets": judge(rows, chosen[0], others, memory),
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


def measure(case: Case) -> Row:
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
    call = partial(segmenter.segment, sample.image, init=start(case, sample.truths[0]), evolution=settings)
    areas.clear()
    wholes.clear()
    begin = time.perf_counter()
    result = call(callback=lambda iteration, *_: None if iteration else first.append(sum(areas)))
    seconds = time.perf_counter() - begin
    parts = [sum(each) / case.size**2 for each in (first, areas, wholes)]
    best = best_times({"": call}, 10.0, 3, {"": seconds})[""]
    progress(f"{case}: {duration(best)}, {result.iterations} iterations, {parts[1] + parts[2]:.1f} pictures")
    rand = metrics.adjusted_rand(result.labels, sample.truths[0])
    return Row(case, result.iterations, parts[0], parts[1], best, float(rand), result.labels, parts[2])


def _prepare_memory() -> Callable[[], object]:
    """Make a large picture in colour, the small one enlarged with noise, and return its segmentation as a call."""
    small = picture(512)
    times = MEMORY_SIZE // 512
    large = np.minimum(small.image, 247).repeat(times, axis=0).repeat(times, axis=1)
    large += np.random.default_rng(0).integers(0, 9, large.shape, dtype=np.uint8)
    init = start(Case(MEMORY_MODEL, 512, MEMORY_ITERATIONS), small.truths[0])
    settings = EvolutionConfig(iterations=MEMORY_ITERATIONS)
    segmenter = Segmenter.from_pretrained(MEMORY_MODEL, max_pixels=MEMORY_SIZE**2)
    segmenter.segment(small.image[:64, :64], 2, evolution=settings)
    progress(f"memory at {MEMORY_SIZE}²")
    return partial(segmenter.segment, large, init=np.kron(init, np.ones((times, times), np.int64)), evolution=settings)


def picture(size: int) -> Sample:
    """Make a picture of two textures, a dark one in a lighter one."""
    rng = np.random.default_rng(5)
    made = mosaic([texture(family, size, rng, colour=True) for family in TEXTURES], size, rng)
    dark = np.where(made.truths[0][..., None] == 1, DARK * made.image, made.image)
    return replace(made, image=dark.astype(np.uint8))


def start(case: Case, truth: Labels) -> Labels:
    """Shrink region 1 to its inner half; or cut the picture into cells, each what is nearest to a random point."""
    if case.cells is None:
        depth = distance_transform_edt(truth == 1)
        inner: Labels = (depth > 0.5 * depth.max()).astype(np.int64)
        return inner
    points = np.full(truth.shape, -1, np.int64)
    points.flat[np.random.default_rng(0).choice(points.size, case.cells, replace=False)] = np.arange(case.cells)
    rows, columns = distance_transform_edt(points < 0, return_distances=False, return_indices=True)
    nearest: Labels = points[rows, columns]
    return nearest


def scale(size: int) -> list[Data]:
    """Time the shipped model, with both networks, and scikit-image's methods on the same picture, all by default."""
    sample = picture(size)
    gray, truth = rgb2gray(sample.image), sample.truths[0]
    # The walker is shown the innermost fifth of each region; Chan–Vese knows nothing and has no texture model.
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


def compare(rows: Sequence[Row]) -> dict[str, float]:
    """Return, for each model, on what share of the pixels ours and the cold solver agree."""
    found = {}
    for cold in rows:
        if cold.case.backend == "torch":
            ours = next(row for row in rows if row.case == replace(cold.case, backend="auto"))
            found[cold.case.model] = float(np.mean(ours.labels == cold.labels))
    return found


def judge(rows: Sequence[Row], base: int, others: Sequence[Data] = (), memory: int | None = None) -> list[Data]:
    """Compare what was measured with the targets, which are for 256² as the smallest size."""
    if base != TARGET_SIZE:
        return []
    by_case = {row.case: row for row in rows}
    verdicts = []
    for model in MODELS:
        full = by_case.get(Case(model, base, ITERATIONS))
        if full:
            # A run that came to rest early is charged for all iterations, at what the start described in each.
            seconds = full.seconds / full.described * (full.first * (1 + ITERATIONS) + full.whole)
            what = f"{model}: seconds at {base}² for 2 regions, {ITERATIONS} iterations"
            verdicts.append(verdict(what, seconds, TARGET_SECONDS, at_least=False))
        (cold,) = (row for row in rows if row.case.model == model and row.case.backend == "torch")
        ours = by_case[replace(cold.case, backend="auto")]
        what = f"{model}: times faster than the cold torch solver at {base}²"
        verdicts.append(verdict(what, cold.seconds / ours.seconds, TARGET_SPEED, at_least=True))
        small = by_case[Case(model, base, FEW)]
        for row in rows:
            if row.case == replace(small.case, size=row.case.size) and row.case.size > base:
                what = f"{model}: time per pixel described at {row.case.size}² over {base}²"
                verdicts.append(verdict(what, _unit(row) / _unit(small), TARGET_GROWTH, at_least=False))
        two, many = (by_case[Case(model, base, FEW, cells=count)] for count in (2, MANY))
        what = f"{model}: time of {MANY} regions over 2 at {base}², {FEW} iterations"
        verdicts.append(verdict(what, many.seconds / two.seconds, TARGET_MANY, at_least=False))
    for other in others:
        if other["method"] == SHIPPED:
            verdicts.append(verdict(f"{SHIPPED}: seconds at {base}²", other["seconds"], TARGET_SECONDS, at_least=False))
    if memory is not None:
        what = f"{MEMORY_MODEL}: GB at {MEMORY_SIZE}² in colour"
        verdicts.append(verdict(what, memory / 1e9, TARGET_MEMORY / 1e9, at_least=False))
    return verdicts


def _unit(row: Row) -> float:
    return row.seconds / row.described / row.case.size**2


def _figures(row: Row) -> Data:
    names = ("first", "area", "whole", "described", "seconds")
    return {"accepted": row.iterations, "adjusted_rand": row.rand} | {name: getattr(row, name) for name in names}


def _report(data: Data) -> str:
    words = (
        "\nOne picture of two textures; each time is of a whole Segmenter.segment, best of up to three where short."
        "\nDone: accepted updates of the regions (the evolution stops when they stand still). Described: area that the"
        "\nnetwork was given (dilated regions that changed; the whole picture), in pictures."
        "\ntexture: its first network alone. ARI: adjusted Rand index with the truth."
    )
    lines = [
        [
            row["model"],
            "ours" if row["backend"] == "auto" else "cold torch",
            f"{row['size']}²",
            f"{row['cells']} cells" if row["cells"] else "shrunk",
            f"{row['accepted']} of {row['iterations']}",
            f"{row['described']:.1f}",
            duration(row["seconds"]),
            f"{1e9 * row['seconds'] / row['described'] / row['size'] ** 2:.0f} ns",
            f"{row['adjusted_rand']:.2f}",
        ]
        for row in data["rows"]
    ]
    head = ["model", "solver", "size", "start", "done", "described", "time", "time / pixel", "ARI"]
    size = data["settings"]["sizes"][0]
    other = [[row["method"], duration(row["seconds"]), f"{row['rand']:.2f}"] for row in data["others"]]
    agreement = ", ".join(f"{model} {share:.1%}" for model, share in data["agreement"].items()) or NOTHING
    parts = [
        heading("Segmentation benchmark", data["machine"]) + words,
        text_table(head, lines),
        f"The shipped model, which starts from nothing, and scikit-image at {size}²\n\n"
        + text_table(["method", "time", "ARI"], other),
        f"Pixels on which ours and the cold solver agree: {agreement} (at least {AGREEMENT:.0%} wanted)",
    ]
    if data["memory"] is not None:
        what = f"{MEMORY_MODEL} at {MEMORY_SIZE}² in colour, {MEMORY_ITERATIONS} iteration"
        parts.append(f"Peak memory above the picture's, {what}: {megabytes(data['memory'])}")
    if data["targets"]:
        parts.append("Targets\n\n" + targets(data["targets"]))
    return "\n\n\n".join(parts)
