"""The end of a segmentation: from regions on the canvas to the result at the picture's size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array, Labels
from ..evolution import Evolution, EvolutionConfig
from .canvas import Canvas
from .cleanup import remove_small
from .coarse_to_fine import sharpened
from .described import Described, missing
from .result import Segmentation


@dataclass(frozen=True)
class End:
    """A picture's canvas, and what is done when its regions are found."""

    canvas: Canvas
    config: EvolutionConfig
    min_share: float
    sharpens: bool
    seed: int
    marks: Labels | None = None  # in the picture

    def result(
        self, run: Evolution, labels: Labels, count: int, described: Described | None = None, **more: Any
    ) -> Segmentation:
        """Bring regions of the canvas, cleaned up, to the picture's size; marked pixels keep their region.

        `described` is the canvas as networks see it, for where its colours tell little.
        """
        full = self._full_size(labels, described)
        if self.marks is not None:
            full = np.where((self.marks >= 0) & (full >= 0), self.marks, full)
        return Segmentation(
            labels=full,
            energy=run.energy,
            iterations=run.iterations,
            converged=run.converged,
            vanished=missing(full, count),
            image=self.canvas.original,
            seed=self.seed,
            **more,
        )

    def _full_size(self, labels: Labels, described: Described | None) -> Labels:
        """Bring regions to the picture's size, with boundaries to the pixel."""
        if self.canvas.factor == 1 or not self.sharpens or not self.config.iterations:
            return self.canvas.labels_out(labels)
        sharp: Array = sharpened(labels, self.canvas, self.marks, described=described)
        if self.marks is None:  # pieces just above the share have become a little smaller
            sharp = remove_small(sharp, self.min_share / 2)[0]
        return sharp.astype(np.int64)
