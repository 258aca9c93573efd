"""Learn how `regions="auto"` judges cuts (`IN`, `BIAS` and `OUT` in `segmentation/region_count.py`).

    python studies/learn_number.py --rwtsd DIR --multi-region DIR --brodatz DIR --textures DIR --bsds DIR

Every picture is cut into 1 to 16 parts. Hidden units score a cut by its measures, and the softmax of the scores of a
picture's cuts is to be that of their coverings, over `TEMPERATURE`. Sets weigh the same. Printed are the coverings with
the true number, with the present weights, learnt on the other half of the pictures and learnt on the other sets only;
then the weights learnt on all.

`texture` describes all sets. No picture is learnt from that `studies/model_card.py` measures on: photographs are those
that the model was trained on, multi-region images those that its training held out, mosaics are new ones of the
textures that it was trained on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Subset
from tqdm import tqdm

from shapetailor import Segmenter
from shapetailor.datasets import (
    BSDS500,
    RWTSD,
    MosaicDataset,
    Sample,
    SyntheticMultiRegion,
    TextureFolder,
    split_classes,
)
from shapetailor.datasets.mosaics import Textures
from shapetailor.metrics import covering
from shapetailor.network.checkpoint import load_model
from shapetailor.segmentation.canvas import canvas_of
from shapetailor.segmentation.described import Described
from shapetailor.segmentation.opinions import coverings
from shapetailor.segmentation.region_count import BIAS, IN, MEASURES, OUT, SHARPENED, _cells, cuts

MOST, HIDDEN, STEPS, RATE, DECAY, JITTER, TEMPERATURE = 16, 12, 300, 0.02, 1.0, 0.15, 0.03


class Judged(NamedTuple):
    """The cuts of a picture."""

    measures: Tensor  # (K, F)
    covered: Tensor  # (K,), their coverings
    mutual: Tensor  # (K, K), how well one covers another
    true: int  # the true number of regions


#: IN, BIAS and OUT.
Weights = tuple[Tensor, Tensor, Tensor]


def judged(segmenter: Segmenter, sample: Sample) -> Judged:
    """Cut one picture."""
    net, usage = segmenter.net, segmenter.usage
    canvas = canvas_of(sample.image, net.image_channels, net.stride, segmenter.max_pixels, usage.intensity)
    described = Described.of(canvas, net, segmenter.device, usage.positions, needs_whole=True)
    cells, _ = _cells(described.descriptors(), None)
    rows, columns = (
        np.linspace(0, n - 1, m).round().astype(int)
        for n, m in zip(canvas.values.shape[1:], cells.shape[1:], strict=True)
    )
    right = [canvas.labels_in(np.asarray(each, np.int64), "truth")[np.ix_(rows, columns)] for each in sample.truths]
    found = list(cuts(cells, MOST, None, np.random.default_rng(0)))
    covered = np.array([np.mean([covering(cut.labels, each) for each in right]) for cut in found])
    measures = np.stack([cut.measured for cut in found])
    mutual = coverings(np.stack([cut.labels.ravel() for cut in found]))
    tensors = (torch.tensor(each, dtype=torch.float32) for each in (measures, covered, mutual))
    return Judged(*tensors, int(right[0].max()) + 1)


def datasets(options: argparse.Namespace) -> dict[str, Textures]:
    """Return the sets to learn from."""
    photographs, several = RWTSD(options.rwtsd), SyntheticMultiRegion(options.multi_region, "train")
    held_out = load_model("texture")[1]["validation"]["images"]
    first = sum(1 for _ in takewhile(set(photographs.names).__contains__, held_out))  # of them are photographs
    mine, theirs = set(held_out[:first]), set(held_out[first:])

    def mosaics(folder: Path, regions: tuple[int, int], seed: int) -> Textures:
        textures = TextureFolder(folder)
        seen = split_classes(textures.classes)[0]
        return MosaicDataset(
            Subset(textures, seen), options.limit, regions, 256, seed, [textures.classes[i] for i in seen]
        )

    return {
        "photographs": Subset(photographs, [i for i, name in enumerate(photographs.names) if name not in mine]),
        "multi-region": Subset(several, [i for i, name in enumerate(several.names) if name in theirs]),
        "Brodatz, 2–3": mosaics(options.brodatz, (2, 3), 31),
        "Brodatz, 2–6": mosaics(options.brodatz, (2, 6), 22),
        "textures, 2–4": mosaics(options.textures, (2, 4), 32),
        "textures, 2–12": mosaics(options.textures, (2, 12), 21),
        "BSDS500": BSDS500(options.bsds, "train"),
    }


def learn(sets: Sequence[list[Judged]]) -> Weights:
    """Return the weights."""
    torch.manual_seed(0)
    stacked = [(torch.stack([a.measures for a in each]), torch.stack([a.covered for a in each])) for each in sets]
    every = torch.cat([measures.flatten(0, 1) for measures, _ in stacked])
    mean, std = every.mean(0), every.std(0) + 1e-6
    inner, outer = torch.nn.Linear(len(MEASURES), HIDDEN), torch.nn.Linear(HIDDEN, 1, bias=False)
    optimiser = torch.optim.AdamW([*inner.parameters(), *outer.parameters()], RATE, weight_decay=DECAY)
    for _ in range(STEPS):
        loss = torch.zeros(())
        for measures, covered in stacked:
            unit = (measures - mean) / std
            likely = outer(torch.tanh(inner(unit + JITTER * torch.randn_like(unit))))[..., 0].log_softmax(1)
            loss = loss - ((covered / TEMPERATURE).softmax(1) * likely).sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    weight = (inner.weight / std).detach()
    return weight, (inner.bias - weight @ mean).detach(), outer.weight[0].detach()


def mean_covering(pictures: list[Judged], choose: Callable[[Judged], int]) -> float:
    """The mean covering of the cuts that are chosen."""
    return float(np.mean([float(each.covered[choose(each)]) for each in pictures]))


def chooser(weights: Weights, low: Tensor, high: Tensor) -> Callable[[Judged], int]:
    """The choice by learnt weights, as `auto_start` makes it; measures are held in the range they were learnt in."""
    inner, bias, outer = weights

    def choose(each: Judged) -> int:
        scores = torch.tanh(each.measures.clamp(low, high) @ inner.T + bias) @ outer
        return int(((SHARPENED * scores).softmax(0) @ each.mutual).argmax())

    return choose


def main() -> None:
    """Learn by halves, by sets, and on all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("rwtsd", "multi-region", "brodatz", "textures", "bsds"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=30, help="pictures of each set")
    options = parser.parse_args()
    segmenter = Segmenter.from_pretrained("texture")
    sets = {
        name: [judged(segmenter, data[i]) for i in tqdm(range(min(options.limit, len(data))), desc=name)]
        for name, data in datasets(options).items()
    }
    every = torch.cat([picture.measures for each in sets.values() for picture in each])
    low, high = every.amin(0), every.amax(0)
    present: Weights = (*(torch.tensor(each, dtype=torch.float32) for each in (IN, BIAS, OUT)),)  # type: ignore[assignment]
    bounds = torch.tensor(list(MEASURES.values())).T
    by_halves = [chooser(learn([each[half::2] for each in sets.values()]), low, high) for half in (0, 1)]
    print("| set | true number | present weights | learnt, other half | learnt, other sets |\n|---|---|---|---|---|")
    for name, pictures in sets.items():
        others = learn([each for other, each in sets.items() if other != name])
        figures = [
            mean_covering(pictures, lambda each: min(each.true, MOST) - 1),
            mean_covering(pictures, chooser(present, *bounds)),
            float(np.mean([mean_covering(pictures[1 - half :: 2], by_halves[half]) for half in (0, 1)])),
            mean_covering(pictures, chooser(others, low, high)),
        ]
        print(f"| {name} | " + " | ".join(f"{value:.3f}" for value in figures) + " |", flush=True)
    for name, values in zip(("IN", "BIAS", "OUT"), learn(list(sets.values())), strict=True):
        print(name, np.round(values.double().numpy(), 3).tolist())
    for name, a, b in zip(MEASURES, low.tolist(), high.tolist(), strict=True):
        print(f'"{name}": ({a:.3f}, {b:.3f}),')


if __name__ == "__main__":
    main()
