"""The training loop: steps of AdamW with a schedule, validations, a log, and states to resume from."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import cos, pi
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from tqdm import tqdm

from ..io.files import atomic
from .distributed import Processes
from .run_state import Record, State, probe, save_state, starting_state, state_path

WARM_UP = 20  # steps


@dataclass(frozen=True)
class Pace:
    """How many steps at which rate, and every how many of them the training is validated and its state saved."""

    steps: int
    learning_rate: float
    every: int
    weight_decay: float = 0.01
    warm_up: int = WARM_UP


def learning_rate(peak: float, steps: int, step: int, warm_up: int = WARM_UP) -> float:
    """Return the rate of a step, from 0 on: up in a line, then down along half a cosine."""
    rise = min(1.0, (step + 1) / (min(warm_up, steps // 10) + 1))
    return peak * rise * (1 + cos(pi * step / steps)) / 2


def gradients(net: Module, loss: Callable[[], Tensor], processes: Processes) -> Tensor:
    """Give the parameters the gradient of the sum of all processes' losses; return that sum, detached."""
    net.zero_grad()
    value = loss()
    value.backward()
    processes.sum_gradients(net.parameters())
    return processes.sum(value.detach())


class Loop:
    """The steps of one training; all parameters of `net` are trained, in place.

    Log and state lie beside `out`, the model to be made; without it nothing is written. `run` says what the training
    depends on, in JSON's types. With `resume` it goes on from the state that a stopped run has left, if it is of the
    same `run`. Of the `processes` that share each batch the first one writes.

    >>> net = torch.nn.Linear(1, 1)
    >>> loop = Loop(net, Pace(steps=4, learning_rate=0.1, every=2))
    >>> for step in loop:
    ...     loop.take(lambda: net(torch.ones(1, 1)).square().mean())
    ...     if loop.due:
    ...         loop.record({})
    >>> [record["step"] for record in loop.state.records]
    [2, 4]
    """

    def __init__(
        self, net: Module, pace: Pace, out: Path | None = None, run: Mapping[str, Any] | None = None,
        resume: bool = False, processes: Processes | None = None, title: str = "train", progress: bool = False,
    ) -> None:  # fmt: skip
        self.net, self.pace, self.run, self.title = net, pace, run or {}, title
        self.processes = processes or Processes(0, 1, torch.device("cpu"))
        self.shown = progress and self.processes.rank == 0
        self.writes = out if self.processes.rank == 0 else None
        self.optimizer = torch.optim.AdamW(net.parameters(), pace.learning_rate, weight_decay=pace.weight_decay)
        if self.writes:
            probe(self.writes, net)
        self.state = starting_state(out, net, self.optimizer, self.run, resume) if out else State()
        self.processes.wait()  # no state is written before all have read the last one
        self._losses: list[Tensor] = []

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers of the steps that are left, from 0 on."""
        records = self.state.records
        self._began = perf_counter() - (records[-1]["seconds"] if records else 0.0)
        if self.writes:
            # A stopped run may have logged more than it saved.
            with atomic(self.writes.with_suffix(".log.jsonl")) as temporary:
                temporary.write_text("".join(json.dumps(each) + "\n" for each in records))
        with progress_bar(self.title, self.pace.steps, self.shown, self.state.step) as self._bar:
            for step in range(self.state.step, self.pace.steps):
                self._step = step
                yield step

    def take(self, loss: Callable[[], Tensor]) -> None:
        """Take a step down the gradient of this process's share of the batch's mean loss."""
        pace, step = self.pace, self._step
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(pace.learning_rate, pace.steps, step, pace.warm_up)
        try:
            value = gradients(self.net, loss, self.processes)
            if not torch.isfinite(value):
                raise ValueError(f"the loss is {float(value)}")
        except ValueError as error:  # the solver refuses data that is not finite
            raise ValueError(f"step {step + 1} failed, a lower learning_rate may help: {error}") from error
        self.optimizer.step()
        self._losses.append(value)
        self._bar.update()

    @property
    def due(self) -> bool:
        """Whether it is time to validate: at every so many steps and at the last."""
        done = self._step + 1
        return done % self.pace.every == 0 or done == self.pace.steps

    def record(self, figures: Mapping[str, float], measure: float | None = None) -> None:
        """Log the mean loss and `figures`, and save the state; weights of the greatest `measure` so far are kept."""
        done, state = self._step + 1, self.state
        loss, seconds = float(torch.stack(self._losses).mean()), round(perf_counter() - self._began, 3)
        self._losses.clear()
        state.step = done
        state.records.append({"step": done, "loss": loss, **figures, "seconds": seconds})
        if measure is not None and measure > state.best:  # the first of equals stays the best
            state.best, state.best_step = measure, done
            state.keep(self.net)
        text = ", ".join(f"{name} {value:.4f}" for name, value in {"loss": loss, **figures}.items())
        self._bar.set_postfix_str(text)
        if self.shown and self._bar.disable:
            left = seconds * (self.pace.steps / done - 1)
            print(f"step {done}/{self.pace.steps}: {text}, {left:.0f} s left", file=sys.stderr, flush=True)
        if self.writes:
            with self.writes.with_suffix(".log.jsonl").open("a") as file:
                file.write(json.dumps(state.records[-1]) + "\n")
            save_state(state_path(self.writes), state, self.net, self.optimizer, self.run)


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
