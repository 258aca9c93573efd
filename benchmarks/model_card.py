"""Measure a model on images it was not trained on: its own held-out images, and another validation split.

    python benchmarks/model_card.py --model texture --rwtsd DIR --multi-region DIR

The number of regions is given. Held-out images are those that the model's file names.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from tqdm import tqdm

from shapetailor import Segmenter, metrics
from shapetailor.checkpoint import load_model
from shapetailor.datasets import RWTSD, Sample, SyntheticMultiRegion


def measure(name: str, segmenter: Segmenter, samples: Iterable[Sample]) -> None:
    """Segment each image with its true number of regions and print the means."""
    rows = []
    for sample in tqdm(list(samples), desc=name):
        truth = sample.truths[0]
        labels = segmenter.segment(sample.image, regions=int(truth.max()) + 1).labels
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
    parser.add_argument("--most", type=int, default=100, help="images of the multi-region validation split")
    args = parser.parse_args()
    held_out = set(load_model(args.model)[1]["validation"]["images"])
    segmenter = Segmenter.from_pretrained(args.model)
    print("| data | images | covering | Rand | VOI | mIoU | ARI | best IoU of true regions | boundary F |")
    print("|---|---|---|---|---|---|---|---|---|")
    photographs = RWTSD(args.rwtsd)
    measure("RWTSD, held out", segmenter, (s for s in _all(photographs) if s.name in held_out))
    mosaics = SyntheticMultiRegion(args.multi_region, "val")
    measure("multi-region, validation split", segmenter, (mosaics[i] for i in range(min(args.most, len(mosaics)))))


def _all(dataset: RWTSD) -> Iterable[Sample]:
    return (dataset[i] for i in range(len(dataset)))


if __name__ == "__main__":
    main()
