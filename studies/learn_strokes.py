"""Learn the weights of the evidence that strokes claim cells by (`EVIDENCE` in `segmentation/propagation.py`).

    python studies/learn_strokes.py --rwtsd DIR --multi-region DIR --bsds DIR --model MODEL [--every 2] [--steps 70]

Each picture is marked by the simulated user of `experiments/strokes.py`, on cells and answered with the present
weights: once in the deepest point of the largest wrong component, once at random places of it. The weights minimise the
cross-entropy of the true regions of cells under the prior, the softmax over regions of their strokes' largest claims,
and `RISE` times what it rises by from each stroke to the next: falls cost more than what is not yet found. Sets of
pictures weigh the same. Of BSDS500 (train) there are hard photographs, an object against the rest or large regions.
Give a model that has not seen the pictures: descriptors of training pictures are too good.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shapetailor import Segmenter
from shapetailor.arrays import Labels, Mask
from shapetailor.datasets import BSDS500, RWTSD, Sample, SyntheticMultiRegion
from shapetailor.experiments.strokes import STROKES, largest_component, mark
from shapetailor.segmentation.propagation import ALIKE, EVIDENCE, Scene, one_hot, pooled

#: Cells that are looked at in each picture; cross-entropy of a cell at most; what a rise of it weighs.
CELLS, MOST, RISE = 80, 6.0, 2.0
#: Shares of the picture that an object has, the share of the picture's rim that it may touch, and the longest side.
OBJECT, RIM, SIDE = (0.04, 0.45), 0.08, 256


class State(NamedTuple):
    """What the strokes of one moment say about a picture's cells."""

    evidence: Tensor  # (P, cells, F)
    region: Tensor  # (P,)
    target: Tensor  # (cells,)
    first: bool  # of its picture's strokes


def hard_photographs(folder: Path, every: int) -> Iterator[Sample]:
    """Yield every n-th photograph of BSDS500 with the regions that strokes shall find."""
    dataset = BSDS500(folder, "train")
    for number, sample in enumerate(dataset[i] for i in range(0, len(dataset), every)):
        truths = sorted(sample.truths, key=lambda each: len(np.unique(each)))
        step = -(-max(truths[0].shape) // SIDE)
        chosen = _object(truths) if number % 2 == 0 else None
        truth = _merged(truths[len(truths) // 2], 2 + number // 2 % 3) if chosen is None else chosen
        yield Sample(sample.image[::step, ::step], (truth[::step, ::step],), sample.name)


def _object(truths: list[Labels]) -> Labels | None:
    """The largest segment that is neither small nor the ground, against the rest."""
    best, found = 0.0, None
    for truth in truths:
        rim = np.concatenate([truth[0], truth[-1], truth[:, 0], truth[:, -1]])
        for number in np.unique(truth):
            share = float(np.mean(truth == number))
            if OBJECT[0] < share < OBJECT[1] and np.mean(rim == number) <= RIM and share > best:
                best, found = share, (truth == number).astype(np.int64)
    return found


def _merged(truth: Labels, count: int) -> Labels:
    """Give the smallest segment to the one it has the longest boundary with, until `count` are left."""
    labels = np.unique(truth, return_inverse=True)[1].reshape(truth.shape)
    while labels.max() >= count:
        touch = np.zeros((labels.max() + 1,) * 2)
        for a, b in ((labels[1:], labels[:-1]), (labels[:, 1:], labels[:, :-1])):
            np.add.at(touch, (a, b), 1)
        touch = (touch + touch.T) * (1 - np.eye(len(touch)))
        least = int(np.bincount(labels.ravel()).argmin())
        merged = np.where(labels == least, touch[least].argmax(), labels)
        labels = np.unique(merged, return_inverse=True)[1].reshape(truth.shape)
    return labels


def states(segmenter: Segmenter, sample: Sample, seed: int) -> list[State]:
    """Return what the strokes say after each of them, of both users."""
    rng = np.random.default_rng(seed)
    count = int(sample.truths[0].max()) + 1
    session = segmenter.open(sample.image, count)
    scene: Scene = session._scene
    unaided = session._without_marks(count)
    shares = pooled(one_hot(session._described.canvas.labels_in(sample.truths[0], "truth"), count), scene.grid)
    truth = shares.argmax(axis=0)
    if len(np.unique(truth)) < count:  # a region without a cell of its own cannot be marked
        return []
    sure = np.flatnonzero(shares.max(axis=0) > 0.99)
    cells = rng.choice(sure, min(CELLS, len(sure)), replace=False)
    found = []
    for deepest in (True, False):
        marks = np.full(truth.shape, -1, np.int64)
        for region in range(count):
            _mark(marks, truth, truth == region, None if deepest else rng)
        for number in range(count, STROKES + 1):
            hot = one_hot(marks, count)
            strokes = scene.prototypes(hot)
            evidence = torch.from_numpy(scene.evidence(strokes, unaided)[:, cells])
            target = torch.from_numpy(truth.ravel()[cells])
            found.append(State(evidence, torch.from_numpy(strokes.region), target, number == count))
            claims = scene.claims(strokes, unaided)
            best = np.stack([claims[strokes.region == i].max(axis=0) for i in range(count)])
            prior = np.exp(best - best.max(axis=0))
            prior = (1 - ALIKE) * prior / prior.sum(axis=0) + ALIKE / count
            wrong = scene._on_cells(prior.reshape(hot.shape), hot, unaided).argmax(axis=0) != truth
            if not wrong.any():
                break
            _mark(marks, truth, largest_component(wrong, truth), None if deepest else rng)
    return found


def _mark(marks: Labels, truth: Labels, where: Mask, rng: np.random.Generator | None) -> None:
    """Draw a disc in the deepest point of some cells, or around any of them."""
    if rng is not None:
        place = rng.choice(np.flatnonzero(where))
        where = np.zeros(truth.shape, bool)
        where.flat[place] = True
    mark(marks, truth, where)


def losses(weights: Tensor, state: State) -> Tensor:
    """Return the cross-entropy of each cell."""
    claims = state.evidence @ weights
    best = [claims[state.region == i].amax(dim=0) for i in range(int(state.region.max()) + 1)]
    return cross_entropy(torch.stack(best, dim=1), state.target, reduction="none").clamp(max=MOST)


def loss(weights: Tensor, sets: list[list[State]]) -> Tensor:
    """Return the mean over sets of the cross-entropy and of its weighted rises."""
    means = []
    for data in sets:
        each = [losses(weights, state) for state in data]
        rises = [
            torch.relu(now - before).mean()
            for state, now, before in zip(data[1:], each[1:], each[:-1], strict=True)
            if not state.first
        ]
        means.append(torch.stack([one.mean() for one in each]).mean() + RISE * torch.stack(rises).mean())
    return torch.stack(means).mean()


def main() -> None:
    """Learn, and print the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rwtsd", type=Path)
    parser.add_argument("--multi-region", type=Path)
    parser.add_argument("--bsds", type=Path)
    parser.add_argument("--model", default="texture")
    parser.add_argument("--every", type=int, default=1, help="take every n-th picture")
    parser.add_argument("--steps", type=int, default=70)
    args = parser.parse_args()
    samples: list[list[Sample]] = []
    if args.rwtsd:
        photographs = RWTSD(args.rwtsd)
        samples.append([photographs[i] for i in range(0, len(photographs), args.every)])
    if args.multi_region:
        mosaics = SyntheticMultiRegion(args.multi_region, "val")
        four = [i for i in range(len(mosaics)) if mosaics[i].truths[0].max() == 3]
        samples.append([mosaics[i] for i in four[:: args.every]])
    if args.bsds:
        samples.append(list(hard_photographs(args.bsds, args.every)))
    segmenter = Segmenter.from_pretrained(args.model)
    sets = [
        [state for number, sample in enumerate(group) for state in states(segmenter, sample, number)]
        for group in samples
    ]
    now = torch.tensor(list(EVIDENCE.values()))
    weights = now.clone().requires_grad_()
    print(f"{[len(each) for each in sets]} states, loss of the present weights {loss(weights, sets).item():.4f}")
    optimizer = torch.optim.Adam([weights], 5e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, args.steps)
    for _ in range(args.steps):
        optimizer.zero_grad()
        (loss(weights, sets) + 2e-3 * (weights - now).square().sum()).backward()
        optimizer.step()
        schedule.step()
    print(f"loss {loss(weights, sets).item():.4f}")
    for name, weight in zip(EVIDENCE, weights.tolist(), strict=True):
        print(f'    "{name}": {weight:.3f},')


if __name__ == "__main__":
    main()
