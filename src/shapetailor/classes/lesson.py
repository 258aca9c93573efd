"""Marked pictures become cells with features and classes, and these a head.

A cell is a block of the second network. Features depend on what all marked pictures look like, so pictures are looked
at first and described afterwards. Meanwhile they lie in temporary files; then only some of their cells are kept. So
many pictures fit into memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..arrays import Floats32, Labels, as_array
from ..evaluate.classes import confusion, scores
from ..io.intensity import Intensity
from ..network.stdnn import STDNN
from ..segmentation.canvas import canvas_of
from .boundaries import colours_tell, told_apart
from .copies import CROP, MOST_COPIED, POSES, copy_of
from .features import describe, feature_sources, raw_channels
from .head import STEPS, Head, expect_shares, fit
from .names import IGNORE, UNLABELLED, ClassName
from .standard import Measured, Standard, measured, standard_of

#: In marks, a pixel or cell from which nothing is learnt; −1 is merely unmarked.
LEFT_OUT = -2
#: Larger pictures are reduced for the work.
MAX_PIXELS = 2**22
#: A single picture is learnt from in all poses; each of several in so many over their number. Where that is one, a copy
#: of a crop is learnt from too, which takes less time.
COPIES = len(POSES)
#: Marked cells of a picture that are learnt from, at most.
MOST_CELLS = 12_000
#: Cells of a picture that are not marked and yet kept, at most.
MOST_OTHERS = 5000
#: Share of the sources that are left out of a cell while learning, since other pictures differ in whole channels; less
#: where many pictures show how: one over their number.
MOST_LEFT_OUT = 0.3
#: A first head's probability above which its class is learnt from.
SURE = 0.8
#: Marked cells are repeated until they are about so many of the others.
MARKED_SHARE = 0.3
#: Heads that are learnt without some of the pictures, to be judged on them, and the steps of each.
FOLDS, FOLD_STEPS = 3, 80


class Taught(NamedTuple):
    """A marked picture: its name for messages, the picture, and its marks.

    Marks are H×W integers: values of classes, 0 or negative where nothing is marked, 255 where nothing shall be learnt.
    """

    name: str
    image: Any
    marks: Any


class Cells(NamedTuple):
    """What is kept of a picture: some of the marked cells, some of the others, and how many each stands for."""

    features: Tensor  # (n, F)
    targets: Tensor  # (n,)
    weight: float
    others: Tensor  # (m, F)
    others_weight: float


def described_cells(
    net: STDNN, standard: Standard | None, values: Floats32, marks: Labels, classes: int, seed: int, number: int,
    pictures: int,
) -> Cells:  # fmt: skip
    """Describe picture `number` of so many `pictures`, and copies of it if these are few; choose from their cells."""
    cropped = COPIES // pictures == 1
    copies, share = max(1, COPIES // pictures) + cropped, min(CROP if cropped else 1, MOST_COPIED / marks.size)
    parts = []
    for copy in range(copies):
        seen, there = values, marks
        if copy:
            pose = POSES[number % len(POSES) if cropped else copy]
            seen, there = copy_of(values, marks, pose, share, np.random.default_rng([seed, number, copy]))
        cells = cell_classes(there, cell_side(net), classes)
        parts.append(choose_cells(describe(net, seen, standard).cpu(), cells, [seed, number, copy], copies))
    return _joined(parts, 1 + (copies - 1) * share)


def choose_cells(features: Tensor, cells: Labels, seed: Sequence[int], copies: int = 1) -> Cells:
    """Choose from the cells of one of a picture's copies, described by (F, h, w), at random where there are many."""
    rng = np.random.default_rng(seed)
    flat = features.flatten(1)
    marked, marked_weight = _some(np.flatnonzero(cells >= 0), MOST_CELLS // copies, rng)
    others, others_weight = _some(np.flatnonzero(cells == -1), MOST_OTHERS // copies, rng)
    return Cells(
        flat[:, torch.from_numpy(marked)].T.float().contiguous(),
        torch.from_numpy(cells.ravel()[marked]),
        marked_weight,
        flat[:, torch.from_numpy(others)].T.float().contiguous(),
        others_weight,
    )


def _joined(parts: Sequence[Cells], shown: float) -> Cells:
    """Put the cells of a picture's copies together, which show it so many times and stand for one picture."""

    def weight(cells: Sequence[Tensor], each: Sequence[float]) -> float:
        kept = [len(part) for part in cells]
        return float(np.dot(kept, each)) / max(sum(kept), 1) / shown

    features, targets, weights, others, others_weights = zip(*parts, strict=True)
    return Cells(
        torch.cat(features),
        torch.cat(targets),
        weight(targets, weights),
        torch.cat(others),
        weight(others, others_weights),
    )


def _some(places: Labels, most: int, rng: np.random.Generator) -> tuple[Labels, float]:
    """Return at most so many places, and how many each stands for."""
    if len(places) <= most:
        return places, 1.0
    return np.sort(rng.choice(places, most, replace=False)), len(places) / most


def learn(pictures: Sequence[Cells], classes: int, sources: Tensor, seed: int, steps: int = STEPS) -> Head:
    """Learn a head from the cells of all pictures.

    Where cells are not marked, a first head finds their classes and a second one learns from them too: marks by strokes
    show neither all looks of a class nor its share of a picture.
    """
    features, targets = torch.cat([each.features for each in pictures]), torch.cat([each.targets for each in pictures])
    left_out = min(MOST_LEFT_OUT, 1 / len(pictures))
    head = fit(features, targets, classes, sources, seed, left_out, steps)
    others = torch.cat([each.others for each in pictures])
    if not len(others):
        return head
    marked = torch.stack([each.weight * torch.bincount(each.targets, minlength=classes) for each in pictures]).sum(0)
    weights = torch.cat([torch.full((len(each.others),), each.others_weight) for each in pictures])
    expect_shares(head, torch.bincount(targets, minlength=classes), marked, others, weights)
    probability, found = head.of_cells(others).max(dim=1)
    sure = probability > SURE
    again = max(1, int(MARKED_SHARE * int(sure.sum()) / len(targets)))
    features, targets = features.repeat(again, 1), targets.repeat(again)
    features, targets = torch.cat([features, others[sure]]), torch.cat([targets, found[sure]])
    return fit(features, targets, classes, sources, seed, left_out, steps)


def held_out(pictures: Sequence[Cells], classes: int, sources: Tensor, seed: int) -> dict[str, Any] | None:
    """Judge heads on the marked cells of pictures that they have not learnt from; None where there are too few.

    Every third picture is left out in turn.
    """
    if len(pictures) < FOLDS:
        return None
    matrices = []
    for fold in range(FOLDS):
        others = [each for number, each in enumerate(pictures) if number % FOLDS != fold]
        head = learn(others, classes, sources, seed, FOLD_STEPS)
        for each in pictures[fold::FOLDS]:
            found = head.of_cells(each.features).argmax(dim=1)
            matrices.append(confusion(each.targets.numpy(), found.numpy(), range(classes)))
    judged = scores(matrices)
    return {
        "folds": FOLDS,
        "mean_iou": round(judged.mean_iou, 4),
        "accuracy": round(judged.accuracy, 4),
        "iou": [None if np.isnan(each) else round(float(each), 4) for each in judged.iou],
    }


class Lesson:
    """Marked cells of all pictures: `add` looks at one and puts it into a folder, `learn` describes them all."""

    def __init__(
        self, classes: tuple[ClassName, ...], net: STDNN, intensity: Intensity, seed: int, folder: Path
    ) -> None:
        self.classes, self.net, self.intensity, self.seed, self.folder = classes, net, intensity, seed, folder
        self.resolution = 0
        self._names: list[str] = []
        self._pixels = np.zeros(len(classes), np.int64)
        self._digest = hashlib.sha256()
        self._measured: list[Measured] = []
        self._told: list[float | None] = []

    def add(self, sample: Taught) -> None:
        """Look at a picture."""
        canvas = canvas_of(sample.image, self.net.image_channels, self.net.stride, MAX_PIXELS, self.intensity)
        marks = class_numbers(sample.marks, self.classes, canvas.source.shape, sample.name)
        self._digest.update(
            canvas.original.tobytes() + marks.astype(np.int16).tobytes() + bytes(str(marks.shape), "ascii")
        )
        if canvas.valid is not None:  # nothing is learnt from outside the picture
            marks = np.where(canvas.valid, marks, LEFT_OUT)
            if (marks < 0).all():
                raise ValueError(f"{sample.name}: no pixel inside the picture is marked with a class")
        self._names.append(sample.name)
        self._pixels += np.bincount(marks[marks >= 0], minlength=len(self.classes))
        if not self.resolution:
            self.resolution = max(canvas.values.shape[1:])
            self.net = self.net.rescaled(self.resolution)
        marks = canvas.marks_in(marks, sample.name)
        told = told_apart(canvas.values, marks, np.random.default_rng([self.seed, len(self._names)]))
        self._told.append(told)
        cells = cell_classes(marks, cell_side(self.net), len(self.classes))
        with torch.no_grad():
            raw = raw_channels(self.net, torch.from_numpy(canvas.values)[None].to(self.net.mean.device))
        self._measured.append(measured(raw, cells, len(self.classes)))
        file = self._file(len(self._names))
        try:
            np.savez(file, values=canvas.values, marks=marks.astype(np.int16))
        except OSError as error:  # NumPy does not say which file
            raise OSError(error.errno, error.strerror, str(file)) from error

    def _file(self, number: int) -> Path:
        return self.folder / f"{number}.npz"

    @property
    def colours_tell(self) -> bool:
        """Whether boundaries shall follow the colours."""
        return colours_tell(self._told)

    def learn(self, watch: Callable[[Iterable[str]], Iterable[str]] = iter) -> tuple[Head, Standard, dict[str, Any]]:
        """Return a head, what pictures are standardised by, and what is kept of the lesson in the file.

        `watch` is given the names of the pictures as they are described.
        """
        if not self._names:
            raise ValueError("samples must hold at least one marked picture, got none")
        if np.count_nonzero(self._pixels) < 2:
            only = ", ".join(each.name for each, count in zip(self.classes, self._pixels, strict=True) if count)
            raise ValueError(f"marks must be of at least two classes, got {only} only")
        count, sources = len(self.classes), feature_sources(self.net, len(self._names))
        standard = standard_of(self._measured)
        pictures = [self._described(number, standard) for number, _ in enumerate(watch(self._names), start=1)]
        record = {
            "seed": self.seed,
            "marks": self._digest.hexdigest(),
            "pictures": self._names,
            "marked_pixels": {each.name: int(n) for each, n in zip(self.classes, self._pixels, strict=True)},
            "held_out": held_out(pictures, count, sources, self.seed),
        }
        return learn(pictures, count, sources, self.seed), standard, record

    def _described(self, number: int, standard: Standard) -> Cells:
        with np.load(self._file(number)) as kept:
            values, marks = kept["values"], kept["marks"].astype(np.int64)
        self._file(number).unlink()
        classes, pictures = len(self.classes), len(self._names)
        return described_cells(self.net, standard, values, marks, classes, self.seed, number, pictures)


def class_numbers(marks: Any, classes: tuple[ClassName, ...], shape: tuple[int, ...], name: str) -> Labels:
    """Check a map of classes' values and return their places in `classes`, −1 where unmarked, `LEFT_OUT` for 255."""
    array = as_array(marks, f"{name}: marks")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: marks must hold integers, got {array.dtype}")
    if array.shape != tuple(shape):
        raise ValueError(f"{name}: marks must have the picture's size {tuple(shape)}, got {array.shape}")
    values = [each.value for each in classes]
    present = np.unique(array[(array > UNLABELLED) & (array != IGNORE)])
    unknown = np.setdiff1d(present, values)
    if len(unknown):
        known = ", ".join(f"{each.value} {each.name}" for each in classes)
        raise ValueError(f"{name}: marks name the unknown class {', '.join(map(str, unknown))}; classes are {known}")
    places = np.full(256, -1, np.int64)
    places[values], places[IGNORE] = np.arange(len(values)), LEFT_OUT
    numbers: Labels = places[np.clip(array, 0, 255)]
    if (numbers < 0).all():
        raise ValueError(f"{name}: no pixel is marked with a class")
    return numbers


def cell_classes(marks: Labels, side: int, classes: int) -> Labels:
    """Return the class that most marked pixels of each block have, (h, w).

    Where none is marked: `LEFT_OUT` if some pixel is, else −1.
    """
    rest = [(0, -length % side) for length in marks.shape]
    whole = np.pad(marks, rest, constant_values=-1)
    blocks = whole.reshape(whole.shape[0] // side, side, whole.shape[1] // side, side)
    votes = np.stack([(blocks == number).sum(axis=(1, 3)) for number in range(classes)])
    without = np.where((blocks == LEFT_OUT).any(axis=(1, 3)), LEFT_OUT, -1)
    found: Labels = np.where(votes.any(axis=0), votes.argmax(axis=0), without)
    return found


def cell_side(net: STDNN) -> int:
    """Return the side of a cell in pixels."""
    assert net.fine is not None
    return net.fine.stride
