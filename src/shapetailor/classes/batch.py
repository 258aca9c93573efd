"""Apply a classifier to many pictures: results for each, one table, a summary; what is done is not done again."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .._version import __version__
from ..io.files import atomic
from ..io.images import read_image, read_labels
from .classification import Classification, PixelSize, TableRow, measure
from .classifier import Classifier
from .tables import write_summary, write_table

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


def stored_pixel_size(path: Path) -> PixelSize | None:
    """Return the side of a pixel that a TIFF file of ImageJ or OME tells, else None.

    The dots per inch of other files are about printing and say nothing of what is seen.
    """
    if path.suffix.lower() not in (".tif", ".tiff"):
        return None
    import tifffile

    with tifffile.TiffFile(path) as file:
        if file.ome_metadata:
            return _ome_pixel_size(file.ome_metadata)
        unit = (file.imagej_metadata or {}).get("unit")
        tag = file.pages[0].tags.get("XResolution")  # type: ignore[union-attr]
        if not unit or unit in ("pixel", "pixels") or tag is None or not tag.value[0]:
            return None
        per_unit, of = tag.value
        return PixelSize(of / per_unit, {"micron": "µm", "um": "µm", "\\u00B5m": "µm"}.get(unit, str(unit)))


def _ome_pixel_size(xml: str) -> PixelSize | None:
    for element in ElementTree.fromstring(xml).iter():
        if element.tag.endswith("}Pixels") and "PhysicalSizeX" in element.attrib:
            return PixelSize(float(element.attrib["PhysicalSizeX"]), element.attrib.get("PhysicalSizeXUnit", "µm"))
    return None


def as_pixel_size(text: str) -> PixelSize:
    """Read a side with its unit.

    >>> as_pixel_size("0.5um")
    PixelSize(side=0.5, unit='µm')
    """
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([^\W\d_]+)\s*", text)
    if not match or float(match[1]) <= 0:
        raise ValueError(f'--pixel-size must be a side and its unit, such as "0.5um" or "2 mm", got {text!r}')
    return PixelSize(float(match[1]), {"um": "µm", "μm": "µm"}.get(match[2], match[2]))


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
