"""Words that benchmarks share: the machine, a duration, a size, a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .measure import NOTHING, text_table


def heading(title: str, machine: dict[str, Any]) -> str:
    """Say what was run, where and when."""
    return (
        f"{title}, {machine['date']}\n"
        f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, "
        f"load {machine['load']:.1f} at the start; {machine['system']}\n"
        + ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    )


def duration(seconds: float | None) -> str:
    """Set a time with three digits.

    >>> duration(0.01234), duration(12.345), duration(None)
    ('12.3 ms', '12.3 s', '–')
    """
    if seconds is None:
        return NOTHING
    return f"{1e3 * seconds:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def megabytes(size: int | None) -> str:
    """Set a number of bytes.

    >>> megabytes(3_400_000), megabytes(None)
    ('3 MB', '–')
    """
    return NOTHING if size is None else f"{size / 1e6:.0f} MB"


def verdict(what: str, value: float, target: float, at_least: bool) -> dict[str, Any]:
    """Compare a figure with its target."""
    reached = value >= target if at_least else value <= target
    return {"what": what, "value": value, "target": target, "at_least": at_least, "reached": reached}


def targets(verdicts: Sequence[dict[str, Any]]) -> str:
    """Set verdicts as a table."""
    lines = [
        [
            each["what"],
            f"{each['value']:.3g}",
            f"{'≥' if each['at_least'] else '≤'} {each['target']:g}",
            "reached" if each["reached"] else "not reached",
        ]
        for each in verdicts
    ]
    return text_table(["target", "measured", "wanted", ""], lines)
