"""Small pictures of two textures, and a project of them, for the tests of classes."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

SHAPE = (72, 96)
CLASSES = [{"value": 3, "name": "smooth", "color": "#e6194b"}, {"value": 7, "name": "grainy", "color": "#3cb44b"}]


def picture(seed: int, split: int = 48):
    """A picture that is smooth left of a column and grainy right of it, and its map of values 3 and 7."""
    rng = np.random.default_rng(seed)
    grain = rng.integers(0, 200, SHAPE)
    columns = np.arange(SHAPE[1])
    image = np.where(columns < split, 90 + rng.integers(0, 12, SHAPE), 30 + grain).astype(np.uint8)
    return image, np.where(np.tile(columns, (SHAPE[0], 1)) < split, 3, 7).astype(np.uint8)


def thinned(truth):
    """Marks of one pixel in 25, with nothing to be learnt from the others: a head is soon taught with so few."""
    marks = np.full_like(truth, 255)
    marks[::5, ::5] = truth[::5, ::5]
    return marks


def project(folder: Path, pictures: int = 3) -> Path:
    """Write a project: one picture marked by a map, one by strokes, the others not."""
    (folder / "pictures").mkdir(parents=True)
    (folder / "marks").mkdir()
    (folder / "classes.json").write_text(json.dumps({"version": 1, "classes": CLASSES}))
    for number in range(pictures):
        image, truth = picture(number, 40 + 4 * number)
        Image.fromarray(image).save(folder / "pictures" / f"p{number}.png")
        if number == 0:
            Image.fromarray(thinned(truth)).save(folder / "marks" / "p0.png")
    strokes = [
        {"region": 3, "kind": "brush", "radius": 3, "points": [[5, 5], [30, 60]]},
        {"region": 7, "kind": "brush", "radius": 3, "points": [[60, 5], [90, 60]]},
    ]
    (folder / "marks" / "p1.json").write_text(json.dumps({"version": 1, "strokes": strokes}))
    return folder
