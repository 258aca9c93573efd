"""An experiment from its settings to its files: `results.json` for programs, `results.md` for people."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from time import perf_counter
from typing import Any

from .._version import __version__
from ..bench.measure import machine
from ..evaluate.evaluation import Evaluation
from ..io.files import atomic
from ..training.run_state import require_same_run
from . import load
from .context import Context
from .results import COLUMNS, Results, TableRow, as_text

QUICK = " **A quick run: it shows that everything works, its figures say nothing about the methods.**"


def run_experiment(name: str, context: Context, command: str) -> Results:
    """Run one of `EXPERIMENTS`, or the rest of an interrupted run, and write its results into ``context.out``.

    `command` is what the user typed, for the record. A ValueError says that there is no data, or that the folder holds
    parts of a run with other settings.
    """
    if context.data is None and not context.quick:
        raise ValueError(f"data is missing: {name} needs a dataset (--data DIR), or --quick for generated mosaics")
    if context.data is not None and not context.data.is_dir():
        raise FileNotFoundError(f"data: {context.data} is not a folder")
    context.out.mkdir(parents=True, exist_ok=True)
    _require_same_settings(name, context)
    begin, path = perf_counter(), context.out / "spent.json"
    before: float = json.loads(path.read_text(encoding="utf-8"))["seconds"] if path.exists() else 0.0
    try:
        results: Results = load(name).run(context)
    finally:  # the time of a stopped run counts too
        seconds = before + perf_counter() - begin
        with atomic(path) as temporary:
            temporary.write_text(json.dumps({"seconds": seconds}), encoding="utf-8")
    write_results(context, name, results, command, seconds)
    return results


def _require_same_settings(name: str, context: Context) -> None:
    """Write down what the parts in the folder depend on; refuse a folder whose parts depend on something else.

    Methods and limits may change: parts are kept for each method and image.
    """
    settings: dict[str, Any] = {
        "experiment": name,
        "version": __version__,
        "data": None if context.data is None else str(context.data.resolve()),
        "quick": context.quick,
        "model": context.model,
        "seed": context.seed,
        "weights": None if context.weights is None else str(context.weights.resolve()),
        "folds": context.folds,
        "split": None if context.split is None else context.split.read_text(encoding="utf-8").split(),
    }
    path = context.out / "settings.json"
    if path.exists():
        require_same_run(path, json.loads(path.read_text(encoding="utf-8")), settings)
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def write_results(context: Context, experiment: str, results: Results, command: str, seconds: float) -> None:
    """Write `results.json` and `results.md` into the folder of results."""
    record = {
        "experiment": experiment,
        "version": __version__,
        "command": command,
        "quick": context.quick,
        "seed": context.seed,
        "machine": machine(context.device),
        "seconds": round(seconds, 1),
        **asdict(results),
        "intervals": _intervals(results),
    }
    texts = {
        "results.json": json.dumps(_without_nan(record), indent=1, ensure_ascii=False) + "\n",
        "results.md": markdown(results, record),
    }
    for name, text in texts.items():
        with atomic(context.out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def markdown(results: Results, record: dict[str, Any]) -> str:
    """Set results as a page: our rows with the paper's figures in brackets, then all rows of the paper."""
    head = ["method", *(COLUMNS.get(name, name) for name in results.columns), ""]
    paper = {row.method: row for row in results.rows if row.source == "paper"}
    measured = [row for row in results.rows if row.source == "measured"]
    lines = [[row.method, *_cells(row, paper.get(row.beside), results.columns), row.note] for row in measured]
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
        f"`{record['command']}`\n\nVersion {record['version']}, seed {record['seed']}, {where['date']}, "
        f"{record['seconds']} s in all runs of this folder; {where['system']}, {where['cpu']}, "
        f"{where['cores']} cores, torch {where['versions']['torch']}, {where['device']}.",
    ]
    return "\n\n".join(parts) + "\n"


def _intervals(results: Results) -> dict[str, dict[str, list[float]]]:
    """Method → column → the mean's 95 % bootstrap interval over the images."""
    found = {}
    for method, images in results.images.items():
        summary = Evaluation(images).summary()
        found[method] = {name: [summary[name].low, summary[name].high] for name in results.columns if name in summary}
    return found


def _cells(row: TableRow, beside: TableRow | None, columns: tuple[str, ...]) -> list[str]:
    cells = []
    for column in columns:
        text = as_text(row.values.get(column))
        if beside and column in beside.values:
            text += f" ({as_text(beside.values[column], digits=2)})"
        cells.append(text)
    return cells


def _without_nan(value: Any) -> Any:
    """JSON knows no NaN: None stands for it."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
