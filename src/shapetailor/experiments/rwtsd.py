"""RWTSD: all methods on photographs of two textures (`tab:results_Net`, `tab:results_texture_datasets` left)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..datasets import RWTSD, Sample
from .figures import add_bars, add_examples
from .results import PAPER_COLUMNS, Context, Results
from .suite import QUICK_TRAIN, Split, compare, cut, entries, fit, generated, given, halves, judge

SUMMARY = (
    "The Real-World Texture Segmentation Dataset, two regions an image: contour F and region measures of all methods "
    "(tab:results_Net, tab:results_texture_datasets left), with mean IoU and adjusted Rand. --data: a folder with "
    "images/ and masks/. Trained on the images that --split FILE names, or on a random half (128 of 256); --folds N "
    "cross-validates instead, which uses every image of a part of the set."
)
COLUMNS = (*PAPER_COLUMNS, "mean_iou", "adjusted_rand")
#: `tab:results_texture_datasets`, left, and `tab:results_Net`: F, covering, Rand index, variation of information.
PAPER = {
    "ST-DNN (ours)": (0.64, 0.94, 0.94, 0.35),
    "Siamese": (0.65, 0.92, 0.92, 0.43),
    "STLD": (0.58, 0.86, 0.88, 0.63),
    "mcg": (0.54, 0.82, 0.85, 0.66),
    "Kok.": (0.64, 0.56, 0.57, 0.92),
    "non-STLD": (0.20, 0.83, 0.84, 0.79),
    "resnet101-d-ce": (0.39, 0.84, 0.75, 0.70),
    "resnet101-d-ours": (0.39, 0.83, 0.76, 0.74),
    "resnet101-all-ce": (0.04, 0.79, 0.55, 1.39),
    "resnet101-all-ours": (0.48, 0.83, 0.87, 0.50),
    "resnet101-TD-ours": (0.17, 0.83, 0.66, 0.94),
    "resnet101-TD-ce": (0.11, 0.80, 0.63, 1.35),
    "deeplabv3-all-ce": (0.42, 0.86, 0.85, 0.66),
    "deeplabv3-all-ours": (0.42, 0.85, 0.76, 0.67),
    "HED": (0.04, 0.53, 0.60, 1.69),
}
#: Baseline → the paper's row nearest to it. The paper trained DeepLab-v3 on far more data only.
BESIDE = {"stdnn": "ST-DNN (ours)", "siamese": "Siamese", "stld": "STLD", "stld-whole": "non-STLD"}
BESIDE |= {"fcn-ce": "resnet101-TD-ce", "fcn-loss": "resnet101-TD-ours"}
BESIDE |= {"deeplab-ce": "deeplabv3-all-ce", "deeplab-loss": "deeplabv3-all-ours"}


def run(context: Context) -> Results:
    """Measure all methods, on one split or by cross-validation."""
    results = Results("Real-World Texture Segmentation Dataset", "tab:results_texture_datasets", COLUMNS, "")
    if context.folds:
        test, shown = _cross_validate(context, results)
    else:
        split = two_regions(context)
        results.data = split.words
        test, shown = split.test, compare(context, results, split, given(context, 2), "split", beside=BESIDE)
    results.cite(PAPER)
    results.notes += [
        "The paper's ST-DNN has F 0.63 in tab:results_Net and 0.64 in tab:results_texture_datasets. Its table with "
        "further methods in the appendix is not transcribed.",
        "d, all, TD in the paper's names: fine-tuned from DUTS, trained on all of its datasets, trained on RWTSD with "
        "8 rotations and 5 scales. Ours of these architectures are set beside the nearest.",
    ]
    add_bars(context, results, ("boundary_f", "covering", "rand_index"))
    add_examples(context, results, test, shown)
    return results


def two_regions(context: Context) -> Split:
    """Return RWTSD's training and test images by the split file or the seed; generated mosaics without data."""
    if context.data is None:
        return generated(context)
    dataset = RWTSD(context.data)
    if context.split:
        how, (train, test) = f"split by {context.split.name}", _named(dataset, context.split)
    else:
        how, (train, test) = f"split at random, seed {context.seed}", halves(len(dataset), context.seed)
    train, test = cut(context, train, test)
    words = f"RWTSD, {len(dataset)} images there, {len(train)} to train, {len(test)} to test, {how}"
    return Split([dataset[i] for i in train], [dataset[i] for i in test], words)


def _named(dataset: RWTSD, split: Path) -> tuple[list[int], list[int]]:
    """The images that the split file names, and the others."""
    names = {line.strip() for line in split.read_text(encoding="utf-8").splitlines() if line.strip()}
    unknown = sorted(names - set(dataset.names))
    if unknown:
        raise ValueError(f"split: {split} names images that are not there: {', '.join(unknown[:5])}")
    train, test = ([i for i, name in enumerate(dataset.names) if (name in names) == wanted] for wanted in (True, False))
    if not train or not test:
        raise ValueError(f"split: {split} leaves {len(train)} images to train and {len(test)} to test")
    return train, test


def _cross_validate(context: Context, results: Results) -> tuple[Sequence[Sample], dict[str, str]]:
    """Measure every image once, by methods trained on the other folds."""
    if context.data is None:
        split = generated(context)
        samples = [*split.train, *split.test]
    else:
        dataset = RWTSD(context.data)
        samples = [dataset[i] for i in range(QUICK_TRAIN if context.quick else len(dataset))]
    folds = context.folds or 0
    if not 2 <= folds <= len(samples):
        raise ValueError(f"folds must be 2 to the number of images, {len(samples)}; got {folds}")
    fold_of = np.random.default_rng(context.seed).permutation(len(samples)) % folds
    tested = samples[: context.limit]
    results.data = f"{len(samples)} images, {folds}-fold cross-validation, seed {context.seed}; {len(tested)} tested"
    shown: dict[str, str] = {}
    for entry in entries(context, results):
        images: dict[str, Mapping[str, float]] = {}
        for fold in np.unique(fold_of[: len(tested)]):
            train = [sample for sample, number in zip(samples, fold_of, strict=True) if number != fold]
            test = [sample for sample, number in zip(tested, fold_of, strict=False) if number == fold]
            who = fit(context, entry, f"fold{fold}", train)
            shown[who.title] = f"folds/{who.key}"
            images |= judge(context, shown[who.title], who.method, test, given(context, 2))
        ordered = {each.name: images[each.name] for each in tested}
        results.add(who.title, ordered, who.note, BESIDE.get(who.name, ""))
    return tested, shown
