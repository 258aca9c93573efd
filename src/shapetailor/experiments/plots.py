"""Diagrams of results, by matplotlib (the extra `plots`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..io.files import atomic
from .context import Context
from .report import as_text
from .results import COLUMNS, Results

MEASURED, PAPER = "tab:blue", "lightgray"


def blank(width: float, height: float) -> Any | None:
    """Return an empty matplotlib figure; None where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    return Figure(figsize=(width, height), layout="constrained")


def save(context: Context, results: Results, drawn: Any, name: str) -> None:
    """Write a figure, and name it in `results`."""
    with atomic(context.out / name) as temporary:
        drawn.savefig(temporary, dpi=120)
    results.pictures.append(name)


def add_bars(
    context: Context, results: Results, columns: Sequence[str], name: str = "scores.png", log: bool = False
) -> None:
    """Draw a bar for each row, a panel for each column: measured ones in blue, the paper's in gray."""
    height = 1.2 + 0.27 * len(results.rows)
    drawn = blank(2.6 + 2.6 * len(columns), height)
    if drawn is None:
        results.notes.append("No diagram: matplotlib is not installed (pip install shapetailor[plots]).")
        return
    panels = drawn.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    names = [f"{row.method} (paper)" if row.source == "paper" else row.method for row in results.rows]
    for axes, column in zip(panels, columns, strict=True):
        values = [row.values.get(column, float("nan")) for row in results.rows]
        colours = [MEASURED if row.source == "measured" else PAPER for row in results.rows]
        bars = axes.barh(range(len(names)), values, color=colours)
        axes.bar_label(bars, [as_text(value, digits=2) for value in values], padding=2, fontsize=7)
        axes.set_title(COLUMNS.get(column, column), fontsize=9)
        axes.margins(x=0.18, y=0.01)
        axes.tick_params(labelsize=8)
        if log:
            axes.set_xscale("log")
            axes.set_xlim(1, 1000 * max(values))  # room for the bars' figures
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    save(context, results, drawn, name)
