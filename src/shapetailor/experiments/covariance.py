"""Covariance to rotation and translation: segment and turn, or turn and segment (`tab:invariance`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from ..arrays import Box
from ..datasets import Sample
from ..drawing.overlay import as_rgb8
from ..labels import largest_rectangle
from .consistency import COLUMNS, Participant, Trial, add_row, generator, pair_of_pictures, participants
from .context import Context
from .figures import MOST, add_bars, add_sheet
from .results import Results
from .rwtsd import two_regions
from .warps import Warp, rotation

SUMMARY = (
    "Each test image is turned by a multiple of 30° and cropped to a random rectangle that shows only its pixels: is "
    "the segmentation of the turned image the turned segmentation, S[I∘w] = S[I]∘w (tab:invariance)? --data: a folder "
    "with images/ and masks/ as for rwtsd. Runs ST-DNN (the shipped model, or --model), STLD and k-means on colours; "
    "--methods adds those that have to be trained, on the other half of the images."
)
#: `tab:invariance`: covering and Rand index of S[I∘w] and S[I]∘w.
PAPER = {"ST-DNN": (0.87, 0.89), "resnet101-all-ce": (0.69, 0.70)}
BESIDE = {"stdnn": "ST-DNN", "fcn-ce": "resnet101-all-ce"}
ANGLES = tuple(k * np.pi / 6 for k in range(1, 7))
#: Sides of the rectangle against those of the largest one in the turned image; the rest is room to move.
SHARE = 0.8
#: Smallest share of the rectangle for each region of the truth, and how often angle and place are drawn for it.
SMALLEST, DRAWS = 0.05, 50


def run(context: Context) -> Results:
    """Turn every test image once and compare both orders of turning and segmenting."""
    split = two_regions(context)
    results = Results("Covariance to rotation and translation", "tab:invariance", COLUMNS, split.words)
    trials = [turned(context, sample) for sample in split.test]
    methods = participants(context, results, split)
    for who in methods:
        add_row(context, results, who, trials, beside=BESIDE.get(who.baseline, ""))
    results.cite(PAPER, ("covering", "rand_index"))
    results.notes += [
        "Turned by kπ/6, k = 1…6, at random; the paper's list has 3π/2 where the series has 3π/6. Then cropped to a "
        f"rectangle with {SHARE:.0%} of the sides of the largest one in the turned image, at a random place. Both are "
        f"drawn again (at most {DRAWS} times) until each true region has at least {SMALLEST:.0%} of the rectangle; "
        "the paper does not say how it chose.",
        "A method that finds the same wrong regions in both orders is covariant: the last column is the accuracy.",
    ]
    add_bars(context, results, ("covering", "rand_index"))
    _add_grid(context, results, trials, methods)
    return results


def turned(context: Context, sample: Sample) -> Trial:
    """Draw an angle and a rectangle of the turned image, again until all regions are seen there."""
    rng = generator(context, sample)
    for _ in range(DRAWS):
        full = rotation(sample.truths[0].shape, float(rng.choice(ANGLES)))
        warp = full.crop(_within(largest_rectangle(full.valid), rng))
        if _smallest_region(warp, sample) >= SMALLEST:
            break
    return Trial(sample, warp, "turned")


def _within(room: Box, rng: np.random.Generator) -> Box:
    """A rectangle of `SHARE` of the room's sides, anywhere in it."""
    sides = [max(1, round(SHARE * (part.stop - part.start))) for part in room]
    first = [int(rng.integers(part.start, part.stop - side + 1)) for part, side in zip(room, sides, strict=True)]
    return slice(first[0], first[0] + sides[0]), slice(first[1], first[1] + sides[1])


def _smallest_region(warp: Warp, sample: Sample) -> float:
    """The smallest share of the warped image that a region of the first truth has."""
    labels = warp.labels(sample.truths[0])
    return min(float((labels == region).mean()) for region in range(int(sample.truths[0].max()) + 1))


def _add_grid(context: Context, results: Results, trials: Sequence[Trial], methods: Sequence[Participant]) -> None:
    orders = ("turned last", "turned first")
    heads = ["image", "turned and cropped", *(f"{who.title}: {order}" for who in methods for order in orders)]
    rows = []
    for trial in trials[:MOST]:
        pairs = (pair_of_pictures(context, who, trial) for who in methods)
        rows.append([as_rgb8(trial.sample.image), as_rgb8(trial.image), *chain.from_iterable(pairs)])
    add_sheet(context, results, heads, rows)
