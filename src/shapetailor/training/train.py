"""Training, top to bottom: read the data, take the steps, keep the network that validates best (Alg. 1).

>>> from shapetailor.training import recipe, train
>>> train("my-textures", "model.safetensors", recipe("texture", steps=400))  # doctest: +SKIP
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass, replace
from math import cos, pi
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ..loss import region_loss, separation_loss
from ..network.checkpoint import load_model, model_path, save_model
from ..network.stdnn import STDNN, STDNNConfig
from .augmentation import Batches
from .corpus import Corpus, Data, data_name, read_corpus
from .distributed import Processes, joined
from .progress import Monitor, counter, draw_curves
from .run_state import probe, require_same_run, save_state, starting_state, state_path
from .sample_bank import Blocks, corpus_blocks, draw, fill_bank
from .validation import clustered_covering

WARM_UP = 20  # steps


def check_settings(settings: dict[str, Any], *counts: str) -> None:
    """Raise a ValueError unless a training's settings make sense; `counts` names those that are at least 1."""
    for name in counts:
        if settings[name] < 1:
            raise ValueError(f"{name} must be at least 1, got {settings[name]}")
    if settings["seed"] < 0:
        raise ValueError(f"seed must not be negative, got {settings['seed']}")
    if not 0 < settings["validation_share"] < 1:
        raise ValueError(f"validation_share must be between 0 and 1, got {settings['validation_share']}")


@dataclass(frozen=True)
class TrainConfig:
    """All that a training depends on besides its data; kept in the model's file.

    Attributes
    ----------
    network : STDNNConfig
    separation : bool
        Train by whitened scatter and assignment; else by the paper's `eq:loss`.
    size : int
        Images are resized to this many pixels a side.
    steps, batch : int
        Optimiser steps, and images in each.
    learning_rate, weight_decay : float
        Of AdamW; the rate rises for some steps and falls along a cosine to zero.
    mosaics, perturb : bool
        See `augment.Batches`.
    most : int or None
        Images taken from each folder, at most.
    samples : int
        Augmented samples made at the start, from which every batch is drawn.
    validation_share : float
        Of the images, held out to choose the best step.
    validate_every : int
        Steps between two validations, each of which also saves the state to resume from.
    seed : int
    """

    network: STDNNConfig
    separation: bool = True
    size: int = 256
    steps: int = 1000
    batch: int = 16
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    mosaics: bool = True
    perturb: bool = True
    most: int | None = None
    samples: int = 2500
    validation_share: float = 0.15
    validate_every: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(asdict(self), "size", "steps", "batch", "samples", "validate_every")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON's types."""
        return {**asdict(self), "network": self.network.to_dict()}


#: The named recipes. "paper" follows the paper: its network and loss, true regions, 32×32 pixels.
RECIPES = {
    "texture": TrainConfig(
        STDNNConfig(
            features="rich",
            premix=32,
            scales=(0.4, 1.5, 5.0, 20.0),
            widths=(96, 64, 32),
            alpha=(0.3, 1.2, 4.0),
            derivatives=True,
            head="unit",
            stride=4,
            resolution=256,
            tol=1e-3,
        )
    ),
    "paper": TrainConfig(STDNNConfig(), separation=False, size=32, mosaics=False, perturb=False),
}


def recipe(name: str = "texture", **changes: Any) -> TrainConfig:
    """Return a named recipe, some of its settings changed."""
    if name not in RECIPES:
        raise ValueError(f"recipe must be one of {', '.join(RECIPES)}, got {name!r}")
    return replace(RECIPES[name], **changes)


def train(
    data: Data,
    out: str | os.PathLike[str],
    config: TrainConfig | None = None,
    *,
    ignore: int | None = None,
    resume: bool = False,
    device: str | None = None,
    progress: bool = True,
) -> STDNN:
    """Train a network on a folder of images and masks, and write it to a file.

    Beside ``NAME.safetensors`` it writes ``NAME.log.jsonl``, at the end ``NAME.curves.png``, and until then
    ``NAME.resume.safetensors``, from which a stopped run goes on. Under `torchrun` the processes share each batch.

    Parameters
    ----------
    data : path, list of paths, or dataset
        A folder with `images/` and `masks/`, several of them, or any sized collection of `Sample`.
    out : path
        The model's file, ``NAME.safetensors``.
    config : TrainConfig, optional
        By default ``recipe("texture")``.
    ignore : int, optional
        The masks' value for pixels in no region.
    resume : bool
        Go on with the run that was stopped, if there is one. On one machine the weights are, bit for bit, those of
        a run that was never stopped.
    device : str, optional
        "cpu", "cuda" or another of torch's; by default a GPU if there is one.
    progress : bool
        Show a progress bar on stderr.

    Returns
    -------
    STDNN
        The network that validated best, in evaluation mode.

    Raises
    ------
    ValueError
        Before the first step, naming everything that is wrong with the data.
    OSError
        Before the first step, where the folder of `out` is full or cannot be written to.
    """
    config = config or recipe()
    out = model_path(out)
    with joined(device or ("cuda" if torch.cuda.is_available() else "cpu")) as processes:
        if config.batch < processes.count:
            raise ValueError(f"batch must be at least the {processes.count} processes, got {config.batch}")
        corpus = read_corpus(data, config.size, ignore, config.network.stride, config.most, config.seed)
        config = replace(config, network=replace(config.network, image_channels=corpus.images.shape[1]))
        run = {"training": config.to_dict(), "data": {"name": data_name(data), "fingerprint": corpus.fingerprint()}}
        if resume and out.exists() and not state_path(out).exists():
            net, metadata = load_model(out)
            require_same_run(out, {key: metadata.get(key) for key in run}, run)
            return net  # it had finished
        return _run(corpus, out, config, run, resume, processes, progress and processes.rank == 0)


def _run(
    corpus: Corpus,
    out: Path,
    config: TrainConfig,
    run: dict[str, Any],
    resume: bool,
    processes: Processes,
    progress: bool,
) -> STDNN:
    first = processes.rank == 0  # the process that writes
    training, validation = (part.to(processes.device) for part in corpus.split(config.validation_share, config.seed))
    net = initial_network(config, training)
    optimizer = torch.optim.AdamW(net.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    if first:
        probe(out, net)
    state = starting_state(out, net, optimizer, run, resume)
    processes.wait()  # no state is written before all have read the last one
    held_out = validation_blocks(net, validation, config, processes)
    bank = _bank(net, training, config, progress)
    with Monitor(out.with_suffix(".log.jsonl"), state.records, config.steps, first, progress) as monitor:
        losses: list[Tensor] = []
        for step in range(state.step, config.steps):
            losses.append(take_step(net, optimizer, bank, step, config, processes))
            monitor.advance(step + 1)
            if (step + 1) % config.validate_every == 0 or step + 1 == config.steps:
                validation_loss, covering = validate(net, held_out, config, processes)
                state.advance(step + 1, covering, net)
                monitor.add(step + 1, float(torch.stack(losses).mean()), validation_loss, covering)
                losses.clear()
                if first:
                    save_state(state_path(out), state, net, optimizer, run)
    net.load_state_dict(state.best_weights)
    if first:
        measured = {"covering": state.best, "step": state.best_step, "images": list(validation.names)}
        save_model(out, net, {**run, "validation": measured})
        note = draw_curves(out.with_suffix(".curves.png"), state.records)
        if note and progress:
            print(note, file=sys.stderr)
        state_path(out).unlink()
    return net.eval()


def initial_network(config: TrainConfig, training: Corpus) -> STDNN:
    """Return the network before the first step: seeded weights, and the statistics of the training images."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        net = STDNN(config.network).to(training.images.device)
    chunks = zip(training.images.split(config.batch), training.truths.split(config.batch), strict=True)
    net.fit_statistics((net.prepare(images), truths) for images, truths in chunks)
    return net


def _bank(net: STDNN, training: Corpus, config: TrainConfig, progress: bool) -> Blocks:
    """Make the samples; without augmentation they are the training images, once each."""
    if not (config.mosaics or config.perturb):
        parts = corpus_blocks(net, training, config.batch, whole=False)
        return Blocks(*(torch.cat(each) for each in zip(*parts, strict=True)))
    batches = Batches(training, config.seed, config.mosaics, config.perturb)
    with counter("making samples", config.samples, progress) as count:
        return fill_bank(net, batches, config.samples, config.batch, count)


def take_step(
    net: STDNN, optimizer: Optimizer, bank: Blocks, step: int, config: TrainConfig, processes: Processes
) -> Tensor:
    """Take step number `step`, from 0; return the batch's mean loss before it."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(config, step)
    try:
        loss = batch_gradients(net, bank, step, config, processes)
        if not torch.isfinite(loss):
            raise ValueError(f"the loss is {float(loss)}")
    except ValueError as error:  # the solver refuses data that is not finite
        raise ValueError(f"step {step + 1} failed, a lower learning_rate may help: {error}") from error
    optimizer.step()
    return loss


def learning_rate(config: TrainConfig, step: int) -> float:
    """Return the rate of a step: up in a line, then down along half a cosine."""
    warm_up = min(WARM_UP, config.steps // 10)
    rise = min(1.0, (step + 1) / (warm_up + 1))
    return config.learning_rate * rise * (1 + cos(pi * step / config.steps)) / 2


def batch_gradients(net: STDNN, bank: Blocks, step: int, config: TrainConfig, processes: Processes) -> Tensor:
    """Give the parameters the gradient of the whole batch's mean loss; return that loss, detached."""
    share = processes.share(config.batch)
    net.zero_grad()
    channels, regions, truths = draw(bank, config.seed, step, config.batch, share)
    weighted = mean_loss(net.embed(channels, regions), truths, config) * (len(share) / config.batch)
    weighted.backward()
    processes.sum_gradients(net.parameters())
    return processes.sum(weighted.detach())


def mean_loss(descriptors: Tensor, truths: Tensor, config: TrainConfig) -> Tensor:
    """Return the images' mean loss, of the blocks that the network works on."""
    if not config.separation:
        return region_loss(descriptors, truths)
    return separation_loss(descriptors, truths)


def validation_blocks(net: STDNN, validation: Corpus, config: TrainConfig, processes: Processes) -> list[Blocks]:
    """Return this process's share of the held-out images.

    As one region each; and in their true regions too, where the network is trained in these only.
    """
    mine = validation.take(list(processes.share(len(validation.names))))
    kinds = (True,) if config.perturb else (True, False)
    return [
        Blocks(*(torch.cat(each) for each in zip(*corpus_blocks(net, mine, config.batch, whole), strict=True)))
        for whole in kinds
        if mine.names
    ]


@torch.no_grad()
def validate(net: STDNN, held_out: list[Blocks], config: TrainConfig, processes: Processes) -> tuple[float, float]:
    """Return mean loss and mean covering of the held-out images.

    Covering is of clustered descriptors that know no region (`clustered_covering`): it is what the segmentation of a
    new image starts from. The loss is of the same descriptors, or of those in the true regions where the network is
    trained in these only.
    """
    sums = torch.zeros(3, dtype=torch.float64, device=processes.device)
    for kind, blocks in enumerate(held_out):
        for numbers in torch.arange(len(blocks.channels)).split(config.batch):
            channels, regions, truths = blocks.take(numbers)
            descriptors = net.embed(channels, regions)
            if kind == 0:
                sums[1] += sum(clustered_covering(*each) for each in zip(descriptors, truths, strict=True))
                sums[2] += len(numbers)
            if kind == len(held_out) - 1:
                sums[0] += len(numbers) * mean_loss(descriptors, truths, config)
    loss, covering, images = processes.sum(sums).tolist()
    return loss / images, covering / images
