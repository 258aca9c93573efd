"""Learn the weights of the evidence that strokes claim cells by (`EVIDENCE` in `segmentation/propagation.py`).

    python studies/learn_strokes.py --rwtsd DIR --multi-region DIR --model MODEL [--every 2] [--steps 400]

Each picture is marked with 2 to 12 correct strokes: in the deepest point of each true region, then at random places at
least a brush deep in their region. The weights minimise the cross-entropy of the true regions of cells under the prior,
the softmax over regions of their strokes' largest claims; pictures and states weigh the same. Give a model that has
not seen the pictures: descriptors of training pictures are too good.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from scipy.ndimage import distance_transform_edt

from shapetailor import Segmenter
from shapetailor.datasets import RWTSD, Sample, SyntheticMultiRegion
from shapetailor.experiments.strokes import mark
from shapetailor.segmentation.propagation import EVIDENCE, Scene, pooled

#: Cells that are looked at in each state, and states of each picture.
CELLS, STATES = 300, 4


def states(segmenter: Segmenter, sample: Sample, seed: int) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Return for a picture's states the evidence (P, cells, F), the strokes' regions (P,) and the cells' true ones."""
    rng = np.random.default_rng(seed)
    truth = sample.truths[0]
    count = int(truth.max()) + 1
    session = segmenter.open(sample.image, count)
    scene: Scene = session._scene
    canvas, unaided = session._described.canvas, session._without_marks(count)
    right = canvas.labels_in(truth, "truth")
    shares = pooled((right == np.arange(count)[:, None, None]).astype(np.float32), scene.grid).reshape(count, -1)
    found = []
    for _ in range(STATES):
        marks = np.full(truth.shape, -1, np.int64)
        for region in range(count):
            mark(marks, truth, truth == region)
        for _ in range(int(rng.integers(0, 13 - count))):
            region = int(rng.integers(count))
            deep = distance_transform_edt(np.pad(truth == region, 1))[1:-1, 1:-1]
            place = rng.choice(np.flatnonzero(deep >= min(4, deep.max())))
            spot = np.zeros(truth.shape, bool)
            spot.flat[place] = True
            mark(marks, truth, spot)
        fixed = canvas.marks_in(marks, "marks")
        hot = (fixed == np.arange(count)[:, None, None]).astype(np.float32)
        strokes = scene.prototypes(pooled(hot, scene.grid))
        sure = np.flatnonzero(shares.max(axis=0) == 1)
        cells = rng.choice(sure, min(CELLS, len(sure)), replace=False)
        evidence = scene.evidence(strokes, unaided)[:, cells]
        target = shares[:, cells].argmax(axis=0)
        found.append((torch.from_numpy(evidence), torch.from_numpy(strokes.region), torch.from_numpy(target)))
    return found


def loss(weights: torch.Tensor, data: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """Return the mean cross-entropy of the states."""
    losses = []
    for evidence, region, target in data:
        claims = evidence @ weights
        best = torch.stack([claims[region == each].amax(dim=0) for each in range(int(region.max()) + 1)], dim=1)
        losses.append(torch.nn.functional.cross_entropy(best, target))
    return torch.stack(losses).mean()


def main() -> None:
    """Learn, and print the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rwtsd", type=Path)
    parser.add_argument("--multi-region", type=Path)
    parser.add_argument("--model", default="texture")
    parser.add_argument("--every", type=int, default=1, help="take every n-th picture")
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    samples: list[Sample] = []
    if args.rwtsd:
        dataset = RWTSD(args.rwtsd)
        samples += [dataset[i] for i in range(0, len(dataset), args.every)]
    if args.multi_region:
        mosaics = SyntheticMultiRegion(args.multi_region, "val")
        samples += [mosaics[i] for i in range(0, len(mosaics), args.every)]
    segmenter = Segmenter.from_pretrained(args.model)
    data = [each for number, sample in enumerate(samples) for each in states(segmenter, sample, number)]
    weights = torch.tensor(list(EVIDENCE.values()), requires_grad=True)
    print(f"{len(samples)} pictures, {len(data)} states, loss of the present weights {loss(weights, data).item():.4f}")
    optimizer = torch.optim.Adam([weights], 2e-2)
    for _ in range(args.steps):
        optimizer.zero_grad()
        value = loss(weights, data)
        value.backward()
        optimizer.step()
    print(f"loss {value.item():.4f}")
    for name, weight in zip(EVIDENCE, weights.tolist(), strict=True):
        print(f'    "{name}": {weight:.3f},')


if __name__ == "__main__":
    main()
