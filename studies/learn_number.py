"""Learn how `regions="auto"` judges cuts (`IN`, `BIAS` and `OUT` in `segmentation/region_count.py`).

    python studies/learn_number.py --rwtsd DIR --halves A B --multi-region DIR --brodatz DIR --textures DIR

Every picture is cut into 1 to 16 parts. Four hidden units score a cut by its measures, and the softmax of the scores of
a picture's cuts is to have a small expected regret: the best cut's covering less that of the cut drawn. Sets weigh the
same. Printed are the covering with the true number, with the learnt one (learnt on the other half of the pictures), and
the weights learnt on all. A and B are models trained on RWTSD's two halves (seed 0); `texture` describes the other
sets: the last multi-region training images, unseen Brodatz textures, and mosaics of textures.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Subset

from shapetailor import Segmenter
from shapetailor.datasets import RWTSD, MosaicDataset, SyntheticMultiRegion, TextureFolder, split_textures
from shapetailor.experiments.suite import halves
from shapetailor.metrics import covering
from shapetailor.segmentation.canvas import canvas_of
from shapetailor.segmentation.described import Described
from shapetailor.segmentation.region_count import MEASURES, _cells, measured_cuts
from shapetailor.segmentation.starts import assign

MOST, HIDDEN, STEPS, RATE, DECAY, JITTER = 16, 4, 300, 0.02, 0.1, 0.05
#: A picture's measures (K, F), the coverings of its cuts (K,), and its true number.
Judged = tuple[torch.Tensor, torch.Tensor, int]


def judged(segmenter: Segmenter, image: np.ndarray, truths: tuple[np.ndarray, ...]) -> Judged:
    """Cut one picture."""
    net, usage = segmenter.net, segmenter.usage
    canvas = canvas_of(image, net.image_channels, net.stride, segmenter.max_pixels, usage.intensity)
    described = Described.of(canvas, net, segmenter.device, usage.positions, needs_whole=True)
    cells, _ = _cells(described.descriptors(), None)
    rows, columns = (
        np.linspace(0, n - 1, m).round().astype(int)
        for n, m in zip(canvas.values.shape[1:], cells.shape[1:], strict=True)
    )
    right = [canvas.labels_in(np.asarray(each, np.int64), "truth")[np.ix_(rows, columns)] for each in truths]
    found = list(measured_cuts(cells, MOST, None, np.random.default_rng(0)))
    covered = [np.mean([covering(assign(cells, means), each) for each in right]) for means, _ in found]
    measures = torch.tensor(np.array([each for _, each in found]), dtype=torch.float32)
    return measures, torch.tensor(covered, dtype=torch.float32), int(right[0].max()) + 1


def pictures(options: argparse.Namespace) -> Iterator[tuple[str, Segmenter, np.ndarray, tuple[np.ndarray, ...]]]:
    """Yield each picture with its set's name and who describes it."""
    texture, few = Segmenter.from_pretrained("texture"), options.limit
    photographs = RWTSD(options.rwtsd)
    for model, numbers in zip(options.halves, halves(len(photographs), 0)[::-1], strict=True):
        segmenter = Segmenter.from_pretrained(model)
        for i in numbers[: few // 2]:
            yield "rwtsd", segmenter, photographs[i].image, photographs[i].truths
    several = SyntheticMultiRegion(options.multi_region, "train")
    brodatz = TextureFolder(options.brodatz)
    unseen = Subset(brodatz, split_textures(len(brodatz))[1])
    sets = {
        "multi-region": Subset(several, range(len(several) - few, len(several))),
        "brodatz 2": MosaicDataset(unseen, few, (2, 2), 256, 1),
        "brodatz 3–5": MosaicDataset(unseen, few, (3, 5), 256, 2),
        "textures": MosaicDataset(TextureFolder(options.textures), few, (2, 5), 256, 3),
    }
    for name, data in sets.items():
        for i in range(len(data)):  # type: ignore[arg-type]
            yield name, texture, data[i].image, data[i].truths


def learn(sets: dict[str, list[Judged]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the weights IN, BIAS and OUT."""
    torch.manual_seed(0)
    stacked = [(torch.stack([a for a, _, _ in each]), torch.stack([b for _, b, _ in each])) for each in sets.values()]
    every = torch.cat([measures.flatten(0, 1) for measures, _ in stacked])
    mean, std = every.mean(0), every.std(0) + 1e-6
    inner, outer = torch.nn.Linear(len(MEASURES), HIDDEN), torch.nn.Linear(HIDDEN, 1, bias=False)
    optimiser = torch.optim.AdamW([*inner.parameters(), *outer.parameters()], RATE, weight_decay=DECAY)
    for _ in range(STEPS):
        regret = torch.zeros(())
        for measures, covered in stacked:
            unit = (measures - mean) / std
            share = outer(torch.tanh(inner(unit + JITTER * torch.randn_like(unit))))[..., 0].softmax(1)
            regret = regret + (covered.max(1).values - (share * covered).sum(1)).mean()
        optimiser.zero_grad()
        regret.backward()
        optimiser.step()
    weight = (inner.weight / std).detach()
    return weight, (inner.bias - weight @ mean).detach(), outer.weight[0].detach()


def main() -> None:
    """Learn by halves, and on all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("rwtsd", "multi-region", "brodatz", "textures"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--halves", nargs=2, required=True, metavar=("A", "B"))
    parser.add_argument("--limit", type=int, default=50, help="pictures of each set")
    sets: dict[str, list[Judged]] = {}
    for name, segmenter, image, truths in pictures(parser.parse_args()):
        sets.setdefault(name, []).append(judged(segmenter, image, truths))
    for fold in (0, 1):
        inner, bias, outer = learn({name: each[fold::2] for name, each in sets.items()})
        for name, each in sets.items():
            test = each[1 - fold :: 2]
            given = np.mean([float(covered[min(true, MOST) - 1]) for _, covered, true in test])
            chosen = [int((torch.tanh(m @ inner.T + bias) @ outer).argmax()) for m, _, _ in test]
            found = np.mean([float(covered[k]) for (_, covered, _), k in zip(test, chosen, strict=True)])
            print(f"fold {fold} {name:12} true number {given:.3f} learnt {found:.3f}")
    for name, values in zip(("IN", "BIAS", "OUT"), learn(sets), strict=True):
        print(name, np.round(values.numpy(), 3).tolist())


if __name__ == "__main__":
    main()
