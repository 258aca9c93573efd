"""What a training shows: a progress bar, and a picture of its curves."""

import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..io.files import atomic

Record = dict[str, Any]


def progress_bar(title: str, total: int, shown: bool, done: int = 0) -> tqdm:
    """Return a bar on stderr; none is drawn where that is a file, which it would fill."""
    hidden = not (shown and sys.stderr.isatty())
    return tqdm(desc=title, total=total, initial=done, file=sys.stderr, smoothing=0.05, disable=hidden)


def draw_curves(path: Path, records: list[Record]) -> str | None:
    """Draw loss and validation over the steps as a PNG; return why not, where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "no curves drawn: matplotlib is not installed (pip install shapetailor[plots])"
    steps = [each["step"] for each in records]
    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    loss, covering = figure.subplots(2, 1, sharex=True)
    loss.plot(steps, [each["loss"] for each in records], label="training", marker=".")
    loss.plot(steps, [each["validation_loss"] for each in records], label="validation", marker=".")
    loss.set_ylabel("loss")
    loss.legend()
    best = max(records, key=lambda each: each["covering"])
    covering.plot(steps, [each["covering"] for each in records], color="tab:green", marker=".")
    covering.plot([best["step"]], [best["covering"]], "o", color="tab:red", label=f"kept: {best['covering']:.3f}")
    covering.set_ylabel("validation covering")
    covering.set_xlabel("step")
    covering.legend()
    for axes in (loss, covering):
        axes.grid(alpha=0.3)
    with atomic(path) as temporary:
        figure.savefig(temporary, dpi=120)
    return None
