"""A picture on its canvas, described by a network: what a segmentation and a session of strokes both begin with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isqrt
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ..arrays import Floats32, Labels
from ..evolution import Callback, Evolution, EvolutionConfig, evolve
from ..network.describer import Describer
from ..network.stdnn import STDNN
from ..network.two_level import TwoLevels, describe, describe_whole
from .canvas import Canvas
from .cleanup import finish
from .starts import mapped, metric_of

Net = TypeVar("Net", bound=Describer)

#: Most sides of a square of the same area that a picture counts as long.
LONGEST = 4


@dataclass(frozen=True)
class Described:
    """A picture and the network for its size.

    `whole` are the first network's descriptors (1, D, h, w) of the picture as one region, where they were asked for.
    """

    canvas: Canvas
    net: Describer
    picture: Tensor  # (1, C, h, w), values in 0..1
    prepared: Tensor  # the same as the network takes it
    whole: Tensor | None
    averaged: bool  # over several positions of the grid of blocks
    inside: Tensor | None  # (1, h, w), pixels inside the picture; None: all

    @classmethod
    def of(
        cls,
        canvas: Canvas,
        net: Describer,
        device: torch.device,
        positions: int,
        needs_whole: bool,
        side: int | None = None,
    ) -> Described:
        """Describe a picture; with several `positions` its descriptors are always computed.

        The network is that for pictures of a longer `side`; by default the canvas's own. On a canvas with more pixels,
        α of the smaller one reach less far in the picture: that tells many small regions apart.
        """
        fitted = fitting(net, canvas, side)
        picture = torch.from_numpy(canvas.values)[None].to(device)
        inside = None if canvas.inside is None else torch.from_numpy(canvas.inside)[None].to(device)
        with torch.no_grad():
            # To other descriptors, what is outside looks like the nearest pixel inside.
            prepared = fitted.prepare(picture, inside) if isinstance(fitted, STDNN) else fitted.prepare(picture)
        averaged = positions > 1
        whole = describe_whole(fitted, prepared, positions, inside) if averaged or needs_whole else None
        return cls(canvas, fitted, picture, prepared, whole, averaged, inside)

    def descriptors(self) -> Floats32:
        """The first network's descriptors (D, h, w) of the whole picture."""
        assert self.whole is not None
        found: Floats32 = self.whole[0].cpu().numpy()
        return found

    def in_metric_of(self, labels: Labels) -> Described:
        """The same, with the first network's descriptors in the metric of regions that were cut by them (`own_metric`).

        Without several positions of the grid of blocks descriptors of the whole picture are not used any more.
        """
        if not self.averaged:
            return self
        whole = self.descriptors()
        found = mapped(whole, metric_of(whole, labels))
        return replace(self, whole=torch.from_numpy(found)[None].to(self.picture.device))

    def fine_descriptors(self) -> Floats32 | None:
        """Those of the second network, if there is one."""
        if self.net.fine is None or not self.averaged:
            return None
        with torch.no_grad():
            prepared = self.net.fine.prepare(self.picture, self.inside)
        found: Floats32 = describe_whole(self.net.fine, prepared, 1, self.inside)[0].cpu().numpy()
        return found

    def evolve(
        self,
        start: Labels,
        config: EvolutionConfig,
        fixed: Labels | None,
        min_share: float,
        callback: Callback | None = None,
        whole: Tensor | None = None,
    ) -> tuple[Evolution, Labels]:
        """Move regions from a start by both networks, or by the one there is; also return the labels cleaned up.

        `whole` are descriptors that stay as they are, for ``config.tailored=False``; both networks', the second first.
        """
        if self.net.fine is not None and self.averaged and self.whole is not None:
            levels = TwoLevels(self.net.fine, self.whole.shape[1])
            image, descriptors = levels.prepare(self.picture, self.whole[0], self.inside), levels.descriptors
            radius = float(levels.stride)
        else:
            image, descriptors = self.prepared, self.net.descriptors
            radius = self.net.stride / 2
        watch = None if callback is None else _upright(callback, self.canvas)
        run = evolve(image, start, descriptors, config, fixed=fixed, seen=self.canvas.seen, whole=whole, callback=watch)
        return run, finish(run.labels, fixed, radius, min_share)

    def final_descriptors(self, labels: Labels) -> Floats32:
        """The first network's descriptors (D, H, W) of regions, as the picture lies."""
        found = describe(self.net, self.prepared, torch.from_numpy(labels)[None].to(self.picture.device))
        values = found[0].cpu().numpy()
        inside = self.canvas.inside
        return self.canvas.upright(values if inside is None else np.where(inside, values, np.float32(0)))


def fitting(net: Net, canvas: Canvas, side: int | None = None) -> Net:
    """Return the network for a picture's size, or for that of another longer `side`."""
    height, width = canvas.values.shape[1:]
    # Solves reach as far as the longer side says: on a strip that would be over many times its width.
    return net.rescaled(min(side or max(height, width), LONGEST * isqrt(height * width)))


def missing(labels: Labels, count: int) -> tuple[int, ...]:
    """Return which of `count` regions have no pixel."""
    there = np.zeros(count, bool)
    for step in (8, 1):  # a few pixels mostly show them all
        for line in labels[::step, ::step]:  # line by line, for the sake of memory
            there[line[line >= 0]] = True
        if there.all():
            break
    return tuple(np.flatnonzero(~there).tolist())


def _upright(callback: Callback, canvas: Canvas) -> Callback:
    """Show a callback the regions as the picture lies."""
    return lambda iteration, labels, energy: callback(iteration, canvas.upright(labels), energy)
