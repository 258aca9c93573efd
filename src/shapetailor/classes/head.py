"""The head: a perceptron with one hidden layer that turns features into probabilities of the classes.

After fine-tuning it has a context too.
"""

from __future__ import annotations

from functools import partial
from math import cos, pi

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..poisson import smooth
from .context import Context, by_bands, mapped

HIDDEN = 64
STEPS, BATCH, RATE, DECAY = 200, 4096, 5e-3, 0.01
#: Weight of a class in the loss: its share of the marked cells to the power of −BALANCE.
BALANCE = 0.25
#: Steps of the estimate of the classes' shares.
EXPECTATIONS = 20
#: Deviation of the noise that is added to standardised features while learning.
NOISE = 0.3
#: Noise is drawn for so many batches, and each takes a part that begins anywhere: drawing took most of the time.
REUSE = 4
#: α, in cells², at which probabilities are smoothed.
SMOOTHING = 1.0
#: Cells that are standardised at a time: all of a large picture would need as much memory again as their features.
PART = 2**16
#: Standardised features are clipped here, so that no unusual picture makes a head extrapolate far.
LARGEST = 6.0
#: A feature that varies less than this over the marked cells says nothing.
LEAST_SPREAD = 1e-4


class Head(nn.Module):
    """Standardisation, a hidden layer of ReLU, a linear map to the classes; and a context, or None."""

    mean: Tensor
    scale: Tensor

    def __init__(self, inputs: int, classes: int, context: bool = False) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))
        self.hidden, self.out = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, classes)
        self.context = Context(HIDDEN, classes) if context else None

    def forward(self, features: Tensor) -> Tensor:
        """Map (n, inputs) to logits (n, classes), without context."""
        return self.logits(self.standardise(features))

    def maps(self, features: Tensor) -> Tensor:
        """Map pictures' features (B, inputs, h, w) to logits (B, classes, h, w)."""

        def hidden(band: slice) -> Tensor:
            cells = features[:, :, band].movedim(1, 3)
            return mapped(self.hidden, self.standardise(cells).movedim(3, 1)).relu_()

        units = by_bands(hidden, features)
        logits = by_bands(partial(mapped, self.out, units), units)
        return logits if self.context is None else logits + self.context(units)

    def standardise(self, features: Tensor) -> Tensor:
        """Apply the statistics of the marked cells."""
        return ((features - self.mean) * self.scale).clamp(-LARGEST, LARGEST)

    def logits(self, standardised: Tensor) -> Tensor:
        """Map standardised features to logits."""
        return self.out(torch.relu(self.hidden(standardised)))  # type: ignore[no-any-return]

    @torch.no_grad()
    def probabilities(self, features: Tensor) -> Tensor:
        """Map a picture's features (inputs, h, w) to (classes, h, w), smoothed a little."""
        if self.context is None:
            cells = self.of_cells(features.flatten(1).T).T.reshape(1, -1, *features.shape[1:])
        else:
            logits = self.maps(features[None])
            cells = by_bands(lambda band: logits[:, :, band].softmax(dim=1), logits)
        whole = torch.zeros(1, *features.shape[1:], dtype=torch.long, device=features.device)
        smoothed = smooth(cells, whole, SMOOTHING)[0].clamp_min(0)
        return smoothed / smoothed.sum(dim=0)

    @torch.no_grad()
    def of_cells(self, features: Tensor) -> Tensor:
        """Map (n, inputs) to probabilities (n, classes), without context."""
        return torch.cat([self(part).softmax(dim=1) for part in features.split(PART)])


def fit(
    features: Tensor,
    targets: Tensor,
    classes: int,
    sources: Tensor,
    seed: int,
    left_out: float = 0.0,
    steps: int = STEPS,
) -> Head:
    """Learn a head from marked cells: features (n, F) with their `sources` (F,), targets (n,) of 0..classes−1.

    Cross-entropy, AdamW with half a cosine, batches drawn with the seed; a share `left_out` of the sources is left
    out of each cell, and a negative source always. A class without cells is never predicted.
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
    read = sources >= 0
    head.scale.copy_(torch.where(read & (spread > LEAST_SPREAD), 1 / spread.clamp_min(LEAST_SPREAD), 0))
    x = head.standardise(features)
    counts = torch.bincount(targets, minlength=classes).float()
    weights = class_weights(counts)
    size, count = min(BATCH, len(x)), int(sources.max()) + 1
    noise = NOISE * torch.randn(REUSE * size, x.shape[1], generator=generator)
    kept = ((torch.rand(REUSE * size, count, generator=generator) >= left_out)[:, sources] & read).float()
    optimizer = torch.optim.AdamW(head.parameters(), RATE, weight_decay=DECAY)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 + cos(pi * step / steps)) / 2
        rows = torch.randint(len(x), (size,), generator=generator)
        one, other = torch.randint((REUSE - 1) * size + 1, (2,), generator=generator).tolist()
        noisy = (x[rows] + noise[one : one + size]).mul_(kept[other : other + size])
        loss = F.cross_entropy(head.logits(noisy), targets[rows], weight=weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        head.out.bias[counts == 0] = -1e4
    return head.eval().requires_grad_(False)


def class_weights(counts: Tensor) -> Tensor:
    """Return the classes' weights in the loss; 0 for one without cells."""
    return torch.where(counts > 0, (counts / counts.sum()).clamp_min(1e-9) ** -BALANCE, 0)


@torch.no_grad()
def expect_shares(head: Head, learnt: Tensor, marked: Tensor, features: Tensor, weights: Tensor) -> None:
    """Fit a head's biases to the classes' shares of whole pictures, which strokes do not tell.

    Shares are estimated from the head's own probabilities by expectation maximisation (Saerens et al. 2002, Neural
    Computation 14). Where all cells are marked nothing changes.

    Parameters
    ----------
    head : Head
    learnt, marked : Tensor, (classes,)
        Cells that the head has learnt from, and those that are marked in all.
    features, weights : Tensor, (n, F) and (n,)
        Cells that are not marked, and how many each stands for.
    """
    known = learnt > 0
    before = (learnt * class_weights(learnt))[known]
    before /= before.sum()
    shares, probabilities = before, head.of_cells(features)[:, known]
    for _ in range(EXPECTATIONS):
        now = probabilities * (shares / before)
        shares = marked[known] + weights @ (now / now.sum(dim=1, keepdim=True))
        shares = shares / shares.sum()
    after = shares ** (1 - BALANCE)
    head.out.bias[known] += (after / after.sum() / before).log()
