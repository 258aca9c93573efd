"""What the joint evolution of regions and descriptors is worth, against its start and against fixed descriptors.

    python benchmarks/joint_evolution.py --model MODEL --rwtsd DIR [--multi-region DIR] [--brodatz DIR] [--every 3]

On RWTSD, the images of the half that ``shapetailor experiment rwtsd`` tests on (seed 0): give a model trained on the
other half. Boundaries are refined after the evolution in one row only, so that it is the evolution that is seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import Subset
from tqdm import tqdm

from shapetailor import EvolutionConfig, Segmenter, metrics, segmenter
from shapetailor.datasets import RWTSD, MosaicDataset, Sample, SyntheticMultiRegion, TextureFolder, split_textures
from shapetailor.experiments.suite import halves

FINER = "joint, finer boundaries"
#: What is compared: the evolution's settings, and the start.
WAYS: dict[str, tuple[dict[str, Any], str]] = {
    "start only": ({"iterations": 0}, "ncut"),
    "fixed whole-image descriptors": ({"tailored": False}, "ncut"),
    "joint": ({}, "ncut"),
    FINER: ({}, "ncut"),
    "joint, β = 1": ({"beta": 1.0}, "ncut"),
    "joint, reach of 4 blocks": ({"reach": 4}, "ncut"),
    "from boxes, fixed descriptors": ({"iterations": 60, "tailored": False}, "boxes"),
    "from boxes, joint": ({"iterations": 60}, "boxes"),
}


def compare(title: str, model: Segmenter, samples: Sequence[Sample]) -> None:
    """Print covering, boundary F and the gain in covering over the start, with its standard error."""
    scores: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for sample in tqdm(samples, desc=title):
        truth = sample.truths[0]
        for name, (settings, start) in WAYS.items():
            config = EvolutionConfig(**settings)
            segmenter.FINE_PIXELS = truth.size if name == FINER else 0
            labels = model.segment(sample.image, int(truth.max()) + 1, start=start, evolution=config).labels
            scores[name].append((metrics.covering(labels, truth), metrics.boundary_f(labels, truth).f))
    first = np.array(scores["start only"])[:, 0]
    print(f"\n{title}, {len(samples)} images\n\n| | covering | boundary F | gain in covering |\n|---|---|---|---|")
    for name, pairs in scores.items():
        covering, f = np.array(pairs).T
        gain = covering - first
        error = gain.std() / np.sqrt(len(gain))
        print(f"| {name} | {covering.mean():.3f} | {f.mean():.3f} | {gain.mean():+.4f} ± {error:.4f} |", flush=True)


def main() -> None:
    """Print a table for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="texture")
    parser.add_argument("--rwtsd", help="the Real-World Texture Segmentation Dataset")
    parser.add_argument("--multi-region", help="the synthetic multi-region set, whose validation split is used")
    parser.add_argument("--brodatz", help="the folder of Brodatz textures, for mosaics of those not trained on")
    parser.add_argument("--every", type=int, default=1, help="take every so many-th image")
    args = parser.parse_args()
    model = Segmenter.from_pretrained(args.model)
    if args.rwtsd:
        photographs = RWTSD(args.rwtsd)
        tested = halves(len(photographs), 0)[1][:: args.every]
        compare("RWTSD, tested half", model, [photographs[i] for i in tested])
    if args.multi_region:
        mosaics = SyntheticMultiRegion(args.multi_region, "val")
        compare("multi-region, validation", model, [mosaics[i] for i in range(0, len(mosaics), args.every)])
    if args.brodatz:
        textures = TextureFolder(args.brodatz)
        unseen = MosaicDataset(Subset(textures, split_textures(len(textures))[1]), 200, seed=1)
        compare("Brodatz, unseen textures", model, [unseen[i] for i in range(0, len(unseen), args.every)])


if __name__ == "__main__":
    main()
