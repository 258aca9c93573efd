"""Mosaics of several regions: K-means of descriptors, then the evolution (`tab:results_mul_region` right)."""

from typing import Any

import numpy as np

from ..arrays import Labels
from ..baselines import Method
from ..datasets import Sample, SyntheticMultiRegion
from ..evolution.config import EvolutionConfig
from .figures import add_bars, add_examples
from .results import Context, Results
from .suite import Split, compare, cut, generated, given

SUMMARY = (
    "The synthetic multi-region set: trained on 200 images, descriptors clustered into K=4, then 20 iterations; the "
    "dataset's own VOC accuracy (tab:results_mul_region right), and region measures. Once as in the paper, "
    "once with the true number of regions. --data: the folder with images/, groundtruth/, train.txt, and test.txt or "
    "val.txt."
)
COLUMNS = ("voc_true", "voc_predicted", "covering", "rand_index", "variation_of_information", "adjusted_rand")
PAPER = {"Deeplab-v3": (0.41,), "FCN-resnet101": (0.43,), "ST-DNN (ours)": (0.45,)}
BESIDE = {"stdnn": "ST-DNN (ours)"}
BESIDE |= dict.fromkeys(("fcn-ce", "fcn-loss"), "FCN-resnet101")
BESIDE |= dict.fromkeys(("deeplab-ce", "deeplab-loss"), "Deeplab-v3")
CLUSTERS, TRAIN = 4, 200
EVOLUTION = EvolutionConfig(iterations=20)
#: Cannot do more than two regions.
WITHOUT = ("chan-vese",)


def run(context: Context) -> Results:
    """Measure all methods with K=4 and with the true number of regions."""
    split = _split(context)
    results = Results("Synthetic multi-region textures", "tab:results_mul_region (right)", COLUMNS, split.words)

    def true_count(method: Method, sample: Sample) -> Labels:
        return method.segment(sample.image, len(np.unique(sample.truths[0])), context.seed)

    four = (f", K={CLUSTERS}", given(context, CLUSTERS), BESIDE)
    for part, (suffix, segment, beside) in {"four": four, "true": (", true K", true_count, {})}.items():
        options: dict[str, Any] = {"suffix": suffix, "without": WITHOUT, "evolution": EVOLUTION}
        shown = compare(context, results, split, segment, part, beside=beside, **options)
        add_examples(context, results, split.test, shown, f"examples-{part}.png")
    results.cite(PAPER, ("voc_true",))
    results.notes.append(
        'The paper\'s "average accuracy" is set beside the mean best IoU of true regions, one of the two accuracies '
        "that the dataset's script prints; the paper does not say which it is, nor on which images."
    )
    add_bars(context, results, ("voc_true", "voc_predicted", "covering"))
    return results


def _split(context: Context) -> Split:
    if context.data is None:
        return generated(context, (3, 4), colour=False)
    name = "test" if (context.data / "test.txt").exists() else "val"
    training, testing = SyntheticMultiRegion(context.data, "train"), SyntheticMultiRegion(context.data, name)
    count = min(TRAIN, len(training))
    chosen = np.random.default_rng(context.seed).choice(len(training), count, replace=False)
    train, test = cut(context, sorted(chosen.tolist()), range(len(testing)))
    words = (
        f"{len(train)} of {len(training)} training images, drawn with seed {context.seed}; "
        f"tested on {len(test)} of {len(testing)} images of the {name} split"
    )
    return Split([training[i] for i in train], [testing[i] for i in test], words)
