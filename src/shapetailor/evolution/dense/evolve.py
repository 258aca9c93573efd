"""The evolution of many pictures at once: `evolve` on planes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..config import EvolutionConfig
from ..evolve import SHARPEST
from .costs import Regions, Tailor
from .likeness import follow
from .step import advance, boundary_lengths, medians, settle


class Evolved(NamedTuple):
    """Where the regions of pictures came to rest, and how."""

    labels: Tensor  # (P, H, W)
    energy: list[list[float]]  # of each picture
    converged: list[bool]


def evolve(labels: Tensor, tailor: Tailor, config: EvolutionConfig, seen: Tensor) -> Evolved:
    """Move the regions of label maps (P, H, W) from a start to a low of the energy.

    Each picture goes its own way, as in `evolution.evolve`. `seen` (P, C, H, W) are the colours for
    `EvolutionConfig.likeness`. The device is waited for once or twice an iteration: when energies are compared.
    """
    state = _State(labels, tailor, config)
    for _ in range(config.iterations):
        active = [number for number, done in enumerate(state.converged) if not done]
        if not active:
            break
        state.step(active)
    found = state.labels
    if config.likeness and config.iterations:
        found = follow(found, state.regions, seen, config.likeness)
    return Evolved(found, state.energy, state.converged)


class _Tried(NamedTuple):
    """Regions that some pictures may take: their labels, costs and energies, and whether anything moved."""

    labels: Tensor
    regions: Regions
    energy: list[float]
    moved: list[bool]


class _State:
    """Where the pictures stand."""

    def __init__(self, labels: Tensor, tailor: Tailor, config: EvolutionConfig) -> None:
        count, unit = len(labels), tailor.net.stride
        self.labels, self.tailor, self.regions = labels, tailor, tailor(labels)
        self.beta = config.beta * medians(self.regions.own).double()
        self.energy = [[each] for each in self._energy(labels, self.regions, self.beta).tolist()]
        self.move, self.gain = [config.move * unit] * count, [1.0] * count
        self.converged = [False] * count

    def step(self, active: list[int]) -> None:
        """Take one iteration of Alg. 2 with some of the pictures."""
        labels, regions, beta = self._of(active)
        move, gain = (
            torch.tensor([values[number] for number in active], device=labels.device)
            for values in (self.move, self.gain)
        )
        proposal = advance(labels, regions, beta.float(), move, gain)
        tried = self._try(active, proposal, labels)
        accepted, worse = [], []
        for place, number in enumerate(active):
            if not tried.moved[place]:
                # Boundaries of little contrast may still have to move: a longer Δτ.
                self.converged[number], self.gain[number] = self.gain[number] >= SHARPEST, SHARPEST
            elif tried.energy[place] > self.energy[number][-1]:
                worse.append(place)
            else:
                accepted.append(place)
        if worse:
            self._settle([active[place] for place in worse], proposal if len(worse) == len(active) else proposal[worse])
        self._take(active, tried, accepted)

    def _settle(self, numbers: list[int], proposal: Tensor) -> None:
        """Take back what raises the energy, or go less far the next time."""
        labels, regions, beta = self._of(numbers)
        tried = self._try(numbers, settle(labels, proposal, regions, beta), labels)
        accepted = []
        for place, number in enumerate(numbers):
            if tried.moved[place] and tried.energy[place] <= self.energy[number][-1]:
                accepted.append(place)
                continue
            self.move[number] /= 2
            self.converged[number] = self.move[number] <= 0.5  # less than half a pixel flips nothing
        self._take(numbers, tried, accepted)

    def _of(self, numbers: list[int]) -> tuple[Tensor, Regions, Tensor]:
        """Labels, regions and β of some pictures."""
        if len(numbers) == len(self.labels):
            return self.labels, self.regions, self.beta
        chosen = torch.tensor(numbers, device=self.labels.device)
        return self.labels[chosen], self.regions.of(chosen), self.beta[chosen]

    def _try(self, numbers: list[int], proposal: Tensor, labels: Tensor) -> _Tried:
        every = len(numbers) == len(self.labels)
        tailor = self.tailor if every else self.tailor.of(torch.tensor(numbers, device=labels.device))
        regions = tailor(proposal)
        beta = self.beta if every else self.beta[numbers]
        moved = (proposal != labels).flatten(1).any(dim=1)
        energy, changed = torch.stack([self._energy(proposal, regions, beta), moved.double()]).tolist()
        return _Tried(proposal, regions, energy, [bool(each) for each in changed])

    def _take(self, numbers: list[int], tried: _Tried, places: list[int]) -> None:
        """Accept what was tried for the pictures at some places of `numbers`."""
        for place in places:
            self.energy[numbers[place]].append(tried.energy[place])
        if len(places) == len(self.labels):
            self.labels, self.regions = tried.labels, tried.regions
        elif places:
            there, here = (
                torch.tensor(each, device=self.labels.device) for each in ([numbers[place] for place in places], places)
            )
            self.labels = self.labels.index_copy(0, there, tried.labels[here])
            self.regions.put(there, tried.regions.of(here))

    @staticmethod
    def _energy(labels: Tensor, regions: Regions, beta: Tensor) -> Tensor:
        """`eq:mulregions` of each picture, (P,)."""
        return regions.within + beta * boundary_lengths(labels)
