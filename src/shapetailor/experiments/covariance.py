"""Covariance to rotation and translation: segment and turn, or turn and segment (`tab:invariance`)."""

import numpy as np

from ..datasets import Sample
from ..labels import largest_rectangle
from .consistency import COLUMNS, Trial, add_grid, compare_orders, generator
from .figures import MOST, add_bars
from .results import Context, Results
from .rwtsd import two_regions
from .warps import rotation

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
    methods = compare_orders(context, results, split, {"": trials}, BESIDE)
    results.cite(PAPER, ("covering", "rand_index"))
    results.notes += [
        "Turned by kπ/6, k = 1…6, at random; the paper's list has 3π/2 where the series has 3π/6. Then cropped to a "
        f"rectangle with {SHARE:.0%} of the sides of the largest one in the turned image, at a random place. Both are "
        f"drawn again (at most {DRAWS} times) until each true region has at least {SMALLEST:.0%} of the rectangle; "
        "the paper does not say how it chose.",
        "A method that finds the same wrong regions in both orders is covariant: the last column is the accuracy.",
    ]
    add_bars(context, results, ("covering", "rand_index"))
    orders = (": turned last", ": turned first")
    add_grid(context, results, trials[:MOST], methods, "turned and cropped", orders)
    return results


def turned(context: Context, sample: Sample) -> Trial:
    """Draw an angle and a rectangle of the turned image, again until all regions are seen there."""
    rng, truth = generator(context, sample), sample.truths[0]
    for _ in range(DRAWS):
        full = rotation(truth.shape, float(rng.choice(ANGLES)))
        room = largest_rectangle(full.valid)
        sides = [max(1, round(SHARE * (part.stop - part.start))) for part in room]
        y, x = (int(rng.integers(part.start, part.stop - side + 1)) for part, side in zip(room, sides, strict=True))
        warp = full.crop((slice(y, y + sides[0]), slice(x, x + sides[1])))
        seen = warp.labels(truth)
        if min(float((seen == region).mean()) for region in range(int(truth.max()) + 1)) >= SMALLEST:
            break
    return Trial(sample, warp, "turned")
