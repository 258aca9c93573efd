"""Post-processing: pieces of regions too small to mean anything are given to their surroundings."""

from __future__ import annotations

import heapq
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ints, Labels
from ..labels import smooth_boundaries
from ..parallel import compiled


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
    pieces, region, area = pieces_of(labels)
    inside = int(area[1:].sum())
    if (area[1:] >= min_share * inside).all():
        return labels, ()
    merged = _merge(region.tolist(), area.tolist(), _contacts(pieces), min_share * inside)
    changed = merged != region
    cleaned = labels.copy()
    for row, line in enumerate(pieces):  # line by line, for the sake of memory
        other = changed[line]
        cleaned[row, other] = merged[line[other]]
    kept = np.unique(merged[1:])
    return cleaned, tuple(np.setdiff1d(region[1:], kept).tolist())


def _check_share(min_share: float) -> None:
    if not 0.0 <= min_share <= 1.0:
        raise ValueError(f"min_share must be a share of the image in [0, 1], got {min_share}")


def pieces_of(labels: Ints) -> tuple[NDArray[np.int32], Ints, Ints]:
    """Number the connected pieces from 1 in the order of their first pixels; 0 where labels are negative.

    Also return each piece's label and area, those of 0 first.
    """
    pieces = np.zeros(labels.shape, np.int32)
    count = _number(np.ascontiguousarray(labels), pieces)
    region, area = np.full(count + 1, -1), np.zeros(count + 1, np.int64)
    _gather(labels, pieces, region, area)
    return pieces, region, area


@compiled()
def _number(labels: Ints, pieces: NDArray[np.int32]) -> int:
    """Union–find: give every pixel a provisional number, join those that meet, number what is left by first pixels."""
    height, width = labels.shape
    parent = [np.int32(0)]
    for y in range(height):
        for x in range(width):
            here = labels[y, x]
            if here < 0:
                continue
            above = pieces[y - 1, x] if y and labels[y - 1, x] == here else np.int32(0)
            before = pieces[y, x - 1] if x and labels[y, x - 1] == here else np.int32(0)
            if not above and not before:
                parent.append(np.int32(len(parent)))
                pieces[y, x] = len(parent) - 1
                continue
            pieces[y, x] = above or before
            if above and before and above != before:
                while parent[above] != above:
                    parent[above] = parent[parent[above]]
                    above = parent[above]
                while parent[before] != before:
                    parent[before] = parent[parent[before]]
                    before = parent[before]
                parent[max(above, before)] = min(above, before)
    final, count = np.zeros(len(parent), np.int32), 0
    for piece in range(1, len(parent)):  # a parent has a lower number
        if parent[piece] == piece:
            count += 1
            final[piece] = count
        else:
            final[piece] = final[parent[piece]]
    for y in range(height):
        for x in range(width):
            pieces[y, x] = final[pieces[y, x]]
    return count


@compiled()
def _gather(labels: Ints, pieces: NDArray[np.int32], region: Ints, area: Ints) -> None:
    for y in range(labels.shape[0]):
        for x in range(labels.shape[1]):
            region[pieces[y, x]] = labels[y, x]
            area[pieces[y, x]] += 1
    region[0] = -1


def _contacts(pieces: NDArray[np.int32]) -> list[Counter[int]]:
    """For each piece: neighbouring piece → length of the common boundary in pixel edges."""
    count = int(pieces.max()) + 1
    pairs = []
    for a, b in ((pieces[1:], pieces[:-1]), (pieces[:, 1:], pieces[:, :-1])):
        unlike = (a != b) & (a > 0) & (b > 0)
        first, second = a[unlike].astype(np.int64), b[unlike].astype(np.int64)
        pairs += [first * count + second, second * count + first]
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
