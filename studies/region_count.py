"""Rules that choose the number of regions from the spectrum of the descriptors' affinity."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from candidates import Array, Labels, affinity, spectrum, spread

from shapetailor.clustering import cut_by
from shapetailor.segmentation.region_count import merge_alike
from shapetailor.segmentation.starts import kmeans_start

#: Most regions that are looked for.
MOST = 8
THRESHOLDS = (0.9, 0.94, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995)


class Cuts:
    """All normalised cuts of one image's descriptors, from one decomposition; each is made when asked for."""

    def __init__(self, descriptors: Array) -> None:
        self.descriptors = descriptors
        self._made: dict[int, Labels] = {1: np.zeros(descriptors.shape[1:], np.int64)}

    @cached_property
    def _spectrum(self) -> tuple[Array, Array]:
        return spectrum(affinity(self.descriptors), MOST + 1)

    @property
    def values(self) -> Array:
        """The MOST + 1 greatest eigenvalues, falling."""
        return self._spectrum[0]

    def into(self, regions: int) -> Labels:
        """Return the cut into `regions`."""
        if regions not in self._made:
            clusters = cut_by(self._spectrum[1][:, :regions], np.random.default_rng(0))
            self._made[regions] = spread(self.descriptors, clusters)
        return self._made[regions]

    @cached_property
    def by_k_means(self) -> Labels:
        """MOST clusters of k-means, with those alike merged."""
        return merge_alike(self.descriptors, kmeans_start(self.descriptors, MOST, np.random.default_rng(0)))


def rules() -> dict[str, Callable[[Cuts], Labels]]:
    """Return the rules by name."""
    found: dict[str, Callable[[Cuts], Labels]] = {
        f"k-means into {MOST}, merged": lambda cuts: cuts.by_k_means,
        f"cut into {MOST}, merged": lambda cuts: merge_alike(cuts.descriptors, cuts.into(MOST)),
        "greatest gap of eigenvalues λ": lambda cuts: cuts.into(2 + int(np.argmax(-np.diff(cuts.values[1:])))),
        "greatest gap of log(1 − λ)": lambda cuts: cuts.into(
            2 + int(np.argmax(np.diff(np.log(1 - cuts.values[1:] + 1e-4))))
        ),
    }
    for threshold in THRESHOLDS:
        found[f"eigenvalues ≥ {threshold}"] = lambda cuts, least=threshold: cuts.into(_count(cuts, least))
        found[f"eigenvalues ≥ {threshold}, merged"] = lambda cuts, least=threshold: merge_alike(
            cuts.descriptors, cuts.into(_count(cuts, least))
        )
    return found


def _count(cuts: Cuts, least: float) -> int:
    return int(np.clip((cuts.values >= least).sum(), 1, MOST))
