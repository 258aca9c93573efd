"""Post-processing: pieces of regions too small to mean anything are given to their surroundings."""

from __future__ import annotations

import heapq
from collections import Counter

import numpy as np
from skimage.measure import label as connected_components

from ..arrays import Ints, Labels
from ..labels import smooth_boundaries


def finish(labels: Labels, fixed: Labels | None, radius: float, min_share: float) -> Labels:
    """Smooth away what is narrower than a radius of one pixel or more, and small pieces; marked pixels stay."""
    if radius >= 1:
        labels = smooth_boundaries(labels, radius)
    if fixed is None:
        return remove_small(labels, min_share)[0]
    return np.where(fixed >= 0, fixed, labels)


def remove_small(labels: Ints, min_share: float = 0.02) -> tuple[Ints, tuple[int, ...]]:
    """Give every connected piece below a share of the image to the neighbouring region it touches most.

    The smallest goes first; what it joins may be large enough then. Pieces hang together by 4-neighbours.

    Negative labels are in no region: they are not touched and take nothing. Also return the numbers of regions that no
    longer have a pixel.
    """
    _check_share(min_share)
    pieces = _pieces(labels)
    # Piece 0 collects the pixels without a region; it has no neighbours below.
    region = np.full(int(pieces.max()) + 1, -1)
    region[pieces] = labels
    area = np.bincount(pieces.ravel(), minlength=len(region))
    region = _merge(region.tolist(), area.tolist(), _contacts(pieces), min_share * np.count_nonzero(labels >= 0))
    cleaned = np.where(labels >= 0, region[pieces], labels)
    return cleaned, _vanished(labels, cleaned)


def _check_share(min_share: float) -> None:
    if not 0.0 <= min_share <= 1.0:
        raise ValueError(f"min_share must be a share of the image in [0, 1], got {min_share}")


def _pieces(labels: Ints) -> Ints:
    """Number the connected pieces from 1; 0 where labels are negative."""
    pieces: Ints = connected_components(np.maximum(labels, -1), background=-1, connectivity=1).astype(np.int64)
    return pieces


def _vanished(before: Ints, after: Ints) -> tuple[int, ...]:
    return tuple(np.setdiff1d(before, after).tolist())


def _contacts(pieces: Ints) -> list[Counter[int]]:
    """For each piece: neighbouring piece → length of the common boundary in pixel edges."""
    count = int(pieces.max()) + 1
    pairs = []
    for a, b in ((pieces[1:], pieces[:-1]), (pieces[:, 1:], pieces[:, :-1])):
        unlike = (a != b) & (a > 0) & (b > 0)
        pairs += [a[unlike] * count + b[unlike], b[unlike] * count + a[unlike]]
    contacts: list[Counter[int]] = [Counter() for _ in range(count)]
    for pair, length in zip(
        *(each.tolist() for each in np.unique(np.concatenate(pairs), return_counts=True)), strict=True
    ):
        contacts[pair // count][pair % count] = length
    return contacts


def _merge(region: list[int], area: list[int], contacts: list[Counter[int]], least: float) -> Ints:
    """Return the region of each piece when all with an area below `least` have joined their neighbours."""
    owner = list(range(len(region)))
    queue = [(area[piece], piece) for piece in range(1, len(region)) if area[piece] < least]
    heapq.heapify(queue)
    while queue:
        size, piece = heapq.heappop(queue)
        if owner[piece] != piece or area[piece] != size or not contacts[piece]:
            continue
        joined = _most_contact(contacts[piece], region, area)
        # All neighbours of that region become one piece through this one; the one with most neighbours keeps its name.
        group = [piece, *(other for other in contacts[piece] if region[other] == joined)]
        kept = max(group, key=lambda member: (len(contacts[member]), -member))
        region[kept] = joined
        for member in group:
            if member != kept:
                _join(member, kept, owner, area, contacts)
        if area[kept] < least:
            heapq.heappush(queue, (area[kept], kept))
    return np.array([region[_root(owner, piece)] for piece in range(len(region))])


def _most_contact(contact: Counter[int], region: list[int], area: list[int]) -> int:
    """Return the region with the longest common boundary; of equals the largest around, then the first."""
    length: Counter[int] = Counter()
    around: Counter[int] = Counter()
    for other, edges in contact.items():
        length[region[other]] += edges
        around[region[other]] += area[other]
    return min(length, key=lambda number: (-length[number], -around[number], number))


def _join(member: int, kept: int, owner: list[int], area: list[int], contacts: list[Counter[int]]) -> None:
    owner[member] = kept
    area[kept] += area[member]
    for other, edges in contacts[member].items():
        del contacts[other][member]
        if other != kept:
            contacts[other][kept] += edges
            contacts[kept][other] += edges
    contacts[member].clear()


def _root(owner: list[int], piece: int) -> int:
    while owner[piece] != piece:
        owner[piece] = owner[owner[piece]]
        piece = owner[piece]
    return piece
