"""FCN-ResNet101 and DeepLab-v3, trained by cross-entropy and by our loss.

"Our loss" is that of the ST-DNN beside them (`loss.separation_loss`), on descriptors of the same dimension and of unit
length, so that a comparison is one of networks and not of losses.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import pi
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional as F

from ..datasets import Sample
from ..evolution.config import EvolutionConfig
from ..loss import separation_loss
from ..training.corpus import Corpus, read_corpus
from ..training.loop import Loop, Pace
from ..training.run_state import require_same_run
from ..training.train import recipe
from .cnn import CNN, load_cnn, load_pretrained, pretrained_file, save_cnn
from .method import Baseline, DescriptorMethod, FitSettings, Method, count_parameters
from .vision import missing

Loss = Literal["ce", "loss"]

#: The paper augments by 8 rotations and 5 scales; which scales, it does not say.
ROTATIONS = 8
SCALES = (0.7, 0.85, 1.0, 1.2, 1.4)
#: Most classes of the cross-entropy; of an image with more regions the largest count.
MOST_CLASSES = 20
#: Dimension of the descriptors that are trained by our loss.
DIMENSION = recipe("texture").network.dimension


@dataclass(frozen=True)
class Schedule:
    """How long a network is trained, and on what: images of `size` pixels a side, `batch` of them a step."""

    size: int
    steps: int
    batch: int
    learning_rate: float = 3e-4


FULL = Schedule(size=256, steps=2000, batch=8)
QUICK = Schedule(size=64, steps=2, batch=2)


def train_cnn(net: CNN, corpus: Corpus, loss: Loss, schedule: Schedule, seed: int, device: str, progress: bool) -> None:
    """Train a network in place on images of the schedule's size; gray ones are repeated to three channels.

    The loss is `matched_cross_entropy` of the logits, or of the descriptors the loss that our ST-DNN is trained by.
    The seed is of batches, augmentation and dropout.
    """
    rng = np.random.default_rng([7, seed])
    place = torch.device(device)
    net.to(place).train()
    corpus = corpus.to(place)
    pace = Pace(schedule.steps, schedule.learning_rate, every=100, warm_up=0)
    loop = Loop(net, pace, title=f"{net.architecture}, {loss}", progress=progress)
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(seed)  # dropout
        for _ in loop:
            batch = corpus.take(rng.integers(len(corpus.names), size=schedule.batch).tolist())
            pictures = turned_and_scaled(batch.images.expand(-1, 3, -1, -1), batch.truths, rng)
            loop.take(partial(_loss, net, *pictures, loss))
            if loop.due:
                loop.record({})
    net.eval()


def _loss(net: CNN, images: Tensor, truths: Tensor, loss: Loss) -> Tensor:
    # Half precision on a GPU trains as well, several times faster; the loss itself is computed in single precision.
    with torch.autocast(images.device.type, torch.bfloat16, enabled=images.is_cuda):
        logits = net.logits(net.prepare(images)).float()
    return matched_cross_entropy(logits, truths) if loss == "ce" else separation_loss(net.bounded(logits), truths)


def matched_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy against regions whose names mean nothing.

    Textures have no classes. Each image's regions are named anew, by the one-to-one assignment of regions to classes
    that has the least cross-entropy. Every region of an image weighs the same, as in `eq:loss`. Pixels with negative
    labels do not count; an image has at most as many regions as there are classes.

    >>> logits = torch.tensor([[[[9.0, 0.0]], [[0.0, 9.0]]]])
    >>> first, second = torch.tensor([[[0, 1]]]), torch.tensor([[[1, 0]]])
    >>> bool(matched_cross_entropy(logits, first) == matched_cross_entropy(logits, second))
    True
    """
    losses = []
    for surprise, regions in zip(-logits.log_softmax(dim=1), labels, strict=True):
        names = regions[regions >= 0].unique()
        if len(names):
            cost = torch.stack([surprise[:, regions == name].mean(dim=1) for name in names])
            matched = linear_sum_assignment(cost.detach().cpu().numpy())
            losses.append(cost[matched].mean())
    return torch.stack(losses).mean() if losses else logits.sum() * 0


def largest_regions(truths: Tensor, most: int) -> Tensor:
    """Keep the `most` largest regions of each of (N, H, W) label maps; pixels of the others become -1."""
    kept = truths.clone()
    for labels in kept:
        names, areas = labels[labels >= 0].unique(return_counts=True)
        small = names[areas.argsort(descending=True, stable=True)[most:]]
        labels[torch.isin(labels, small)] = -1
    return kept


def turned_and_scaled(images: Tensor, truths: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Turn and scale each picture (B, C, S, S) with its regions (B, S, S), mirrored where it ends."""
    angle = rng.integers(ROTATIONS, size=len(images)) * (2 * pi / ROTATIONS)
    scale = rng.choice(SCALES, size=len(images))
    rows = [[np.cos(angle), -np.sin(angle), 0 * angle], [np.sin(angle), np.cos(angle), 0 * angle]]
    moves = torch.as_tensor(np.stack(rows).transpose(2, 0, 1) / scale[:, None, None], dtype=images.dtype)
    grid = F.affine_grid(moves.to(images.device), list(images.shape), align_corners=False)
    turned = F.grid_sample(images, grid, "bilinear", "reflection", align_corners=False)
    labels = F.grid_sample(truths[:, None].to(images.dtype), grid, "nearest", "reflection", align_corners=False)
    return turned, labels[:, 0].round().to(truths.dtype)


@dataclass(frozen=True)
class Kind:
    """One of the four networks: its name on the command line and in tables, torchvision's name, and the loss."""

    name: str
    title: str
    architecture: str
    loss: Loss


KINDS = (
    Kind("fcn-ce", "FCN-ResNet101, cross-entropy", "fcn_resnet101", "ce"),
    Kind("fcn-loss", "FCN-ResNet101, our loss", "fcn_resnet101", "loss"),
    Kind("deeplab-ce", "DeepLab-v3, cross-entropy", "deeplabv3_resnet101", "ce"),
    Kind("deeplab-loss", "DeepLab-v3, our loss", "deeplabv3_resnet101", "loss"),
)


def _fit(kind: Kind, samples: Sequence[Sample], folder: Path, settings: FitSettings) -> Method:
    """Train, or read what was trained; the title says what the weights started from."""
    schedule = QUICK if settings.quick else FULL
    corpus = read_corpus(list(samples), schedule.size)
    if corpus.images.shape[1] not in (1, 3):
        got = f"got {corpus.images.shape[1]} channels"
        raise ValueError(f"samples must be gray or have 3 colours for {kind.title}, {got}")
    weights = pretrained_file(kind.architecture, settings.weights)
    origin = f"from {weights.stem}" if weights else "from scratch"
    classes = min(MOST_CLASSES, int(corpus.truths.max()) + 1)
    dimension = classes if kind.loss == "ce" else DIMENSION
    run: dict[str, Any] = {"loss": kind.loss, "dimension": dimension, "origin": origin, "seed": settings.seed}
    run |= {"schedule": asdict(schedule), "data": corpus.fingerprint()}
    net = _network(kind, corpus, folder / f"{kind.name}.safetensors", weights, run, settings)
    fixed = replace(settings.evolution or EvolutionConfig(), tailored=False)
    title = f"{kind.title}, {origin}"
    return DescriptorMethod(title, count_parameters(net), lambda channels: net, replace(settings, evolution=fixed))


def _network(
    kind: Kind, corpus: Corpus, file: Path, weights: Path | None, run: dict[str, Any], settings: FitSettings
) -> CNN:
    if file.exists():
        net, before = load_cnn(file)
        require_same_run(file, before, run)
        return net
    file.parent.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        net = CNN(kind.architecture, run["dimension"], "softmax" if kind.loss == "ce" else "unit")
    if weights:
        load_pretrained(net, weights)
    if kind.loss == "ce":
        corpus = replace(corpus, truths=largest_regions(corpus.truths, run["dimension"]))
    schedule = QUICK if settings.quick else FULL
    train_cnn(net, corpus, kind.loss, schedule, settings.seed, settings.device, settings.progress)
    save_cnn(file, net, run)
    return net


BASELINES = tuple(Baseline(kind.name, kind.title, True, partial(_fit, kind), missing) for kind in KINDS)
