"""Learn how strokes weigh their evidence where a region has several (`EVIDENCE` in `segmentation/propagation.py`).

    python studies/learn_strokes.py --rwtsd DIR --multi-region DIR --bsds DIR [--model texture]

Each picture is marked by the simulated user of `experiments/strokes.py`, on cells and answered with the weights of
single strokes: once in the deepest point of the largest wrong component, once at random places of it. The weights of
single strokes stay; what those of others change by starts from 0 and minimises the cross-entropy of the true regions
of cells under the prior, and `RISE` times what it rises by from each stroke to the next: falls cost more than what is
not yet found. Sets of pictures weigh the same.

Descriptors of training pictures are too good: of RWTSD there are the photographs that the model held out, and of those
only the ones in the first of `halves(…, seed=0)`, so that the second can judge; of the multi-region set the val mosaics
of four regions but the first `JUDGES`; of BSDS500 (train), which no model has seen, objects against the rest.
"""

from __future__ import annotations

import argparse
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
from shapetailor.experiments.suite import halves
from shapetailor.network.checkpoint import load_model
from shapetailor.segmentation.propagation import ALIKE, EVIDENCE, one_hot, pooled

#: Cells that are looked at in each picture; cross-entropy of a cell at most; what a rise of it weighs.
CELLS, MOST, RISE = 120, 6.0, 2.0
#: Mosaics of four regions that are left to judge; how many there are with them.
JUDGES, MOSAICS = 13, 24
#: Runs of the user a set and step; what pulls the changes of weights to 0; the first value of `propagation.TOGETHER`.
BATCH, PULL, TOGETHER = 6, 2e-3, 0.13
#: Shares of the picture that an object has, and the share of the picture's rim that it may touch.
OBJECT, RIM = (0.04, 0.45), 0.08


class State(NamedTuple):
    """What the strokes of one moment say about a picture's cells."""

    evidence: Tensor  # (P, cells, F)
    company: Tensor  # (P, 3)
    region: Tensor  # (P,)
    target: Tensor  # (cells,)


def objects(folder: Path, every: int) -> list[Sample]:
    """Every n-th photograph of BSDS500 with an object, half as large and cut to a multiple of 8 pixels."""
    dataset, found = BSDS500(folder, "train"), list[Sample]()
    for sample in (dataset[i] for i in range(len(dataset))):
        truth = _object(sorted(sample.truths, key=lambda each: len(np.unique(each))))
        if truth is not None:
            height, width = (side // 16 * 16 for side in truth.shape)
            part = (slice(0, height, 2), slice(0, width, 2))
            found.append(Sample(sample.image[part], (truth[part],), sample.name))
    return found[::every]


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


def states(segmenter: Segmenter, sample: Sample, seed: int) -> list[list[State]]:
    """Return what the strokes say after each of them, for both users."""
    rng = np.random.default_rng(seed)
    single = np.array([weights[0] for weights in EVIDENCE.values()], np.float32)
    count = int(sample.truths[0].max()) + 1
    session = segmenter.open(sample.image, count)
    scene, unaided = session._without_marks(count)
    shares = pooled(one_hot(session._described.canvas.labels_in(sample.truths[0], "truth"), count), scene.grid)
    truth = shares.argmax(axis=0)
    if len(np.unique(truth)) < count:  # a region without a cell of its own cannot be marked
        return []
    sure = np.flatnonzero(shares.max(axis=0) > 0.99)
    cells = rng.choice(sure, min(CELLS, len(sure)), replace=False)
    runs: list[list[State]] = []
    for deepest in (True, False):
        runs.append([])
        marks = np.full(truth.shape, -1, np.int64)
        for region in range(count):
            _mark(marks, truth, truth == region, None if deepest else rng)
        for _ in range(count, STROKES + 1):
            hot = one_hot(marks, count)
            strokes = scene.prototypes(hot)
            evidence = scene.evidence(strokes, unaided)
            target = torch.from_numpy(truth.ravel()[cells])
            company = torch.from_numpy(scene.company(strokes))
            speaks, whose = torch.from_numpy(evidence[:, cells]), torch.from_numpy(strokes.region)
            runs[-1].append(State(speaks, company, whose, target))
            claims = evidence @ single
            best = np.stack([claims[strokes.region == i].max(axis=0) for i in range(count)])
            prior = np.exp(best - best.max(axis=0))
            prior = (1 - ALIKE) * prior / prior.sum(axis=0) + ALIKE / count
            wrong = scene._on_cells(prior.reshape(hot.shape), hot, unaided).argmax(axis=0) != truth
            if not wrong.any():
                break
            _mark(marks, truth, largest_component(wrong, truth), None if deepest else rng)
    return runs


def _mark(marks: Labels, truth: Labels, where: Mask, rng: np.random.Generator | None) -> None:
    """Draw a disc in the deepest point of some cells, or around any of them."""
    if rng is not None:
        place = rng.choice(np.flatnonzero(where))
        where = np.zeros(truth.shape, bool)
        where.flat[place] = True
    mark(marks, truth, where)


def losses(single: Tensor, changes: Tensor, sharpness: Tensor, state: State) -> Tensor:
    """Return the cross-entropy of each cell."""
    weights = single + state.company @ changes
    claims = (state.evidence @ weights[:, :, None])[:, :, 0] * sharpness
    best = [claims[state.region == i].logsumexp(dim=0) for i in range(int(state.region.max()) + 1)]
    return cross_entropy(torch.stack(best, dim=1) / sharpness, state.target, reduction="none").clamp(max=MOST)


def loss(single: Tensor, changes: Tensor, sharpness: Tensor, runs: list[list[State]]) -> Tensor:
    """Return the cross-entropy and its weighted rises, over some runs of a user."""
    each = [torch.stack([losses(single, changes, sharpness, state) for state in run]) for run in runs]
    rises = torch.cat([torch.relu(run[1:] - run[:-1]).mean(dim=1) for run in each])
    return torch.cat(each).mean() + RISE * rises.sum() / max(1, len(rises))


def photographs(folder: Path, model: str) -> list[Sample]:
    """The photographs of the first half that the model held out."""
    dataset = RWTSD(folder)
    held_out = set(load_model(model)[1]["validation"]["images"])
    return [dataset[i] for i in halves(len(dataset), 0)[0] if dataset.names[i] in held_out]


def mosaics(folder: Path) -> list[Sample]:
    """Val mosaics of four regions, without those that judge."""
    dataset = SyntheticMultiRegion(folder, "val")
    four = [sample for sample in (dataset[i] for i in range(len(dataset))) if sample.truths[0].max() == 3]
    return four[JUDGES:MOSAICS]


def main() -> None:
    """Learn, and print the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rwtsd", type=Path)
    parser.add_argument("--multi-region", type=Path)
    parser.add_argument("--bsds", type=Path)
    parser.add_argument("--model", default="texture")
    parser.add_argument("--every", type=int, default=6, help="take every n-th photograph of BSDS500")
    parser.add_argument("--steps", type=int, default=150)
    args = parser.parse_args()
    samples: list[list[Sample]] = []
    if args.rwtsd:
        samples.append(photographs(args.rwtsd, args.model))
    if args.multi_region:
        samples.append(mosaics(args.multi_region))
    if args.bsds:
        samples.append(objects(args.bsds, args.every))
    segmenter = Segmenter.from_pretrained(args.model)
    sets = [
        [run for number, sample in enumerate(group) for run in states(segmenter, sample, number)] for group in samples
    ]
    single = torch.tensor([weights[0] for weights in EVIDENCE.values()])
    changes = torch.zeros(3, len(single), requires_grad=True)
    logarithm = torch.tensor(TOGETHER).log().neg().requires_grad_()  # of the sharpness
    report = "loss of each set " + ", ".join(f"{loss(single, changes, logarithm.exp(), runs):.4f}" for runs in sets)
    print(f"{[len(runs) for runs in sets]} runs of the user, {report}", flush=True)
    rng = np.random.default_rng(0)
    optimizer = torch.optim.Adam([changes, logarithm], 3e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, args.steps)
    for _ in range(args.steps):
        optimizer.zero_grad()
        drawn = [[runs[i] for i in rng.choice(len(runs), BATCH, replace=False)] for runs in sets]
        now = torch.stack([loss(single, changes, logarithm.exp(), runs) for runs in drawn]).mean()
        (now + PULL * changes.square().sum()).backward()
        optimizer.step()
        schedule.step()
    report = "loss of each set " + ", ".join(f"{loss(single, changes, logarithm.exp(), runs):.4f}" for runs in sets)
    print(f"{report}; TOGETHER {logarithm.neg().exp():.3f}")
    for name, first, others in zip(EVIDENCE, single.tolist(), changes.T.tolist(), strict=True):
        print(f'    "{name}": ({", ".join(f"{each:.3f}" for each in (first, *others))}),')


if __name__ == "__main__":
    main()
