"""The strokes of one picture and everything that was undone, on disk before anyone hears of it.

`marks/.NAME.history.jsonl` holds a line for each change; `marks/NAME.json` holds the strokes that are in force, as
`shapetailor teach` reads them. The journal is written first, and replayed by whoever starts again: a line without its
end was never acknowledged and is cut off; marks that are one change behind are written again; marks that somebody else
has edited are one more change, which can be undone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from ..io.files import atomic
from ..strokes.files import read_strokes, write_strokes
from ..strokes.marks import Stroke
from .refusal import Refusal

#: Most strokes of a picture.
MOST_STROKES = 20_000
#: Names of changes that are remembered, so that one that is sent again is done once.
REMEMBERED = 1000


class _Change(NamedTuple):
    """The strokes from number `kept` on, before and after."""

    kept: int
    old: tuple[Stroke, ...]
    new: tuple[Stroke, ...]


class History:
    """Strokes with undo and redo of any depth.

    Parameters
    ----------
    marks : path
        The project's folder of marks; made when something is first drawn.
    name : str
        The picture's stem.
    prepare : callable
        Called before each change, to make the folder a project.
    is_marked : callable
        Whether strokes leave a pixel marked.
    """

    strokes: tuple[Stroke, ...]
    revision: int
    _done: list[_Change]
    _undone: list[_Change]
    _ids: dict[str, int]

    def __init__(
        self,
        marks: Path,
        name: str,
        prepare: Callable[[], None] = lambda: None,
        is_marked: Callable[[Sequence[Stroke]], bool] | None = None,
    ) -> None:
        self.file, self.journal = marks / f"{name}.json", marks / f".{name}.history.jsonl"
        self.lock = RLock()
        self._prepare, self._is_marked = prepare, is_marked or marks_anything
        self._load()

    @property
    def depth(self) -> dict[str, int]:
        """How many changes can be undone, and done again."""
        return {"undo": len(self._done), "redo": len(self._undone)}

    def add(self, stroke: Stroke, name: str | None = None) -> int:
        """Keep a stroke; return the revision. What was done under the same `name` is not done again."""
        if len(self.strokes) >= MOST_STROKES:
            raise Refusal(409, f"This picture has {MOST_STROKES} strokes, which is the most; undo some.")
        return self._commit({"do": "add", "stroke": stroke.to_dict()}, name)

    def undo(self, name: str | None = None) -> int:
        """Take the last change back; nothing happens where there is none."""
        return self._commit({"do": "undo"}, name) if self._done else self.revision

    def redo(self, name: str | None = None) -> int:
        """Do the last undone change again."""
        return self._commit({"do": "redo"}, name) if self._undone else self.revision

    def clear(self, name: str | None = None) -> int:
        """Remove all strokes, which can be undone."""
        return self._commit({"do": "clear"}, name) if self.strokes else self.revision

    def _commit(self, event: dict[str, Any], name: str | None) -> int:
        with self.lock:
            if name is not None and name in self._ids:
                return self.revision
            self._prepare()
            size = self.journal.stat().st_size if self.journal.exists() else 0
            try:
                if self.revision == 0 and self.strokes:
                    start = {"do": "start", "strokes": [each.to_dict() for each in self.strokes]}
                    self._append(start)
                    self._apply(start)
                self._append(event if name is None else event | {"id": name})
                self._apply(event, name)
                self._write()
            except OSError:  # a full disk: nothing has happened
                if self.journal.exists():
                    os.truncate(self.journal, size)
                self._load()
                raise
            return self.revision

    def _apply(self, event: dict[str, Any], name: Any = None) -> None:
        """Follow one line of the journal."""
        what, count = event["do"], len(self.strokes)
        if what == "undo":
            change = self._done.pop()
            self.strokes = self.strokes[: change.kept] + change.old
            self._undone.append(change)
        elif what == "redo":
            change = self._undone.pop()
            self.strokes = self.strokes[: change.kept] + change.new
            self._done.append(change)
        elif what == "add":
            self._change(_Change(count, (), (Stroke.from_dict(event["stroke"]),)))
        else:  # clear, set, start
            given = tuple(Stroke.from_dict(each) for each in event.get("strokes", []))
            self._change(_Change(0, self.strokes, given))
            if what == "start":
                self._done.clear()
        self.revision += 1
        if isinstance(name, str):
            self._ids[name] = self.revision
            if len(self._ids) > REMEMBERED:
                del self._ids[next(iter(self._ids))]

    def _change(self, change: _Change) -> None:
        self.strokes = self.strokes[: change.kept] + change.new
        self._done.append(change)
        self._undone.clear()

    def _load(self) -> None:
        self.strokes, self.revision = (), 0
        self._done, self._undone, self._ids = [], [], {}
        before: tuple[Stroke, ...] = ()
        for line in _whole_lines(self.journal):
            before = self.strokes
            try:
                event = json.loads(line)
                self._apply(event, event.get("id"))
            except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
                raise ValueError(
                    f"{self.journal}: its line {self.revision + 1} cannot be understood ({error}); remove the file to "
                    "go on without what was undone"
                ) from error
        written = self._written()
        if not self.revision:
            self.strokes = written
        elif written == self.strokes or (not written and not self._is_marked(self.strokes)):
            pass
        elif written == before or (not written and not self._is_marked(before)):
            self._write()
        else:
            event = {"do": "set", "strokes": [each.to_dict() for each in written]}
            self._append(event)
            self._apply(event)

    def _written(self) -> tuple[Stroke, ...]:
        try:
            return tuple(read_strokes(self.file)) if self.file.is_file() else ()
        except ValueError as error:
            raise ValueError(f"{error}; mend the file, or remove it to draw anew") from error

    def _append(self, event: dict[str, Any]) -> None:
        self.journal.parent.mkdir(exist_ok=True)
        new = not self.journal.exists()
        with self.journal.open("ab") as file:
            file.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            _sync_folder(self.journal.parent)

    def _write(self) -> None:
        """Write the marks for `teach`, which wants no file where nothing is marked."""
        if not self._is_marked(self.strokes):
            self.file.unlink(missing_ok=True)
            return
        with atomic(self.file) as temporary:
            write_strokes(temporary, self.strokes)
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
        _sync_folder(self.file.parent)


def marks_anything(strokes: Sequence[Stroke]) -> bool:
    """Whether a stroke marks a class."""
    return any(each.region > 0 for each in strokes)


def _whole_lines(path: Path) -> list[bytes]:
    """Lines of a journal; what was being written when the server was killed is cut off."""
    if not path.is_file():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with path.open("rb+") as file:
            file.truncate(len(whole))
    return whole.splitlines()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    with suppress(OSError):  # not every file system can
        os.fsync(handle)
    os.close(handle)
