"""The folder that is served: a project, or pictures that become one when something is drawn."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from safetensors import safe_open

from ..classes.batch import STATE, file_digest
from ..classes.names import ClassName, as_classes, read_classes, write_classes
from ..classes.project import CLASSES, LIST, MAP_ENDINGS, MARKS, MODEL, PICTURES, RESULTS
from ..io.files import SUFFIXES, atomic, check_writable, image_files, read_lines
from ..io.header import read_size
from ..io.images import read_labels
from ..network.checkpoint import ENTRY
from ..strokes.marks import Stroke
from .history import History, marks_anything
from .refusal import Refusal

TRUTH, LOCK = "truth", ".page.lock"
#: Where pictures are kept when no folder is given.
OWN_FOLDER = "shapetailor-project"
USUAL_CLASSES = ("class 1", "class 2")
LONGEST_NAME = 120
#: Pixels of a picture whose erased strokes are drawn to see what is left.
MOST_DRAWN = 2**24


class Workspace:
    """Pictures, classes, marks and results of a folder; nothing is kept here that is not on disk.

    Parameters
    ----------
    folder : path
        A project or a folder of pictures; one that does not exist is made when a picture is added.
    """

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{folder}: expected a folder of pictures or a project")
        self.folder = folder.resolve()
        self.lock = RLock()
        self.warnings: list[str] = []
        self._histories: dict[str, History] = {}
        self._listed: tuple[Any, dict[str, Path]] | None = None
        self._sizes: dict[Path, tuple[Any, tuple[int, int] | None, str | None]] = {}
        self._records: dict[Path, tuple[Any, dict[str, Any]]] = {}
        self._digest: tuple[Any, str] = (None, "")
        self._owned: int | None = None

    @property
    def is_project(self) -> bool:
        """Whether the folder names its classes."""
        return (self.folder / CLASSES).is_file()

    @property
    def kind(self) -> str:
        """`project`, `folder` or `empty`."""
        return "project" if self.is_project else "folder" if self.pictures() else "empty"

    @property
    def classes(self) -> tuple[ClassName, ...]:
        """The project's classes; of a folder that is none yet, those it begins with."""
        if not self.is_project:
            return as_classes(USUAL_CLASSES)
        try:
            return read_classes(self.folder / CLASSES)
        except ValueError as error:
            raise Refusal(409, f"{error}. Mend the file, or remove it to name the classes anew.") from error

    def pictures(self) -> dict[str, Path]:
        """All pictures by their stems, in order; two of one stem leave a warning."""
        key = tuple(_stamp(self.folder / name) for name in (".", LIST, PICTURES))
        with self.lock:
            if self._listed is None or self._listed[0] != key:
                self._listed = key, self._find()
            return self._listed[1]

    def _find(self) -> dict[str, Path]:
        listed, inside = self.folder / LIST, self.folder / PICTURES
        if listed.is_file():
            found = [self.folder / line for line in read_lines(listed)]
        elif inside.is_dir():
            found = image_files(inside)
        else:
            found = image_files(self.folder) if self.folder.is_dir() else []
        by_stem: dict[str, Path] = {}
        self.warnings = []
        for path in found:
            if path.name != path.name.strip() or not path.name.isprintable():  # no line of the list could name it
                self.warnings.append(f"{path.name!r} is left out: rename it, without spaces at its ends.")
            elif by_stem.setdefault(path.stem, path) is not path:
                self.warnings.append(f"{path.name} is left out: {by_stem[path.stem].name} has the same name.")
        return dict(sorted(by_stem.items()))

    def picture(self, name: str) -> Path:
        """The file of a picture; names are looked up and never joined to a path."""
        path = self.pictures().get(name)
        if path is None:
            raise Refusal(404, f"There is no picture called {name[:80]!r} in this folder.")
        return path

    def version(self, name: str) -> str:
        """What the picture's address carries: browsers keep tiles, and another file has others."""
        path = self.picture(name)
        return hashlib.sha256(f"{path} {_stamp(path)}".encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def history(self, name: str) -> History:
        """The strokes of a picture."""
        self.picture(name)
        with self.lock:
            if name not in self._histories:
                self._histories[name] = History(
                    self.folder / MARKS, name, self.become_project, partial(self._is_marked, name)
                )
            return self._histories[name]

    def _is_marked(self, name: str, strokes: Sequence[Stroke]) -> bool:
        """Whether strokes leave a pixel marked; of very large pictures only whether they mark any."""
        if not marks_anything(strokes) or all(each.region > 0 for each in strokes):
            return marks_anything(strokes)
        size, _ = self.size(self.picture(name))
        if size is None or size[0] * size[1] > MOST_DRAWN:
            return True
        marked = np.zeros(size[::-1], bool)
        for each in strokes:
            marked[each.mask(marked.shape)] = each.region > 0
        return bool(marked.any())

    def marks_kind(self, name: str) -> str:
        """`strokes`, `map` or `none`."""
        self.picture(name)
        if any((self.folder / MARKS / f"{name}{ending}").is_file() for ending in MAP_ENDINGS):
            return "map"
        return "strokes" if (self.folder / MARKS / f"{name}.json").is_file() else "none"

    def truth(self, name: str) -> Path | None:
        """A map of the true classes, where there is one."""
        return self._map(TRUTH, name)

    def applied(self, name: str) -> Path | None:
        """The map that `apply` wrote."""
        return self._map(RESULTS, name)

    def is_applied_newer(self, name: str) -> bool:
        """Whether the result is younger than the marks."""
        applied = self.applied(name)
        marks = _stamp(self.folder / MARKS / f"{name}.json")
        return applied is not None and (marks is None or applied.stat().st_mtime_ns >= marks[0])

    def _map(self, folder: str, name: str) -> Path | None:
        self.picture(name)
        endings = (".png",) if folder == RESULTS else MAP_ENDINGS
        paths = (self.folder / folder / f"{name}{ending}" for ending in endings)
        return next((path for path in paths if path.is_file()), None)

    def become_project(self) -> None:
        """Write what a project has: classes, and the list of pictures, which stay where they are."""
        with self.lock:
            self._own()
            if not (self.folder / LIST).is_file() and not (self.folder / PICTURES).is_dir():
                pictures = self.pictures()
                self._write_list([path.name for path in pictures.values()])
            if not self.is_project:
                write_classes(self.folder / CLASSES, self.classes)
            (self.folder / MARKS).mkdir(exist_ok=True)

    def _own(self) -> None:
        """Let no other server write to the folder; the lock ends with the process."""
        if self._owned is not None:
            return
        if not self.folder.is_dir():
            self.folder.mkdir(parents=True)
        try:
            check_writable(self.folder)
        except PermissionError:
            words = "The folder cannot be written to. Copy the pictures to where you may write, and serve that."
            raise Refusal(409, words) from None
        handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise Refusal(
                409, "Another shapetailor serve has this folder open and writes to it. Use that one, or stop it."
            ) from None
        self._owned = handle

    def close(self) -> None:
        """Let others write to the folder."""
        if self._owned is not None:
            os.close(self._owned)
            self._owned = None

    def set_classes(self, given: Any) -> None:
        """Replace the classes; one that is marked somewhere stays."""
        try:
            wanted = as_classes(given)
        except (TypeError, ValueError) as error:
            raise Refusal(400, f"These classes cannot be used: {error}.") from error
        with self.lock:
            gone = {each.value: each.name for each in self.classes} if self.is_project else {}
            for each in wanted:
                gone.pop(each.value, None)
            if gone:
                self._check_unused(gone)
            self.become_project()
            write_classes(self.folder / CLASSES, wanted)

    def _check_unused(self, gone: Mapping[int, str]) -> None:
        for value, title in gone.items():
            names = [name for name in self.pictures() if value in self.marked_values(name)]
            if names:
                more = f" and {len(names) - 3} more" if len(names) > 3 else ""
                where = ", ".join(names[:3]) + more
                raise Refusal(409, f"{title} is marked in {where}. Remove these marks first, then the class.")

    def marked_values(self, name: str) -> set[int]:
        """Values of the classes that a picture's marks name; 0 and −1 may be among them."""
        kind = self.marks_kind(name)
        if kind == "strokes":
            return {stroke.region for stroke in self.history(name).strokes}
        if kind == "map":
            ending = next(e for e in MAP_ENDINGS if (self.folder / MARKS / f"{name}{e}").is_file())
            return set(read_labels(self.folder / MARKS / f"{name}{ending}").ravel().tolist())
        return set()

    def add_picture(self, file_name: str) -> Path:
        """Check an uploaded picture's name and return where it shall be written."""
        path = Path(file_name)
        if path.name != file_name or not file_name.isprintable() or file_name.startswith(".") or "\\" in file_name:
            raise Refusal(400, "A picture's name must be a plain file name.")
        if file_name != file_name.strip() or len(os.fsencode(file_name)) > LONGEST_NAME:
            raise Refusal(400, f"A picture's name has at most {LONGEST_NAME} bytes and no spaces at its ends.")
        if path.suffix.lower() not in SUFFIXES:
            known = ", ".join(sorted(each[1:] for each in SUFFIXES))
            raise Refusal(415, f"{file_name} does not end like a picture; known are {known}.")
        if path.stem in self.pictures():
            raise Refusal(409, f"There is a picture called {path.stem} already. Rename the new one.")
        with self.lock:
            self._own()
            plain = not self.is_project and image_files(self.folder) and not (self.folder / PICTURES).is_dir()
            listed_here = (self.folder / LIST).is_file() and not (self.folder / PICTURES).is_dir()
            target = self.folder if plain or listed_here else self.folder / PICTURES
            target.mkdir(exist_ok=True)
        return target / file_name

    def picture_added(self, path: Path) -> None:
        """Name a written picture in the list, where there is one."""
        with self.lock:
            listed = self.folder / LIST
            if listed.is_file():
                lines = listed.read_text(encoding="utf-8").splitlines()
                self._write_list([*lines, path.relative_to(self.folder).as_posix()])
            self._listed = None

    def _write_list(self, names: Sequence[str]) -> None:
        with atomic(self.folder / LIST) as temporary:
            temporary.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
        self._listed = None

    def size(self, path: Path) -> tuple[tuple[int, int] | None, str | None]:
        """Width and height by the file's header, or why it cannot be read."""
        stamp = _stamp(path)
        known = self._sizes.get(path)
        if known is None or known[0] != stamp:
            known = self._sizes[path] = (stamp, *header_size(path))
        return known[1], known[2]

    def model(self) -> dict[str, Any] | None:
        """What the taught model says of itself, what came of former ones, and how many pictures have its results."""
        path = self.folder / MODEL
        if not path.is_file():
            return None
        record = self._record(path)
        known = {key: record[key] for key in ("pictures", "held_out", "fine_tuned")}
        news = {"teachings": self._teachings(), "results": self._results_of(path)}
        return known | news | {"outdated": self._has_other_classes(record["classes"])}

    def _has_other_classes(self, taught: Any) -> bool:
        """Whether classes have changed since a model was taught; its results keep the former ones."""
        try:
            return as_classes(taught) != self.classes
        except (TypeError, ValueError):
            return False

    def _record(self, path: Path) -> dict[str, Any]:
        """What a model's file says of its teaching; nothing where it cannot be read."""
        known = self._records.get(path)
        stamp = _stamp(path)
        if known is None or known[0] != stamp:
            try:
                with safe_open(path, framework="numpy") as file:
                    record = _taught(json.loads(file.metadata()[ENTRY]))
            except Exception:  # whatever it is, teaching makes another
                record = {"pictures": [], "classes": None, "held_out": None, "fine_tuned": None}
            known = self._records[path] = (stamp, record)
        return known[1]

    def _teachings(self) -> list[float]:
        """The held-out mean IoU of this model and of the former ones, in their order, as far as they have one."""
        number, paths = 1, []
        while (former := (self.folder / MODEL).with_suffix(f".{number}.safetensors")).is_file():
            paths.append(former)
            number += 1
        held = (self._record(path)["held_out"] for path in [*paths, self.folder / MODEL])
        return [each["mean_iou"] for each in held if each is not None]

    def _results_of(self, model: Path) -> int:
        """How many pictures have results of this very model."""
        try:
            state = json.loads((self.folder / RESULTS / STATE).read_text(encoding="utf-8"))
            stamp = _stamp(model)
            if self._digest[0] != stamp:
                self._digest = stamp, file_digest(model)
            done = state["done"] if state["options"]["model"] == self._digest[1] else {}
            return sum(name in done and self.applied(name) is not None for name in self.pictures())
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def describe(self, failed: Mapping[str, str]) -> dict[str, Any]:
        """The whole project, for the page; `failed` are pictures that the last job could not read."""
        pictures = []
        for name, path in self.pictures().items():
            size, error = self.size(path)
            error = error or failed.get(name)
            marks, applied = self.marks_kind(name), self.applied(name) is not None
            state = "failed" if error else "applied" if applied else "untouched" if marks == "none" else "marked"
            pictures.append(
                {
                    "name": name,
                    "file": path.name,
                    "version": self.version(name),
                    "state": state,
                    "marks": marks,
                    "truth": self.truth(name) is not None,
                    "width": size[0] if size else None,
                    "height": size[1] if size else None,
                    "error": error,
                }
            )
        return {
            "name": self.folder.name,
            "folder": str(self.folder),
            "kind": self.kind,
            "classes": [each.to_dict() for each in self.classes],
            "pictures": pictures,
            "model": self.model(),
            "warnings": self.warnings,
        }


def header_size(path: Path) -> tuple[tuple[int, int] | None, str | None]:
    """Read a picture's width and height without decoding it; else None, and why."""
    try:
        height, width = read_size(path)
    except (OSError, ValueError, MemoryError) as error:
        return None, str(error).removeprefix(f"{path}: ")
    return (width, height), None


def _taught(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What a model was taught from, its figures on held-out pictures, whether fine-tuning (if any) helped."""
    record, held = entry["record"], entry["record"].get("held_out")
    if held is not None:
        iou = [[each["name"], figure] for each, figure in zip(entry["classes"], held["iou"], strict=True)]
        held = {"mean_iou": float(held["mean_iou"]), "accuracy": float(held["accuracy"]), "iou": iou}
    tuned = record.get("fine_tune")
    helped = None
    if tuned is not None:  # files of format 3 have the step whose weights were kept
        helped = bool(tuned["helped"] if "helped" in tuned else tuned["best_step"] or not tuned["held_out"])
    names = [str(name) for name in record["pictures"]]
    return {"pictures": names, "classes": entry["classes"], "held_out": held, "fine_tuned": helped}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
