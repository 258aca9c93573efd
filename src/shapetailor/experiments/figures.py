"""Figures of the results: sheets of label maps, and diagrams by matplotlib (the extra `plots`)."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..arrays import RGB8
from ..datasets import Sample
from ..drawing.overlay import as_rgb8, overlay
from ..io.files import atomic
from ..io.images import read_labels, write_image
from ..metrics import align_labels
from .results import COLUMNS, Context, Results, Source, as_text

#: Pixels of a cell, of the gap between cells, of the head; letters of a head's line; and rows at most.
SIDE, GAP, HEAD, LINE, MOST = 160, 6, 44, 24, 6
#: A line in a diagram: the rows of a table that it goes through, by their place on the horizontal axis, where they come
#: from, and matplotlib's style.
Curve = tuple[Mapping[int, str], Source, Mapping[str, str]]


def add_examples(
    context: Context, results: Results, samples: Sequence[Sample], shown: Mapping[str, str], name: str = "examples.png"
) -> None:
    """Draw the first samples with each method's label maps; `shown` is what `suite.compare` returns."""
    rows = []
    for sample in samples[:MOST]:
        cells = [as_rgb8(sample.image), overlay(sample.image, sample.truths[0])]
        for part in shown.values():
            labels = read_labels(context.out / "labels" / part / f"{sample.name}.png")
            cells.append(overlay(sample.image, align_labels(labels, sample.truths[0], ignore=-1)[0]))
        rows.append(cells)
    add_sheet(context, results, ["image", "truth", *shown], rows, name)


def add_sheet(
    context: Context, results: Results, heads: Sequence[str], rows: Sequence[Sequence[RGB8]], name: str = "examples.png"
) -> None:
    """Write images as a table with a head, and list the file in `results`."""
    write_image(context.out / name, sheet(heads, rows))
    results.pictures.append(name)


def sheet(heads: Sequence[str], rows: Sequence[Sequence[RGB8]]) -> RGB8:
    """Set images as a table with a head, all fitted into squares of one size."""
    step = SIDE + GAP
    page = Image.new("RGB", (step * len(heads) + GAP, HEAD + step * len(rows)), "white")
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=12)
    for column, head in enumerate(heads):
        text = textwrap.fill(head.replace("–", "-"), LINE)  # Pillow's own font has no dashes
        draw.multiline_text((GAP + step * column, 4), text, fill="black", font=font, spacing=1)
    for row, images in enumerate(rows):
        for column, each in enumerate(images):
            cell = Image.fromarray(each)
            scale = SIDE / max(cell.size)
            size = max(1, round(scale * cell.width)), max(1, round(scale * cell.height))
            page.paste(cell.resize(size, Image.Resampling.LANCZOS), (GAP + step * column, HEAD + step * row))
    return np.asarray(page)


def _add_diagram(
    context: Context, results: Results, name: str, size: tuple[float, float], draw: Callable[[Any], None]
) -> None:
    """Write a matplotlib figure, and list the file in `results`; without matplotlib there is a note instead."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        results.notes.append("No diagram: matplotlib is not installed (pip install shapetailor[plots]).")
        return
    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    with atomic(context.out / name) as temporary:
        figure.savefig(temporary, dpi=120)
    results.pictures.append(name)


def add_bars(
    context: Context, results: Results, columns: Sequence[str], name: str = "scores.png", log: bool = False
) -> None:
    """Draw a bar for each row, a panel for each column: measured ones in blue, the paper's in gray."""
    names = [f"{row.method} (paper)" if row.source == "paper" else row.method for row in results.rows]
    colours = ["tab:blue" if row.source == "measured" else "lightgray" for row in results.rows]

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
        for axes, column in zip(panels, columns, strict=True):
            values = [row.values.get(column, float("nan")) for row in results.rows]
            bars = axes.barh(range(len(names)), values, color=colours)
            axes.bar_label(bars, [as_text(value, digits=2) for value in values], padding=2, fontsize=7)
            axes.set_title(COLUMNS.get(column, column), fontsize=9)
            axes.margins(x=0.18, y=0.01)
            axes.tick_params(labelsize=8)
            if log:
                axes.set_xscale("log")
                axes.set_xlim(1, 1000 * max(values))  # room for the figures
        panels[0].set_yticks(range(len(names)), names)
        panels[0].invert_yaxis()

    _add_diagram(context, results, name, (2.6 + 2.6 * len(columns), 1.2 + 0.27 * len(names)), draw)


def add_curves(
    context: Context, results: Results, columns: Sequence[str], curves: Mapping[str, Curve], name: str, **axes: Any
) -> None:
    """Draw labelled curves, a panel for each column; `axes` are properties of the panels."""
    values = {(row.source, row.method): row.values for row in results.rows}

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(columns))
        for panel, column in zip(panels, columns, strict=True):
            for label, (rows, source, style) in curves.items():
                heights = [values[source, row].get(column, np.nan) for row in rows.values()]
                panel.plot(list(rows), heights, label=label, **style)
            panel.set(title=COLUMNS.get(column, column), **axes)
            panel.title.set_fontsize(10)
            panel.grid(alpha=0.3)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9)

    _add_diagram(context, results, name, (4.0 * len(columns), 3.8), draw)


def add_lines(
    context: Context, results: Results, lines: Mapping[str, Mapping[int, float]], x: str, y: str, name: str
) -> None:
    """Draw a line for each method: place on the horizontal axis → value."""

    def draw(figure: Any) -> None:
        panel = figure.subplots()
        for label, points in lines.items():
            panel.plot(list(points), list(points.values()), label=label, marker=".")
        panel.set(xlabel=x, ylabel=y)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=9)

    _add_diagram(context, results, name, (6.5, 4.5), draw)
