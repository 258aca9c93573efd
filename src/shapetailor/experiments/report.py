"""Results as files: `results.json` for programs, `results.md` for people."""

from __future__ import annotations

import json
import math
import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import torch

from .._version import __version__
from ..evaluate.evaluation import Evaluation
from ..io.files import atomic
from .context import Context
from .results import COLUMNS, Results, Row

QUICK = " **A quick run: it shows that everything works, its figures say nothing about the methods.**"


def write_results(context: Context, experiment: str, results: Results, command: str, seconds: float) -> None:
    """Write `results.json` and `results.md` into the folder of results."""
    record = {
        "experiment": experiment,
        "version": __version__,
        "command": command,
        "quick": context.quick,
        "seed": context.seed,
        "machine": machine(context.device),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seconds": round(seconds, 1),
        **asdict(results),
        "intervals": intervals(results),
    }
    texts = {
        "results.json": json.dumps(_without_nan(record), indent=1, ensure_ascii=False) + "\n",
        "results.md": markdown(results, record),
    }
    for name, text in texts.items():
        with atomic(context.out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def machine(device: str) -> dict[str, Any]:
    """Describe where the figures come from."""
    gpu = torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else None
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "device": device if gpu is None else f"{device} ({gpu})",
    }


def intervals(results: Results) -> dict[str, dict[str, list[float]]]:
    """Return method → column → the mean's 95 % bootstrap interval over the images."""
    found = {}
    for method, images in results.images.items():
        summary = Evaluation(images).summary()
        found[method] = {name: [summary[name].low, summary[name].high] for name in results.columns if name in summary}
    return found


def markdown(results: Results, record: dict[str, Any]) -> str:
    """Set results as a page: our rows with the paper's figures in brackets, then all rows of the paper."""
    head = ["method", *(COLUMNS.get(name, name) for name in results.columns), ""]
    paper = {row.method: row for row in results.rows if row.source == "paper"}
    lines = [[row.method, *_cells(row, paper.get(row.beside), results.columns), row.note] for row in _measured(results)]
    lines += [[f"*{row.method}*", *_cells(row, None, results.columns), row.note or "*paper*"] for row in paper.values()]
    table = [head, ["---", *["---:"] * len(results.columns), "---"], *lines]
    where = record["machine"]
    parts = [
        f"# {results.title}",
        f"`{results.label}` in the paper. Data: {results.data}.{QUICK if record['quick'] else ''}",
        "\n".join("| " + " | ".join(line) + " |" for line in table),
        "In brackets: the paper's figure for that method. *Italics*: rows of the paper's table, not measured here.",
        "\n".join(f"- {note}" for note in dict.fromkeys(results.notes)),
        *(f"![{name}]({name})" for name in results.pictures),
        f"`{record['command']}`\n\nVersion {record['version']}, seed {record['seed']}, {record['date']}, "
        f"{record['seconds']} s in all runs of this folder; {where['platform']}, "
        f"{where['cores']} cores, torch {where['torch']}, {where['device']}.",
    ]
    return "\n\n".join(parts) + "\n"


def _measured(results: Results) -> list[Row]:
    return [row for row in results.rows if row.source == "measured"]


def _cells(row: Row, beside: Row | None, columns: tuple[str, ...]) -> list[str]:
    cells = []
    for column in columns:
        text = as_text(row.values.get(column))
        if beside and column in beside.values:
            text += f" ({as_text(beside.values[column], digits=2)})"
        cells.append(text)
    return cells


def as_text(value: float | None, digits: int = 3) -> str:
    """Set a figure: a score with decimals, a count with separators.

    >>> as_text(0.91234), as_text(8900), as_text(None)
    ('0.912', '8,900', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}f}"


def _without_nan(value: Any) -> Any:
    """JSON knows no NaN: None stands for it."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
