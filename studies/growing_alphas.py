"""Whether larger scales pay once regions are trustworthy: descriptors that need right regions, and get them.

    python studies/growing_alphas.py --model MODEL... [--stld] [--rwtsd DIR] [--multi-region DIR] [--every 4]

Every α of the descriptors is taken once, 4 and 16 times. "Start" is k-means of whole-image descriptors at that scale;
all evolutions set out from the start of once. "In turn" goes from once to 4 to 16 times, each from where the last came
to rest. Of each model the first network is measured; with `--stld`, the hand-crafted descriptors instead. On RWTSD,
model number k is measured on the half that ``shapetailor experiment rwtsd --seed k`` tests on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np
from joint_evolution import tested_halves, validation_mosaics
from tqdm import tqdm

from shapetailor import STDNN, EvolutionConfig, Segmenter, metrics
from shapetailor.baselines.stld import STLD
from shapetailor.datasets import Sample
from shapetailor.network.checkpoint import load_model

FACTORS = (1, 4, 16)
STILL, FIXED, JOINT = EvolutionConfig(iterations=0), EvolutionConfig(tailored=False), EvolutionConfig()


def grown(net: STDNN | STLD, factor: int) -> Segmenter:
    """Return a segmenter by the same descriptors with every α so many times as large, on pictures of any size."""
    other = deepcopy(net)
    if isinstance(other, STDNN):
        other.fine = None
    # Alphas grow in proportion to the resolution (the paper's rule), so that they belong to a smaller one now.
    other.config = replace(net.config, resolution=net.config.resolution // factor, fine=None)
    return Segmenter(other)


def coverings(net: STDNN | STLD, sample: Sample) -> dict[str, float]:
    """Segment a picture in every way."""
    truth, segmenters = sample.truths[0], {factor: grown(net, factor) for factor in FACTORS}
    count = int(truth.max()) + 1
    found = {
        f"×{factor}, start": segmenter.segment(sample.image, count, start="kmeans", evolution=STILL).labels
        for factor, segmenter in segmenters.items()
    }
    start = last = found["×1, start"]
    for factor, segmenter in segmenters.items():
        found[f"×{factor}, fixed"] = segmenter.segment(sample.image, init=start, evolution=FIXED).labels
        joint = segmenter.segment(sample.image, init=start, evolution=JOINT).labels
        found[f"×{factor}, joint"] = joint
        last = joint if last is start else segmenter.segment(sample.image, init=last, evolution=JOINT).labels
    found["in turn, joint"] = last
    return {way: metrics.covering(each, truth) for way, each in found.items()}


def compare(title: str, nets: Sequence[STDNN | STLD], tested: Sequence[Sequence[Sample]]) -> None:
    """Print mean coverings, and gains over the start at once α with their standard errors over images."""
    pairs = [(net, sample) for net, samples in zip(nets, tested, strict=True) for sample in samples]
    rows = [coverings(net, sample) for net, sample in tqdm(pairs, desc=title)]
    print(f"\n{title}, {len(rows)} images\n\n| | covering | gain |\n|---|---|---|")
    for way in rows[0]:
        values = np.array([row[way] for row in rows])
        gains = values - [row["×1, start"] for row in rows]
        print(f"| {way} | {values.mean():.3f} | {gains.mean():+.4f} ± {gains.std() / np.sqrt(len(gains)):.4f} |")


def main() -> None:
    """Print a table for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", nargs="+", default=["texture"])
    parser.add_argument("--stld", action="store_true", help="measure hand-crafted descriptors: takes long")
    parser.add_argument("--rwtsd", help="the Real-World Texture Segmentation Dataset")
    parser.add_argument("--multi-region", help="the synthetic multi-region set, whose validation split is used")
    parser.add_argument("--every", type=int, default=1, help="take every so many-th image")
    args = parser.parse_args()
    nets = [STLD(3) if args.stld else load_model(model)[0] for model in args.model]
    if args.rwtsd:
        compare("RWTSD", nets, tested_halves(args.rwtsd, len(nets), args.every))
    if args.multi_region:
        compare("multi-region", nets, len(nets) * [validation_mosaics(args.multi_region, args.every)])


if __name__ == "__main__":
    main()
