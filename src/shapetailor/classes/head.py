"""The head: a perceptron with one hidden layer that turns features into probabilities of the classes."""

from __future__ import annotations

from math import cos, pi

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HIDDEN = 64
STEPS, BATCH, RATE, DECAY = 200, 4096, 5e-3, 0.01
#: Weight of a class in the loss: its share of the marked cells to the power of −BALANCE.
BALANCE = 0.25
#: Deviation of the noise that is added to standardised features while learning.
NOISE = 0.3
#: Standardised features are clipped here, so that no unusual picture makes a head extrapolate far.
LARGEST = 6.0
#: A feature that varies less than this over the marked cells says nothing.
LEAST_SPREAD = 1e-4


class Head(nn.Module):
    """Standardisation, a hidden layer of ReLU, a linear map to the classes."""

    mean: Tensor
    scale: Tensor

    def __init__(self, inputs: int, classes: int, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))
        self.hidden, self.out = nn.Linear(inputs, hidden), nn.Linear(hidden, classes)

    def forward(self, features: Tensor) -> Tensor:
        """Map (n, inputs) to logits (n, classes)."""
        return self.logits(self.standardise(features))

    def standardise(self, features: Tensor) -> Tensor:
        """Apply the statistics of the marked cells."""
        return ((features - self.mean) * self.scale).clamp(-LARGEST, LARGEST)

    def logits(self, standardised: Tensor) -> Tensor:
        """Map standardised features to logits."""
        return self.out(torch.relu(self.hidden(standardised)))  # type: ignore[no-any-return]

    @torch.no_grad()
    def probabilities(self, features: Tensor) -> Tensor:
        """Map (inputs, h, w) to (classes, h, w)."""
        flat = features.flatten(1).T
        parts = [self(part).softmax(dim=1) for part in flat.split(2**16)]
        return torch.cat(parts).T.reshape(-1, *features.shape[1:])


def fit(features: Tensor, targets: Tensor, classes: int, seed: int) -> Head:
    """Learn a head from marked cells: features (n, F), targets (n,) of 0..classes−1.

    Cross-entropy, AdamW with half a cosine, batches drawn with the seed. A class without cells is never predicted.
    """
    generator = torch.Generator().manual_seed(seed)
    head = Head(features.shape[1], classes)
    for each in (head.hidden, head.out):
        bound = each.in_features**-0.5
        for parameter in (each.weight, each.bias):
            with torch.no_grad():
                parameter.copy_(bound * (2 * torch.rand(parameter.shape, generator=generator) - 1))
    spread = features.std(dim=0, correction=0)
    head.mean.copy_(features.mean(dim=0))
    head.scale.copy_(torch.where(spread > LEAST_SPREAD, 1 / spread.clamp_min(LEAST_SPREAD), 0))
    x = head.standardise(features)
    counts = torch.bincount(targets, minlength=classes).float()
    weights = torch.where(counts > 0, (counts / len(targets)).clamp_min(1e-9) ** -BALANCE, 0)
    size = min(BATCH, len(x))
    optimizer = torch.optim.AdamW(head.parameters(), RATE, weight_decay=DECAY)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 + cos(pi * step / STEPS)) / 2
        rows = torch.randint(len(x), (size,), generator=generator)
        noisy = x[rows] + NOISE * torch.randn(size, x.shape[1], generator=generator)
        loss = F.cross_entropy(head.logits(noisy), targets[rows], weight=weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        head.out.bias[counts == 0] = -1e4
    return head.eval().requires_grad_(False)
