"""The main job on shipped examples: segment generated pictures and show them side by side.

The pictures are mosaics of procedural textures that the model has never seen; run it with
``make demo`` or ``python examples/demo.py --out DIR``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from shapetailor import Segmenter, metrics
from shapetailor.datasets import Sample, mosaic, texture
from shapetailor.io.images import write_image

SIZE, GAP, TITLE = 256, 8, 22
#: Texture families of each picture, and the seed that draws them and their regions.
PICTURES = [
    (("pebbles", "weave"), 11),
    (("wood", "scales"), 5),
    (("leather", "bricks", "stripes"), 3),
    (("cells", "grass", "herringbone", "dots"), 8),
]


def example(families: tuple[str, ...], seed: int) -> Sample:
    """A mosaic of textures, in colour."""
    rng = np.random.default_rng(seed)
    textures = [texture(family, SIZE, rng, colour=True) for family in families]
    return mosaic(textures, SIZE, rng, name="-".join(families))


def titled(picture: np.ndarray, title: str) -> Image.Image:
    """Put a line of text above a picture."""
    panel = Image.new("RGB", (SIZE, SIZE + TITLE), "white")
    panel.paste(Image.fromarray(picture), (0, TITLE))
    ImageDraw.Draw(panel).text((2, 5), title, fill="black")
    return panel


def main() -> None:
    """Segment the examples, write each result and one sheet of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    segmenter = Segmenter.from_pretrained("texture")
    rows = []
    for families, seed in PICTURES:
        sample = example(families, seed)
        result = segmenter.segment(sample.image, regions=len(families))
        result.save(out / f"{sample.name}.png")
        result.save_overlay(out / f"{sample.name}.overlay.png")
        covering = metrics.covering(result.labels, sample.truths[0])
        print(f"{sample.name}: {len(families)} regions, {result.iterations} iterations, covering {covering:.3f}")
        picture = (
            (np.clip(sample.image, 0, 1) * 255).astype(np.uint8) if sample.image.dtype.kind == "f" else sample.image
        )
        rows.append([titled(picture, sample.name), titled(result.overlay(), f"found, covering {covering:.2f}")])
    width, height = rows[0][0].size
    sheet = Image.new("RGB", (len(rows) * (width + GAP) - GAP, 2 * (height + GAP) - GAP), "white")
    for column, row in enumerate(rows):
        for line, panel in enumerate(row):
            sheet.paste(panel, (column * (width + GAP), line * (height + GAP)))
    write_image(out / "demo.png", np.asarray(sheet))
    print(f"picture: {out / 'demo.png'}")


if __name__ == "__main__":
    main()
