"""Given regions, mended by strokes: a stroke changes the connected piece that it lies in, and nothing else."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import distance_transform_edt
from skimage.measure import label as connected_components

from ..arrays import Floats32, Ints, Labels, Mask
from .propagation import (
    MARKED,
    PIXEL_SCREENING,
    Prototypes,
    Scene,
    Unaided,
    held,
    one_hot,
    pooled,
    regional,
    spread,
    walk,
)

#: A piece is open if a stroke has this share or more of its contradicting pixels there: brushes slip over edges.
SLIPPED = 0.1
#: Least share of a piece that a part of it has to speak for what was given.
SPEAKING = 0.02
#: What cells speak with where nothing is marked.
WHISPER = 1e-3


def opened(marks: Labels, given: Labels) -> Ints:
    """Number the connected pieces of given regions (H, W) in which a mark says otherwise from 1 on; 0 elsewhere."""
    wrong = (marks >= 0) & (given >= 0) & (marks != given)
    pieces = connected_components(given, background=-1, connectivity=1)
    strokes = connected_components(np.where(wrong, marks, -1), background=-1, connectivity=2)
    strokes, pieces_there = strokes[wrong], pieces[wrong]
    table = np.zeros((int(strokes.max(initial=0)) + 1, int(pieces.max()) + 1))
    np.add.at(table, (strokes, pieces_there), 1)
    is_open = (table >= SLIPPED * np.maximum(table.sum(axis=1, keepdims=True), 1)).any(axis=0)
    is_open &= table.any(axis=0)
    numbers = np.where(is_open, np.cumsum(is_open), 0)
    found: Ints = numbers[pieces].astype(np.int64)
    return found


def merged(full: Labels, given: Labels, posed: Labels, movable: Mask) -> Labels:
    """What has changed on the canvas, in the picture's size, and all else to the pixel as it was given (H, W).

    `posed` is what the canvas has of `given`. What is too thin for it stays, unless all that it hung on has changed.
    """
    found: Labels = np.where(movable & (full != posed), full, given)
    thin = given != posed
    if not thin.any():
        return found
    pieces = connected_components(np.where(thin, found, -1), background=-1, connectivity=1)
    rows, columns = np.nonzero(thin)
    region, number = found[thin], pieces[thin]
    has_lost, hangs = np.zeros((2, int(pieces.max()) + 1), bool)
    for down, right in ((0, 1), (0, -1), (1, 0), (-1, 0)):
        beside = np.clip(rows + down, 0, found.shape[0] - 1), np.clip(columns + right, 0, found.shape[1] - 1)
        has_lost[number[(given[beside] == region) & (found[beside] != region)]] = True
        hangs[number[(found[beside] == region) & ~thin[beside]]] = True
    return np.where((has_lost & ~hangs)[pieces] & thin, full, found)


def mended(scene: Scene, marks: Labels, unaided: Unaided, pieces: Ints, count: int) -> Floats32:
    """Return how likely each of `count` regions is, (K, H, W).

    Each open piece (`opened`) is divided among its given region and the strokes that lie in it; the walk does not leave
    it. For the given region speak its own strokes there, and the parts of the finest cut that no stroke contradicts.
    """
    hot, given = one_hot(marks, count), one_hot(unaided.labels, count)
    cells = _on_grid(pieces, scene.grid)
    shares = pooled(hot * (pieces > 0), scene.grid) * (cells > 0)
    top = unaided.share.argmax(axis=0)
    allowed = np.zeros((int(pieces.max()) + 1, count), bool)
    for number in range(1, len(allowed)):
        inside = pieces == number
        allowed[number, np.unique(marks[inside & (marks >= 0)])] = True
        region = int(unaided.labels[inside].max())
        allowed[number, region] = True
        for place in _speakers(scene.cuts[-1].reshape(scene.grid), cells == number, shares, region):
            shares[region][place] = np.maximum(shares[region][place], WHISPER)
    prior = np.where(cells > 0, 0, np.arange(count)[:, None, None] == top).astype(np.float32)
    if shares.any():
        found = scene.prototypes(shares)
        prior += _prior(found, scene, unaided, cells, count)
    prior = np.where((prior.sum(axis=0) > 0), prior, unaided.share)
    u = spread(_walk_inside(scene, prior, shares, unaided, cells), scene.size) * allowed[pieces].transpose(2, 0, 1)
    total = u.sum(axis=0)
    u = np.where((pieces > 0) & (total > 1e-6), u / np.maximum(total, 1e-6), given)
    return _walk_on_pixels(scene, np.where(marks >= 0, hot, u), (marks >= 0) | (pieces == 0), pieces)


def _speakers(parts: Ints, piece: Mask, shares: Floats32, region: int) -> list[Mask]:
    """Small places, each deep in a part of a piece that no stroke of another region touches."""
    contradicted = np.delete(shares, region, axis=0).max(axis=0, initial=0) > 0
    found = []
    for part in np.unique(parts[piece]):
        inside = piece & (parts == part)
        if inside.sum() < SPEAKING * piece.sum() or (contradicted & inside).any():
            continue
        depth = distance_transform_edt(np.pad(inside, 1))[1:-1, 1:-1]
        y, x = np.unravel_index(int(depth.argmax()), depth.shape)
        place = np.zeros_like(piece)
        place[max(0, y - 2) : y + 3, max(0, x - 2) : x + 3] = True
        found.append(place & inside)
    return found


def _prior(found: Prototypes, scene: Scene, unaided: Unaided, cells: Ints, count: int) -> Floats32:
    """What the strokes of each open piece claim inside it; 0 elsewhere."""
    home = np.array([cells.ravel()[mask].max() for mask in found.marked])
    claims = np.where(home[:, None] == cells.ravel(), scene.claims(found, unaided), -np.inf)
    best = regional(found.region, claims, count)
    top = best.max(axis=0)
    prior = np.where(np.isfinite(top), np.exp(best - np.where(np.isfinite(top), top, 0)), 0)
    total = prior.sum(axis=0)
    return np.asarray(prior / np.where(total > 0, total, 1), np.float32).reshape(count, *scene.grid)


def _walk_inside(scene: Scene, prior: Floats32, shares: Floats32, unaided: Unaided, cells: Ints) -> Floats32:
    across, down = scene.conductances(unaided)
    across, down = across * (cells[:, 1:] == cells[:, :-1]), down * (cells[1:] == cells[:-1])
    target, screening = held(prior, np.where(shares > WHISPER, shares, 0))
    return walk(target, np.where(cells > 0, screening, MARKED), (across, down), 1e-4)


def _walk_on_pixels(scene: Scene, target: Floats32, kept: Mask, pieces: Ints) -> Floats32:
    across, down = scene.pixel_conductances
    across, down = across * (pieces[:, 1:] == pieces[:, :-1]), down * (pieces[1:] == pieces[:-1])
    return walk(target, np.where(kept, MARKED, PIXEL_SCREENING), (across, down), 1e-3)


def _on_grid(pieces: Ints, grid: tuple[int, int]) -> Ints:
    """The number that most of each cell has, none of the open pieces being lost."""
    counts = pooled(one_hot(pieces, int(pieces.max()) + 1), grid)
    counts[0] -= 1e-6  # ties go to open pieces
    found = counts.argmax(axis=0)
    for number in np.setdiff1d(np.arange(1, len(counts)), found):
        found.flat[int(counts[number].argmax())] = number
    return np.asarray(found, np.int64)
