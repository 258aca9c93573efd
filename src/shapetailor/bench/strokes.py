"""How fast strokes are answered: opening a picture, the preview after a stroke, the refined boundary."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

import numpy as np

from ..datasets import Sample, mosaic, texture
from ..metrics import covering
from ..segmentation.segmenter import Segmenter
from ..strokes.marks import Stroke
from .measure import Outcome, chosen_sizes, machine, progress
from .report import Data, duration, page, text_table, verdict

SIZES, QUICK_SIZES = (512, 2048), (128,)
FAMILIES = ("cells", "grass", "herringbone", "dots")
#: Regions: the first and the last texture are one, so that strokes contradict the unaided regions.
REGIONS = 3
#: Strokes beyond one a texture; previews are timed after each.
MORE = 6
#: Size → seconds wanted for a preview; seconds wanted for the refined boundary after it.
PREVIEW, REFINED = {512: 0.15, 2048: 0.5}, 1.0
TIMES = ("open", "preview", "slowest", "first", "refined")
WORDS = (
    "A mosaic of four textures, two of which are meant to be one region. Opening describes the picture once. Preview:\n"
    "the median time from a further stroke to the label map. Refined: the median time of the boundary after it; the\n"
    "first is of the whole picture, later ones of what has changed. Covering: after the last stroke, to show that\n"
    "answers are right."
)


def run(sizes: Sequence[int] | None = None, quick: bool = False) -> Outcome:
    """Measure everything and report it."""
    chosen = chosen_sizes(sizes, QUICK_SIZES if quick else SIZES)
    where, segmenter = machine(), Segmenter.from_pretrained("texture")
    _timed(segmenter, mosaic_of(64))  # compiles
    rows: list[Data] = []
    for size in chosen:
        progress(f"{size}²")
        rows.append({"size": size, **_timed(segmenter, mosaic_of(size))})
    targets = [
        verdict(f"preview at {row['size']}², s", row["preview"], PREVIEW[row["size"]], at_least=False)
        for row in rows
        if row["size"] in PREVIEW
    ] + [verdict(f"refined at {row['size']}², s", row["refined"], REFINED, at_least=False) for row in rows]
    data: Data = {"benchmark": "strokes", "machine": where, "rows": rows, "targets": targets}
    table = text_table(
        ["size", "open", "preview", "slowest preview", "first refined", "refined", "covering"],
        [[f"{row['size']}²", *(duration(row[key]) for key in TIMES), f"{row['covering']:.3f}"] for row in rows],
    )
    text = page("shapetailor bench strokes", where, WORDS, [table], targets)
    return Outcome(text, data, all(row["covering"] > 0.7 for row in rows))


def mosaic_of(size: int) -> Sample:
    """A mosaic of the families, in colour."""
    rng = np.random.default_rng(8)
    return mosaic([texture(family, min(size, 512), rng, colour=True) for family in FAMILIES], size, rng)


def _timed(segmenter: Segmenter, sample: Sample) -> dict[str, float]:
    """Open a picture, mark each region and then random places, and time the answers."""
    textures, rng = sample.truths[0], np.random.default_rng(0)
    truth = textures % REGIONS
    begin = time.perf_counter()
    session = segmenter.open(sample.image, REGIONS)
    opened, previews, refinements = time.perf_counter() - begin, list[float](), list[float]()
    for number in range(len(FAMILIES) + MORE):
        places = np.argwhere(textures == number % len(FAMILIES))
        y, x = places[rng.integers(len(places))].tolist()
        begin = time.perf_counter()
        session.add(Stroke(int(truth[y, x]), ((x, y),), radius=max(1.0, 4 * len(truth) / 256)))
        if number + 1 < len(FAMILIES):
            continue
        result = session.result(refine=False)
        previews.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        refined = session.result()
        refinements.append(time.perf_counter() - begin)
    return {
        "open": opened,
        "preview": median(previews),
        "slowest": max(previews),
        "first": refinements[0],
        "refined": median(refinements[1:]),
        "covering": max(covering(each.labels, truth) for each in (result, refined)),
    }
