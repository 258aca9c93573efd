"""Robustness to smooth deformations of growing Sobolev norm (`fig:defromExp`, `fig:Deform_supp`)."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..datasets import Sample
from ..labels import largest_rectangle
from .consistency import ACCURACY, COLUMNS, Trial, add_grid, compare_orders, generator
from .figures import Curve, add_curves
from .results import Context, Results
from .rwtsd import two_regions
from .warps import random_deformation

SUMMARY = (
    "Each test image is deformed at random by truncated Fourier series (N = 10) of squared Sobolev norm 10, 20, … 80: "
    "how near is the segmentation of the deformed image to the deformed segmentation, and to the deformed truth "
    "(fig:defromExp, fig:Deform_supp)? --data: a folder with images/ and masks/ as for rwtsd. Runs ST-DNN (the shipped "
    "model, or --model), STLD and k-means on colours; --methods adds those that have to be trained."
)
#: `fig:defromExp`, right: norm → covering and Rand index.
PAPER = {
    "DeepLab-v3": {20: (0.85, 0.86), 40: (0.76, 0.77), 80: (0.66, 0.68)},
    "FCN-ResNet101": {20: (0.81, 0.82), 40: (0.75, 0.77), 80: (0.65, 0.68)},
    "ST-DNN": {20: (0.88, 0.89), 40: (0.85, 0.86), 80: (0.81, 0.82)},
}
BESIDE = {"stdnn": "ST-DNN", "fcn-ce": "FCN-ResNet101", "deeplab-ce": "DeepLab-v3"}
#: The paper's squared norms, and those of twice and four times the largest deformation.
NORMS, BEYOND, QUICK_NORMS = tuple(range(10, 90, 10)), (320, 1280), (20, 80)
#: Longest side of the images that the norms are for; other sizes get the same deformation, scaled.
SIDE = 256
SHOWN, EXAMPLES = (20, 80, 320, 1280), 2
PANELS = ("covering", "rand_index", "variation_of_information", ACCURACY)


def run(context: Context) -> Results:
    """Deform every test image at every norm and compare both orders of deforming and segmenting."""
    split = two_regions(context)
    results = Results("Robustness to deformations", "fig:defromExp", COLUMNS, split.words)
    norms = QUICK_NORMS if context.quick else (*NORMS, *BEYOND)
    trials = {norm: [deformed(context, sample, norm) for sample in split.test] for norm in norms}
    methods = compare_orders(context, results, split, {_at(norm): trials[norm] for norm in norms}, BESIDE)
    paper = {method + _at(norm): pair for method, row in PAPER.items() for norm, pair in row.items()}
    results.cite(paper, ("covering", "rand_index"))
    results.notes += [_about_warps(trials), "The last column is the accuracy: a method may be robust and wrong."]
    curves: dict[str, Curve] = {
        who.title: ({norm: who.title + _at(norm) for norm in norms}, "measured", {"marker": "o"}) for who in methods
    }
    for method, marker in zip(PAPER, "sv^", strict=True):
        rows = {norm: method + _at(norm) for norm in PAPER[method]}
        curves[f"{method} (paper)"] = rows, "paper", {"color": "gray", "linestyle": "--", "marker": marker}
    add_curves(context, results, PANELS, curves, "norms.png", xlabel="‖v‖²", xscale="log")
    shown = [norm for norm in SHOWN if norm in trials]
    examples = [trials[norm][number] for number in range(min(EXAMPLES, len(split.test))) for norm in shown]
    head = f"deformed, squared norm {', '.join(map(str, shown))}"
    add_grid(context, results, examples, methods, head, [""])
    return results


def deformed(context: Context, sample: Sample, norm: int) -> Trial:
    """Draw a deformation of this squared norm, and crop it to what it shows of the image."""
    shape = sample.truths[0].shape
    squared = norm * (max(shape) / SIDE) ** 2
    warp = random_deformation(shape, squared, generator(context, sample, norm))
    return Trial(sample, warp.crop(largest_rectangle(warp.valid)), f"norm{norm}")


def _at(norm: int) -> str:
    return f", ‖v‖² = {norm}"


def _about_warps(trials: Mapping[int, Sequence[Trial]]) -> str:
    """Say how the deformations were drawn, and how large they are."""
    sizes = []
    for norm in (norm for norm in SHOWN if norm in trials):
        warps = [trial.warp for trial in trials[norm]]
        # The common shift of a crop does not count.
        moves = [[part - np.round(part.mean()) for part in warp.displacement] for warp in warps]
        lengths = np.concatenate([np.hypot(*each).ravel() for each in moves])
        folded = sum(bool(warp.jacobian.min() <= 0) for warp in warps)
        sizes.append(
            f"{norm}: by {np.sqrt(np.mean(lengths**2)):.2f} (root mean square), at most {lengths.max():.1f}, "
            f"{folded} of {len(warps)} deformations fold somewhere"
        )
    return (
        "a_k are independent normal numbers, and v counts pixels of a 256² picture: in units of its side these norms "
        f"would scramble it. Pixels that points move by at ‖v‖² = {'; '.join(sizes)}. Deformed images are cropped to "
        "what comes from inside the image."
    )
