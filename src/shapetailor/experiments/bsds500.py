"""BSDS500: photographs with many regions, judged by several annotators (`tab:results_mul_region` left)."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from PIL import Image
from skimage.measure import label as connected_components

from .. import metrics
from ..arrays import RGB8, Array, Ints, Labels
from ..baselines import Method
from ..baselines.method import DescriptorMethod
from ..datasets import BSDS500, Sample
from ..drawing.overlay import as_rgb8
from ..evolution.config import EvolutionConfig
from ..io.images import read_image, read_labels
from ..labels import relabel, resize_labels
from ..metrics.benchmark import RegionCurve
from ..segmentation.cleanup import remove_small
from .figures import add_bars, add_examples
from .results import Context, Results, TableRow
from .suite import Segment, Split, compare, cut, entries, fit, generated, judge
from .warps import variants

SUMMARY = (
    "BSDS500: images of 256×256, descriptors clustered into 20, regions below 2 % of the image smoothed away by a "
    "dense CRF (or given to their neighbours, without pydensecrf2), then 20 iterations; covering, Rand index and "
    "variation of information against all annotators (tab:results_mul_region left), and a row where the number of "
    "regions is chosen. Trained on train and val in rotations and scales, tested on test; where test is absent, on "
    "train and val. --data: the folder with images/SPLIT and groundTruth/SPLIT; --gpb DIR scores gPb's contour maps."
)
REGION = ("covering", "rand_index", "variation_of_information")
OIS = tuple(f"{name}_ois" for name in REGION)
PAPER = {"Deeplab-V3": (0.39, 0.72, 1.88), "FCN-Resnet": (0.38, 0.71, 1.98), "ST-DNN (ours)": (0.39, 0.73, 1.80)}
BESIDE = {"stdnn": "ST-DNN (ours)"}
BESIDE |= dict.fromkeys(("fcn-ce", "fcn-loss"), "FCN-Resnet")
BESIDE |= dict.fromkeys(("deeplab-ce", "deeplab-loss"), "Deeplab-V3")
#: Clusters of descriptors, in a quick run, and the share of the image below which a region is small.
CLUSTERS, QUICK_CLUSTERS, SMALL = 20, 8, 0.02
#: A quick run takes every third row and column of a test image.
QUICK_STEP = 3
EVOLUTION = EvolutionConfig(iterations=20)
#: Finds two regions only.
WITHOUT = ("chan-vese",)
#: How many of the 40 rotations and scales of a training image are used.
VARIANTS = 4
#: Images are resized to this side for training and clustering, but not in a quick run.
SIDE = 256
#: gPb's thresholds of regions, and of boundaries: fewer, as their matching is slow.
REGIONS, BOUNDARIES, QUICK_LEVELS = 99, 19, 5
#: The dense CRF: probability that a given label is right, and mean-field iterations (pydensecrf's own example).
CERTAINTY, ITERATIONS = 0.7, 5


def run(context: Context) -> Results:
    """Measure all methods, ST-DNN with a chosen number of regions, and gPb where its maps are there."""
    split = _split(context)
    columns = (*REGION, *(OIS if context.gpb else ()), "boundary_f")
    results = Results("BSDS500", "tab:results_mul_region (left)", columns, split.words)
    has_crf = find_spec("pydensecrf") is not None
    segment = clusters_then_evolution(context, smooth_by_crf if has_crf else smooth_by_neighbours)
    shown = compare(context, results, split, segment, "clusters", beside=BESIDE, without=WITHOUT, evolution=EVOLUTION)
    shown |= _automatic(context, results, split)
    _pool(context, results, split.test, shown)
    if context.gpb is not None:
        add_gpb(context, results, split.test)
    results.cite(PAPER, REGION)
    crf = "a dense CRF" if has_crf else "giving them to their neighbours (pydensecrf2 is not installed)"
    size = (
        f"A quick run's images keep their size; otherwise they are resized to {SIDE}×{SIDE}."
        if context.quick
        else f"Images are resized to {SIDE}×{SIDE}, as the paper's are for training, and label maps back to be judged. "
        "Only where the number of regions is chosen images keep their size."
    )
    results.notes += [
        "Covering pools all images and annotators, as the benchmark's own code does. One segmentation an image has no "
        "scale to choose, so that OIS is for contour maps only. F is the images' mean, of contour maps the ODS.",
        f"Regions below {SMALL:.0%} are smoothed by {crf}. {size}",
        "The variation of information is in bits, as in the benchmark's code. The paper names no unit; 1.80 nats would "
        "be 2.60 bits.",
    ]
    if _must_train(context):
        results.notes.append(
            f"A training image is used in {VARIANTS} of its 40 rotations and scales, drawn at random with an annotator."
        )
    add_bars(context, results, REGION)
    add_examples(context, results, split.test, shown)
    return results


def _must_train(context: Context) -> bool:
    """Whether any method that takes part is trained here."""
    names = set(context.methods or context.baselines) - ({"stdnn"} if context.model else set())
    return any(context.baselines[name].learns for name in names)


def _split(context: Context) -> Split:
    if context.data is None:
        return generated(context, (3, 5))
    full = (context.data / "images" / "test").is_dir()
    training, testing = (("train", "val"), "test") if full else (("train",), "val")
    sources = [BSDS500(context.data, name) for name in training]
    pool = [(source, index) for source in sources for index in range(len(source))]
    test_set = BSDS500(context.data, testing)
    train, test = cut(context, range(len(pool)), range(len(test_set)))
    chosen = [pool[i] for i in train] if _must_train(context) else []
    pictures = variants((source[index] for source, index in chosen), VARIANTS, SIDE, context.seed)
    source = f"trained on {len(chosen)} images of {' and '.join(training)}" if chosen else "nothing trained here"
    words = f"BSDS500, {source}, tested on {len(test)} of {len(test_set)} images of {testing}"
    if not full:
        words += " (the test split is not there)"
    # Contour maps have the images' full size.
    every = slice(None, None, QUICK_STEP if context.quick and context.gpb is None else 1)
    tested = [
        Sample(each.image[every, every], tuple(truth[every, every] for truth in each.truths), each.name)
        for each in map(test_set.__getitem__, test)
    ]
    return Split(pictures, tested, words)


def clusters_then_evolution(
    context: Context, smooth: Callable[[Labels, Array], Labels], clusters: int | None = None
) -> Segment:
    """Return the segmentation by clusters, smoothed, and the evolution from there."""
    count = clusters or (QUICK_CLUSTERS if context.quick else CLUSTERS)

    def segment(method: Method, sample: Sample) -> Labels:
        image = sample.image
        if not context.quick:
            image = np.array(Image.fromarray(as_rgb8(image)).resize((SIDE, SIDE), Image.Resampling.BICUBIC))
        if not isinstance(method, DescriptorMethod):
            found = smooth(method.segment(image, count, context.seed), image)
        else:
            segmenter, settings = method.segmenter(image), method.settings
            still = EvolutionConfig(iterations=0)
            start = segmenter.segment(
                image, count, start=settings.start, evolution=still, min_share=0.0, seed=context.seed
            )
            init = smooth(start.labels, image)
            config = settings.evolution or segmenter.evolution
            found = segmenter.segment(image, init=init, evolution=config, seed=context.seed).labels
        return resize_labels(found, sample.image.shape[:2])

    return segment


def _automatic(context: Context, results: Results, split: Split) -> dict[str, str]:
    """Add the row of ST-DNN with the number of regions chosen by the segmenter."""

    def segment(method: Method, sample: Sample) -> Labels:
        assert isinstance(method, DescriptorMethod)
        return method.segmenter(sample.image).segment(sample.image, "auto", seed=context.seed).labels

    shown = {}
    for entry in entries(context, Results("", "", (), "")):
        if entry.start == "ncut":
            who = fit(context, entry, "all", split.train)
            title, part = f"{who.method.title}, regions chosen", "auto/stdnn"
            images = judge(context, part, who.method, split.test, segment)
            results.add(title, images, who.note, BESIDE["stdnn"])
            shown[title] = part
    return shown


def _pool(context: Context, results: Results, samples: Sequence[Sample], shown: dict[str, str]) -> None:
    """Replace the mean of the images' covering by the benchmark's, which pools them."""
    for row in results.rows:
        maps = (read_labels(context.out / "labels" / shown[row.method] / f"{each.name}.png") for each in samples)
        curves = [metrics.region_curve([labels], list(each.truths)) for labels, each in zip(maps, samples, strict=True)]
        row.values["covering"] = metrics.region_benchmark(curves, [1.0]).covering.ods


def add_gpb(context: Context, results: Results, samples: Sequence[Sample]) -> None:
    """Add the row of gPb's contour maps: ID.mat files with `ucm2`, or ID.png of boundary strengths (contour F only)."""
    assert context.gpb is not None
    files = {}
    for sample in samples:
        found = [path for path in (context.gpb / f"{sample.name}{end}" for end in (".mat", ".png")) if path.exists()]
        if not found:
            raise FileNotFoundError(f"gpb: {context.gpb} has neither {sample.name}.mat nor {sample.name}.png")
        files[sample.name] = found[0]
    regions, boundaries = (
        metrics.benchmark_thresholds(QUICK_LEVELS if context.quick else n) for n in (REGIONS, BOUNDARIES)
    )
    records = []
    for sample in context.watch(samples, "gpb"):
        scores = partial(_scores, sample, files[sample.name], regions, boundaries)
        records.append(context.remember(f"gpb/{sample.name}", scores))
    matched = [np.array(each["boundary"]) for each in records]
    values = {"boundary_f": metrics.boundary_benchmark(matched, boundaries).ods.f}
    if all(each["region"] for each in records):
        fields: list[dict[str, Any]] = [{key: np.array(x) for key, x in each["region"].items()} for each in records]
        benchmark = metrics.region_benchmark([RegionCurve(**each) for each in fields], regions)
        for name in ("covering", "rand_index", "variation_of_information"):
            optimum = getattr(benchmark, name)
            values |= {name: float(optimum.ods), f"{name}_ois": float(optimum.ois)}
    note = f"{len(regions)} thresholds for regions, {len(boundaries)} for contours"
    results.rows.append(TableRow("gPb-owt-ucm, published maps", values, "measured", note))


def _scores(sample: Sample, path: Path, regions: Array, boundaries: Array) -> dict[str, Any]:
    """Return the fields of the `RegionCurve` (None for boundary strengths) and the counts of boundary pixels."""
    region: dict[str, Any] | None = None
    if path.suffix == ".mat":
        ucm = np.asarray(scipy.io.loadmat(path)["ucm2"], dtype=np.float64)
        curve = metrics.region_curve(metrics.ucm_segmentations(ucm, regions), list(sample.truths))
        region = {key: np.asarray(x).tolist() for key, x in curve._asdict().items()}
        strength = metrics.ucm_strength(ucm)
    else:
        image = read_image(path).astype(np.float64)
        strength = (image if image.ndim == 2 else image.mean(axis=2)) / 255.0
    true = [metrics.label_boundaries(truth) for truth in sample.truths]
    counts = metrics.boundary_curve(metrics.strength_boundaries(strength, boundaries), true)
    return {"region": region, "boundary": counts.tolist()}


def smooth_by_neighbours(labels: Labels, image: Array) -> Labels:
    """Give small components to their neighbours; regions are numbered from 0."""
    return relabel(remove_small(labels, SMALL)[0])[0]


def smooth_by_crf(labels: Labels, image: Array) -> Labels:
    """Remove small components by a dense CRF; regions are numbered from 0."""
    return relabel(dense_crf(labels, as_rgb8(image), SMALL))[0]


def dense_crf(labels: Ints, image: RGB8, min_share: float) -> Ints:
    """Let a dense CRF (Krähenbühl and Koltun, NIPS 2011) decide about connected components below a share of the image.

    By the optional `pydensecrf2`, with the settings of that library's `examples/inference.py`. Pixels of small
    components are unknown: they may become any region that has a large component. The others may change as well.
    Components that are small even then go the way of `remove_small`. `labels` must not be negative.
    """
    from pydensecrf.densecrf import DenseCRF2D

    components = connected_components(labels, background=-1, connectivity=1)
    unknown = np.bincount(components.ravel())[components] < min_share * labels.size
    known = np.unique(labels[~unknown])
    count = len(known)
    if count < 2:
        return remove_small(labels, min_share)[0]
    probability = np.full((count, labels.size), 1.0 / count, dtype=np.float32)
    sure = np.flatnonzero(~unknown)
    probability[:, sure] = (1 - CERTAINTY) / (count - 1)
    probability[np.searchsorted(known, labels[~unknown]), sure] = CERTAINTY
    field = DenseCRF2D(labels.shape[1], labels.shape[0], count)
    field.setUnaryEnergy(-np.log(probability))
    field.addPairwiseGaussian(sxy=3, compat=3)
    # A copy: the library refuses read-only arrays.
    field.addPairwiseBilateral(sxy=80, srgb=13, rgbim=image.copy(order="C"), compat=10)
    decided = known[np.argmax(field.inference(ITERATIONS), axis=0)].reshape(labels.shape)
    return remove_small(decided, min_share)[0]
