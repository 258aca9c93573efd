"""Training, top to bottom: read the data, take the steps, keep the network that validates best (Alg. 1).

>>> from shapetailor.training import recipe, train
>>> train("my-textures", "model.safetensors", recipe("texture", steps=400))  # doctest: +SKIP
"""

import os
import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..loss import region_loss, separation_loss
from ..network.checkpoint import model_path, save_model
from ..network.stdnn import STDNN, STDNNConfig
from ..segmentation.usage import Usage
from .augmentation import Batches
from .corpus import Corpus, Data, data_name, read_corpus
from .distributed import Processes, joined
from .loop import Loop, Pace, draw_curves, progress_bar
from .run_state import finished, state_path
from .sample_bank import Blocks, corpus_blocks, draw, fill_bank
from .validation import clustered_covering


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
    usage : Usage, optional
        How the model will be used: pictures are read so. By default the usual way for the network.
    separation : bool
        Train by whitened scatter and assignment; else by the paper's `eq:loss`.
    size : int
        Images are resized to this many pixels a side.
    steps, batch : int
        Optimiser steps, and images in each.
    learning_rate, weight_decay : float
        Of AdamW; the rate rises for some steps and falls along a cosine to zero.
    mosaics, perturb : bool
        See `augmentation.Batches`.
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
    usage: Usage | None = None
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

    @property
    def model_usage(self) -> Usage:
        """How the model will be used."""
        return self.usage or Usage.usual(self.network.stride, two_networks=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON's types."""
        return {**asdict(self), "network": self.network.to_dict(), "usage": self.model_usage.to_dict()}


_TEXTURE = STDNNConfig(
    features="rich", premix=32, scales=(0.4, 1.5, 5.0, 20.0), widths=(96, 64, 32), alpha=(0.3, 1.2, 4.0),
    derivatives=True, head="unit", stride=4, resolution=256, tol=1e-3,
)  # fmt: skip
#: The named recipes. "paper" follows the paper: its network and loss, true regions, 32×32 pixels.
RECIPES = {
    "texture": TrainConfig(_TEXTURE),
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
    config, out = config or recipe(), model_path(out)
    with joined(device or ("cuda" if torch.cuda.is_available() else "cpu")) as processes:
        if config.batch < processes.count:
            raise ValueError(f"batch must be at least the {processes.count} processes, got {config.batch}")
        intensity = config.model_usage.intensity
        corpus = read_corpus(data, config.size, ignore, config.network.stride, config.most, config.seed, intensity)
        config = replace(config, network=replace(config.network, image_channels=corpus.images.shape[1]))
        run = {"training": config.to_dict(), "data": {"name": data_name(data), "fingerprint": corpus.fingerprint()}}
        done = finished(out, run, resume)
        if done is not None:
            return done.net
        training, held_out = (part.to(processes.device) for part in corpus.split(config.validation_share, config.seed))
        net = initial_network(config, training)
        pace = Pace(config.steps, config.learning_rate, config.validate_every, config.weight_decay)
        loop = Loop(net, pace, out, run, resume, processes, progress=progress)
        validation = validation_blocks(net, held_out, config, processes)
        bank = _bank(net, training, config, loop.shown)
        for step in loop:
            loop.take(partial(batch_loss, net, bank, step, config, processes))
            if loop.due:
                loss, covering = validate(net, validation, config, processes)
                loop.record({"validation_loss": loss, "covering": covering}, measure=covering)
        best = loop.state
        net.load_state_dict(best.best_weights)
        if processes.rank == 0:
            measured = {"covering": best.best, "step": best.best_step, "images": list(held_out.names)}
            save_model(out, net, {**run, "validation": measured}, config.model_usage.to_dict())
            note = draw_curves(out.with_suffix(".curves.png"), best.records)
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
        return Blocks.joined(corpus_blocks(net, training, config.batch, whole=False))
    batches = Batches(training, config.seed, config.mosaics, config.perturb)
    with progress_bar("making samples", config.samples, progress) as bar:
        return fill_bank(net, batches, config.samples, config.batch, bar.update)


def batch_loss(net: STDNN, bank: Blocks, step: int, config: TrainConfig, processes: Processes) -> Tensor:
    """Return this process's share of the mean loss of a step's batch."""
    share = processes.share(config.batch)
    channels, regions, truths = draw(bank, config.seed, step, config.batch, share)
    return mean_loss(net.embed(channels, regions), truths, config) * (len(share) / config.batch)


def mean_loss(descriptors: Tensor, truths: Tensor, config: TrainConfig) -> Tensor:
    """Return the images' mean loss, of the blocks that the network works on."""
    return (separation_loss if config.separation else region_loss)(descriptors, truths)


def validation_blocks(net: STDNN, validation: Corpus, config: TrainConfig, processes: Processes) -> list[Blocks]:
    """Return this process's share of the held-out images.

    As one region each; and in their true regions too, where the network is trained in these only.
    """
    mine = validation.take(list(processes.share(len(validation.names))))
    kinds = (True,) if config.perturb else (True, False)
    return [Blocks.joined(corpus_blocks(net, mine, config.batch, whole)) for whole in kinds if mine.names]


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
