"""Compare ways to train by four-fold cross-validation on RWTSD; all folds of all variants are trained at once.

    python studies/cross_validate.py --rwtsd DIR --multi-region DIR --brodatz DIR --variants RS,RSB,QSB --out DIR

Prints a Markdown table: mean and standard deviation over the folds, each with a seed of its own, of the covering by
k-means, by a normalised cut and with the true regions' means, of descriptors of the whole image on the grid of blocks.
It is measured on the fold that a network has not seen, on the multi-region set's validation split, on mosaics of unseen
Brodatz textures and, with `--bsds`, on BSDS500's validation split. Gains are over the first variant, image by image.
DIR gets ``VARIANT.FOLD.safetensors``, the models, and ``VARIANT.npz``, the descriptors for `choose.py`. Variants of one
architecture are trained together; memory grows with their number.
"""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from clusterings import METHODS, coverings
from sources import Folders, fill_parts, measured_corpora, statistics, whole_blocks
from stacked import Stack
from torch import Tensor
from tqdm import tqdm
from variants import FOLDS, PAIRED, VARIANTS

from shapetailor import STDNN
from shapetailor.io.files import atomic
from shapetailor.network.checkpoint import save_model
from shapetailor.training.loop import learning_rate
from shapetailor.training.sample_bank import Blocks
from shapetailor.training.train import recipe

#: Of each set, the folds' coverings of each image by each of METHODS.
Scores = dict[str, list[np.ndarray]]


class Model(NamedTuple):
    """One of the networks to train: a variant's name, and the fold that it does not see."""

    variant: str
    fold: int


def initial_stack(models: list[Model], bank: dict[str, Blocks], seed: int) -> Stack:
    """Return the networks before the first step; each has the seed of its fold and the statistics of its data."""
    nets = []
    for variant, fold in models:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + fold)
            net = STDNN(VARIANTS[variant].config)
        mean, std = statistics(bank, VARIANTS[variant].mix(fold))
        net.set_statistics(mean.cpu(), std.cpu())
        nets.append(net)
    return Stack(nets)


def train(stack: Stack, models: list[Model], bank: dict[str, Blocks], steps: int, batch: int, seed: int) -> None:
    """Take the steps of all networks; what a network learns depends on no other in the stack."""
    config = recipe("texture", steps=steps)
    optimizer = torch.optim.AdamW(stack.parameters(), weight_decay=config.weight_decay)
    mixes = [VARIANTS[variant].mix(fold) for variant, fold in models]
    draws = [np.random.default_rng([7, seed, model.fold]) for model in models]
    for step in (bar := tqdm(range(steps), desc=f"training {len(models)} networks")):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config.learning_rate, steps, step)
        drawn = [draw(bank, mix, batch, rng) for mix, rng in zip(mixes, draws, strict=True)]
        channels, regions, truths = (torch.cat(each) for each in zip(*drawn, strict=True))
        blocks = truths[0].numel()
        places = torch.from_numpy(np.random.default_rng([8, seed, step]).integers(blocks, size=PAIRED))
        loss = total_loss(stack.embed(channels, regions), truths, models, places.to(truths.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            bar.set_postfix(loss=f"{float(loss.detach()) / len(models):.3f}")


def draw(bank: dict[str, Blocks], mix: dict[str, float], batch: int, rng: np.random.Generator) -> Blocks:
    """Return a batch of a network: for each sample a part by its weight, and of it any sample."""
    weights = np.array(list(mix.values()))
    counts = rng.multinomial(batch, weights / weights.sum())
    drawn = [
        bank[part].take(torch.from_numpy(rng.integers(len(bank[part].channels), size=count)))
        for part, count in zip(mix, counts, strict=True)
    ]
    return Blocks(*(torch.cat(each) for each in zip(*drawn, strict=True)))


def total_loss(descriptors: Tensor, truths: Tensor, models: list[Model], places: Tensor) -> Tensor:
    """Return the sum of the networks' mean losses; neighbours of one variant are computed together."""
    total, first, batch = descriptors.new_zeros(()), 0, len(truths) // len(models)
    for variant, group in groupby(models, key=lambda model: model.variant):
        count = len(list(group))
        own = slice(first * batch, (first + count) * batch)
        total = total + count * VARIANTS[variant].loss(descriptors[own], truths[own], places)
        first += count
    return total


def measure(stack: Stack, models: list[Model], name: str, blocks: Blocks) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return each network's coverings of one set, and the descriptors to keep of it: (n, D, h, w) of int8.

    Networks are measured on the images of their held-out fold of RWTSD, and on all images of another set. Kept are
    those of image i by the network of fold ``i % FOLDS``, in 127ths.
    """
    descriptors, truths = stack.describe(blocks), blocks.truths.cpu()
    scores, kept = [], []
    for number, (_, fold) in enumerate(tqdm(models, desc=f"measuring on {name}")):
        own = slice(fold, None, FOLDS)
        judged = own if name == "rwtsd" else slice(None)
        found = coverings(descriptors[number, judged].to(stack.mean.device), truths[judged])
        scores.append(found)
        kept.append((127 * descriptors[number, own].float()).round().to(torch.int8).numpy())
    return scores, kept


def measure_all(stack: Stack, models: list[Model], tests: dict[str, Blocks], out: Path) -> dict[str, Scores]:
    """Return each variant's scores, set by set and fold by fold; write ``VARIANT.npz``."""
    scores: dict[str, Scores] = {variant: {} for variant, _ in models}
    arrays: dict[str, dict[str, np.ndarray]] = {variant: {} for variant, _ in models}
    for name, blocks in tests.items():
        truths = blocks.truths.cpu().numpy().astype(np.int16)
        for (variant, fold), found, kept in zip(models, *measure(stack, models, name, blocks), strict=True):
            scores[variant].setdefault(name, []).append(found)
            whole = arrays[variant].setdefault(name, np.zeros((len(truths), *kept.shape[1:]), np.int8))
            whole[fold::FOLDS] = kept
            arrays[variant][f"{name}_truth"] = truths
    for variant, each in arrays.items():
        with atomic(out / f"{variant}.npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **each)
    return scores


def print_table(scores: dict[str, Scores]) -> None:
    """Print a row for each variant and set; gains are over the first variant, with standard errors over images."""
    print(f"| variant | data | {' | '.join(METHODS)} | gain, {' | gain, '.join(METHODS)} |")
    print(f"|---|---|{2 * len(METHODS) * '---|'}")
    first = next(iter(scores.values()))
    for variant, sets in scores.items():
        for name, folds in sets.items():
            means = np.array([fold.mean(axis=0) for fold in folds])
            gains = np.concatenate(folds) - np.concatenate(first[name])
            errors = gains.std(axis=0) / np.sqrt(len(gains))
            cells = [f"{m:.3f} ± {s:.3f}" for m, s in zip(means.mean(axis=0), means.std(axis=0, ddof=1), strict=True)]
            cells += [f"{gain:+.4f} ± {error:.4f}" for gain, error in zip(gains.mean(axis=0), errors, strict=True)]
            print(f"| {variant} | {name} | {' | '.join(cells)} |", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Train, measure, print."""
    args = _parser().parse_args(arguments)
    names = args.variants.split(",")
    unknown = sorted(set(names) - set(VARIANTS))
    if unknown:
        raise SystemExit(f"--variants must be among {', '.join(VARIANTS)}; got {', '.join(unknown)}")
    folders = Folders(args.rwtsd, args.multi_region, args.brodatz, args.bsds, args.textures, args.mosaics)
    args.out.mkdir(parents=True, exist_ok=True)
    corpora = measured_corpora(folders, args.size)
    scores: dict[str, Scores] = {}
    energies = None
    for config in sorted(dict.fromkeys(VARIANTS[name].config for name in names), key=lambda c: c.energy_scales):
        models = [Model(name, fold) for name in names if VARIANTS[name].config == config for fold in range(FOLDS)]
        if config.energy_scales != energies:  # channels of f0 are the same for all variants of equal energies
            energies, reader = config.energy_scales, STDNN(config).to(args.device)
            same = [name for name in names if VARIANTS[name].config.energy_scales == energies]
            sources = dict.fromkeys(source for name in same for source in VARIANTS[name].sources)
            made = fill_parts(reader, sources, folders, args.size, args.samples, args.seed)
            bank = dict(tqdm(made, desc="making samples, parts"))
            tests = {name: whole_blocks(reader, corpus) for name, corpus in corpora.items()}
        stack = initial_stack(models, bank, args.seed).to(args.device)
        train(stack, models, bank, args.steps, args.batch, args.seed)
        for number, (name, fold) in enumerate(models):
            record = {"variant": name, "fold": fold, "steps": args.steps, "samples": args.samples, "seed": args.seed}
            save_model(args.out / f"{name}.{fold}.safetensors", stack.net(number), record)
        scores |= measure_all(stack, models, tests, args.out)
    print_table({name: scores[name] for name in names})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rwtsd", type=Path, required=True, help="the Real-World Texture Segmentation Dataset")
    parser.add_argument("--multi-region", type=Path, required=True, help="the synthetic multi-region set")
    parser.add_argument("--brodatz", type=Path, required=True, help="the folder of Brodatz textures")
    parser.add_argument("--bsds", type=Path, help="BSDS500's data, for RSBN and to measure on")
    parser.add_argument("--textures", type=Path, help="a folder of textures, by class, to train and to measure on")
    parser.add_argument("--variants", default="QSB", help=f"some of {','.join(VARIANTS)}")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=1000, help="augmented samples of each fold and of each set")
    parser.add_argument("--batch", type=int, default=16, help="samples of each network in a step")
    parser.add_argument(
        "--mosaics", type=int, default=240, help="of each folder of textures to train on; 100 are measured"
    )
    parser.add_argument("--size", type=int, default=256, help="images are resized to this many pixels a side")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, required=True, help="folder for models and descriptors")
    return parser


if __name__ == "__main__":
    main()
