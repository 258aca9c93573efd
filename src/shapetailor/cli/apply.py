"""`shapetailor apply`: pictures in, their classes and one table out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..io.georeference import check_crs
from ..io.remote import location
from .pictures import add_crs_argument, add_worker_arguments, check_failures_file, opened, report_failures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", type=Path, metavar="MODEL_OR_PROJECT", help="model.safetensors, or a project's folder")
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="IMAGE_OR_FOLDER",
        help="pictures, folders or URLs (default: the project's)",
    )
    parser.add_argument(
        "--out", type=location, metavar="DIR", help="the folder to write to (default: the project's results)"
    )
    parser.add_argument("--pixel-size", metavar="SIDE", help="side of a pixel with its unit, such as 0.5um")
    parser.add_argument(
        "--export",
        nargs="+",
        default=[],
        choices=("geojson", "coco", "imagej", "ome-tiff", "ome-zarr", "tiff"),
        help="also write NAME.geojson (QuPath, GIS), .coco.json, .rois.zip (ImageJ), .ome.tif, .ome.zarr, .tif",
    )
    add_crs_argument(parser)
    add_worker_arguments(parser)
    parser.add_argument("--force", action="store_true", help="do again what is done already, over any file")
    parser.add_argument(
        "--progress-json", action="store_true", help="print a line of JSON for each picture, for programs that watch"
    )


def run(args: argparse.Namespace) -> int:
    """Classify all that is not done yet; return 1 if some picture could not be."""
    from ..classes.batch import apply_all, as_pixel_size
    from ..classes.classifier import Classifier
    from ..classes.formats import FORMATS
    from ..classes.project import CLASSES, Project

    project = Project(args.model) if args.model.is_dir() else None
    model = args.model if project is None else project.model
    if not model.is_file():
        teach = f"; shapetailor teach {args.model} makes it" if project else ""
        raise FileNotFoundError(f"{model}: no such model{teach}")
    if not args.inputs and project is None:
        raise ValueError("expected pictures or folders after the model")
    out = args.out or (project.results if project else None)
    if out is None:
        raise ValueError("--out must name the folder to write to where no project is given")
    size = None if args.pixel_size is None else as_pixel_size(args.pixel_size)
    check_crs(args.crs)
    pictures = opened(args.inputs, out) if args.inputs or project is None else project.pictures
    if not args.force:
        check_failures_file(out)
    classifier = Classifier.load(model)
    if project is not None and project.classes != classifier.classes:
        print(
            f"{project.folder / CLASSES} has changed since the model was taught, whose classes are used; "
            f"shapetailor teach {args.model} takes the new ones",
            file=sys.stderr,
        )
    bar = partial(tqdm, total=len(pictures), desc="apply", unit="picture", disable=None)
    report = apply_all(
        classifier,
        model,
        pictures,
        out,
        pixel_size=size,
        exports=dict(FORMATS[name] for name in args.export),
        crs=args.crs,
        force=args.force,
        jobs=args.jobs,
        ray=args.ray,
        progress=partial(_lines, len(pictures)) if args.progress_json else bar,
    )
    parts = [f"{len(report.rows) - report.before} classified"]
    parts += [f"{report.before} done before (--force does them again)"] if report.before else []
    parts += [f"{len(report.failures)} failed"] if report.failures else []
    print(f"{', '.join(parts)}: {out}")
    report_failures(report.failures, out)
    return 1 if report.failures else 0


def _lines(total: int, items: Iterable[Any]) -> Iterator[Any]:
    """Pass pictures on that are done, and print how many they are once they are recorded."""
    _tell(0, total)
    for number, item in enumerate(items, start=1):
        yield item
        _tell(number, total)


def _tell(done: int, total: int) -> None:
    print(json.dumps({"done": done, "total": total, "text": f"{done} of {total} pictures"}), flush=True)
