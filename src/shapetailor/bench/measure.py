"""What every benchmark needs: the machine in words, fair times, peak memory, tables of text."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from .._version import __version__

PACKAGES = ("torch", "numpy", "scipy", "numba", "pyamg")
NOTHING = "–"


@dataclass(frozen=True)
class Outcome:
    """What a benchmark hands back.

    Attributes
    ----------
    text : str
        The report, for eyes.
    data : dict
        The same and more, for JSON.
    sound : bool
        Whether every answer passed its check.
    """

    text: str
    data: dict[str, Any]
    sound: bool


def progress(line: str) -> None:
    """Say on the standard error stream what is being done."""
    print(line, file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """Describe where and when: processor, threads, load (of the last minute), versions, date."""
    versions = {"python": platform.python_version(), "shapetailor": __version__}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "system": platform.system(),
        "versions": versions,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def best_times(
    calls: Mapping[str, Callable[[], object]], seconds: float, most: int, spent: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the least time of each call, all taken in turns so that a noisy neighbour meets everyone.

    Parameters
    ----------
    calls : the calls by name
    seconds : a call is repeated until it has had so much time
    most : or so many turns
    spent : what a call has already taken once; counts as its first turn
    """
    times = {name: [spent[name]] if spent and name in spent else [] for name in calls}
    while waiting := [n for n, t in times.items() if not t or (sum(t) < seconds and len(t) < most)]:
        for name in waiting:
            begin = time.perf_counter()
            calls[name]()
            times[name].append(time.perf_counter() - begin)
    return {name: min(t) for name, t in times.items()}


def peak_memory(prepare: Callable[..., Callable[[], object]], *arguments: object) -> int | None:
    """Return by how many bytes a call raises the resident memory of a fresh process, at its peak.

    ``prepare(*arguments)`` makes the inputs, does what happens only once, and returns the call. None where the
    system cannot tell (it takes Linux: the peak that `getrusage` reports cannot be set back, and is handed from
    process to process).
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send_peak, args=(sender, torch.get_num_threads(), prepare, *arguments))
    child.start()
    sender.close()
    try:
        rise: int | None = receiver.recv()
    except EOFError:
        raise OSError(f"the process that measures memory died: exit status {child.exitcode}") from None
    finally:
        child.join()
    return rise


def _send_peak(
    sender: Connection, threads: int, prepare: Callable[..., Callable[[], object]], *arguments: object
) -> None:
    torch.set_num_threads(threads)
    call = prepare(*arguments)
    if sys.platform != "linux":
        sender.send(None)
        return
    ctypes.CDLL(None).malloc_trim(0)  # or the call would be given, for nothing, what the preparation has left over
    Path("/proc/self/clear_refs").write_text("5")  # proc(5): sets the peak back to the present size
    before = _status("VmRSS")
    call()
    sender.send(_status("VmHWM") - before)


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Set a table in columns of equal width: the first to the left, the others to the right.

    Examples
    --------
    >>> print(text_table(["size", "time"], [["32²", "1 ms"], ["1024²", "200 ms"]]))
    size     time
    -----  ------
    32²      1 ms
    1024²  200 ms
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(f"{cell:{'<' if i == 0 else '>'}{w}}" for i, (cell, w) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    )
