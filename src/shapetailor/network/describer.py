"""What a network offers to a segmentation: descriptors of regions, in every form that it can compute them in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from torch import Tensor

if TYPE_CHECKING:
    from .stdnn import STDNN

#: image (1, C, H, W), labels (1, H, W) → descriptors (1, D, H, W), zero where labels are negative
OfPixels = Callable[[Tensor, Tensor], Tensor]
#: the same → descriptors of blocks (n, D), and each pixel's row among them (1, H, W)
OfBlocks = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
#: the same and solutions to start from → descriptors (1, D, H, W), and the solutions
FromGuesses = Callable[[Tensor, Tensor, Sequence[Tensor]], tuple[Tensor, list[Tensor]]]


@dataclass(frozen=True)
class Descriptors:
    """Descriptors of regions, computed inside them."""

    pixels: OfPixels
    stride: int = 1  # side of the blocks of pixels it works on; 0 where it looks beyond regions: whole images only
    blocks: OfBlocks | None = None  # where pixels share descriptors
    warm: FromGuesses | None = None  # a warm start, for descriptors on single pixels


class Describer(Protocol):
    """What computes descriptors: an `STDNN`, or any module that has these."""

    @property
    def image_channels(self) -> int:
        """Channels of the pictures that `prepare` takes."""

    @property
    def stride(self) -> int:
        """As of `Descriptors`."""

    @property
    def descriptors(self) -> Descriptors:
        """The forms in which it computes descriptors of prepared pictures."""
        return Descriptors(self, self.stride)

    @property
    def fine(self) -> STDNN | None:
        """The second network, for where boundaries lie, if there is one."""
        return None

    def prepare(self, image: Tensor) -> Tensor:
        """Preprocess whole pictures (1, C, H, W) with values in 0..1."""

    def rescaled(self, resolution: int) -> Self:
        """Return the same for pictures of another longest side."""

    def __call__(self, image: Tensor, labels: Tensor) -> Tensor:
        """Prepared pictures and labels (1, H, W) in, descriptors (1, D, H, W) out; zero where labels are negative."""
