"""Marks in files: strokes as JSON, and scribble pictures as people really make them.

A stroke file is ``{"version": 1, "strokes": [{"region": 0, "kind": "brush", "radius": 4, "points": [[x, y], …]}, …]}``.

A scribble picture holds the number of a region where one is marked. What is unmarked it says in one of these ways:
a pixel is 255 (65535 in 16 bits, negative in a signed TIFF); or transparent; or, where no pixel is either, it has the
background's value 0 or the background's colour, black or white. Without numbers, in colours or above a background of 0,
regions are numbered from 0 in the order of the stored values: indices, or colours by red, green and blue.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from ..arrays import Array, Labels
from ..io.files import atomic, read_json
from ..io.images import read_labels, read_rgba
from ..labels import UNMARKED
from .marks import MOST_REGIONS, Mark, Stroke

VERSION = 1
#: What unmarked pixels hold in pictures of 8 and of 16 bits, which cannot store −1.
UNMARKED_IN_FILES = (255, 65535)
#: Most colours of a drawing, and the least share of the painted pixels that a colour has; others are blends at edges.
MOST_COLOURS, LEAST_SHARE = 16, 0.05
#: How far a blend lies from the line between two colours, in 255 levels, where an editor blends light instead of
#: numbers; and the share of the painted pixels that may lie further off.
BLEND, MOST_OFF = 32, 0.002
#: Colours so near each other, in 255 levels, are one that JPEG has changed.
ALIKE = 8


def write_strokes(path: str | os.PathLike[str], strokes: Iterable[Stroke]) -> None:
    """Write strokes as JSON, atomically, a line for each."""
    lines = ",\n".join("  " + json.dumps(stroke.to_dict()) for stroke in strokes)
    text = f'{{"version": {VERSION}, "strokes": [\n{lines}\n]}}\n'
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_strokes(path: str | os.PathLike[str]) -> list[Stroke]:
    """Read a stroke file; a ValueError begins with its name and says what is wrong with which stroke."""
    path = Path(path)
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("strokes"), list):
        raise ValueError(f'{path}: a stroke file is {{"version": {VERSION}, "strokes": [...]}}')
    version = content.get("version")
    if version != VERSION:
        raise ValueError(f"{path}: its version is {version!r:.40}, this shapetailor reads version {VERSION}")
    strokes = []
    for number, values in enumerate(content["strokes"]):
        try:
            strokes.append(Stroke.from_dict(values))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: stroke {number}: {error}") from error
    return strokes


def read_marks(path: str | os.PathLike[str]) -> list[Mark]:
    """Read marks from a stroke file (.json) or from a scribble picture."""
    if Path(path).suffix.lower() == ".json":
        return list(read_strokes(path))
    return [read_scribbles(path)]


def read_scribbles(path: str | os.PathLike[str]) -> Labels:
    """Read a scribble picture as H×W labels, −1 where nothing is marked; a ValueError says what it cannot be."""
    path = Path(path)
    colours = read_rgba(path)
    if colours is not None and (colours[..., 3] < 255).any():
        return _from_colours(path, read_labels(path), colours[..., 3] == 255)
    numbers = read_labels(path)
    if colours is not None and not (colours[..., :1] == colours[..., 1:3]).all():
        background = _background(path, numbers)
        return _from_colours(path, numbers, numbers != background, [background])
    return _from_numbers(path, numbers)


def _from_numbers(path: Path, stored: Labels) -> Labels:
    """Gray and indexed pictures, TIFF: the numbers are regions."""
    unmarked = (stored < 0) | np.isin(stored, UNMARKED_IN_FILES)
    if unmarked.any():
        marks = np.where(unmarked, UNMARKED, stored)
    elif np.count_nonzero(stored == 0) > stored.size / 2:
        marks = _numbered(stored, stored != 0)
    else:
        raise ValueError(
            f"{path}: every pixel is marked. Unmarked pixels hold 255 (65535 in 16 bits), are transparent, "
            "or are the background 0 that covers more than half of the picture"
        )
    if marks.max(initial=UNMARKED) > MOST_REGIONS:
        raise ValueError(f"{path}: regions are numbered up to {MOST_REGIONS}, got {int(marks.max())}")
    return _some(path, marks)


def _background(path: Path, numbers: Labels) -> int:
    """Return the most frequent colour, which must be black or white and cover most of the picture."""
    values, counts = np.unique(numbers, return_counts=True)
    background = int(values[counts.argmax()])
    if background not in (0, 0xFFFFFF) or 2 * counts.max() < numbers.size:
        raise ValueError(
            f"{path}: a drawing in colours needs a transparent, white or black background that covers more than half "
            f"of it; its most frequent colour is #{background:06x} on {counts.max()} of {numbers.size} pixels"
        )
    return background


def _from_colours(path: Path, numbers: Labels, painted: Array, background: Sequence[int] = ()) -> Labels:
    """Number the colours of a drawing; blends at the edges of strokes are unmarked."""
    values, counts = np.unique(numbers[painted], return_counts=True)
    main = values[counts >= LEAST_SHARE * counts.sum()] if len(values) else values
    if len(main) > MOST_COLOURS or (len(values) and not len(main)):
        raise ValueError(
            f"{path}: its marks have {len(values)} colours; a scribble picture has one for each region, at most "
            f"{MOST_COLOURS}, drawn without smoothing or texture"
        )
    if len(main) < len(values) and not _all_blends(values, counts, np.array([*main, *background], np.int64)):
        raise ValueError(
            f"{path}: its marks have {len(values)} colours, more than one for each region and blends at edges; draw "
            "more of a colour that is rare, and store the drawing as PNG from the start: JPEG makes new colours"
        )
    return _some(path, _numbered(numbers, painted & np.isin(numbers, main)))


def _all_blends(colours: Labels, counts: Labels, pure: Labels) -> bool:
    """Whether nearly all pixels have pure colours or such between two of them, and these are unlike each other.

    Colours are numbers 0xRRGGBB.
    """
    points, ends = (np.stack([each >> 16, each >> 8 & 255, each & 255], axis=1) for each in (colours, pure))
    known = np.isin(colours, pure)
    for start, end in combinations(ends, 2):
        line = end - start
        if np.abs(line).max() <= ALIKE:
            return False
        along = np.clip((points - start) @ line / (line @ line), 0, 1)
        known |= np.abs(points - start - along[:, None] * line).max(axis=1) <= BLEND
    return bool(counts[~known].sum() <= MOST_OFF * counts.sum())


def _numbered(values: Labels, marked: Array) -> Labels:
    """Number the values of marked pixels 0, 1, … in their order; −1 elsewhere."""
    marks = np.full(values.shape, UNMARKED, np.int64)
    marks[marked] = np.unique(values[marked], return_inverse=True)[1]
    return marks


def _some(path: Path, marks: Labels) -> Labels:
    if (marks < 0).all():
        raise ValueError(f"{path}: it marks no pixel")
    return marks
