"""Apply a classifier to many pictures: results for each, one table, a summary; what is done is not done again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from .._version import __version__
from ..io.files import atomic, make_folder
from ..io.georeference import WGS84
from ..io.images import read_labels
from ..io.pixel_size import PixelSize, as_pixel_size, stored_pixel_size
from ..io.remote import Location, check_ours, check_outputs, delivered, fetched, names_in
from ..io.source import open_source
from ..workers import Outcome, each_done
from .classification import Classification, TableRow, measure
from .classifier import Classifier
from .tables import write_summary, write_table

__all__ = ["Report", "apply_all", "as_pixel_size", "file_digest", "stored_pixel_size"]

STATE, TABLE, SUMMARY = "apply.json", "table.csv", "summary.csv"
#: Writes one more file of a picture's classes: (stem in the folder of results, classes found).
Export = Callable[[Path, Classification], None]


@dataclass
class Report:
    """What came of a batch: rows of all pictures, how many were done before, and why others failed."""

    rows: dict[str, list[TableRow]] = field(default_factory=dict)
    before: int = 0
    failures: dict[str, str] = field(default_factory=dict)


def apply_all(
    classifier: Classifier,
    model: Path,
    pictures: Sequence[Location],
    out: Location,
    *,
    pixel_size: PixelSize | None = None,
    exports: dict[str, Export] | None = None,
    crs: str = WGS84,
    force: bool = False,
    jobs: int | None = None,
    ray: str | None = None,
    progress: Callable[[Iterable[Done]], Iterable[Done]] = iter,
) -> Report:
    """Classify pictures into a folder.

    A picture is skipped if the same picture was done before with the same model and options; `apply.json` in the folder
    records that. One that fails is named in the report and costs the others nothing.

    Parameters
    ----------
    classifier, model : Classifier, path
        The classifier and the file that it was read from.
    pictures : list of path or Remote
        Their stems are the results' names.
    pixel_size : PixelSize, optional
        Else what the files say.
    exports : mapping, optional
        Ending of a further file → what writes it.
    crs : str
        Coordinate system of the polygons of pictures with a georeference.
    jobs, ray
        Who does the work: see `each_done`. The tables are the same, byte for byte.
    progress : callable
        Is given what is done, one picture after the other, and passes it on.
    """
    work = _Apply(classifier, out, pixel_size, exports or {}, crs)
    there = names_in(out)
    check_outputs(pictures, out, work.names, set() if force else there)
    check_ours([STATE, TABLE, SUMMARY], out, set() if force else there)
    if isinstance(out, Path):
        make_folder(out)
    state = _State(
        out,
        {
            "version": __version__,
            "model": file_digest(model),
            "exports": sorted(work.exports),
            "crs": crs,
            "pixel_size": None if pixel_size is None else list(pixel_size),
        },
    )
    former = {} if force else state.read()
    tasks = [(path, former.get(path.stem) if there.issuperset(work.names(path.stem)) else None) for path in pictures]
    report, rows = Report(), {}
    try:
        for each in progress(each_done(work, tasks, jobs, ray)):
            path = each.item[0]
            if each.result is None:
                if each.disk:
                    raise OSError(each.reason)  # a full disk is wrong with all of them
                report.failures[str(path)] = each.reason
                continue
            rows[path], state.done[path.stem] = each.result.rows, each.result.digest
            report.before += each.result.before
            state.write_soon()
    finally:
        state.write()
    report.rows = {path.name: rows[path] for path in pictures if path in rows}
    report.failures = {str(path): report.failures[str(path)] for path in pictures if str(path) in report.failures}
    if report.rows:
        with delivered(out, [TABLE, SUMMARY]) as folder:
            write_table(folder / TABLE, report.rows)
            write_summary(folder / SUMMARY, report.rows)
    return report


class _Applied(NamedTuple):
    """A picture that is done: its rows, its digest, and whether it was done before."""

    rows: list[TableRow]
    digest: str
    before: bool


#: A picture and the digest it had when it was done, and what came of it.
Done = Outcome[tuple[Location, str | None], _Applied]


@dataclass(frozen=True)
class _Apply:
    """What is done with a picture, by whichever worker."""

    classifier: Classifier
    out: Location
    pixel_size: PixelSize | None
    exports: dict[str, Export]
    crs: str

    def names(self, stem: str) -> list[str]:
        """What is written, in this order."""
        return [f"{stem}{ending}" for ending in self._savers()]

    def _savers(self) -> dict[str, Export]:
        """What is written for each picture; the map comes last, and so vouches for the rest."""
        return {
            ".overlay.png": lambda path, found: found.save_overlay(path),
            ".uncertainty.png": lambda path, found: found.save_uncertainty(path),
            **self.exports,
            ".png": lambda path, found: found.save(path),
        }

    def __call__(self, task: tuple[Location, str | None]) -> _Applied:
        picture, before = task
        with fetched(picture) as path:
            digest = folder_digest(path) if path.is_dir() else file_digest(path)
            with open_source(path) as source:
                size = self.pixel_size or source.pixel_size
                if digest == before:
                    # A map that somebody has spoilt is made again.
                    with suppress(ValueError), fetched(self.out / f"{picture.stem}.png") as map_path:
                        return _Applied(measure(read_labels(map_path), self.classifier.classes, size), digest, True)
                found = self.classifier.apply(source.whole(), size)
                place = source.georeference and replace(source.georeference, target=self.crs)
        found = replace(found, georeference=place)
        with delivered(self.out, self.names(picture.stem)) as folder:
            for ending, write in self._savers().items():
                write(folder / f"{picture.stem}{ending}", found)
        return _Applied(found.table, digest, False)


class _State:
    """`apply.json`: the options, and the digests of the pictures that are done."""

    def __init__(self, out: Location, options: dict[str, Any]) -> None:
        self.out, self.options = out, options
        self.done: dict[str, str] = {}
        self._next = 0.0

    def read(self) -> dict[str, str]:
        """Return name → digest of the pictures done with the same model and options."""
        try:
            with fetched(self.out / STATE) as path:
                state = json.loads(path.read_text(encoding="utf-8"))
            self.done = dict(state["done"]) if state["options"] == self.options else {}
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return dict(self.done)

    def write_soon(self) -> None:
        """Write, but spend at most a tenth of the time on it: the record of a million pictures is large."""
        start = monotonic()
        if start >= self._next:
            self.write()
            self._next = monotonic() + 9 * (monotonic() - start)

    def write(self) -> None:
        """Write what is known by now."""
        content = json.dumps({"options": self.options, "done": dict(sorted(self.done.items()))}, indent=1)
        with delivered(self.out, [STATE]) as folder, atomic(folder / STATE) as temporary:
            temporary.write_text(content + "\n", encoding="utf-8")


def folder_digest(path: Path) -> str:
    """Return a SHA-256 of the files in a folder, by their names, sizes and times: a Zarr picture may be large."""
    files = sorted(each for each in path.rglob("*") if each.is_file())
    facts = [(str(each.relative_to(path)), each.stat().st_size, each.stat().st_mtime_ns) for each in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
