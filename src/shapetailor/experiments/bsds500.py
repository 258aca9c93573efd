"""BSDS500: photographs with many regions, judged by several annotators (`tab:results_mul_region` left)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec

import numpy as np
from PIL import Image

from ..arrays import Array, Labels
from ..baselines import Method
from ..baselines.method import DescriptorMethod
from ..datasets import BSDS500, Sample
from ..drawing.overlay import as_rgb8
from ..evolution.config import EvolutionConfig
from ..io.images import read_labels
from ..labels import relabel, resize_labels
from ..metrics import region_benchmark, region_curve
from ..segmentation.cleanup import remove_small
from ..segmentation.segmenter import Segmenter
from .context import Context
from .dense_crf import dense_crf
from .figures import add_bars, add_examples
from .gpb import add_gpb
from .results import Results
from .suite import Segment, Split, compare, cut, entries, fit, generated, judge, must_train, trained
from .variants import variants

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
BESIDE = {
    "stdnn": "ST-DNN (ours)",
    "fcn-ce": "FCN-Resnet",
    "fcn-loss": "FCN-Resnet",
    "deeplab-ce": "Deeplab-V3",
    "deeplab-loss": "Deeplab-V3",
}
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
    results.notes += [
        "Covering pools all images and annotators, as the benchmark's own code does. One segmentation an image has no "
        "scale to choose, so that OIS is for contour maps only. F is the images' mean, of contour maps the ODS.",
        f"Regions below {SMALL:.0%} are smoothed by {crf}. {_size(context)}",
        "The variation of information is in bits, as in the benchmark's code. The paper names no unit; 1.80 nats would "
        "be 2.60 bits.",
    ]
    if must_train(context):
        results.notes.append(
            f"A training image is used in {VARIANTS} of its 40 rotations and scales, drawn at random with an annotator."
        )
    add_bars(context, results, REGION)
    add_examples(context, results, split.test, shown)
    return results


def _split(context: Context) -> Split:
    if context.data is None:
        return generated(context, (3, 5))
    full = (context.data / "images" / "test").is_dir()
    training, testing = (("train", "val"), "test") if full else (("train",), "val")
    sources = [BSDS500(context.data, name) for name in training]
    pool = [(source, index) for source in sources for index in range(len(source))]
    test_set = BSDS500(context.data, testing)
    train, test = cut(context, range(len(pool)), range(len(test_set)))
    chosen = train if must_train(context) else []
    pictures = variants((pool[i][0][pool[i][1]] for i in chosen), VARIANTS, SIDE, context.seed)
    source = f"trained on {len(chosen)} images of {' and '.join(training)}" if chosen else "nothing trained here"
    words = f"BSDS500, {source}, tested on {len(test)} of {len(test_set)} images of {testing}"
    if not full:
        words += " (the test split is not there)"
    step = QUICK_STEP if context.quick and context.gpb is None else 1  # contour maps have the images' full size
    return Split(pictures, [_thinned(test_set[i], step) for i in test], words)


def _thinned(sample: Sample, step: int) -> Sample:
    """Every so many rows and columns."""
    return Sample(sample.image[::step, ::step], tuple(each[::step, ::step] for each in sample.truths), sample.name)


def clusters_then_evolution(
    context: Context, smooth: Callable[[Labels, Array], Labels], clusters: int | None = None
) -> Segment:
    """Return the segmentation by clusters, smoothed, and the evolution from there."""
    count = clusters or (QUICK_CLUSTERS if context.quick else CLUSTERS)

    def segment(method: Method, sample: Sample) -> Labels:
        image = sample.image if context.quick else _square(sample.image)
        if not isinstance(method, DescriptorMethod):
            found = smooth(method.segment(image, count, context.seed), image)
        else:
            segmenter, settings = _segmenter(method, image), method.settings
            still = EvolutionConfig(iterations=0)
            start = segmenter.segment(
                image, count, start=settings.start, evolution=still, min_share=0.0, seed=context.seed
            )
            init = smooth(start.labels, image)
            config = settings.evolution or segmenter.evolution
            found = segmenter.segment(image, init=init, evolution=config, seed=context.seed).labels
        return resize_labels(found, sample.image.shape[:2])

    return segment


def _square(image: Array) -> Array:
    """Resize an image to a square of the training size."""
    return np.array(Image.fromarray(as_rgb8(image)).resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def _size(context: Context) -> str:
    """Say at what size images are segmented."""
    if context.quick:
        return f"A quick run's images keep their size; otherwise they are resized to {SIDE}×{SIDE}."
    return (
        f"Images are resized to {SIDE}×{SIDE}, as the paper's are for training, and label maps back to be judged. "
        "Only where the number of regions is chosen images keep their size."
    )


def _automatic(context: Context, results: Results, split: Split) -> dict[str, str]:
    """Add the row of ST-DNN with the number of regions chosen by the segmenter."""
    shown = {}
    for entry in entries(context, Results("", "", (), "")):
        if entry.start == "ncut":
            method = fit(context, entry, "all", split.train)
            title, part = f"{method.title}, regions chosen", "auto/stdnn"
            images = judge(context, part, method, split.test, _chosen_count(context))
            results.add(title, images, trained(context, entry, split.train), BESIDE["stdnn"])
            shown[title] = part
    return shown


def _chosen_count(context: Context) -> Segment:
    def segment(method: Method, sample: Sample) -> Labels:
        assert isinstance(method, DescriptorMethod)
        return _segmenter(method, sample.image).segment(sample.image, "auto", seed=context.seed).labels

    return segment


def _segmenter(method: DescriptorMethod, image: Array) -> Segmenter:
    channels = 1 if image.ndim == 2 else image.shape[2]
    return Segmenter(method.describer(channels), method.settings.device)


def smooth_by_crf(labels: Labels, image: Array) -> Labels:
    """Remove small components by a dense CRF; regions are numbered from 0."""
    return relabel(dense_crf(labels, as_rgb8(image), SMALL))[0]


def smooth_by_neighbours(labels: Labels, image: Array) -> Labels:
    """Give small components to their neighbours; regions are numbered from 0."""
    return relabel(remove_small(labels, SMALL)[0])[0]


def _pool(context: Context, results: Results, samples: Sequence[Sample], shown: dict[str, str]) -> None:
    """Replace the mean of the images' covering by the benchmark's, which pools them."""
    for row in results.rows:
        maps = (read_labels(context.out / "labels" / shown[row.method] / f"{each.name}.png") for each in samples)
        curves = [region_curve([labels], list(each.truths)) for labels, each in zip(maps, samples, strict=True)]
        row.values["covering"] = region_benchmark(curves, [1.0]).covering.ods
