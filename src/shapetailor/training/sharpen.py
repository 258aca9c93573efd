"""Teach a trained network where regions end: train the second network of `network.two_level`.

The first network stays as it is. The second one learns, in dilated regions that are nearly right, which of two
neighbours a pixel belongs to, by the costs that the joint evolution compares: ``‖F_{R_i}(x) − a_i(x)‖²``, summed
over both networks. Half-way the regions of some samples are moved as the network itself would.

>>> from shapetailor.training import sharpen
>>> sharpen("model.safetensors", "my-textures", "sharper.safetensors")  # doctest: +SKIP
"""

import os
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..evolution.config import EvolutionConfig
from ..loss import TEMPERATURE
from ..network.checkpoint import model_path, read_model, save_model
from ..network.device import usable_device
from ..network.stdnn import STDNN, STDNNConfig
from ..segmentation.usage import Usage
from .augmentation import Batches
from .boundary_samples import TOGETHER, PairMaker, Pairs, deviation
from .corpus import Data, data_name, read_corpus
from .loop import Loop, Pace, progress_bar
from .run_state import finished, state_path
from .train import check_settings, recipe

#: A side of a boundary with fewer blocks than this weighs less.
FEW = 30
#: Share of the samples whose regions the network itself moves, half-way.
MOVED_SHARE = 0.6
#: Of the held-out images, samples that the log judges.
HELD_OUT = 48

#: The second network: as the first one's recipe, on blocks of 2×2 pixels, with 26 thousand weights.
FINE = replace(
    recipe("texture").network, scales=(0.5, 3.0, 12.0, 50.0), widths=(48, 32, 16), alpha=(0.5, 2.0, 8.0), stride=2
)
#: How two networks are used.
USUAL = Usage.usual(4, two_networks=True)


@dataclass(frozen=True)
class SharpenConfig:
    """All that it depends on besides model and data; kept in the model's file.

    What is not described here is as in `TrainConfig`.

    Attributes
    ----------
    network : STDNNConfig
        The second network.
    near, far : EvolutionConfig
        How regions will move by both networks, see `Usage`. The second one is trained for `near`.
    batch, samples : int
        Pairs of regions in a step; pairs made at the start, from which every batch is drawn.
    validation_share : float
        Of the images, held out. With the first training's data, seed and share these are the same images.
    save_every : int
        Steps between two states to resume from.
    """

    network: STDNNConfig = FINE
    near: EvolutionConfig = USUAL.near
    far: EvolutionConfig = USUAL.far
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
        return {**asdict(self), **{name: getattr(self, name).to_dict() for name in ("network", "near", "far")}}


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
    data, out, ignore, resume, device, progress
        As for `train`.
    config : SharpenConfig, optional

    Returns
    -------
    STDNN
        The network, the second one in its `fine`, in evaluation mode.
    """
    config, out = config or SharpenConfig(), model_path(out)
    place = usable_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    first, said, metadata = read_model(model)
    usage = Usage.from_dict(said) if said else Usage.usual(first.stride, two_networks=False)
    usage = replace(usage, near=config.near, far=config.far)
    corpus = read_corpus(data, config.size, ignore, first.stride, config.most, config.seed, usage.intensity)
    have, channels = corpus.images.shape[1], first.image_channels
    if have not in (1, channels):
        raise ValueError(f"the data must have images of {channels} channels, as the model wants; got {have}")
    corpus = replace(corpus, images=corpus.images.expand(-1, channels, -1, -1)).to(place)
    run = {
        "sharpening": config.to_dict(),
        "sharpening_data": {"name": data_name(data), "fingerprint": corpus.fingerprint()},
        "first": {"training": metadata.get("training"), "data": metadata.get("data"), "positions": usage.positions},
    }
    done = finished(out, run, resume)
    if done is not None:
        return done.net
    net, fine = _with_fine(first, config, place)
    pace = Pace(config.steps, config.learning_rate, config.save_every, config.weight_decay)
    loop = Loop(fine, pace, out, {**metadata, **run}, resume, title="sharpen", progress=progress)
    training, held_out = corpus.split(config.validation_share, config.seed)
    maker = PairMaker(net, fine, config.near, usage.positions)
    with progress_bar("making samples", config.samples, progress) as bar:
        batches = Batches(training, config.seed, perturb=False)
        pairs = maker.make(batches, config.samples, config.seed, bar.update)
    batches = Batches(held_out, config.seed, mosaics=False, perturb=False)
    judged = maker.make(batches, min(HELD_OUT, config.samples), config.seed + 1)
    few = pairs.take(slice(200))
    values = few.channels.movedim(2, 0)[:, few.inside >= 0].double()
    fine.set_statistics(values.mean(dim=1), values.std(dim=1))
    half = config.steps // 2
    if loop.state.step > half:
        halfway = STDNN(fine.config).to(place)
        halfway.load_state_dict(loop.state.best_weights)
        pairs = _moved(maker, pairs, halfway)
    for step in loop:
        if step == half:
            loop.state.keep(fine)  # to move the same regions again when resumed
            pairs = _moved(maker, pairs, fine)
        loop.take(partial(batch_loss, fine, pairs, step, config))
        if loop.due:
            loop.record(judge(fine, judged, config.near.locality))
    measured = {name: value for name, value in loop.state.records[-1].items() if name != "seconds"}
    measured["images"] = list(held_out.names)
    save_model(out, net, {**metadata, **run, "sharpening_validation": measured}, usage.to_dict())
    state_path(out).unlink()
    return net.eval()


def _with_fine(first: STDNN, config: SharpenConfig, place: torch.device) -> tuple[STDNN, STDNN]:
    """Return the first network, frozen, with a new second one, and the second one itself."""
    fitted = replace(config.network.at_resolution(first.config.resolution), image_channels=first.image_channels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        net = STDNN(replace(first.config, fine=fitted))
    own = {name: each for name, each in first.state_dict().items() if not name.startswith("fine.")}
    net.load_state_dict({**net.state_dict(), **own})
    net.to(place).eval().requires_grad_(False)
    assert net.fine is not None
    return net, net.fine.requires_grad_(True)


@torch.no_grad()
def _moved(maker: PairMaker, pairs: Pairs, fine: STDNN) -> Pairs:
    """Move the regions of the first samples, as many as `MOVED_SHARE` says."""
    count = round(MOVED_SHARE * len(pairs.names))
    some = pairs.take(slice(count))
    found = torch.cat([costs(fine, few, maker.evolution.locality) for few in some.split(TOGETHER)])
    return Pairs.joined([maker.moved(some, found), pairs.take(slice(count, None))])


def batch_loss(fine: STDNN, pairs: Pairs, step: int, config: SharpenConfig) -> Tensor:
    """Return the loss of a step's batch."""
    chosen = np.random.default_rng([10, config.seed, step]).integers(len(pairs.names), size=config.batch)
    batch = pairs.take(torch.from_numpy(chosen).to(pairs.names.device))
    return choice_loss(costs(fine, batch, config.near.locality), batch.target)


def costs(fine: STDNN, pairs: Pairs, locality: float) -> Tensor:
    """Return the costs ‖F − a_i‖² of both networks together for each of the two regions, (n, 2, h, h)."""
    descriptors = fine.embed(pairs.channels.flatten(0, 1).float(), pairs.inside.flatten(0, 1).long())
    own = pairs.own.flatten(0, 1)[:, None].float()
    against: Tensor = deviation(descriptors, own, locality).unflatten(0, (-1, 2))
    return against + pairs.first.float()


def choice_loss(cost: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of choosing the cheaper of two regions, (n, 2, h, w), where the target, (n, h, w), is 0 or 1.

    Both sides of a boundary weigh the same.

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
def judge(fine: STDNN, pairs: Pairs, locality: float) -> dict[str, float]:
    """Return the loss of samples, and the share of contested blocks that both networks, and the first, get right."""
    cost = torch.cat([costs(fine, few, locality) for few in pairs.split(TOGETHER)])
    contested, second = pairs.target >= 0, pairs.target == 1
    right = [((each[:, 0] > each[:, 1]) == second)[contested].sum() for each in (cost, pairs.first)]
    both, alone = (int(each) / max(1, int(contested.sum())) for each in right)
    return {"validation_loss": float(choice_loss(cost, pairs.target)), "right": both, "right_by_first": alone}
