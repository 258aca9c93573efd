"""Robustness to smooth deformations of growing Sobolev norm (`fig:defromExp`, `fig:Deform_supp`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..arrays import Floats
from ..datasets import Sample
from ..drawing.overlay import as_rgb8
from ..labels import largest_rectangle
from .consistency import ACCURACY, COLUMNS, Participant, Trial, add_row, generator, pair_of_pictures, participants
from .context import Context
from .figures import add_sheet, blank, save
from .results import COLUMNS as PRINTED
from .results import Results
from .rwtsd import two_regions
from .warps import Warp, random_deformation

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
PAPER_COLUMNS = ("covering", "rand_index")
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
    methods = participants(context, results, split)
    for who in methods:
        for norm in norms:
            beside = BESIDE.get(who.baseline, "") + _at(norm)
            add_row(context, results, who, trials[norm], suffix=_at(norm), beside=beside)
    results.cite(
        {method + _at(norm): pair for method, row in PAPER.items() for norm, pair in row.items()}, PAPER_COLUMNS
    )
    results.notes += [_about_warps(trials), "The last column is the accuracy: a method may be robust and wrong."]
    _add_curves(context, results, methods, norms)
    _add_grid(context, results, trials, methods)
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
        lengths = np.concatenate([_lengths(warp) for warp in warps])
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


def _lengths(warp: Warp) -> Floats:
    """How far each pixel moves; the common shift of a crop does not count."""
    down, right = (part - np.round(part.mean()) for part in warp.displacement)
    lengths: Floats = np.hypot(down, right)
    return lengths.ravel()


def _add_curves(context: Context, results: Results, methods: Sequence[Participant], norms: Sequence[int]) -> None:
    """Draw every measure over the norm (`fig:Deform_supp`), the paper's figures dashed."""
    drawn = blank(results, 4 * len(PANELS), 3.8)
    if drawn is None:
        return
    values = {row.method: row.values for row in results.rows}
    axes = drawn.subplots(1, len(PANELS))
    for panel, column in zip(axes, PANELS, strict=True):
        for who in methods:
            panel.plot(norms, [values[who.title + _at(norm)][column] for norm in norms], marker="o", label=who.title)
        if column in PAPER_COLUMNS:
            for method, marker in zip(PAPER, "sv^", strict=True):
                points = {norm: values[method + _at(norm)][column] for norm in PAPER[method]}
                style = {"color": "gray", "linestyle": "--", "marker": marker}
                panel.plot(list(points), list(points.values()), label=f"{method} (paper)", **style)
        panel.set(title=PRINTED.get(column, column), xlabel="‖v‖²", xscale="log")
        panel.title.set_fontsize(10)
        panel.grid(alpha=0.3)
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9)
    save(context, results, drawn, "norms.png")


def _add_grid(
    context: Context, results: Results, trials: Mapping[int, Sequence[Trial]], methods: Sequence[Participant]
) -> None:
    norms = [norm for norm in SHOWN if norm in trials]
    rows = []
    for example in range(min(EXAMPLES, len(trials[norms[0]]))):
        for norm in norms:
            trial = trials[norm][example]
            pictures = [pair_of_pictures(context, who, trial)[1] for who in methods]
            rows.append([as_rgb8(trial.sample.image), as_rgb8(trial.image), *pictures])
    heads = ["image", f"deformed, squared norm {', '.join(map(str, norms))}", *(who.title for who in methods)]
    add_sheet(context, results, heads, rows)
