"""Shape-tailored local descriptors, hand-crafted: the input of an ST-DNN's first map, nothing learned [1]_.

References
----------
.. [1] N. Khan, M. Algarni, A. Yezzi and G. Sundaramoorthi, "Shape-tailored local descriptors and their application to
   segmentation and tracking", CVPR 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ..datasets import Sample
from ..evolution.config import EvolutionConfig
from ..network import features
from ..network.config import STDNNConfig
from ..network.describer import Describer
from ..network.region_grid import Domain
from .method import Baseline, DescriptorMethod, FitSettings, Method

TOLERANCE = 1e-3


class STLD(nn.Module, Describer):
    """Colours, gray value and rectified oriented gradients, each smoothed at five scales inside its region.

    The channels and scales α are those of the paper's layer f0 (40 numbers a pixel of a colour picture), with α in
    proportion to the picture's size. Each channel is divided by the standard deviation of its smoothed versions over
    the whole picture, so that strong and weak channels count alike.

    Examples
    --------
    >>> stld = STLD(3)
    >>> image = stld.prepare(torch.rand(1, 3, 32, 32))
    >>> stld(image, torch.zeros(1, 32, 32, dtype=torch.long)).shape
    torch.Size([1, 40, 32, 32])
    """

    stride = 1

    def __init__(self, image_channels: int, config: STDNNConfig | None = None) -> None:
        super().__init__()
        self.config = config or STDNNConfig(image_channels=image_channels, tol=TOLERANCE)

    @property
    def image_channels(self) -> int:
        """Channels of the pictures that `prepare` takes."""
        return self.config.image_channels

    def rescaled(self, resolution: int) -> STLD:
        """Return the descriptors for another longest side."""
        return STLD(self.image_channels, self.config.at_resolution(resolution))

    def prepare(self, image: Tensor) -> Tensor:
        """Normalise whole pictures; append each channel's factor as a constant map."""
        normal = features.normalise(image)
        whole = torch.zeros(len(image), *image.shape[2:], dtype=torch.long, device=image.device)
        domain = Domain(whole, image.dtype, tol=self.config.tol)
        smoothed = self._smooth(features.channels(normal, domain, self.image_channels), domain)
        spread = smoothed.transpose(1, 2).flatten(2).std(dim=2, correction=0)
        scale = 1 / (spread + features.SPREAD_FLOOR)
        return torch.cat([normal, scale[:, :, None, None].expand(-1, -1, *image.shape[2:])], dim=1)

    def forward(self, image: Tensor, labels: Tensor) -> Tensor:
        """Compute descriptors (B, D, H, W) of prepared pictures, zero where labels are negative."""
        domain = Domain(labels, image.dtype, tol=self.config.tol)
        inside = domain.inside[:, None]
        normal, scale = torch.where(inside, image, 0).tensor_split([self.image_channels], dim=1)
        channels = features.channels(normal, domain, self.image_channels) * scale
        return torch.where(inside, self._smooth(channels, domain).flatten(1, 2), 0)

    def _smooth(self, channels: Tensor, domain: Domain) -> Tensor:
        """(B, C, H, W) at every scale: (B, A, C, H, W)."""
        return domain.smooth(channels, channels.new_tensor(self.config.scales)[:, None])


def _fit(samples: Sequence[Sample], folder: Path, settings: FitSettings) -> Method:
    return DescriptorMethod("STLD", 0, STLD, settings)


def _fit_whole(samples: Sequence[Sample], folder: Path, settings: FitSettings) -> Method:
    fixed = replace(settings.evolution or EvolutionConfig(), tailored=False)
    return DescriptorMethod("non-STLD", 0, STLD, replace(settings, evolution=fixed))


BASELINES = (
    Baseline("stld", "STLD", False, _fit),
    Baseline("stld-whole", "non-STLD", False, _fit_whole),
)
