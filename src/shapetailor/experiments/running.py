"""An experiment from its settings to its files."""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any

from .._version import __version__
from ..io.files import atomic
from . import load
from .context import Context
from .report import write_results
from .results import Results


def run_experiment(name: str, context: Context, command: str) -> Results:
    """Run an experiment, or what an interruption has left of it, and write its results into ``context.out``.

    Parameters
    ----------
    name : str
        One of `EXPERIMENTS`.
    context : Context
    command : str
        What the user typed, for the record.

    Raises
    ------
    ValueError
        Where there is no data, or the folder holds parts of a run with other settings.
    """
    if context.data is None and not context.quick:
        raise ValueError(f"data is missing: {name} needs a dataset (--data DIR), or --quick for generated mosaics")
    if context.data is not None and not context.data.is_dir():
        raise FileNotFoundError(f"data: {context.data} is not a folder")
    context.out.mkdir(parents=True, exist_ok=True)
    _claim(name, context)
    begin, path = perf_counter(), context.out / "spent.json"
    before: float = json.loads(path.read_text(encoding="utf-8"))["seconds"] if path.exists() else 0.0
    try:
        results: Results = load(name).run(context)
    finally:  # what is stopped has taken its time too
        seconds = before + perf_counter() - begin
        with atomic(path) as temporary:
            temporary.write_text(json.dumps({"seconds": seconds}), encoding="utf-8")
    write_results(context, name, results, command, seconds)
    return results


def _claim(name: str, context: Context) -> None:
    """Write down what the parts in the folder depend on; refuse a folder whose parts depend on something else.

    Methods and limits are free to change: parts are kept for each method and image.
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
        former = json.loads(path.read_text(encoding="utf-8"))
        changed = [f"{key} {former.get(key)!r}" for key, value in settings.items() if former.get(key) != value]
        if changed:
            raise ValueError(
                f"out: {context.out} holds a run with {', '.join(changed)}; take the same settings to go on with it, "
                "or another folder"
            )
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
