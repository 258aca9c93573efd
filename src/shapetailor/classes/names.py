"""The classes of a project: their values, names and colours, and the file `classes.json`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..io.files import atomic, read_json
from ..io.palette import region_colour

VERSION = 1
#: What maps of classes hold where nothing is marked, and where nothing shall be learnt.
UNLABELLED, IGNORE = 0, 255


@dataclass(frozen=True)
class ClassName:
    """A class: its value in label maps (1 to 254), its name, its colour ("#rrggbb").

    An `ignored` class (background, a scale bar) is left out of the column `fraction_without_ignored`.
    """

    value: int
    name: str
    color: str = ""
    ignored: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not UNLABELLED < self.value < IGNORE:
            raise ValueError(
                f"value must be a whole number from 1 to 254 (0 is unlabelled, 255 ignore), got {self.value!r}"
            )
        if not isinstance(self.name, str) or not self.name.strip() or not self.name.isprintable():
            raise ValueError(f"name must be a text of one line, got {self.name!r}")
        if not isinstance(self.ignored, bool):
            raise ValueError(f"ignored must be true or false, got {self.ignored!r}")
        if self.color == "":
            red, green, blue = region_colour(self.value - 1)
            object.__setattr__(self, "color", f"#{red:02x}{green:02x}{blue:02x}")
        if not isinstance(self.color, str) or not re.fullmatch("#[0-9a-fA-F]{6}", self.color):
            raise ValueError(f'color must be "#rrggbb", got {self.color!r}')

    @property
    def rgb(self) -> tuple[int, int, int]:
        """The colour as red, green and blue of 0..255."""
        red, green, blue = bytes.fromhex(self.color[1:])
        return red, green, blue

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values = {"value": self.value, "name": self.name, "color": self.color}
        return values | ({"ignored": True} if self.ignored else {})


def as_classes(classes: Iterable[Any]) -> tuple[ClassName, ...]:
    """Check a list of classes: `ClassName`, mappings with the same keys, or names, numbered from 1.

    Examples
    --------
    >>> [each.value for each in as_classes(["ferrite", "pearlite"])]
    [1, 2]
    """
    if isinstance(classes, (str, Mapping)) or not isinstance(classes, Iterable):
        raise TypeError(f"classes must be a list, got {type(classes).__name__}")
    found = tuple(_as_class(each, number) for number, each in enumerate(classes, start=1))
    if len(found) < 2:
        raise ValueError(f"classes must be at least two, got {len(found)}")
    for key in ("value", "name"):
        values = [getattr(each, key) for each in found]
        twice = sorted({str(value) for value in values if values.count(value) > 1})
        if twice:
            raise ValueError(f"classes must have different {key}s; {', '.join(twice)} comes twice")
    return tuple(sorted(found, key=lambda each: each.value))


def _as_class(given: Any, number: int) -> ClassName:
    if isinstance(given, ClassName):
        return given
    if isinstance(given, str):
        return ClassName(number, given)
    if not isinstance(given, Mapping) or not {"value", "name"} <= set(given):
        raise ValueError(f'class {number} must have "value" and "name", got {given!r:.80}')
    unknown = set(given) - {"value", "name", "color", "ignored"}
    if unknown:
        raise ValueError(f"class {number} has value, name, color and ignored; unknown is {sorted(map(str, unknown))}")
    try:
        return ClassName(**given)
    except ValueError as error:
        raise ValueError(f"class {number}: {error}") from error


def read_classes(path: str | os.PathLike[str]) -> tuple[ClassName, ...]:
    """Read `classes.json`; a ValueError begins with its name and says what is wrong."""
    path = Path(path)
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("classes"), list):
        raise ValueError(f'{path}: expected {{"version": {VERSION}, "classes": [{{"value": 1, "name": …}}, …]}}')
    if content.get("version") != VERSION:
        raise ValueError(f"{path}: its version is {content.get('version')!r:.40}, this shapetailor reads {VERSION}")
    try:
        return as_classes(content["classes"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def write_classes(path: str | os.PathLike[str], classes: Sequence[ClassName]) -> None:
    """Write `classes.json`, atomically, a line for each class."""
    lines = ",\n".join("  " + json.dumps(each.to_dict(), ensure_ascii=False) for each in classes)
    with atomic(path) as temporary:
        temporary.write_text(f'{{"version": {VERSION}, "classes": [\n{lines}\n]}}\n', encoding="utf-8")
