"""One table of all pictures, and its summary over pictures."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy.special import stdtrit

from ..io.files import atomic
from .classification import TableRow

TABLE = ("picture", "class", "value", "pixels", "fraction", *TableRow._fields[4:])
SUMMARY = (
    "class",
    "value",
    "pictures",
    "mean_fraction",
    "standard_deviation",
    "low_95",
    "high_95",
    "relative_accuracy",
)


def write_table(path: Path, rows: Mapping[str, Sequence[TableRow]]) -> None:
    """Write a line for each picture and class; numbers as they are, nothing rounded."""
    _write(path, TABLE, [[picture, *row] for picture, its in rows.items() for row in its])


def write_summary(path: Path, rows: Mapping[str, Sequence[TableRow]]) -> None:
    """Write each class's mean fraction over pictures and its 95 % interval."""
    by_class: dict[tuple[str, int], list[float]] = {}
    for its in rows.values():
        for row in its:
            by_class.setdefault((row.name, row.value), []).append(row.fraction)
    _write(path, SUMMARY, [[*key, len(values), *interval(values)] for key, values in by_class.items()])


def interval(fractions: Sequence[float]) -> tuple[float, float | None, float | None, float | None, float | None]:
    """Return mean, standard deviation, the mean's 95 % interval, and its half width over the mean.

    As ASTM E562 [1]_ does with fields: mean ± t·s/√n, with Student's t of n−1 degrees of freedom; its "% relative
    accuracy" is the last number, times 100. One picture has no interval. Ends are not cut at 0.

    References
    ----------
    .. [1] ASTM E562, "Standard Test Method for Determining Volume Fraction by Systematic Manual Point Count".

    Examples
    --------
    >>> [round(each, 4) for each in interval([0.2, 0.3, 0.4])]
    [0.3, 0.1, 0.0516, 0.5484, 0.828]
    """
    mean = fmean(fractions)
    if len(fractions) < 2:
        return mean, None, None, None, None
    deviation = stdev(fractions)
    half = float(stdtrit(len(fractions) - 1, 0.975)) * deviation / sqrt(len(fractions))
    return mean, deviation, mean - half, mean + half, half / mean if mean else None


def _write(path: Path, head: Sequence[str], lines: Sequence[Sequence[Any]]) -> None:
    with (
        atomic(path) as temporary,
        # Names of files need not be text; their bytes are kept.
        temporary.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(["" if cell is None else cell for cell in line] for line in lines)
