"""`shapetailor bench poisson`: time, memory and error of `shapetailor.smooth` against the alternatives."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any

import torch

from ..arrays import Array
from .measure import Outcome, best_times, machine, peak_memory, progress
from .poisson_methods import METHODS, Method, ours
from .poisson_problem import CASES, CHANNELS, SCALES, Problem, make_problem, relative_error
from .poisson_report import PLAIN, PLAIN_OURS, judge, report

SIZES, QUICK_SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096), (32, 256)
FACTORS = (1, 8, 64)
#: Sides above this are taken at the first factor only: what they would add is minutes.
LARGEST_AT_EVERY_FACTOR = 2048
#: The error every answer has to keep, and the tolerances tried for it, the loosest first.
ACCURACY, LADDER = 1e-3, (3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4)
#: Ours in float64 at REFERENCE_TOL is what answers are compared with; splu has to agree with it so well.
REFERENCE_TOL, REFERENCE_ACCURACY = 1e-10, 1e-6
MEMORY_SIZES = (256, 1024)


@dataclass(frozen=True)
class Row:
    """One method on one problem; `seconds` is None where the answer was wrong and is not timed."""

    case: str
    factor: int
    size: int
    method: str
    tol: float | None
    error: float
    checked: int
    seconds: float | None


@dataclass(frozen=True)
class MemoryRow:
    """Peak memory of one method, in multiples of a float32 array of 40 channels; None where it cannot be told."""

    case: str
    factor: int
    size: int
    method: str
    extra: float | None
    total: float | None


@dataclass(frozen=True)
class Effort:
    """How long to measure: seconds and turns for each call, which methods' memory, and which cases."""

    seconds: float
    turns: int
    memory_of: tuple[str, ...]
    cases: tuple[str, ...]


FULL, QUICK = Effort(2.0, 15, tuple(METHODS), CASES), Effort(0.3, 7, ("ours",), CASES[:1])


def run(sizes: Sequence[int] | None = None, quick: bool = False) -> Outcome:
    """Measure everything and report it."""
    chosen = sorted(set(sizes or (QUICK_SIZES if quick else SIZES)))
    if min(chosen) < 8:
        raise ValueError(f"sizes must be at least 8 pixels, got {min(chosen)}")
    effort = QUICK if quick else FULL
    begin, where = time.perf_counter(), machine()
    for case in effort.cases:  # compile, and start what starts once
        for factor in FACTORS:
            ours(make_problem(16, factor, case), PLAIN)
            ours(make_problem(16, factor, case), PLAIN, dtype=torch.float64)
    memory = measure_memory([size for size in chosen if size in MEMORY_SIZES], effort)
    rows = []
    for size in chosen:
        for factor in FACTORS if size <= LARGEST_AT_EVERY_FACTOR else FACTORS[:1]:
            for case in effort.cases:
                progress(f"{size}², alphas ×{factor}, {case} channels")
                rows += measure(size, factor, case, METHODS, effort)
    data: dict[str, Any] = {
        "benchmark": "poisson",
        "machine": where,
        "settings": {"alphas": SCALES, "factors": FACTORS, "sizes": chosen, "accuracy": ACCURACY, "ladder": LADDER},
        "rows": [asdict(row) for row in rows],
        "memory": [asdict(row) for row in memory],
    }
    data["targets"] = judge(data)
    data["seconds"] = time.perf_counter() - begin
    return Outcome(report(data), data, all(row.seconds is not None for row in rows))


def measure(size: int, factor: int, case: str, methods: Mapping[str, Method], effort: Effort) -> list[Row]:
    """Check every method that goes so far on one problem, then time those that are right, in turns."""
    problem = make_problem(size, factor, case)
    checked = _checked(size)
    reference = ours(problem.first(checked), REFERENCE_TOL, dtype=torch.float64)
    rows: list[Row] = []
    calls: dict[str, Callable[[], object]] = {}
    spent: dict[str, float] = {}
    for name, method in methods.items():
        if size > method.largest[case]:
            continue
        start = _loosest(method, problem, reference) if method.iterative else PLAIN
        found = _verify(method, problem, reference, start)
        tries = {name: found}
        if name == "ours":
            tries[PLAIN_OURS] = _verify(method, problem, reference, PLAIN)
        for label, (tol, error, seconds) in tries.items():
            used = tol if method.iterative else None
            row = Row(case, factor, size, label, used, error, checked * len(SCALES), None)
            rows.append(row)
            progress(f"  {label}: error {error:.1e}" + (f" at tol {used:g}" if used else "") + f", {seconds:.3g} s")
            if error <= ACCURACY:
                calls[label], spent[label] = partial(method.solve, problem, tol), seconds
        if name == "splu" and found[1] > REFERENCE_ACCURACY:
            raise ValueError(f"the reference is no reference: at {size}², ×{factor}, splu differs by {found[1]:.1e}")
    times = best_times(calls, effort.seconds, effort.turns, spent)
    return [Row(**(asdict(row) | {"seconds": times.get(row.method)})) for row in rows]


def _checked(size: int) -> int:
    """Return how many of a scale's channels are compared: large references are dear."""
    return CHANNELS if size <= 512 else 2 if size <= 1024 else 1


def _loosest(method: Method, problem: Problem, reference: Array) -> float:
    """Return the loosest tolerance that one channel of each scale gets along with."""
    for tol in LADDER[:-1]:
        if relative_error(method.solve(problem.first(1), tol), reference[:, :1]) <= ACCURACY:
            return tol
    return LADDER[-1]


def _verify(method: Method, problem: Problem, reference: Array, start: float) -> tuple[float, float, float]:
    """Solve for all channels, with tighter tolerances while need be: (tol, error, seconds of the call)."""
    for tol in [start, *(tol for tol in LADDER if tol < start)]:
        begin = time.perf_counter()
        answer = method.solve(problem, tol)
        seconds = time.perf_counter() - begin
        error = relative_error(answer[:, : reference.shape[1]], reference)
        if error <= ACCURACY or not method.iterative:
            break
    return tol, error, seconds


def measure_memory(sizes: Sequence[int], effort: Effort) -> list[MemoryRow]:
    """Take the peak memory, each in a process of its own: of ours at every factor, of the others at the first."""
    rows = []
    for size, factor, case, name in product(sizes, FACTORS, effort.cases, effort.memory_of):
        if size <= METHODS[name].largest[case] and (name == "ours" or (factor, case) == (FACTORS[0], CASES[0])):
            progress(f"memory of {name} at {size}², alphas ×{factor}, {case} channels")
            rows.append(_memory_row(size, factor, case, name))
    return rows


def _memory_row(size: int, factor: int, case: str, name: str) -> MemoryRow:
    rise = peak_memory(_prepare, size, factor, case, name)
    extra = None if rise is None else rise / (4 * size**2 * CHANNELS * len(SCALES))
    inputs = 1.0 if case == "distinct" else 1 / len(SCALES)
    return MemoryRow(case, factor, size, name, extra, None if extra is None else extra + inputs)


def _prepare(size: int, factor: int, case: str, name: str) -> Callable[[], object]:
    """Make the problem and have the method's libraries loaded; return the call to measure."""
    solve = METHODS[name].solve
    solve(make_problem(16, factor, case), PLAIN)
    return partial(solve, make_problem(size, factor, case), PLAIN)
