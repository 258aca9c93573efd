"""Pictures side by side: the image, its truth, and what each method made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..arrays import RGB8, Labels
from ..datasets import Sample
from ..drawing.overlay import as_rgb8, overlay
from ..io.images import read_labels, write_image
from ..metrics import align_labels
from .context import Context
from .results import Results

SIDE, GAP, HEAD, MOST = 160, 6, 44, 6


def add_grid(
    context: Context, results: Results, samples: Sequence[Sample], shown: Mapping[str, str], name: str = "examples.png"
) -> None:
    """Draw the first samples with each method's label maps, and name the picture in `results`.

    Parameters
    ----------
    shown : mapping
        Title → part, as `suite.compare` returns it.
    """
    rows = []
    for sample in samples[:MOST]:
        cells = [as_rgb8(sample.image), overlay(sample.image, sample.truths[0])]
        for part in shown.values():
            labels = read_labels(context.out / "labels" / part / f"{sample.name}.png")
            cells.append(_aligned(sample, labels))
        rows.append(cells)
    write_image(context.out / name, grid(["image", "truth", *shown], rows))
    results.pictures.append(name)


def grid(heads: Sequence[str], rows: Sequence[Sequence[RGB8]]) -> RGB8:
    """Set pictures of any size as a table with a head; all are fitted into squares of one size."""
    step = SIDE + GAP
    sheet = Image.new("RGB", (step * len(heads) + GAP, HEAD + step * len(rows)), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=12)
    for column, head in enumerate(heads):
        draw.multiline_text((GAP + step * column, 4), _wrapped(head, font), fill="black", font=font, spacing=1)
    for row, pictures in enumerate(rows):
        for column, picture in enumerate(pictures):
            cell = Image.fromarray(picture)
            cell = cell.resize(_fitted(cell.size), Image.Resampling.LANCZOS)
            sheet.paste(cell, (GAP + step * column, HEAD + step * row))
    return np.asarray(sheet)


def _aligned(sample: Sample, labels: Labels) -> RGB8:
    """Tint a label map, partners of true regions in these regions' colours."""
    return overlay(sample.image, align_labels(labels, sample.truths[0], ignore=-1)[0])


def _fitted(size: tuple[int, int]) -> tuple[int, int]:
    scale = SIDE / max(size)
    return max(1, round(scale * size[0])), max(1, round(scale * size[1]))


def _wrapped(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """Break a text into lines no wider than a picture; Pillow's own font has no dashes."""
    lines = [""]
    for word in text.replace("–", "-").split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) <= SIDE:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines).strip()
