"""The state of an unfinished training: one file beside the model to be, written whole or not at all.

Batches and learning rates follow from the step's number, so that weights, the optimiser's moments, the best weights so
far and a few numbers are all that a run needs to go on as if it had never stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from ..network.checkpoint import read_tensors, write_tensors
from .progress import Record

FORMAT = "unfinished training"
FORMAT_VERSION = 1


@dataclass
class State:
    """How far a training has come.

    Attributes
    ----------
    step : int
        Steps done.
    best : float
        The greatest validation measure so far.
    best_step : int
        When that was.
    best_weights : dict of Tensor
        The network's state then.
    records : list of dict
        The log so far.
    """

    step: int = 0
    best: float = float("-inf")
    best_step: int = 0
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)

    def advance(self, step: int, measure: float, net: Module) -> None:
        """Note that `step` steps are done and how well `net` validates; the first of equals stays the best."""
        self.step = step
        if measure > self.best:
            self.best, self.best_step = measure, step
            self.best_weights = {name: each.detach().clone() for name, each in net.state_dict().items()}


def state_path(out: Path) -> Path:
    """Return where the state of a training that makes `out` lies."""
    return out.with_name(f"{out.stem}.resume.safetensors")


def save_state(path: Path, state: State, net: Module, optimizer: Optimizer, run: Mapping[str, Any]) -> None:
    """Write everything that `load_state` needs; `run` says which training this is."""
    tensors = {f"net.{name}": each for name, each in net.state_dict().items()}
    tensors |= {f"best.{name}": each for name, each in state.best_weights.items()}
    for index, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": each for name, each in moments.items()}
    progress = {"step": state.step, "best": state.best, "best_step": state.best_step, "records": state.records}
    write_tensors(path, tensors, FORMAT, FORMAT_VERSION, {"progress": progress, "run": dict(run)})


def load_state(path: Path, net: Module, optimizer: Optimizer, run: Mapping[str, Any]) -> State:
    """Read a state into `net` and `optimizer`; a ValueError says how `run` differs from the run that wrote it."""
    tensors, header = read_tensors(path, FORMAT, FORMAT_VERSION)
    require_same_run(path, header["run"], run)
    parts: dict[str, dict[str, Tensor]] = {"net": {}, "best": {}, "optimizer": {}}
    for name, each in tensors.items():
        part, _, rest = name.partition(".")
        parts[part][rest] = each
    net.load_state_dict(parts["net"])
    moments: dict[int, dict[str, Tensor]] = {}
    for name, each in parts["optimizer"].items():
        index, _, moment = name.partition(".")
        moments.setdefault(int(index), {})[moment] = each
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    return State(best_weights=parts["best"], **header["progress"])


def starting_state(out: Path, net: Module, optimizer: Optimizer, run: Mapping[str, Any], resume: bool) -> State:
    """Return the state that a stopped training of `out` has left, or that of a new one."""
    path = state_path(out)
    if not path.exists():
        return State()
    if not resume:
        raise ValueError(f"{path} is left from a run that was stopped: resume it, or remove the file to begin anew")
    return load_state(path, net, optimizer, run)


def require_same_run(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise a ValueError that names what differs between a run on the disk and the one asked for."""
    old, new = dict(_leaves(before)), dict(_leaves(json.loads(json.dumps(now))))  # tuples become lists, as on disk
    changed = [f"{key}: {old.get(key)} → {new.get(key)}" for key in sorted(old | new) if old.get(key) != new.get(key)]
    if changed:
        raise ValueError(f"{path} belongs to another run and cannot be resumed; changed are " + "; ".join(changed))


def probe(out: Path, net: Module) -> None:
    """Make sure, before hours are spent, that model and states will fit beside `out`; else raise an OSError."""
    weights = sum(each.numel() * each.element_size() for each in net.state_dict().values())
    # A state holds weights, best weights and two moments; the old one lies there while the new one is written.
    needed = 10 * weights + 2**20
    trial = out.with_name(f".{out.stem}.{os.getpid()}.probe")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with trial.open("wb") as file:
            file.write(bytes(needed))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OSError(f"cannot write {needed:,} bytes to {out.parent}, which the training needs: {error}") from error
    finally:
        if out.parent.is_dir():
            trial.unlink(missing_ok=True)


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Flatten nested settings to dotted names and their values."""
    found: list[tuple[str, Any]] = []
    for key, value in tree.items():
        if isinstance(value, Mapping):
            found += _leaves(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", value))
    return found
