"""Several ST-DNNs of one architecture as one network, for trainings that shall be compared.

Several trainings at once on one GPU take as long as one after the other, because each is a stream of small
operations. Stacked, they are one stream: sample b of network m is number ``m·B + b`` of a batch of M·B, all solves are
shared, and each linear map is one product with M matrices. Networks do not meet anywhere, so the gradient of the sum of
their losses is the gradient of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from shapetailor import STDNN
from shapetailor.network.layer import Layer
from shapetailor.training.sample_bank import Blocks


class StackedLayer(Layer):
    """The same layer of M networks: `weight` is (M, outputs, fan-in), `bias` is (M, outputs)."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        first = layers[0]
        each_input = bool(first.fixed) and not first.groups
        super().__init__(first.inputs, first.outputs, first.fixed, each_input=each_input, derivatives=first.maps == 3)
        self.maps_first = bool(self.groups)
        self.weight = nn.Parameter(torch.stack([each.weight.detach() for each in layers]))
        self.bias = nn.Parameter(torch.stack([each.bias.detach() for each in layers]))

    def after(self, x: Tensor) -> Tensor:
        """Map (M·B, channels, n) to (M·B, outputs, n)."""
        values = self._mapped(x).unflatten(0, (len(self.weight), -1))
        return (values + self.bias[:, None, :, None]).flatten(0, 1)

    def _product(self, weight: Tensor, x: Tensor) -> Tensor:
        """Apply (M, O, I) matrices to (M·B, I, n)."""
        return (weight[:, None] @ x.unflatten(0, (len(weight), -1))).flatten(0, 1)


class Stack(STDNN):
    """M networks of one architecture; `embed` takes M·B samples, network by network.

    Parameters
    ----------
    nets : sequence of STDNN
        Their weights and statistics are copied.
    """

    def __init__(self, nets: Sequence[STDNN]) -> None:
        config = nets[0].config
        if any(net.config != config for net in nets):
            raise ValueError("nets must have one architecture, got several")
        if config.learnable_alphas:
            raise ValueError("nets must have fixed alphas: stacked networks share their solves")
        super().__init__(config)
        stages = [StackedLayer(each) for each in zip(*(net.stages for net in nets), strict=True)]
        self.premix = stages.pop(0) if self.premix is not None else None
        self.layers = nn.ModuleList(stages)
        self.mean = torch.stack([net.mean for net in nets])
        self.std = torch.stack([net.std for net in nets])

    def __len__(self) -> int:
        return len(self.mean)

    def standardise(self, x: Tensor) -> Tensor:
        """Apply each network's own training statistics."""
        values = x.unflatten(0, (len(self), -1))
        return ((values - self.mean[:, None, :, None, None]) / self.std[:, None, :, None, None]).flatten(0, 1)

    def net(self, number: int) -> STDNN:
        """Return one of the networks, on the CPU and in evaluation mode."""
        net = STDNN(self.config)
        net.load_state_dict({name: each[number].cpu() for name, each in self.state_dict().items()})
        return net.eval()

    @torch.no_grad()
    def describe(self, blocks: Blocks, together: int = 128) -> Tensor:
        """Return all networks' descriptors of the same N samples, (M, N, D, h, w) in half precision on the CPU.

        `together` bounds the samples, counted once for each network, that are in work at a time.
        """
        made = []
        for numbers in torch.arange(len(blocks.channels)).split(max(1, together // len(self))):
            channels, regions, _ = blocks.take(numbers)
            found = self.embed(channels.repeat(len(self), 1, 1, 1), regions.repeat(len(self), 1, 1))
            made.append(found.unflatten(0, (len(self), -1)).half().cpu())
        return torch.cat(made, dim=1)
