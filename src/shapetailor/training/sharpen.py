"""Teach a trained network where regions end: train the second network of `levels`, as regions evolve.

The first network stays as it is. The second one learns, in dilated regions that are nearly right, which of two
neighbours a pixel belongs to, by the costs that the joint evolution compares: ``‖F_{R_i}(x) − a_i(x)‖²``, summed
over both networks.
Half-way the samples' regions are moved as the network itself would, so that it learns from its own mistakes.

>>> from shapetailor.sharpening import sharpen
>>> sharpen("model.safetensors", "my-textures", "sharper.safetensors")  # doctest: +SKIP
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from ..io.files import atomic
from ..loss import TEMPERATURE
from ..network.checkpoint import load_model, model_path, save_model
from ..network.stdnn import STDNN, STDNNConfig
from ..segmentation.usage import Usage
from .augmentation import Batches
from .boundary_samples import PairMaker, Pairs, deviation
from .corpus import Corpus, Data, data_name, read_corpus
from .progress import counter
from .run_state import probe, require_same_run, save_state, starting_state, state_path
from .train import check_settings, learning_rate, recipe

SHARP = Usage.usual(4, True).near

#: A side of a boundary with fewer blocks than this weighs less.
FEW = 30
#: Share of the samples whose regions the network itself moves, half-way.
MOVED_SHARE = 0.6
#: Of the held-out images, samples that the log judges.
HELD_OUT = 48

#: The second network: as the first one's recipe, on blocks of 2×2 pixels, with 26 thousand weights.
FINE = replace(
    recipe("texture").network,
    scales=(0.5, 3.0, 12.0, 50.0),
    widths=(48, 32, 16),
    alpha=(0.5, 2.0, 8.0),
    stride=2,
)


@dataclass(frozen=True)
class SharpenConfig:
    """All that it depends on besides model and data; kept in the model's file.

    Attributes
    ----------
    network : STDNNConfig
        The second network.
    size : int
        Images are resized to this many pixels a side.
    steps, batch : int
        Optimiser steps, and pairs of regions in each.
    samples : int
        Pairs made at the start, from which every batch is drawn.
    learning_rate, weight_decay : float
        Of AdamW, as in `TrainConfig`.
    most : int or None
        Images taken from each folder, at most.
    validation_share : float
        Of the images, held out. With the first training's data, seed and share these are the same images.
    save_every : int
        Steps between two states to resume from.
    seed : int
    """

    network: STDNNConfig = field(default=FINE)
    size: int = 256
    steps: int = 1200
    batch: int = 8
    samples: int = 1200
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    most: int | None = None
    validation_share: float = 0.15
    save_every: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(asdict(self), "size", "steps", "batch", "samples", "save_every")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON's types."""
        return {**asdict(self), "network": self.network.to_dict()}


def sharpen(
    model: str | os.PathLike[str],
    data: Data,
    out: str | os.PathLike[str],
    config: SharpenConfig | None = None,
    *,
    ignore: int | None = None,
    resume: bool = False,
    device: str | None = None,
    progress: bool = True,
) -> STDNN:
    """Add a second network to a trained one and write both to a file.

    Beside ``NAME.safetensors`` it writes ``NAME.log.jsonl``, and until it is done ``NAME.resume.safetensors``.

    Parameters
    ----------
    model : str or path
        A trained model. One that has a second network already gets a new one.
    data, ignore, resume, device, progress
        As for `training.train`.
    out : path
        The file to write.
    config : SharpenConfig, optional

    Returns
    -------
    STDNN
        The network, the second one in its `fine`, in evaluation mode.
    """
    config, out = config or SharpenConfig(), model_path(out)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    first, metadata = load_model(model)
    net = _with_fine(first, config)
    corpus = _colours(read_corpus(data, config.size, ignore, net.stride, config.most, config.seed), net.image_channels)
    run = {
        "sharpening": config.to_dict(),
        "sharpening_data": {"name": data_name(data), "fingerprint": corpus.fingerprint()},
        "first": {"training": metadata.get("training"), "data": metadata.get("data")},
    }
    if resume and out.exists() and not state_path(out).exists():
        found, kept = load_model(out)
        require_same_run(out, {key: kept.get(key) for key in run}, run)
        return found  # it had finished
    return _run(net.to(place), corpus.to(place), out, config, {**metadata, **run}, resume, progress)


def _with_fine(first: STDNN, config: SharpenConfig) -> STDNN:
    fitted = config.network.at_resolution(first.config.resolution)
    network = replace(fitted, image_channels=first.image_channels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        net = STDNN(replace(first.config, fine=network))
    own = {name: each for name, each in first.state_dict().items() if not name.startswith("fine.")}
    net.load_state_dict(own | {f"fine.{name}": each for name, each in _fine(net).state_dict().items()})
    return net


def _fine(net: STDNN) -> STDNN:
    assert net.fine is not None
    return net.fine


def _colours(corpus: Corpus, channels: int) -> Corpus:
    have = corpus.images.shape[1]
    if have not in (1, channels):
        raise ValueError(f"the data must have images of {channels} channels, as the model wants; got {have}")
    return replace(corpus, images=corpus.images.expand(-1, channels, -1, -1))


def _run(
    net: STDNN, corpus: Corpus, out: Path, config: SharpenConfig, run: dict[str, Any], resume: bool, progress: bool
) -> STDNN:
    fine = _fine(net.eval().requires_grad_(False)).requires_grad_(True)
    optimizer = torch.optim.AdamW(fine.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    probe(out, net)
    training, held_out = corpus.split(config.validation_share, config.seed)
    maker = PairMaker(net, fine, SHARP.reach, SHARP.locality, SHARP.rim)
    with counter("making samples", config.samples, progress) as count:
        pairs = maker.make(Batches(training, config.seed, perturb=False), config.samples, config.seed, count)
    judged = maker.make(
        Batches(held_out, config.seed, mosaics=False, perturb=False), min(HELD_OUT, config.samples), config.seed + 1
    )
    fine.set_statistics(*_statistics(pairs))
    state = starting_state(out, fine, optimizer, run, resume)
    half = config.steps // 2
    if state.step > half:
        pairs = _moved(maker, pairs, _copy(fine, state.best_weights))
    losses: list[Tensor] = []
    with counter("sharpening", config.steps, progress) as count:
        for step in range(state.step, config.steps):
            if step == half:
                state.best_weights = {name: each.detach().clone() for name, each in fine.state_dict().items()}
                pairs = _moved(maker, pairs, fine)
            losses.append(_step(fine, optimizer, pairs, step, config))
            if count:
                count(step + 1)
            if (step + 1) % config.save_every == 0 or step + 1 == config.steps:
                state.step = step + 1
                record = {"step": step + 1, "loss": float(torch.stack(losses).mean()), **judge(fine, judged)}
                losses.clear()
                state.records.append(record)
                with atomic(out.with_suffix(".log.jsonl")) as temporary:
                    temporary.write_text("".join(json.dumps(each) + "\n" for each in state.records))
                save_state(state_path(out), state, fine, optimizer, run)
    save_model(out, net, {**run, "sharpening_validation": {**state.records[-1], "images": list(held_out.names)}})
    state_path(out).unlink()
    return net.eval()


def _statistics(pairs: Pairs) -> tuple[Tensor, Tensor]:
    few = pairs.take(torch.arange(min(200, len(pairs.names)), device=pairs.names.device))
    values = few.channels.movedim(2, 0)[:, few.inside >= 0].double()
    return values.mean(dim=1), values.std(dim=1)


def _copy(fine: STDNN, weights: dict[str, Tensor]) -> STDNN:
    other = STDNN(fine.config).to(fine.mean.device)
    other.load_state_dict(weights)
    return other


def _moved(maker: PairMaker, pairs: Pairs, fine: STDNN) -> Pairs:
    """Move the regions of the first samples, as many as `MOVED_SHARE` says."""
    count = round(MOVED_SHARE * len(pairs.names))
    numbers = torch.arange(len(pairs.names), device=pairs.names.device)
    changed = maker.moved(pairs.take(numbers[:count]), lambda each: costs(fine, each))
    return Pairs(*(torch.cat(each) for each in zip(changed, pairs.take(numbers[count:]), strict=True)))


def _step(fine: STDNN, optimizer: Optimizer, pairs: Pairs, step: int, config: SharpenConfig) -> Tensor:
    rate = learning_rate(recipe(steps=config.steps, learning_rate=config.learning_rate), step)
    for group in optimizer.param_groups:
        group["lr"] = rate
    chosen = np.random.default_rng([10, config.seed, step]).integers(len(pairs.names), size=config.batch)
    batch = pairs.take(torch.from_numpy(chosen).to(pairs.names.device))
    loss = choice_loss(costs(fine, batch), batch.target)
    if not torch.isfinite(loss):
        raise ValueError(f"step {step + 1} failed, a lower learning_rate may help: the loss is {float(loss)}")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def costs(fine: STDNN, pairs: Pairs) -> Tensor:
    """Return what both networks together say against each of the two regions, (n, 2, h, h)."""
    descriptors = fine.embed(pairs.channels.flatten(0, 1).float(), pairs.inside.flatten(0, 1).long())
    own = pairs.own.flatten(0, 1)[:, None].float()
    against: Tensor = deviation(descriptors, own, SHARP.locality).unflatten(0, (-1, 2))
    return against + pairs.first.float()


def choice_loss(cost: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of choosing the cheaper of two regions, (n, 2, h, w), where the target, (n, h, w), is 0 or 1.

    Both sides of a boundary weigh the same.

    Examples
    --------
    >>> cost = torch.tensor([[[[0.0, 0.0]], [[0.0, 0.2]]]])
    >>> choice_loss(cost.repeat(1, 1, 1, 60), torch.tensor([[[0, -1]]]).repeat(1, 1, 60))
    tensor(0.3466)
    """
    surprise = F.softplus((2 * target - 1) * (cost[:, 1] - cost[:, 0]) / TEMPERATURE)
    sides = [
        (surprise * (target == side)).sum(dim=(1, 2)) / (target == side).sum(dim=(1, 2)).clamp_min(FEW)
        for side in (0, 1)
    ]
    return torch.stack(sides).mean()


@torch.no_grad()
def judge(fine: STDNN, pairs: Pairs) -> dict[str, float]:
    """Return the held-out samples' loss, and the share of contested blocks that go to the right region.

    Once by both networks, and once by the first alone.
    """
    losses, right = [], []
    for few in torch.arange(len(pairs.names), device=pairs.names.device).split(8):
        now = pairs.take(few)
        cost = costs(fine, now)
        losses.append(len(few) * choice_loss(cost, now.target))
        contested = now.target >= 0
        right.append(
            torch.stack([((c[:, 0] > c[:, 1]) == (now.target == 1))[contested].sum() for c in (cost, now.first)])
        )
    total = max(1, int((pairs.target >= 0).sum()))
    both, alone = (torch.stack(right).sum(dim=0).double() / total).tolist()
    loss = float(torch.stack(losses).sum()) / len(pairs.names)
    return {"validation_loss": loss, "right": both, "right_by_first": alone}
