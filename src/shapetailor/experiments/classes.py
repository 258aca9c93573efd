"""Classes taught with a few pictures: how well the others are classified, against a forest on a filter bank."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from skimage.draw import line

from ..arrays import Array, Floats32, Labels
from ..classes.boundaries import colours_tell, told_apart
from ..classes.classifier import pixels_of
from ..classes.features import check_network, feature_sources, features_of, raw_channels
from ..classes.lesson import LEFT_OUT, MAX_PIXELS, cell_classes, cell_side, described_cells, learn
from ..classes.standard import Standard, measured, standard_of
from ..datasets import ProceduralTextures, TextureFolder, mosaic
from ..evaluate.classes import confusion, scores
from ..io.files import image_files
from ..io.images import read_image, read_labels
from ..labels import dilate
from ..network.checkpoint import read_model
from ..network.stdnn import STDNN
from ..segmentation.canvas import canvas_of
from .results import Context, Results, TableRow

SUMMARY = (
    "Classes taught with 1, 2, 4, 8 and 20 pictures, by full maps and by simulated strokes on about 1 % of the pixels, "
    "tested on the others; against a random forest on scikit-image's filter bank (not in the paper). --data: a folder "
    "with images/NAME and labels/NAME.png (values of classes, 255 ignore), and folds.json if there are; or a folder of "
    "textures, of which mosaics with five fixed classes are made. --quick: such mosaics of generated textures."
)
COLUMNS = ("mean_iou", "accuracy", "area_error")
TAUGHT, DRAWS = (1, 2, 4, 8, 20), 4
IGNORE = 255
#: Share of the pixels that simulated strokes mark; their length and radius in pixels.
STROKE_SHARE, STROKE_LENGTH, STROKE_RADIUS = 0.01, 40, 2
#: Every so many pixels along each side are judged.
STEP = 2
#: The peer: trees, and pixels of each picture it learns from.
TREES, FOREST_PIXELS, FOREST_DRAWS = 100, 3000, 2
#: Mosaics of fixed classes: textures, mosaics, side.
FIXED, MOSAICS, SIDE = 5, 24, 256


@dataclass
class Picture:
    """A picture, its truth (places of classes, `LEFT_OUT` ignored), marks by strokes, and what methods keep of it."""

    name: str
    image: Array
    truth: Labels
    strokes: Labels
    kept: dict[str, Any]


#: Learn from pictures and their marks; return what gives a picture's classes at every `STEP`-th pixel.
Method = Callable[[Sequence[Picture], Sequence[Labels], int], Callable[[Picture], Labels]]


def run(context: Context) -> Results:
    """Teach with few pictures, test on the others."""
    pictures, folds, words = _pictures(context)
    count = 1 + max(int(each.truth.max()) for each in pictures)
    results = Results("Classes taught with a few pictures", "not in the paper", COLUMNS, words)
    methods: dict[str, tuple[Method, int]] = {
        "ours": (_Ours(context.model or "texture", count), DRAWS),
        "forest on filters": (_Forest(count), FOREST_DRAWS),
    }
    for title, (method, draws) in methods.items():
        for taught in TAUGHT:
            for marks in ("maps", "strokes"):
                splits = _splits(len(pictures), taught, 1 if context.quick else draws, folds, context.seed)
                if not splits or (context.quick and taught > 2) or (title != "ours" and marks == "strokes"):
                    continue
                found = []
                for number, split in enumerate(splits):
                    key = f"{title.split()[0]}-{marks}-{taught}-{number}"
                    job = (pictures, method, split, marks, count, context.seed)
                    found.append(context.remember(key, partial(_judge, *job)))
                values = {name: float(np.mean([each[name] for each in found])) for name in COLUMNS}
                spread = float(np.std([each["mean_iou"] for each in found]))
                note = f"{len(found)} draws, mean IoU ± {spread:.3f}"
                results.rows.append(TableRow(f"{title}, {taught} by {marks}", values, "measured", note))
    results.notes.append(
        "Mean IoU over all pixels of a draw's test pictures; area error: the mean over classes and pictures."
    )
    return results


def _judge(
    pictures: list[Picture], method: Method, split: tuple[list[int], list[int]], marks: str, count: int, seed: int
) -> dict[str, float]:
    taught = [pictures[i] for i in split[0]]
    predict = method(taught, [each.truth if marks == "maps" else each.strokes for each in taught], seed)
    tested = [pictures[i] for i in split[1]]
    values = range(count)
    judged = scores([confusion(each.truth[::STEP, ::STEP], predict(each), values) for each in tested])
    return {name: getattr(judged, name) for name in COLUMNS}


class _Ours:
    """The head on our features; the channels that these are made of are computed once for each picture."""

    def __init__(self, model: str, count: int) -> None:
        self.net, self.count = read_model(model).net, count
        check_network(self.net)
        self._side = cell_side(self.net)

    def __call__(self, taught: Sequence[Picture], marks: Sequence[Labels], seed: int) -> Callable[[Picture], Labels]:
        places, seen, told = [], [], []
        for number, (picture, mark) in enumerate(zip(taught, marks, strict=True)):
            self._look_at(picture)
            places.append(picture.kept["canvas"].marks_in(mark, "marks"))
            seen.append(measured(picture.kept["raw"], cell_classes(places[-1], self._side, self.count), self.count))
            told.append(told_apart(picture.kept["canvas"].values, places[-1], np.random.default_rng([seed, number])))
        standard = standard_of(seen)
        kept = []
        for number, (picture, marked) in enumerate(zip(taught, places, strict=True)):
            values, net = picture.kept["canvas"].values, self._net(picture.kept["canvas"].values)
            kept.append(described_cells(net, standard, values, marked, self.count, seed, number, len(taught)))
        head = learn(kept, self.count, feature_sources(self.net, len(kept)), seed)
        follows = colours_tell(told)

        def predict(picture: Picture) -> Labels:
            self._look_at(picture)
            cells, canvas = head.probabilities(self._features(picture, standard)), picture.kept["canvas"]
            pixels = pixels_of(cells, canvas, self._side, follows)
            found: Labels = canvas.labels_out(pixels.argmax(axis=0))[::STEP, ::STEP]
            return found

        return predict

    def _look_at(self, picture: Picture) -> None:
        if "raw" not in picture.kept:
            canvas = canvas_of(picture.image, self.net.image_channels, self.net.stride, MAX_PIXELS)
            with torch.no_grad():
                raw = raw_channels(self._net(canvas.values), torch.from_numpy(canvas.values)[None])
            picture.kept |= {"canvas": canvas, "raw": raw}

    def _features(self, picture: Picture, standard: Standard) -> torch.Tensor:
        with torch.no_grad():
            return features_of(self._net(picture.kept["canvas"].values), picture.kept["raw"], standard)[0]

    def _net(self, values: Floats32) -> STDNN:
        return self.net.rescaled(max(values.shape[1:]))


class _Forest:
    """A random forest on scikit-image's multiscale features: the way of ilastik, Labkit and Weka."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, taught: Sequence[Picture], marks: Sequence[Labels], seed: int) -> Callable[[Picture], Labels]:
        from sklearn.ensemble import RandomForestClassifier

        features, targets = [], []
        for number, (picture, mark) in enumerate(zip(taught, marks, strict=True)):
            seen = mark[::STEP, ::STEP].ravel()
            chosen = np.flatnonzero(seen >= 0)
            if len(chosen) > FOREST_PIXELS:
                chosen = np.random.default_rng([seed, number]).choice(chosen, FOREST_PIXELS, replace=False)
            bank = _filter_bank(picture)
            features.append(bank.reshape(-1, bank.shape[2])[chosen])
            targets.append(seen[chosen])
        forest = RandomForestClassifier(
            TREES, min_samples_leaf=3, class_weight="balanced", n_jobs=-1, random_state=seed
        ).fit(np.concatenate(features), np.concatenate(targets))

        def predict(picture: Picture) -> Labels:
            bank = _filter_bank(picture)
            found: Labels = forest.predict(bank.reshape(-1, bank.shape[2])).reshape(bank.shape[:2])
            return found

        return predict


def _filter_bank(picture: Picture) -> Floats32:
    """Features of every `STEP`-th pixel along each side."""
    from skimage.feature import multiscale_basic_features

    if "bank" not in picture.kept:
        axis = 2 if picture.image.ndim == 3 else None
        bank = multiscale_basic_features(picture.image, channel_axis=axis)[::STEP, ::STEP]
        picture.kept["bank"] = np.ascontiguousarray(bank, np.float32)
    found: Floats32 = picture.kept["bank"]
    return found


def simulated_strokes(truth: Labels, rng: np.random.Generator) -> Labels:
    """Mark about `STROKE_SHARE` of the pixels by straight strokes inside the classes, as many of each; −1 elsewhere."""
    marks = np.full(truth.shape, -1, np.int64)
    present = np.unique(truth[truth >= 0])
    for place in present:
        inside = truth == place
        inner = ~dilate(~inside, 1.5)
        region = inner if inner.any() else inside
        starts = np.argwhere(region)
        drawn = np.zeros(truth.shape, bool)
        wanted = min(STROKE_SHARE * truth.size / len(present), 0.5 * len(starts))
        for _ in range(1000):
            if drawn.sum() >= wanted:
                break
            start = starts[rng.integers(len(starts))]
            angle = rng.uniform(0, 2 * np.pi)
            end = start + STROKE_LENGTH * np.array([np.sin(angle), np.cos(angle)])
            rows, columns = line(*start, *np.clip(end, 0, np.array(truth.shape) - 1).astype(int))
            outside = np.flatnonzero(~region[rows, columns])
            stop = outside[0] if len(outside) else len(rows)
            path = np.zeros(truth.shape, bool)
            path[rows[:stop], columns[:stop]] = True
            drawn |= dilate(path, STROKE_RADIUS) & region
        marks[drawn] = place
    return marks


def _splits(
    count: int, taught: int, draws: int, folds: list[list[int]] | None, seed: int
) -> list[tuple[list[int], list[int]]]:
    """Pictures to teach and to test with: folds where they leave just so many, else draws."""
    if folds and all(count - len(fold) == taught for fold in folds):
        return [([i for i in range(count) if i not in fold], fold) for fold in folds]
    if taught >= count:
        return []
    orders = [np.random.default_rng([seed, taught, draw]).permutation(count).tolist() for draw in range(draws)]
    return [(sorted(order[:taught]), sorted(order[taught:])) for order in orders]


def _pictures(context: Context) -> tuple[list[Picture], list[list[int]] | None, str]:
    rng = np.random.default_rng(context.seed)
    data = context.data
    if data is None or not (data / "labels").is_dir():
        return _mosaics(context, rng), None, "mosaics of five fixed textures"
    images = image_files(data / "images")[: context.limit] if (data / "images").is_dir() else []
    if len(images) < 2:
        raise ValueError(f"data: {data / 'images'} gives {len(images)} pictures; at least one to teach and one to test")
    truths = [read_labels(data / "labels" / f"{path.stem}.png") for path in images]
    values = np.unique(np.concatenate([np.unique(each) for each in truths]))
    values = values[(values >= 0) & (values != IGNORE)]
    if len(values) < 2:
        raise ValueError(f"data: {data / 'labels'} shows {len(values)} classes; at least 2 are needed")
    pictures = []
    for path, stored in zip(images, truths, strict=True):
        truth = np.where(np.isin(stored, values), np.searchsorted(values, stored), LEFT_OUT)
        pictures.append(Picture(path.stem, read_image(path), truth, simulated_strokes(truth, rng), {}))
    return (
        pictures,
        _folds(data / "folds.json", [each.name for each in pictures]),
        f"{data.name}, {len(pictures)} pictures",
    )


def _folds(path: Path, names: list[str]) -> list[list[int]] | None:
    if not path.is_file():
        return None
    folds = [[names.index(name) for name in fold if name in names] for fold in json.loads(path.read_text()).values()]
    return folds if sum(map(len, folds)) == len(names) else None


def _mosaics(context: Context, rng: np.random.Generator) -> list[Picture]:
    """Mosaics of the same textures: the upper half of each for one half of the mosaics, the lower for the others."""
    source = ProceduralTextures(FIXED, 512, context.seed) if context.data is None else TextureFolder(context.data)
    if len(source) < FIXED:
        raise ValueError(
            f"data: {context.data} holds {len(source)} textures; at least {FIXED} are needed, or images/ and labels/"
        )
    chosen = np.random.default_rng(context.seed).choice(len(source), FIXED, replace=False).tolist()
    textures = [source[i].image for i in chosen]
    pictures = []
    for number in range(6 if context.quick else MOSAICS):
        halves = [np.array_split(each, 2, axis=0)[number % 2] for each in textures]
        sample = mosaic(halves, SIDE, rng, f"{number:02d}")
        truth = sample.truths[0]
        pictures.append(Picture(sample.name, sample.image, truth, simulated_strokes(truth, rng), {}))
    return pictures
