"""FCN-ResNet101 and DeepLab-v3, trained by cross-entropy and by our loss.

"Our loss" is that of the ST-DNN beside them (`loss.separation_loss`), on descriptors of the same dimension and of unit
length, so that a comparison is one of networks and not of losses.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..datasets import Sample
from ..evolution.config import EvolutionConfig
from ..training.corpus import Corpus, read_corpus
from ..training.run_state import require_same_run
from ..training.train import recipe
from .cnn import CNN, load_cnn, load_pretrained, pretrained_file, save_cnn
from .cnn_training import FULL, QUICK, Loss, largest_regions, train_cnn
from .method import Baseline, DescriptorMethod, FitSettings, Method, count_parameters
from .vision import missing

#: Most classes of the cross-entropy; of an image with more regions the largest count.
MOST_CLASSES = 20
#: Dimension of the descriptors that are trained by our loss.
DIMENSION = recipe("texture").network.dimension


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
        raise ValueError(
            f"samples must be gray or have 3 colours for {kind.title}, got {corpus.images.shape[1]} channels"
        )
    weights = pretrained_file(kind.architecture, settings.weights)
    origin = f"from {weights.stem}" if weights else "from scratch"
    classes = min(MOST_CLASSES, int(corpus.truths.max()) + 1)
    run: dict[str, Any] = {
        "loss": kind.loss,
        "dimension": classes if kind.loss == "ce" else DIMENSION,
        "origin": origin,
        "seed": settings.seed,
        "schedule": asdict(schedule),
        "data": corpus.fingerprint(),
    }
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
