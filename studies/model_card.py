"""Measure a model on images it was not trained on: its own held-out images, and two other sets.

    python studies/model_card.py --model texture --rwtsd DIR --multi-region DIR --brodatz DIR

The number of regions is given, or chosen with `--auto`. Held-out images are those that the model's file names; the
two-region mosaics show textures that ``shapetailor data mosaics --part train`` leaves out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import takewhile

import numpy as np
from torch.utils.data import Subset
from tqdm import tqdm

from shapetailor import Segmenter, metrics
from shapetailor.datasets import RWTSD, MosaicDataset, Sample, SyntheticMultiRegion, TextureFolder, split_classes
from shapetailor.datasets.mosaics import Textures
from shapetailor.network.checkpoint import load_model


def measure(name: str, segmenter: Segmenter, samples: Iterable[Sample], auto: bool) -> None:
    """Segment each image and print the means; the last column is the share of images with the true number."""
    rows = []
    for sample in tqdm(list(samples), desc=name):
        truth = sample.truths[0]
        count = int(truth.max()) + 1
        labels = segmenter.segment(sample.image, regions="auto" if auto else count).labels
        scores = metrics.region_scores(labels, truth)
        rows.append(
            [
                scores.covering,
                scores.rand_index,
                scores.variation_of_information,
                metrics.mean_iou(labels, truth),
                metrics.adjusted_rand(labels, truth),
                metrics.voc_accuracy(labels, truth).true,
                metrics.boundary_f(labels, truth).f,
                float(len(np.unique(labels)) == count),
            ]
        )
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    print(f"| {name} | {len(rows)} | " + " | ".join(f"{value:.3f}" for value in means) + " |", flush=True)


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="texture")
    parser.add_argument("--rwtsd", required=True, help="the Real-World Texture Segmentation Dataset")
    parser.add_argument("--multi-region", required=True, help="the synthetic multi-region set")
    parser.add_argument("--brodatz", required=True, help="the folder of Brodatz textures")
    parser.add_argument("--textures", help="a folder of textures, by class")
    parser.add_argument("--most", type=int, default=100, help="images of each set")
    parser.add_argument("--auto", action="store_true", help="let the number of regions be chosen")
    args = parser.parse_args()
    own = [sample.name for sample in _first(RWTSD(args.rwtsd))]
    held_out = _leading(load_model(args.model)[1]["validation"]["images"], set(own))
    segmenter = Segmenter.from_pretrained(args.model)
    print("| data | images | covering | Rand | VOI | mIoU | ARI | best IoU of true regions | boundary F | true count |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    photographs = RWTSD(args.rwtsd)
    measure("RWTSD, held out", segmenter, (s for s in _first(photographs) if s.name in held_out), args.auto)
    mosaics = SyntheticMultiRegion(args.multi_region, "val")
    measure("multi-region, validation split", segmenter, _first(mosaics, args.most), args.auto)
    measure("Brodatz, two unseen textures", segmenter, _first(_unseen(args.brodatz, 2, 1), args.most), args.auto)
    for regions in (2, 5) if args.textures else ():
        mosaics = _unseen(args.textures, regions, regions)
        measure(f"{regions} textures of unseen classes", segmenter, _first(mosaics, args.most), args.auto)


def _unseen(folder: str, regions: int, seed: int) -> Textures:
    """Mosaics of textures whose classes were held out from training."""
    textures = TextureFolder(folder)
    kept = split_classes(textures.classes)[1]
    classes = [textures.classes[each] for each in kept]
    return MosaicDataset(Subset(textures, kept), 200, (regions, regions), seed=seed, classes=classes)


def _leading(names: list[str], known: set[str]) -> set[str]:
    """The photographs among held-out images: they come first; later names of other sets may be the same."""
    return set(takewhile(lambda name: name in known, names))


def _first(dataset: Textures, most: int | None = None) -> Iterable[Sample]:
    return (dataset[i] for i in range(min(most or len(dataset), len(dataset))))


if __name__ == "__main__":
    main()
