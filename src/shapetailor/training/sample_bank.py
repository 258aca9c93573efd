"""Training samples as the network's layers take them: channels of blocks, made once and used many times.

A sample's channels do not change while the weights do, take the greater part of a step's work, and are small once
pooled. So a bank of augmented samples is made at the start, and every step draws its batch from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..network.stdnn import STDNN
from .augmentation import Batch, Batches
from .corpus import Corpus


class Blocks(NamedTuple):
    """Channels (B, C, h, w), the regions they were computed in, and the truth at the blocks' central pixels."""

    channels: Tensor
    regions: Tensor
    truths: Tensor

    @classmethod
    def joined(cls, parts: Iterable[Blocks]) -> Blocks:
        """Join batches to one."""
        return cls(*(torch.cat(each) for each in zip(*parts, strict=True)))

    def take(self, chosen: Tensor) -> Blocks:
        """Return some of the samples, in the types that the network wants."""
        chosen = chosen.to(self.channels.device)
        return Blocks(self.channels[chosen].float(), self.regions[chosen].long(), self.truths[chosen].long())


@torch.no_grad()
def blocks_of(net: STDNN, batch: Batch) -> Blocks:
    """Compute the channels of a batch of pictures."""
    image = net.prepare(batch.images)
    grid = net.grid(image, batch.regions)
    stride = net.config.stride
    centres = slice(stride // 2, None, stride)
    truths = batch.truths[:, centres, centres]
    height = truths.shape[1]  # below it lie the cells of regions too small for a block, which have no place
    return Blocks(net.channels(image, grid)[:, :, :height], grid.layers.labels[:, :height], truths)


def fill_bank(
    net: STDNN, batches: Batches, samples: int, batch: int, progress: Callable[[int], object] = lambda made: None
) -> Blocks:
    """Make `samples` augmented samples, sample k being number ``k % batch`` of the batch of step ``k // batch``.

    `progress` is called with how many more are made.
    """
    parts = []
    for step in range(-(-samples // batch)):
        numbers = range(min(batch, samples - step * batch))
        made = blocks_of(net, batches(step, numbers))
        # Half precision is a thousandth of a channel's spread: far less than the augmentation's own changes.
        parts.append(Blocks(made.channels.half(), made.regions.to(torch.int16), made.truths.to(torch.int16)))
        progress(len(numbers))
    return Blocks.joined(parts)


def draw(bank: Blocks, seed: int, step: int, batch: int, share: range) -> Blocks:
    """Return the samples `share` of the batch of a step."""
    chosen = np.random.default_rng([5, seed, step]).integers(len(bank.channels), size=batch)
    return bank.take(torch.from_numpy(chosen[list(share)]))


def corpus_blocks(net: STDNN, corpus: Corpus, batch: int, whole: bool) -> Iterator[Blocks]:
    """Yield the images of a corpus as they are, in batches: as one region each, or in their true regions."""
    for images, truths in zip(corpus.images.split(batch), corpus.truths.split(batch), strict=True):
        yield blocks_of(net, Batch(images, truths, torch.zeros_like(truths) if whole else truths))
