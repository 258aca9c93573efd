"""Pictures as the command line names them, who works on them, and what is said of those that failed."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from ..io.files import atomic, image_files
from ..io.georeference import PIXELS, WGS84
from ..io.remote import Location, Remote, delivered, fetched, location, names_in, remote_pictures
from ..io.zarr_windows import is_zarr

#: A line for each picture that failed, in the folder of results; no file where none did.
FAILURES = "failures.csv"
COLUMNS = ("picture", "reason")


def add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare who does the work."""
    parser.add_argument(
        "--jobs", type=_at_least_one, metavar="N", help="worker processes (default: 1; with --ray: all)"
    )
    parser.add_argument("--ray", metavar="ADDRESS", help="work on a Ray cluster, such as auto or HOST:6379")


def add_crs_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the coordinates of polygons."""
    parser.add_argument(
        "--crs",
        default=WGS84,
        metavar="NAME",
        help=f"of polygons of pictures with a georeference (default: {WGS84}), or {PIXELS}",
    )


def opened(inputs: Sequence[str], out: Location | None = None) -> list[Location]:
    """Return all pictures that are named, folders opened."""
    found: list[Location] = []
    for text in inputs:
        path = location(text)
        if isinstance(path, Path) and path.is_dir() and out is not None and out.resolve() == path.resolve():
            raise ValueError(f"--out must be another folder than the pictures', got {out} for both")
        found += _pictures_of(path)
    return found


def _pictures_of(path: Location) -> Sequence[Location]:
    inside: Sequence[Location]
    if isinstance(path, Remote):
        inside = remote_pictures(path)
    elif not path.is_dir() or is_zarr(path):
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file or folder")
        return [path]
    else:
        inside = image_files(path)
    if not inside:
        raise ValueError(f"{path} holds no pictures")
    return inside


def check_failures_file(out: Location) -> None:
    """Raise if the list of failures of former runs, which is replaced or removed, is somebody else's file."""
    if FAILURES not in names_in(out):
        return
    with fetched(out / FAILURES) as path, path.open("rb") as file:
        if file.readline(100).strip() != ",".join(COLUMNS).encode():
            raise ValueError(
                f"{out / FAILURES} is there already and is no list of failures; choose another --out, or --force "
                "overwrites it"
            )


def report_failures(failures: dict[str, str], out: Location) -> None:
    """Say which pictures failed, and write a line for each."""
    for name, reason in failures.items():
        print(f"failed: {reason if name in reason else f'{name}: {reason}'}", file=sys.stderr)
    if isinstance(out, Path) and not failures:
        (out / FAILURES).unlink(missing_ok=True)
    if failures or (isinstance(out, Remote) and FAILURES in names_in(out)):
        lines = io.StringIO()
        csv.writer(lines).writerows([COLUMNS, *failures.items()])
        with delivered(out, [FAILURES]) as folder, atomic(folder / FAILURES) as temporary:
            temporary.write_text(lines.getvalue(), encoding="utf-8", errors="surrogateescape", newline="")


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)
