"""What a training shows while it runs and leaves behind: a progress line, a JSONL log, a picture of its curves."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from ..io.files import atomic

Record = dict[str, Any]


@contextmanager
def counter(what: str, total: int, shown: bool) -> Iterator[Callable[[int], None] | None]:
    """Yield a function that shows how many of `total` are done, on stderr; None where nothing is to be shown."""
    bar = _bar(0, total, what) if shown else None
    if bar is None:
        yield None
        return
    with bar:
        yield lambda done: bar.update(done - bar.n)


class Monitor:
    """Progress on stderr, and in a log file one line of JSON a validation.

    Parameters
    ----------
    log : path
        The file; it is written anew with `records` and then grows.
    records : list of dict
        What a resumed run had logged up to the step that it goes on from; grows as well.
    steps : int
        All steps of the run.
    writes : bool
        Write the log. Of several processes one does.
    shown : bool
        Show the progress.
    """

    def __init__(self, log: Path, records: list[Record], steps: int, writes: bool, shown: bool) -> None:
        self.log, self.records, self.steps, self.writes, self.shown = log, records, steps, writes, shown
        self.done = records[-1]["step"] if records else 0
        self._began = perf_counter() - (records[-1]["seconds"] if records else 0.0)
        self._bar = _bar(self.done, steps) if shown else None

    def __enter__(self) -> Self:
        if self.writes:
            with atomic(self.log) as temporary:
                temporary.write_text(_lines(self.records))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self, done: int) -> None:
        """Show that `done` steps are taken."""
        if self._bar is not None:
            self._bar.update(done - self.done)
        self.done = done

    def add(self, step: int, loss: float, validation_loss: float, covering: float) -> None:
        """Log and show a validation."""
        seconds = round(perf_counter() - self._began, 3)
        record = {"step": step, "loss": loss, "validation_loss": validation_loss, "covering": covering}
        self.records.append({**record, "seconds": seconds})
        if self.writes:
            with self.log.open("a") as file:
                file.write(_lines(self.records[-1:]))
        best = max(each["covering"] for each in self.records)
        text = f"loss {loss:.4f}, validation covering {covering:.4f} (best {best:.4f})"
        if self._bar is not None:
            self._bar.set_postfix_str(text)
        elif self.shown:
            left = seconds * (self.steps / step - 1)
            print(f"step {step}/{self.steps}: {text}, {left:.0f} s left", file=sys.stderr, flush=True)


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


def _bar(step: int, steps: int, what: str = "train") -> Any:
    """Return a tqdm bar; None where tqdm is missing, or stderr is a file that a bar would fill."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    if not sys.stderr.isatty():
        return None
    return tqdm(
        initial=step, total=steps, desc=what, unit="step" if what == "train" else "", file=sys.stderr, smoothing=0.05
    )


def _lines(records: Iterable[Record]) -> str:
    return "".join(json.dumps(each) + "\n" for each in records)
