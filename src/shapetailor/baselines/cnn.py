"""Convolutional networks as descriptors: torchvision's FCN and DeepLab-v3 on ResNet-101.

Descriptors are computed once, of the whole image, and the regions evolve on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..network.checkpoint import read_tensors, write_tensors
from ..network.describer import Describer
from .vision import segmentation_network

Head = Literal["softmax", "unit"]

#: Mean and standard deviation of ImageNet's colours, which torchvision's weights were trained with.
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
#: The last layer of both heads, whose outputs are ours.
LAST = "classifier.4."
BACKBONE = "resnet101"
FORMAT, FORMAT_VERSION = "cnn", 1


class CNN(nn.Module, Describer):
    """The network's last layer, upsampled to the picture's size and bounded, as descriptors.

    The architecture is "fcn_resnet101" or "deeplabv3_resnet101", the head softmax, for outputs that are classes, or
    division by the norm.
    """

    image_channels = 3
    stride = 0

    def __init__(self, architecture: str, dimension: int, head: Head) -> None:
        super().__init__()
        self.architecture, self.dimension, self.head = architecture, dimension, head
        self.body = segmentation_network(architecture, dimension)

    def prepare(self, image: Tensor) -> Tensor:
        """Standardise colours of 0..1 by ImageNet's."""
        mean, std = (image.new_tensor(each)[:, None, None] for each in IMAGENET)
        return (image - mean) / std

    def rescaled(self, resolution: int) -> CNN:
        """Return the network itself: it has no scales to change."""
        return self

    def logits(self, image: Tensor) -> Tensor:
        """Return the last layer of prepared pictures, upsampled to their size: (B, D, H, W)."""
        out: Tensor = self.body(image)["out"]
        return out

    def bounded(self, logits: Tensor) -> Tensor:
        """Apply the head."""
        return logits.softmax(dim=1) if self.head == "softmax" else F.normalize(logits, dim=1)

    def forward(self, image: Tensor, labels: Tensor) -> Tensor:
        """Compute descriptors (B, D, H, W) of whole prepared pictures; labels say only where they are kept."""
        return torch.where((labels >= 0)[:, None], self.bounded(self.logits(image)), 0)


def pretrained_file(architecture: str, folder: Path | None) -> Path | None:
    """Find weights of the whole network, else of its backbone, by torchvision's file names."""
    if folder is None:
        return None
    if not folder.is_dir():
        raise FileNotFoundError(f"weights must be a folder with pretrained weights, there is none at {folder}")
    for name in (architecture, BACKBONE):
        found = sorted(file for file in folder.glob(f"{name}*") if file.suffix in (".pth", ".safetensors"))
        if found:
            return found[0]
    return None


def load_pretrained(net: CNN, file: Path) -> None:
    """Load a file's weights except the last layer (of a backbone's file, except the head)."""
    stored = _stored(file)
    if file.name.startswith(BACKBONE):
        weights = {f"backbone.{name}": each for name, each in stored.items() if not name.startswith("fc.")}
        untouched = "classifier."
    else:
        weights = {name: each for name, each in stored.items() if not name.startswith(("aux_classifier.", LAST))}
        untouched = LAST
    missing, unexpected = net.body.load_state_dict(weights, strict=False)
    wrong = [name for name in missing if not name.startswith(untouched)] + unexpected
    if wrong:
        raise ValueError(f"{file}: does not hold the weights of {net.architecture}; {len(wrong)} differ: {wrong[:5]}")


def _stored(file: Path) -> Mapping[str, Tensor]:
    if file.suffix == ".safetensors":
        return safetensors.torch.load_file(file)
    stored: Mapping[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
    return stored


def save_cnn(file: Path, net: CNN, run: Mapping[str, object]) -> None:
    """Write a network with the record of its training to one safetensors file, atomically."""
    config = {"architecture": net.architecture, "dimension": net.dimension, "head": net.head}
    write_tensors(file, net.state_dict(), FORMAT, FORMAT_VERSION, {"config": config, "run": dict(run)})


def load_cnn(file: Path) -> tuple[CNN, dict[str, object]]:
    """Read what `save_cnn` wrote: the network, on the CPU and in evaluation mode, and the record."""
    tensors, header = read_tensors(file, FORMAT, FORMAT_VERSION)
    net = CNN(**header["config"])
    net.load_state_dict(tensors)
    return net.eval(), header["run"]
