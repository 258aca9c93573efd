"""Files to take along: one picture's results in all formats, and everything of the project."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..arrays import Array
from ..classes.batch import SUMMARY, TABLE
from ..classes.classification import Classification, PixelSize, TableRow, measure
from ..classes.formats import FORMATS
from ..classes.project import CLASSES, LIST, MARKS, MODEL, RESULTS
from ..classes.tables import write_table
from ..evaluate.classes import confusion, scores
from ..io.georeference import Georeference
from ..io.images import read_image, read_labels, write_image
from ..io.source import open_source
from ..metrics import covering
from .live import Engine
from .refusal import Refusal
from .workspace import Workspace

#: Name of a download → ending of the file that is sent.
KINDS = {
    "labels.png": ".png",
    "overlay.png": ".overlay.png",
    "uncertainty.png": ".uncertainty.png",
    "table.csv": ".table.csv",
    "geojson": ".geojson",
    "coco.json": ".coco.json",
    "rois.zip": ".rois.zip",
    "ome.tif": ".ome.tif",
    "strokes.json": ".json",
}
#: Archives of all pictures' files of a kind.
ARCHIVES = {"geojson.zip": "geojson", "coco.zip": "coco.json", "imagej.zip": "rois.zip", "ome-tiff.zip": "ome.tif"}
_WRITERS = dict(FORMATS.values())
#: All files of an archive have this date, so that equal contents give equal archives.
DATE = (1980, 1, 1, 0, 0, 0)
#: Sides of what is sent to be looked at.
MOST_SIDE = 2048


class Shown(NamedTuple):
    """A map of classes for the eye, smaller than the picture by a whole number."""

    values: Array
    scale: int


class Downloads:
    """What can be taken along; `source` is `live` (by the strokes) or `applied` (by the model)."""

    def __init__(self, workspace: Workspace, engine: Engine) -> None:
        self.workspace, self.engine = workspace, engine

    def labels(self, name: str, source: str) -> Array:
        """Values of classes at the picture's size, 255 outside."""
        path = self.workspace.picture(name)
        if source == "applied":
            return read_labels(self._applied(name)).astype(np.uint8)
        answer = self.engine.refined(name)
        width, height = self.engine.views.get(path).size
        return _enlarged(answer.labels, answer.scale)[:height, :width]

    def shown(self, name: str, source: str) -> Shown:
        """The labels, small enough to look at."""
        if source == "applied":
            return _smaller(read_labels(self._applied(name)).astype(np.uint8), 1)
        answer = self.engine.answer(name)
        if answer is None:
            raise Refusal(404, "There are no regions yet: mark two classes.")
        return _smaller(answer.labels, answer.scale)

    def unsure(self, name: str, source: str) -> Shown:
        """Where it is unsure, small enough to look at."""
        if source == "applied":
            return _smaller(read_image(self._result(name, ".uncertainty.png")), 1)
        answer = self.engine.answer(name)
        if answer is None:
            raise Refusal(404, "There are no regions yet: mark two classes.")
        return Shown(answer.unsure, answer.unsure_scale)

    def rows(self, name: str, source: str) -> list[TableRow]:
        """The picture's rows of the table."""
        path, classes = self.workspace.picture(name), self.workspace.classes
        if source == "live":
            answer = self.engine.refined(name)
            if answer.scale > 1:
                return [_at_scale(row, answer.scale, _place(path)[1]) for row in measure(answer.labels, classes)]
        labels = self.labels(name, source)
        return measure(labels, classes, _place(path)[1])

    def metrics(self, name: str, source: str) -> dict[str, object]:
        """The labels against the truth."""
        truth = self.workspace.truth(name)
        if truth is None:
            raise Refusal(404, f"There is no truth for {name}. A map of classes' values in truth/{name}.png is one.")
        found, true, classes = self.labels(name, source), read_labels(truth), self.workspace.classes
        if found.shape != true.shape:
            raise Refusal(409, f"{truth.name} in the folder truth has another size than the picture.")
        judged = scores([confusion(true, found, [each.value for each in classes])])
        known = np.isin(true, [each.value for each in classes])
        iou = {each.name: None if np.isnan(x) else float(x) for each, x in zip(classes, judged.iou, strict=True)}
        inside = np.where(known, true, -1)
        return {
            "accuracy": judged.accuracy,
            "mean_iou": judged.mean_iou,
            "area_error": judged.area_error,
            "iou": iou,
            "covering": covering(found.astype(np.int64), inside),
        }

    def write(self, name: str, kind: str, source: str, folder: Path) -> Path:
        """Write one picture's file of some kind into a folder; the same bytes as `apply` writes."""
        if kind not in KINDS:
            raise Refusal(404, f"Downloads are {', '.join(KINDS)}.")
        path = self.workspace.picture(name)
        out = folder / f"{name}{KINDS[kind]}"
        if kind == "strokes.json":
            return self._strokes(name)
        if source == "applied" and kind in ("labels.png", "overlay.png", "uncertainty.png"):
            return self._result(name, KINDS[kind])
        if kind == "table.csv":
            write_table(out, {path.name: self.rows(name, source)})
        elif kind == "uncertainty.png":
            answer = self.engine.refined(name)
            width, height = self.engine.views.get(path).size
            write_image(out, _enlarged(answer.unsure, answer.unsure_scale)[:height, :width])
        else:
            found = self._classification(name, source)
            write = {".png": Classification.save, ".overlay.png": Classification.save_overlay}.get(KINDS[kind])
            if write is not None:
                write(found, out)
            else:
                _WRITERS[KINDS[kind]](out, found)
        return out

    def _classification(self, name: str, source: str) -> Classification:
        path, labels = self.workspace.picture(name), self.labels(name, source)
        place, size = _place(path)
        return Classification(
            labels=labels,
            probabilities=np.empty((0, 0, 0), np.float32),
            image=read_image(path),
            classes=self.workspace.classes,
            pixel_size=size,
            georeference=place,
        )

    def whole(self, kind: str, folder: Path) -> Path:
        """A file of the project as it lies there, or an archive of several."""
        project = self.workspace.folder
        files = {"table.csv": f"{RESULTS}/{TABLE}", "summary.csv": f"{RESULTS}/{SUMMARY}", "model.safetensors": MODEL}
        if kind in files:
            path = project / files[kind]
            if not path.is_file():
                raise Refusal(404, f"There is no {kind} yet: {'teach' if kind.startswith('model') else 'apply'} first.")
            return path
        if kind in ARCHIVES:
            return self._archive(kind, folder)
        if kind not in ("results.zip", "project.zip"):
            raise Refusal(404, f"Downloads are {', '.join([*files, *ARCHIVES, 'results.zip', 'project.zip'])}.")
        base = project / RESULTS if kind == "results.zip" else project
        paths = list(_files(base)) if kind == "results.zip" else list(self._project_files())
        if not paths:
            raise Refusal(404, "There is nothing to take along yet: draw, teach and apply first.")
        return _zipped(folder / kind, ((path.relative_to(base).as_posix(), path) for path in paths))

    def _archive(self, kind: str, folder: Path) -> Path:
        """All applied pictures in one format, one file after the other."""
        names = [name for name in self.workspace.pictures() if self.workspace.applied(name) is not None]
        if not names:
            raise Refusal(404, "No picture has a result yet: teach, then apply.")

        def written() -> Iterator[tuple[str, Path]]:
            for name in names:
                path = self.write(name, ARCHIVES[kind], "applied", folder)
                yield path.name, path
                path.unlink()

        return _zipped(folder / kind, written())

    def _project_files(self) -> Iterator[Path]:
        """Everything but the pictures."""
        project = self.workspace.folder
        for name in (CLASSES, LIST, MODEL):
            if (project / name).is_file():
                yield project / name
        for folder in (MARKS, RESULTS):
            yield from _files(project / folder)

    def _strokes(self, name: str) -> Path:
        path = self.workspace.folder / MARKS / f"{name}.json"
        if not path.is_file():
            raise Refusal(404, "Nothing is drawn on this picture.")
        return path

    def _applied(self, name: str) -> Path:
        path = self.workspace.applied(name)
        if path is None:
            raise Refusal(404, "The model was not applied to this picture yet.")
        return path

    def _result(self, name: str, ending: str) -> Path:
        path = self._applied(name).with_name(f"{name}{ending}")
        if not path.is_file():
            raise Refusal(404, f"{path.name} is missing in the results. Apply again.")
        return path


def _place(path: Path) -> tuple[Georeference | None, PixelSize | None]:
    """Where on the Earth a picture is and how large its pixels are, as `apply` reads it: only TIFF files say so."""
    if path.suffix.lower() not in (".tif", ".tiff"):
        return None, None
    with open_source(path) as found:
        return found.georeference, found.pixel_size


def _at_scale(row: TableRow, scale: int, size: PixelSize | None) -> TableRow:
    """A row of a reduced map, in pixels of the picture."""
    pixels = row.pixels * scale**2
    area, unit = (pixels * size.side**2, f"{size.unit}²") if size else (None, "")
    return row._replace(pixels=pixels, boundary_length=row.boundary_length * scale, area=area, unit=unit)


def as_json(rows: list[TableRow]) -> list[dict[str, object]]:
    """Rows of the table with the names of its columns."""
    return [{"class": row.name, **{k: v for k, v in row._asdict().items() if k != "name"}} for row in rows]


def _files(folder: Path) -> Iterator[Path]:
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return (path for path in found if path.is_file() and not path.name.startswith("."))


def _zipped(out: Path, files: Iterable[tuple[str, Path]]) -> Path:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, path in files:
            info = zipfile.ZipInfo(place, DATE)
            packed = path.suffix in (".png", ".zip")
            info.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
            with path.open("rb") as source, archive.open(info, "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target)
    return out


def _enlarged(labels: Array, scale: int) -> Array:
    return labels if scale == 1 else labels.repeat(scale, axis=0).repeat(scale, axis=1)


def _smaller(values: Array, scale: int) -> Shown:
    step = max(1, -(-max(values.shape[:2]) // MOST_SIDE))
    return Shown(np.ascontiguousarray(values[step // 2 :: step, step // 2 :: step]), scale * step)
