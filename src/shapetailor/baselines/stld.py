"""Shape-tailored local descriptors, hand-crafted: the input of an ST-DNN's first map, nothing learned.

N. Khan, M. Algarni, A. Yezzi and G. Sundaramoorthi, "Shape-tailored local descriptors and their application to
segmentation and tracking", CVPR 2015.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from ..evolution.config import EvolutionConfig
from ..network import features
from ..network.config import STDNNConfig
from ..network.describer import Describer
from ..network.region_grid import Domain
from .method import Baseline, DescriptorMethod, FitSettings

TOLERANCE = 1e-3


class STLD(nn.Module, Describer):
    """Colours, gray value and rectified oriented gradients, each smoothed at five scales inside its region.

    The channels and scales α are those of the paper's layer f0 (40 numbers a pixel of a colour picture), with α in
    proportion to the picture's size. Each channel is divided by the standard deviation of its smoothed versions over
    the whole picture, so that strong and weak channels count alike.
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


def _whole(settings: FitSettings) -> FitSettings:
    """Descriptors of the whole image, not updated as regions evolve."""
    return replace(settings, evolution=replace(settings.evolution or EvolutionConfig(), tailored=False))


BASELINES = (
    Baseline("stld", "STLD", False, lambda _, __, settings: DescriptorMethod("STLD", 0, STLD, settings)),
    Baseline(
        "stld-whole", "non-STLD", False, lambda _, __, settings: DescriptorMethod("non-STLD", 0, STLD, _whole(settings))
    ),
)
