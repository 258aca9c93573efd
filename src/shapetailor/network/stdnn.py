"""ST-DNN: pointwise linear maps with solves inside regions between them (`eq:STDNN_eqn`, Alg. 1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from math import log

import torch
from torch import Tensor, nn

from ..parallel import without_torch
from ..poisson import Edges
from ..poisson.solve import Backend
from . import features
from .config import STDNNConfig
from .describer import Descriptors
from .layer import Layer, Step, pointwise
from .pooling import Pooling
from .region_grid import Domain, Memory, is_plain

__all__ = ["STDNN", "Grid", "STDNNConfig"]

#: Pixels up to which one of torch's threads is enough.
SMALL = 2**18


@dataclass(frozen=True)
class Grid:
    """The regions of one forward pass: at the picture's resolution, and on the layers' blocks."""

    native: Domain
    layers: Domain
    pooling: Pooling | None


class STDNN(nn.Module):
    """Descriptors of pixels, each computed from the pixel's own region only.

    Parameters
    ----------
    config : STDNNConfig
        The paper's architecture by default: 40 channels, maps to 100, 40, 20 and 5, softmax; 8,900 weights.

    Attributes
    ----------
    backend : str
        The solver, as in `shapetailor.smooth`.
    fine : STDNN or None
        The second network, of `config.fine`. `forward` does not use it.

    Examples
    --------
    >>> net = STDNN()
    >>> image = net.prepare(torch.rand(1, 3, 32, 32))
    >>> labels = torch.zeros(1, 32, 32, dtype=torch.long)
    >>> net(image, labels).shape
    torch.Size([1, 5, 32, 32])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, config: STDNNConfig | None = None) -> None:
        super().__init__()
        self.config = config = STDNNConfig() if config is None else config
        self.backend: Backend = "auto"
        self.register_buffer("mean", torch.zeros(config.channels))
        self.register_buffer("std", torch.ones(config.channels))
        self.premix = None if config.premix is None else Layer(config.channels, config.premix)
        inputs = (config.premix or config.channels, *config.widths)
        options = {"derivatives": config.derivatives, "learnable": config.learnable_alphas}
        self.layers = nn.ModuleList(
            Layer(read, width, config.alphas if i else config.scales, each_input=i == 0, **options)
            for i, (read, width) in enumerate(pairwise(inputs))
        )
        self.fine = None if config.fine is None else STDNN(config.fine)

    @property
    def image_channels(self) -> int:
        """Channels of the pictures that `prepare` takes."""
        return self.config.image_channels

    @property
    def stride(self) -> int:
        """Side of the layers' blocks, in pixels."""
        return self.config.stride

    @property
    def descriptors(self) -> Descriptors:
        """The forms in which a segmentation may ask for descriptors."""
        blocks = self.config.stride > 1
        return Descriptors(self, self.stride, self.compact if blocks else None, None if blocks else self.warm)

    @property
    def stages(self) -> list[Layer]:
        """All learned maps in their order; a ReLU follows each but the last."""
        return [stage for stage in (self.premix, *self.layers) if isinstance(stage, Layer)]

    def forward(self, image: Tensor, labels: Tensor, edges: Edges | None = None) -> Tensor:
        """Compute descriptors.

        Parameters
        ----------
        image : Tensor, (B, C, H, W)
            Prepared pictures, see `prepare`. What lies outside every region is ignored.
        labels : integer Tensor, (B, H, W)
            The regions; a negative label is outside every region.
        edges : Edges, optional
            Conductances to solve with instead of the labels' own, for the derivative in the regions' shape; stride 1
            only.

        Returns
        -------
        Tensor, (B, D, H, W)
            Zero where labels are negative.
        """
        grid = self.grid(image, labels)
        if edges is not None:
            if grid.pooling is not None:
                raise ValueError(f"edges are for networks of stride 1, this one's is {self.config.stride}")
            grid.native.edges = edges
        return self.finish(self._mapped(image, grid), grid)

    def warm(self, image: Tensor, labels: Tensor, guesses: Sequence[Tensor] = ()) -> tuple[Tensor, list[Tensor]]:
        """Compute descriptors like `forward`, and the solutions of all solves, in their order (none on a GPU).

        The solutions for nearly the same regions are good `guesses`: a warm start.
        """
        if not self._compiled(image):
            return self(image, labels), []
        grid = self.grid(image, labels)
        grid.layers.memory = memory = Memory(guesses)
        return self.finish(self._mapped(image, grid), grid), memory.solutions

    def compact(self, image: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute descriptors like `forward`, each once: (n, D), and the row of each pixel, (B, H, W).

        Rows of pixels outside every region mean nothing.
        """
        grid = self.grid(image, labels)
        y = self._mapped(image, grid)
        if grid.pooling is None:
            rows = torch.arange(labels.numel(), device=labels.device).reshape(labels.shape)
            return self._head(y).movedim(1, 3).flatten(0, 2), rows
        return self._head(grid.pooling.rows(y)), grid.pooling.row_of_pixel

    def embed(self, channels: Tensor, labels: Tensor) -> Tensor:
        """Compute descriptors (B, D, h, w) of blocks from their `channels`."""
        domain = self.domain(labels, channels.dtype)
        return torch.where(domain.inside[:, None], self.of_blocks(channels, domain), 0)

    def of_blocks(self, channels: Tensor, domain: Domain) -> Tensor:
        """Do the same on a domain; descriptors outside it mean nothing."""
        return self._head(self._maps(channels, domain))

    def _mapped(self, image: Tensor, grid: Grid) -> Tensor:
        """The last map's output, on blocks."""
        small = image.shape[2] * image.shape[3] <= SMALL
        with self._own_threads(image) if small else nullcontext():
            channels = self.channels(image, grid)
        return self._maps(channels, grid.layers)

    def _maps(self, x: Tensor, domain: Domain) -> Tensor:
        """Standardise, then the learned maps with their solves, without the head."""
        with self._own_threads(x):
            x, steps = self.standardise(x), list[Step]()
            for stage in self.stages:
                x = stage.solve(pointwise([*steps, *stage.before], x), domain)
                steps = [stage.after, torch.relu_]
            return pointwise(steps[:1], x)

    def _own_threads(self, x: Tensor) -> AbstractContextManager[None]:
        """Leave the cores to compiled code."""
        return without_torch() if self._compiled(x) else nullcontext()

    def _compiled(self, x: Tensor) -> bool:
        """Whether compiled code does the solves."""
        return is_plain(x) and self.backend not in ("torch", "dense")

    def _head(self, x: Tensor) -> Tensor:
        if self.config.head == "softmax":
            return x.softmax(dim=1)
        # The small number keeps the derivative finite at 0.
        return x * (x.square().sum(dim=1, keepdim=True) + 1e-12).rsqrt()

    def prepare(self, image: Tensor, inside: Tensor | None = None) -> Tensor:
        """Preprocess whole pictures (B, C, H, W) for this network (`features.prepare`).

        Statistics are taken over the pixels `inside`, (B, H, W), all by default.
        """
        features.check_image(image)
        if image.shape[1] != self.config.image_channels:
            raise ValueError(f"image must have {self.config.image_channels} channels, got shape {tuple(image.shape)}")
        whole = torch.zeros(image.shape[0], *image.shape[2:], dtype=torch.long, device=image.device)
        if inside is not None:
            whole = inside.long() - 1
        pooling = Pooling(whole, self.config.stride) if self.config.stride > 1 else None
        return features.prepare(
            image, self.config.features, self.config.energy_scales, pooling, self.config.tol, inside
        )

    def grid(self, image: Tensor, labels: Tensor) -> Grid:
        """Check the arguments of a forward pass and derive its regions."""
        self._check(image, labels)
        native = self.domain(labels, image.dtype)
        if self.config.stride == 1:
            return Grid(native, native, None)
        pooling = Pooling(labels, self.config.stride)
        return Grid(native, self.domain(pooling.labels, image.dtype), pooling)

    def domain(self, labels: Tensor, dtype: torch.dtype) -> Domain:
        """Return label maps (B, H, W) as this network solves on them."""
        return Domain(labels, dtype, tol=self.config.tol, backend=self.backend, pde=self.config.pde)

    def channels(self, image: Tensor, grid: Grid) -> Tensor:
        """Return the channels of f0 on blocks, before standardisation and smoothing."""
        c = self.config
        return features.channels(image, grid.native, c.image_channels, c.features, c.energy_scales, grid.pooling)

    def standardise(self, x: Tensor) -> Tensor:
        """Apply the training statistics."""
        return (x - self.mean[:, None, None]) / self.std[:, None, None]

    def finish(self, x: Tensor, grid: Grid) -> Tensor:
        """Bring the last map's output to the picture's resolution, apply the head, clear what is outside."""
        if grid.pooling is not None:
            x = grid.pooling.unpool(x)
        return torch.where(grid.native.inside[:, None], self._head(x), 0)

    @torch.no_grad()
    def fit_statistics(self, samples: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Set the channels' mean and standard deviation over the regions of (image, labels) batches."""
        sums = self.mean.new_zeros(3, self.config.channels, dtype=torch.float64)
        for image, labels in samples:
            grid = self.grid(image, labels)
            x = self.channels(image, grid).double().movedim(1, 0)[:, grid.layers.inside]
            sums += torch.stack([torch.full_like(sums[0], x.shape[1]), x.sum(1), x.square().sum(1)])
        if not sums[0].all():
            raise ValueError("samples must contain at least one pixel inside a region")
        mean = sums[1] / sums[0]
        self.set_statistics(mean, (sums[2] / sums[0] - mean.square()).clamp_min(0).sqrt())

    def set_statistics(self, mean: Tensor, std: Tensor) -> None:
        """Set the mean and standard deviation, (channels,), that standardise the channels of f0."""
        for name, value in (("mean", mean), ("std", std)):
            if tuple(value.shape) != tuple(self.mean.shape) or not bool(value.isfinite().all()):
                raise ValueError(
                    f"{name} must be {len(self.mean)} finite numbers, one for each channel; "
                    f"got shape {tuple(value.shape)}"
                )
        # A channel that is constant over the training data must not be blown up.
        floor = 1e-6 * (1 + mean.abs())
        self.mean.copy_(mean)
        self.std.copy_(torch.where(std > floor, std, torch.ones_like(std)))

    def rescaled(self, resolution: int) -> STDNN:
        """Return the network for another longest side of pictures: the same weights, alphas by `alpha_rule`."""
        if resolution == self.config.resolution:
            return self
        other = deepcopy(self)
        other.config = self.config.at_resolution(resolution)
        factor = self.config.alpha_factor(resolution)
        for layer in other.stages:
            layer.fixed = tuple(factor * alpha for alpha in layer.fixed)
            if layer.log_alphas is not None:
                layer.log_alphas.data += log(factor)
        if self.fine is not None:
            other.fine = self.fine.rescaled(resolution)
        return other

    def _check(self, image: Tensor, labels: Tensor) -> None:
        features.check_image(image)
        if image.shape[1] != self.config.prepared_channels:
            raise ValueError(
                f"image must have the shape (B, {self.config.prepared_channels}, H, W) that STDNN.prepare returns, "
                f"got {tuple(image.shape)}"
            )
        weight = self.stages[0].weight
        if (image.dtype, image.device) != (weight.dtype, weight.device):
            raise TypeError(
                f"image must be {weight.dtype} on {weight.device}, as the network is; "
                f"got {image.dtype} on {image.device}"
            )
        if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.dtype == torch.bool:
            raise TypeError(f"labels must be an integer torch.Tensor, got {getattr(labels, 'dtype', type(labels))}")
        if labels.shape != (image.shape[0], *image.shape[2:]) or labels.device != image.device:
            raise ValueError(
                f"labels must have the shape (B, H, W) = {(image.shape[0], *image.shape[2:])} on {image.device}, "
                f"got {tuple(labels.shape)} on {labels.device}"
            )
