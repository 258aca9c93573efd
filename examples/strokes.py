"""Strokes on a picture whose regions are not clear by themselves: what is drawn, what follows, where it is unsure.

Run it with ``python examples/strokes.py --out docs/images/strokes.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import distance_transform_edt

from shapetailor import Segmenter, Stroke
from shapetailor.datasets import mosaic, texture
from shapetailor.drawing.overlay import overlay, region_colour
from shapetailor.io import write_image

SIZE, GAP, TITLE = 256, 8, 22


def main() -> None:
    """Draw, segment, and write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/strokes.png"))
    out = parser.parse_args().out
    rng = np.random.default_rng(3)
    sample = mosaic([texture(family, SIZE, rng, colour=True) for family in ("marble", "fractal", "bark")], SIZE, rng)
    truth = sample.truths[0]
    strokes = []
    for part, region in enumerate((0, 1, 0)):  # the first and the last texture are meant to be one region
        depth = distance_transform_edt(np.pad(truth == part, 1))[1:-1, 1:-1]
        y, x = (int(each) for each in np.unravel_index(depth.argmax(), depth.shape))
        strokes.append(Stroke(region, [(x - 8, y - 3), (x + 8, y + 3)], radius=3))
    segmenter = Segmenter.from_pretrained("texture")
    session = segmenter.open(sample.image, regions=2)
    for stroke in strokes:
        session.add(stroke)
    result = session.result()
    unaided = segmenter.segment(sample.image, regions=2)
    drawn = sample.image.copy()
    for stroke in strokes:
        drawn[stroke.mask(truth.shape)] = region_colour(stroke.region)
    unsure = np.repeat(np.rint(255 * result.uncertainty).astype(np.uint8)[..., None], 3, axis=2)
    panels = {
        "picture and strokes": drawn,
        "without strokes": overlay(sample.image, unaided.labels),
        "with strokes": result.overlay(),
        "uncertainty": unsure,
    }
    sheet = Image.new("RGB", (len(panels) * (SIZE + GAP) - GAP, SIZE + TITLE), "white")
    for column, (title, panel) in enumerate(panels.items()):
        sheet.paste(Image.fromarray(panel), (column * (SIZE + GAP), TITLE))
        ImageDraw.Draw(sheet).text((column * (SIZE + GAP) + 2, 5), title, fill="black")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_image(out, np.asarray(sheet))
    print(f"picture: {out}")


if __name__ == "__main__":
    main()
