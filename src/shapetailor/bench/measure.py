"""What every benchmark measures: the machine, times, peak memory."""

import ctypes
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from .._version import __version__

PACKAGES = ("torch", "numpy", "scipy", "numba", "pyamg")


@dataclass(frozen=True)
class Outcome:
    """A benchmark's report as text and for JSON, and whether every answer passed its check."""

    text: str
    data: dict[str, Any]
    sound: bool


def chosen_sizes(sizes: Sequence[int] | None, usual: Sequence[int], least: int = 1) -> list[int]:
    """Return the sides of pictures to measure at, the smallest first: those asked for, or the usual ones."""
    chosen = sorted(set(sizes or usual))
    if chosen[0] < least:
        raise ValueError(f"sizes must be at least {least} pixels, got {chosen[0]}")
    return chosen


def progress(line: str) -> None:
    """Print a line to the standard error stream."""
    print(line, file=sys.stderr, flush=True)


def machine(device: str = "cpu") -> dict[str, Any]:
    """Describe where and when: processor, threads, load (of the last minute), device, versions, date."""
    versions = {"python": platform.python_version(), "shapetailor": __version__}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    gpu = f" ({torch.cuda.get_device_name(device)})" if torch.device(device).type == "cuda" else ""
    return {
        "cpu": models[0] if models else platform.processor() or platform.machine(),
        "device": device + gpu,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "system": platform.system(),
        "versions": versions,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def best_times(
    calls: Mapping[str, Callable[[], object]], seconds: float, most: int, spent: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the least time of each call; calls take turns, so that other load hits all alike.

    A call is repeated for so many `seconds`, at most `most` times; `spent` are times already taken.
    """
    times = {name: [spent[name]] if spent and name in spent else [] for name in calls}
    while waiting := [n for n, t in times.items() if not t or (sum(t) < seconds and len(t) < most)]:
        for name in waiting:
            begin = time.perf_counter()
            calls[name]()
            times[name].append(time.perf_counter() - begin)
    return {name: min(t) for name, t in times.items()}


def peak_memory(prepare: Callable[..., Callable[[], object]], *arguments: object) -> int | None:
    """Return the rise in bytes of the peak resident memory by a call in a fresh process; None except on Linux.

    ``prepare(*arguments)`` makes the inputs, does what happens only once, and returns the call.
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
    ctypes.CDLL(None).malloc_trim(0)  # or the call would reuse what the preparation has freed
    Path("/proc/self/clear_refs").write_text("5")  # proc(5): resets the peak
    before = _memory("VmRSS")
    call()
    sender.send(_memory("VmHWM") - before)


def _memory(field: str) -> int:
    """A field of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field + ":"))
