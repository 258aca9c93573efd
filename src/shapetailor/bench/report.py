"""Reports of benchmarks: heading, tables, figures with units, targets."""

from collections.abc import Sequence
from typing import Any

Data = dict[str, Any]

NOTHING = "–"


def page(title: str, machine: Data, words: str, sections: Sequence[str], verdicts: Sequence[Data]) -> str:
    """Set a report: what was run where and when, how to read it, its sections, the targets."""
    heading = (
        f"{title}, {machine['date']}\n"
        f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, "
        f"load {machine['load']:.1f} at the start; {machine['system']}\n"
        + ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    )
    lines = []
    for each in verdicts:
        wanted = f"{'≥' if each['at_least'] else '≤'} {each['target']:g}"
        lines.append([each["what"], f"{each['value']:.3g}", wanted, "reached" if each["reached"] else "not reached"])
    targets = ["Targets\n\n" + text_table(["target", "measured", "wanted", ""], lines)] if verdicts else []
    return "\n\n\n".join([f"{heading}\n{words}", *sections, *targets])


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Set a table in columns of equal width: the first to the left, the others to the right.

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


def verdict(what: str, value: float, target: float, at_least: bool) -> Data:
    """Compare a figure with its target."""
    reached = value >= target if at_least else value <= target
    return {"what": what, "value": value, "target": target, "at_least": at_least, "reached": reached}
