"""Apply a classifier to many pictures: results for each, one table, a summary; what is done is not done again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._version import __version__
from ..io.files import atomic
from ..io.images import read_image, read_labels
from ..io.pixel_size import PixelSize, as_pixel_size, stored_pixel_size
from .classification import Classification, TableRow, measure
from .classifier import Classifier
from .tables import write_summary, write_table

__all__ = ["Report", "apply_all", "as_pixel_size", "check_names", "file_digest", "stored_pixel_size"]

STATE, TABLE, SUMMARY = "apply.json", "table.csv", "summary.csv"
#: What is written for each picture; the map comes last, and so vouches for the rest.
ENDINGS = (".overlay.png", ".uncertainty.png", ".png")
#: Writes one more file of a picture's classes: (stem in the folder of results, classes found).
Export = Callable[[Path, Classification], None]


@dataclass
class Report:
    """What came of a batch: rows of all pictures, how many were done before, and a line for each that failed."""

    rows: dict[str, list[TableRow]] = field(default_factory=dict)
    before: int = 0
    failures: list[str] = field(default_factory=list)


def apply_all(
    classifier: Classifier,
    model: Path,
    pictures: Sequence[Path],
    out: Path,
    *,
    pixel_size: PixelSize | None = None,
    exports: dict[str, Export] | None = None,
    force: bool = False,
    progress: Callable[[Iterable[Path]], Iterable[Path]] = iter,
) -> Report:
    """Classify pictures into a folder.

    A picture is skipped if the same picture was done before with the same model and options; `apply.json` in the folder
    records that. One that fails is named in the report and costs the others nothing.

    Parameters
    ----------
    classifier, model : Classifier, path
        The classifier and the file that it was read from.
    pictures : list of path
        Their stems are the results' names.
    pixel_size : PixelSize, optional
        Else what the files say.
    exports : mapping, optional
        Ending of a further file → what writes it.
    """
    check_names(pictures, out)
    exports = exports or {}
    out.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {
        "version": __version__,
        "model": file_digest(model),
        "exports": sorted(exports),
        "pixel_size": None if pixel_size is None else list(pixel_size),
    }
    done = {} if force else _done_before(out / STATE, options)
    report = Report()
    for path in progress(pictures):
        try:
            digest = file_digest(path)
            size = pixel_size or stored_pixel_size(path)
            ready = all((out / f"{path.stem}{ending}").exists() for ending in (*exports, *ENDINGS))
            if done.get(path.stem) == digest and ready:
                report.rows[path.name] = measure(read_labels(out / f"{path.stem}.png"), classifier.classes, size)
                report.before += 1
                continue
            found = classifier.apply(read_image(path), size)
            _save(found, out, path.stem, exports)
            done[path.stem] = digest
            _write_json(out / STATE, {"options": options, "done": done})
            report.rows[path.name] = found.table
        except Exception as error:  # whatever is wrong with one picture must not cost the others
            if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
                raise  # a full disk is wrong with all of them
            reason = str(error) or type(error).__name__
            report.failures.append(reason if str(path) in reason else f"{path}: {reason}")
    if report.rows:
        write_table(out / TABLE, report.rows)
        write_summary(out / SUMMARY, report.rows)
    return report


def check_names(pictures: Sequence[Path], out: Path) -> None:
    """Raise if two pictures would be written to the same files, or one over a picture."""
    by_stem: dict[str, Path] = {}
    inputs = {path.resolve() for path in pictures}
    for path in pictures:
        other = by_stem.setdefault(path.stem, path)
        if other is not path:
            raise ValueError(
                f"{other} and {path} would both be written to {out / path.stem}.png; give them another --out"
            )
        for ending in ENDINGS:
            if (out / f"{path.stem}{ending}").resolve() in inputs:
                raise ValueError(
                    f"{out / path.stem}{ending} is a picture that is to be classified; choose another --out"
                )


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _save(found: Classification, out: Path, stem: str, exports: dict[str, Export]) -> None:
    for ending, write in exports.items():
        write(out / f"{stem}{ending}", found)
    found.save_overlay(out / f"{stem}{ENDINGS[0]}")
    found.save_uncertainty(out / f"{stem}{ENDINGS[1]}")
    found.save(out / f"{stem}{ENDINGS[2]}")


def _done_before(path: Path, options: dict[str, Any]) -> dict[str, str]:
    """Return name → digest of the pictures done with the same model and options."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        return dict(state["done"]) if state["options"] == options else {}
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError):
        return {}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
