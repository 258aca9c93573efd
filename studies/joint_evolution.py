"""What the joint evolution of regions and descriptors is worth, against its start and against fixed descriptors.

    python studies/joint_evolution.py --model MODEL... --rwtsd DIR [--multi-region DIR] [--brodatz DIR] [--every 3]

Several models are several trainings of one recipe. On RWTSD the first is measured on the half that ``shapetailor
experiment rwtsd --seed 0`` tests on, the next on that of ``--seed 1`` and so on: give models trained on the other half.
"First" is a model's first network alone, "both" are the two that it is shipped with.
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
from shapetailor.datasets import RWTSD, MosaicDataset, Sample, SyntheticMultiRegion, TextureFolder, split_textures
from shapetailor.experiments.suite import halves
from shapetailor.network.checkpoint import load_model
from shapetailor.segmentation.usage import Usage

SHARP = Usage.usual(stride=4, two_networks=True).near  # as the shipped model
PLAIN = replace(SHARP, likeness=0.0)
#: What is compared: whether both networks take part, and how regions move.
WAYS = {
    "start only": (False, EvolutionConfig(iterations=0)),
    "first, fixed whole-image descriptors": (False, EvolutionConfig(tailored=False)),
    "first, joint": (False, EvolutionConfig()),
    "first, joint, local means": (False, EvolutionConfig(locality=SHARP.locality)),
    "first, joint, likeness": (False, EvolutionConfig(likeness=SHARP.likeness)),
    "both, joint, one mean a region": (True, replace(PLAIN, locality=inf, rim=0)),
    "both, fixed whole-image descriptors": (True, replace(PLAIN, tailored=False)),
    "both, joint, 1 iteration": (True, replace(PLAIN, iterations=1)),
    "both, joint": (True, PLAIN),
    "both, joint, 4 iterations": (True, replace(PLAIN, iterations=4)),
    "both, fixed, likeness": (True, replace(SHARP, tailored=False)),
    "both, joint, likeness (shipped)": (True, SHARP),
}


def scores(model: str, samples: Sequence[Sample]) -> np.ndarray:
    """Return covering and boundary F of each way and sample: (ways, samples, 2)."""
    alone = load_model(model)[0]
    alone.fine = None
    segmenters = {True: Segmenter.from_pretrained(model), False: Segmenter(alone)}
    found = np.empty((len(WAYS), len(samples), 2))
    for number, sample in enumerate(tqdm(samples, desc=model)):
        truth = sample.truths[0]
        for way, (both, config) in enumerate(WAYS.values()):
            labels = segmenters[both].segment(sample.image, int(truth.max()) + 1, evolution=config).labels
            found[way, number] = metrics.covering(labels, truth), metrics.boundary_f(labels, truth).f
    return found


def compare(title: str, models: Sequence[str], tested: Sequence[Sequence[Sample]]) -> None:
    """Print covering, boundary F, and the gain in covering over the start: with its standard error, and by model."""
    found = np.stack([scores(model, samples) for model, samples in zip(models, tested, strict=True)], axis=1)
    gains = (found - found[:1])[..., 0]
    print(f"\n{title}, {len(models)} models on {len(tested[0])} images each\n")
    print("| | covering | boundary F | gain in covering | of each model |\n|---|---|---|---|---|")
    for name, each, gain in zip(WAYS, found, gains, strict=True):
        covering, f = each.mean(axis=(0, 1))
        error = gain.std() / np.sqrt(gain.size)
        by_model = ", ".join(f"{mean:+.4f}" for mean in gain.mean(axis=1))
        print(f"| {name} | {covering:.3f} | {f:.3f} | {gain.mean():+.4f} ± {error:.4f} | {by_model} |", flush=True)


def tested_halves(root: str, count: int, every: int) -> list[list[Sample]]:
    """Return of RWTSD every so many-th image of the half that is tested on with seed 0, with seed 1 and so on."""
    photographs = RWTSD(root)
    return [[photographs[i] for i in halves(len(photographs), seed)[1][::every]] for seed in range(count)]


def validation_mosaics(root: str, every: int) -> list[Sample]:
    """Return every so many-th image of the multi-region set's validation split."""
    mosaics = SyntheticMultiRegion(root, "val")
    return [mosaics[i] for i in range(0, len(mosaics), every)]


def main() -> None:
    """Print a table for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", nargs="+", default=["texture"])
    parser.add_argument("--rwtsd", help="the Real-World Texture Segmentation Dataset")
    parser.add_argument("--multi-region", help="the synthetic multi-region set, whose validation split is used")
    parser.add_argument("--brodatz", help="the folder of Brodatz textures, for mosaics of those not trained on")
    parser.add_argument("--every", type=int, default=1, help="take every so many-th image")
    args = parser.parse_args()
    models, same = args.model, len(args.model)
    if args.rwtsd:
        compare("RWTSD, tested half", models, tested_halves(args.rwtsd, same, args.every))
    if args.multi_region:
        compare("multi-region, validation", models, same * [validation_mosaics(args.multi_region, args.every)])
    if args.brodatz:
        textures = TextureFolder(args.brodatz)
        unseen = MosaicDataset(Subset(textures, split_textures(len(textures))[1]), 200, seed=1)
        compare("Brodatz, unseen textures", models, same * [[unseen[i] for i in range(0, len(unseen), args.every)]])


if __name__ == "__main__":
    main()
