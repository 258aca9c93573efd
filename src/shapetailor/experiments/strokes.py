"""Strokes: covering after each stroke of a simulated user, ours beside other interactive methods.

The user is the usual simulated one. The first strokes are discs (radius 4 at 256 pixels) in the deepest point of each
true region, the others in the deepest point of the largest connected component that is still wrong, up to 12.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.ndimage import distance_transform_edt, label

from ..arrays import Array, Labels, Mask
from ..datasets import Sample, SyntheticMultiRegion
from ..drawing.overlay import as_rgb8, overlay
from ..io.intensity import Intensity
from ..metrics import covering
from ..segmentation.canvas import canvas_of
from ..segmentation.described import Described
from ..segmentation.segmenter import Segmenter
from ..segmentation.starts import scribble_start
from ..strokes.marks import Stroke
from .figures import add_lines, add_sheet
from .results import Context, Results
from .rwtsd import two_regions
from .suite import Entry, Split, cut, fit, generated

SUMMARY = (
    "Covering after each of 12 strokes of a simulated user, of ours, of a random forest on scikit-image's multi-scale "
    "features (as ilastik, Labkit and Weka do), of the random walker on colours, of GrabCut (two regions), and of "
    "means of the marked pixels. --data: RWTSD's folder (trained on a half, tested on the other, or --model), or the "
    "multi-region set's (its val mosaics of four regions, by --model)."
)
STROKES, RADIUS, SIZE = 12, 4.0, 256
#: After how many strokes the covering is put into the table; a covering falls if it loses more than this.
SHOWN, FALL = (2, 4, 6, 8, 10, 12), 0.005
COLUMNS = (*(f"covering_{n}" for n in SHOWN), "strokes_to_90", "strokes_to_95", "falls")

#: Marks (H×W, −1 unmarked) → the label map.
Answer = Callable[[Labels], Labels]


def run(context: Context) -> Results:
    """Let the user mark every test picture with each method."""
    split = _split(context)
    results = Results("Strokes of a simulated user", "no table of the paper", COLUMNS, split.words)
    segmenter = _segmenter(context, split)
    curves = {}
    for title, opened in METHODS.items():
        reason = _missing(title)
        if reason:
            results.notes.append(f"{title}: {reason}.")
            continue
        part = "".join(each if each.isalnum() else "-" for each in title.lower())
        images: dict[str, list[float]] = {}
        for sample in context.watch(split.test, part):
            if title == "GrabCut" and sample.truths[0].max() > 1:
                continue
            begin = partial(opened, segmenter, sample.image)
            images[sample.name] = context.remember(f"{part}/{sample.name}", partial(simulated, begin, sample.truths[0]))
        if images:
            results.add(title, {name: figures(curve) for name, curve in images.items()})
            curves[title] = mean_curve(list(images.values()))
    add_lines(context, results, curves, "strokes", "covering", "curves.png")
    add_sheet(context, results, *_examples(segmenter, split.test), "examples.png")
    return results


def simulated(begin: Callable[[int], Answer], truth: Labels) -> list[float]:
    """Return the covering after each stroke, from the one that completes a mark for each region on."""
    regions = int(truth.max()) + 1
    answer, marks = begin(regions), np.full(truth.shape, -1, np.int64)
    for region in range(regions):
        mark(marks, truth, truth == region)
    found = answer(marks)
    curve = [covering(found, truth)]
    while len(curve) < STROKES - regions + 1:
        wrong = (found != truth) & (truth >= 0)
        if not wrong.any():
            return curve + curve[-1:] * (STROKES - regions + 1 - len(curve))
        mark(marks, truth, largest_component(wrong, truth))
        found = answer(marks)
        curve.append(covering(found, truth))
    return curve


def mark(marks: Labels, truth: Labels, where: Mask) -> None:
    """Draw a disc in the deepest point of some pixels of one true region; it stays inside that region."""
    depth = distance_transform_edt(np.pad(where, 1))[1:-1, 1:-1]
    y, x = np.unravel_index(int(depth.argmax()), depth.shape)
    disc = Stroke(0, ((float(x), float(y)),), RADIUS * max(truth.shape) / SIZE).mask((truth.shape[0], truth.shape[1]))
    region = truth[y, x]
    marks[disc & (truth == region)] = region


def largest_component(wrong: Mask, truth: Labels) -> Mask:
    """Return the largest connected component of wrong pixels that belong to one true region."""
    best = np.zeros_like(wrong)
    for region in np.unique(truth[wrong]):
        pieces, count = label(wrong & (truth == region))
        sizes = np.bincount(pieces.ravel())[1:]
        if count and sizes.max() > best.sum():
            best = pieces == int(sizes.argmax()) + 1
    return best


def figures(curve: Sequence[float]) -> dict[str, float]:
    """Return a curve's figures for the table; it ends at the last stroke."""
    first = STROKES - len(curve) + 1  # the number of strokes at the curve's first value
    at = {f"covering_{n}": curve[max(0, n - first)] for n in SHOWN}
    reached = {
        f"strokes_to_{round(100 * goal)}": float(
            next((first + i for i, value in enumerate(curve) if value >= goal), STROKES + 1)
        )
        for goal in (0.90, 0.95)
    }
    return {**at, **reached, "falls": float(np.mean(np.diff(curve) < -FALL))}


def mean_curve(curves: Sequence[Sequence[float]]) -> dict[int, float]:
    """Return the mean covering after each number of strokes that all pictures have."""
    shortest = min(map(len, curves))
    ends = np.array([curve[-shortest:] for curve in curves])
    return dict(zip(range(STROKES - shortest + 1, STROKES + 1), ends.mean(axis=0).tolist(), strict=True))


def _ours(segmenter: Segmenter, image: Array, regions: int, refine: bool = True) -> Answer:
    session = segmenter.open(image, regions)

    def answer(marks: Labels) -> Labels:
        session.add(marks)
        return session.result(refine=refine).labels

    return answer


def _one_mean(segmenter: Segmenter, image: Array, regions: int) -> Answer:
    """The nearest mean of the marked pixels' descriptors, then the evolution."""
    net, usage = segmenter.net, segmenter.usage
    canvas = canvas_of(image, net.image_channels, net.stride, segmenter.max_pixels, usage.intensity)
    described = Described.of(canvas, net, segmenter.device, usage.positions, needs_whole=True)
    whole = described.descriptors()

    def answer(marks: Labels) -> Labels:
        fixed = canvas.marks_in(marks, "marks")
        _, labels = described.evolve(scribble_start(whole, fixed), usage.near, fixed, 0.005)
        return np.where(marks >= 0, marks, canvas.labels_out(labels))

    return answer


def _forest(segmenter: Segmenter, image: Array, regions: int) -> Answer:
    from skimage.feature import multiscale_basic_features
    from sklearn.ensemble import RandomForestClassifier

    unit = Intensity()(image)
    features = multiscale_basic_features(unit, channel_axis=None if unit.ndim == 2 else 2)

    def answer(marks: Labels) -> Labels:
        forest = RandomForestClassifier(100, random_state=0, n_jobs=1).fit(features[marks >= 0], marks[marks >= 0])
        found = forest.predict(features.reshape(-1, features.shape[2])).reshape(marks.shape)
        return np.where(marks >= 0, marks, found)

    return answer


def _walker(segmenter: Segmenter, image: Array, regions: int) -> Answer:
    from skimage.segmentation import random_walker

    unit = Intensity()(image).astype(np.float64)

    def answer(marks: Labels) -> Labels:
        channels = None if unit.ndim == 2 else 2
        with warnings.catch_warnings():  # that probabilities leave 0..1 by the tolerance
            warnings.simplefilter("ignore", UserWarning)
            found = random_walker(unit, marks + 1, mode="cg_j", tol=1e-3, channel_axis=channels)
        return np.asarray(found, np.int64) - 1

    return answer


def _grabcut(segmenter: Segmenter, image: Array, regions: int) -> Answer:
    cv2: Any = import_module("cv2")

    shown = np.ascontiguousarray(as_rgb8(image)[..., ::-1])

    def answer(marks: Labels) -> Labels:
        cv2.setRNGSeed(0)
        mask = np.where(marks < 0, cv2.GC_PR_BGD, np.where(marks == 1, cv2.GC_FGD, cv2.GC_BGD)).astype(np.uint8)
        nearest = distance_transform_edt(marks < 0, return_distances=False, return_indices=True)
        mask[(marks < 0) & (marks[tuple(nearest)] == 1)] = cv2.GC_PR_FGD
        cv2.grabCut(shown, mask, None, np.zeros((1, 65)), np.zeros((1, 65)), 5, cv2.GC_INIT_WITH_MASK)
        return np.isin(mask, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.int64)

    return answer


#: Title → how a picture is opened: segmenter, image, regions → answer.
METHODS: dict[str, Callable[..., Answer]] = {
    "ours": _ours,
    "ours, preview": partial(_ours, refine=False),
    "means of marked pixels": _one_mean,
    "forest on filters": _forest,
    "random walker on colours": _walker,
    "GrabCut": _grabcut,
}


def _missing(title: str) -> str | None:
    """Say what a method lacks here."""
    needs = {"forest on filters": ("sklearn", "scikit-learn"), "GrabCut": ("cv2", "opencv-python-headless")}
    if title in needs and find_spec(needs[title][0]) is None:
        return f"{needs[title][1]} is not installed"
    return None


def _segmenter(context: Context, split: Split) -> Segmenter:
    if context.model:
        return Segmenter.from_pretrained(context.model, context.device)
    who = fit(context, Entry(context.baselines["stdnn"], "ncut"), "all", split.train)
    method: Any = who.method
    return Segmenter(method.describer(3), context.device)


def _split(context: Context) -> Split:
    if context.data is None or not (context.data / "groundtruth").is_dir():
        return two_regions(context) if context.data is not None else generated(context)
    training, testing = SyntheticMultiRegion(context.data, "train"), SyntheticMultiRegion(context.data, "val")
    four = [i for i in range(len(testing)) if testing[i].truths[0].max() == 3]
    train, test = cut(context, range(min(200, len(training))), four)
    words = f"{len(test)} val mosaics of four regions"
    return Split([training[i] for i in train], [testing[i] for i in test], words)


def _examples(segmenter: Segmenter, samples: Sequence[Sample]) -> tuple[list[str], list[list[Array]]]:
    """Pictures of our regions after the first strokes, and after all."""
    rows = []
    for sample in samples[:4]:
        truth, shown = sample.truths[0], list[Labels]()
        answer = _ours(segmenter, sample.image, int(truth.max()) + 1)

        def watched(marks: Labels, answer: Answer = answer, shown: list[Labels] = shown) -> Labels:
            shown.append(answer(marks))
            return shown[-1]

        simulated(lambda regions, watched=watched: watched, truth)  # type: ignore[misc]
        rows.append([as_rgb8(sample.image), *(overlay(sample.image, each) for each in (truth, shown[0], shown[-1]))])
    return ["picture", "truth", "a stroke a region", f"{STROKES} strokes"], rows
