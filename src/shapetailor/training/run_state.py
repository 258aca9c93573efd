"""The state of an unfinished training: one file beside the model to be, written whole or not at all.

Batches and learning rates follow from the step's number. So weights, the optimiser's moments, the best weights so far
and a few numbers are enough to go on, bit for bit, as if the run had never stopped.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from ..network.checkpoint import Model, read_model, read_tensors, write_tensors

Record = dict[str, Any]

FORMAT = "unfinished training"
FORMAT_VERSION = 1


@dataclass
class State:
    """How far a training has come: steps done, the greatest validation measure with its step and weights, the log."""

    step: int = 0
    best: float = float("-inf")
    best_step: int = 0
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)

    def keep(self, net: Module) -> None:
        """Copy the weights of `net` to `best_weights`."""
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
    moments: dict[int, dict[str, Tensor]] = {}
    for name, each in _under("optimizer.", tensors).items():
        index, _, moment = name.partition(".")
        moments.setdefault(int(index), {})[moment] = each
    net.load_state_dict(_under("net.", tensors))
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    return State(best_weights=_under("best.", tensors), **header["progress"])


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}


def starting_state(out: Path, net: Module, optimizer: Optimizer, run: Mapping[str, Any], resume: bool) -> State:
    """Return the state that a stopped training of `out` has left, or that of a new one."""
    path = state_path(out)
    if not path.exists():
        return State()
    if not resume:
        raise ValueError(f"{path} is left from a run that was stopped: resume it, or remove the file to begin anew")
    return load_state(path, net, optimizer, run)


def finished(out: Path, run: Mapping[str, Any], resume: bool) -> Model | None:
    """Return the model that a run to be resumed has made already; a ValueError says where it is of another run.

    Without `resume` a model that is there already is nobody's to overwrite: it may have taken a day.
    """
    if not resume and out.exists() and not state_path(out).exists():
        raise ValueError(f"{out} is there already; choose another name, or remove it")
    if not resume or not out.exists() or state_path(out).exists():
        return None
    model = read_model(out)
    require_same_run(out, {key: model.metadata.get(key) for key in run}, run)
    return model


def require_same_run(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise a ValueError that names the settings in which a run on the disk and the one asked for differ."""
    old, new = _leaves(before), _leaves(json.loads(json.dumps(now)))  # tuples become lists, as on disk
    changed = [f"{key}: {old.get(key)} → {new.get(key)}" for key in sorted(old | new) if old.get(key) != new.get(key)]
    if changed:
        raise ValueError(f"{path} belongs to another run and cannot be resumed; changed are " + "; ".join(changed))


def probe(out: Path, net: Module) -> None:
    """Raise an OSError, before hours are spent, unless model and states can be written beside `out`."""
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


def _leaves(tree: Any, name: str = "") -> dict[str, Any]:
    """Flatten nested settings to dotted names and their values."""
    if not isinstance(tree, Mapping):
        return {name: tree}
    return {leaf: value for key in tree for leaf, value in _leaves(tree[key], f"{name}.{key}".lstrip(".")).items()}
