"""What the joint evolution of regions and descriptors is worth, against its start and against fixed descriptors.

    python benchmarks/joint_evolution.py --model MODEL --rwtsd DIR [--multi-region DIR] [--brodatz DIR] [--every 3]

On RWTSD, the images of the half that ``shapetailor experiment rwtsd`` tests on (seed 0): give a model trained on the
other half. "First" is the model's first network alone, "both" are the two that it is shipped with.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np
from torch.utils.data import Subset
from tqdm import tqdm

from shapetailor import EvolutionConfig, Segmenter, metrics
from shapetailor.checkpoint import load_model
from shapetailor.datasets import RWTSD, MosaicDataset, Sample, SyntheticMultiRegion, TextureFolder, split_textures
from shapetailor.experiments.suite import halves
from shapetailor.segmenter import SHARP

#: What is compared: whether both networks take part, and how regions move.
WAYS = {
    "start only": (False, EvolutionConfig(iterations=0)),
    "first, fixed whole-image descriptors": (False, EvolutionConfig(tailored=False)),
    "first, joint": (False, EvolutionConfig()),
    "first, joint, local means": (False, EvolutionConfig(locality=SHARP.locality)),
    "both, joint, one mean a region": (True, replace(SHARP, locality=inf, rim=0)),
    "both, fixed whole-image descriptors": (True, replace(SHARP, tailored=False)),
    "both, joint (shipped)": (True, SHARP),
    "both, joint, 1 iteration": (True, replace(SHARP, iterations=1)),
    "both, joint, 4 iterations": (True, replace(SHARP, iterations=4)),
}


def compare(title: str, model: str, samples: Sequence[Sample]) -> None:
    """Print covering, boundary F and the gain in covering over the start, with its standard error."""
    alone = load_model(model)[0]
    alone.fine = None
    segmenters = {True: Segmenter.from_pretrained(model), False: Segmenter(alone)}
    scores: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for sample in tqdm(samples, desc=title):
        truth = sample.truths[0]
        for name, (both, config) in WAYS.items():
            labels = segmenters[both].segment(sample.image, int(truth.max()) + 1, evolution=config).labels
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
    if args.rwtsd:
        photographs = RWTSD(args.rwtsd)
        tested = halves(len(photographs), 0)[1][:: args.every]
        compare("RWTSD, tested half", args.model, [photographs[i] for i in tested])
    if args.multi_region:
        mosaics = SyntheticMultiRegion(args.multi_region, "val")
        compare("multi-region, validation", args.model, [mosaics[i] for i in range(0, len(mosaics), args.every)])
    if args.brodatz:
        textures = TextureFolder(args.brodatz)
        unseen = MosaicDataset(Subset(textures, split_textures(len(textures))[1]), 200, seed=1)
        compare("Brodatz, unseen textures", args.model, [unseen[i] for i in range(0, len(unseen), args.every)])


if __name__ == "__main__":
    main()
