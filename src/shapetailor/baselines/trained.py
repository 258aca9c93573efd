"""Networks that `shapetailor.training` trains: the ST-DNN, and Siamese.

Siamese (N. Khan and G. Sundaramoorthi, "Learned shape-tailored descriptors for segmentation", CVPR 2018) is a network
of the channels that STLD returns, with no PDE between its maps. It was trained there as a pair of networks on pairs of
pixels; as in the paper's comparison it has the four maps of the paper's ST-DNN here (100, 40, 20 and 5 outputs), and is
trained on whole images by the same loss, data and augmentation. It is an `STDNN` whose α between two maps is 0.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..datasets import Sample
from ..network.checkpoint import load_model
from ..network.stdnn import STDNN, STDNNConfig
from ..training.sharpen import SharpenConfig, sharpen
from ..training.train import TrainConfig, recipe, train
from .method import Baseline, DescriptorMethod, FitSettings, Method, count_parameters

#: STLD's channels and, on blocks of 4×4 pixels, its scales: α = 40 … 200 pixels² in a picture of 256×256.
SIAMESE = STDNNConfig(scales=(2.5, 5.0, 7.5, 10.0, 12.5), alpha=0.0, head="unit", stride=4, resolution=256, tol=1e-3)
QUICK_SIZE = 64


def stdnn_method(name_or_path: str | os.PathLike[str], settings: FitSettings) -> Method:
    """Return the ST-DNN of a shipped model's name, or of a model file.

    With the common k-means start it is its first network alone, under the evolution that all descriptors have.
    """
    net = load_model(name_or_path)[0]
    if settings.start == "kmeans":
        net.fine = None
    return _method("ST-DNN", net, settings)


def _fit_stdnn(samples: Sequence[Sample], folder: Path, settings: FitSettings) -> Method:
    first = folder / "stdnn.safetensors"
    _trained(samples, first, recipe("texture"), settings)
    config = SharpenConfig(seed=settings.seed)
    if settings.quick:
        config = replace(config, size=QUICK_SIZE, steps=4, batch=4, samples=16)
    sharper = folder / "sharper.safetensors"
    sharpen(first, list(samples), sharper, config, resume=True, device=settings.device, progress=settings.progress)
    return stdnn_method(sharper, settings)


def _fit_siamese(samples: Sequence[Sample], folder: Path, settings: FitSettings) -> Method:
    config = recipe("texture", network=SIAMESE)
    return _method("Siamese", _trained(samples, folder / "siamese.safetensors", config, settings), settings)


def _trained(samples: Sequence[Sample], file: Path, config: TrainConfig, settings: FitSettings) -> STDNN:
    config = replace(config, seed=settings.seed)
    if settings.quick:
        network = config.network.at_resolution(QUICK_SIZE)
        config = replace(config, network=network, size=QUICK_SIZE, steps=30, batch=8, samples=64, validate_every=15)
    # resume also finds a finished model, and refuses one of other data or settings
    return train(list(samples), file, config, resume=True, device=settings.device, progress=settings.progress)


def _method(title: str, net: STDNN, settings: FitSettings) -> Method:
    return DescriptorMethod(title, count_parameters(net), lambda channels: net, settings)


BASELINES = (Baseline("stdnn", "ST-DNN", True, _fit_stdnn), Baseline("siamese", "Siamese", True, _fit_siamese))
