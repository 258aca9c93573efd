"""`shapetailor bench poisson`: time, memory and error of `shapetailor.smooth` against the alternatives."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any

import torch

from ..arrays import Array
from .measure import Outcome, best_times, chosen_sizes, machine, peak_memory, progress
from .poisson_methods import CASES, CHANNELS, METHODS, SCALES, Method, Problem, make_problem, ours, relative_error
from .poisson_report import PLAIN, PLAIN_OURS, judge, report

SIZES, QUICK_SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096), (32, 256)
FACTORS = (1, 8, 64)
#: Larger sides are measured at the first factor only, to save minutes.
LARGEST_AT_EVERY_FACTOR = 2048
#: The largest error allowed, and the tolerances tried for it, the loosest first.
ACCURACY, LADDER = 1e-3, (3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4)
#: The reference is ours in float64 at REFERENCE_TOL; splu must agree with it to REFERENCE_ACCURACY.
REFERENCE_TOL, REFERENCE_ACCURACY = 1e-10, 1e-6
MEMORY_SIZES = (256, 1024)


@dataclass(frozen=True)
class Row:
    """One method on one problem; wrong answers are not timed."""

    case: str
    factor: int
    size: int
    method: str
    tol: float | None
    error: float
    checked: int
    seconds: float | None


@dataclass(frozen=True)
class Effort:
    """How much to measure: seconds and turns for each call, which methods' memory, and which cases."""

    seconds: float
    turns: int
    memory_of: tuple[str, ...]
    cases: tuple[str, ...]


FULL, QUICK = Effort(2.0, 15, tuple(METHODS), CASES), Effort(0.3, 7, ("ours",), CASES[:1])


def run(
    sizes: Sequence[int] | None = None,
    quick: bool = False,
    effort: Effort | None = None,
    methods: Mapping[str, Method] = METHODS,
) -> Outcome:
    """Measure everything and report it."""
    chosen = chosen_sizes(sizes, QUICK_SIZES if quick else SIZES, 8)
    effort = effort or (QUICK if quick else FULL)
    begin, where = time.perf_counter(), machine()
    for case in effort.cases:  # compile
        for factor in FACTORS:
            ours(make_problem(16, factor, case), PLAIN)
            ours(make_problem(16, factor, case), PLAIN, dtype=torch.float64)
    memory = measure_memory([size for size in chosen if size in MEMORY_SIZES], effort)
    rows = []
    for size in chosen:
        for factor in FACTORS if size <= LARGEST_AT_EVERY_FACTOR else FACTORS[:1]:
            for case in effort.cases:
                progress(f"{size}², alphas ×{factor}, {case} channels")
                rows += measure(size, factor, case, methods, effort)
    data: dict[str, Any] = {
        "benchmark": "poisson",
        "machine": where,
        "settings": {"alphas": SCALES, "factors": FACTORS, "sizes": chosen, "accuracy": ACCURACY, "ladder": LADDER},
        "rows": [asdict(row) for row in rows],
        "memory": memory,
    }
    data["targets"] = judge(data)
    data["seconds"] = time.perf_counter() - begin
    return Outcome(report(data), data, all(row.seconds is not None for row in rows))


def measure(size: int, factor: int, case: str, methods: Mapping[str, Method], effort: Effort) -> list[Row]:
    """Check every method on one problem, then time those that are right, in turns."""
    problem = make_problem(size, factor, case)
    checked = CHANNELS if size <= 512 else 2 if size <= 1024 else 1  # of each scale: large references take long
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
            raise ValueError(f"the reference is wrong: at {size}², ×{factor}, splu differs by {found[1]:.1e}")
    times = best_times(calls, effort.seconds, effort.turns, spent)
    return [Row(**(asdict(row) | {"seconds": times.get(row.method)})) for row in rows]


def _loosest(method: Method, problem: Problem, reference: Array) -> float:
    """Return the loosest tolerance that suffices for one channel of each scale."""
    for tol in LADDER[:-1]:
        if relative_error(method.solve(problem.first(1), tol), reference[:, :1]) <= ACCURACY:
            return tol
    return LADDER[-1]


def _verify(method: Method, problem: Problem, reference: Array, start: float) -> tuple[float, float, float]:
    """Solve for all channels, with tighter tolerances while needed: (tol, error, seconds of the call)."""
    for tol in [start, *(tol for tol in LADDER if tol < start)]:
        begin = time.perf_counter()
        answer = method.solve(problem, tol)
        seconds = time.perf_counter() - begin
        error = relative_error(answer[:, : reference.shape[1]], reference)
        if error <= ACCURACY or not method.iterative:
            break
    return tol, error, seconds


def measure_memory(sizes: Sequence[int], effort: Effort) -> list[dict[str, Any]]:
    """Measure peak memory, in multiples of a float32 array of 40 channels, each in a process of its own.

    Ours at every factor, the others at the first. None where it is unknown.
    """
    rows = []
    for size, factor, case, name in product(sizes, FACTORS, effort.cases, effort.memory_of):
        if size <= METHODS[name].largest[case] and (name == "ours" or (factor, case) == (FACTORS[0], CASES[0])):
            progress(f"memory of {name} at {size}², alphas ×{factor}, {case} channels")
            rise = peak_memory(_prepare, size, factor, case, name)
            extra = None if rise is None else rise / (4 * size**2 * CHANNELS * len(SCALES))
            inputs = 1.0 if case == "distinct" else 1 / len(SCALES)
            total = None if extra is None else extra + inputs
            row = {"case": case, "factor": factor, "size": size, "method": name, "extra": extra, "total": total}
            rows.append(row)
    return rows


def _prepare(size: int, factor: int, case: str, name: str) -> Callable[[], object]:
    """Make the problem and load the method's libraries; return the call to measure."""
    solve = METHODS[name].solve
    solve(make_problem(16, factor, case), PLAIN)
    return partial(solve, make_problem(size, factor, case), PLAIN)
