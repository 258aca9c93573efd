"""Which files a folder holds, and files that are written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

#: Largest JSON file that is read, in bytes.
LARGEST_JSON = 2**28
#: File names that end so are taken for images when a folder is listed.
SUFFIXES = frozenset(
    f".{name}"
    for name in ("bmp", "gif", "jp2", "jpeg", "jpg", "pbm", "pgm", "png", "ppm", "ras", "tif", "tiff", "webp")
)


def image_files(folder: str | os.PathLike[str]) -> list[Path]:
    """List the image files directly in `folder`, sorted by name; hidden and other files are left out."""
    found = (path for path in Path(folder).iterdir() if path.suffix.lower() in SUFFIXES)
    return sorted(path for path in found if path.is_file() and not path.name.startswith("."))


_numbers = count()


def check_writable(folder: Path) -> None:
    """Raise unless files can be made in a folder."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder}: this folder cannot be written to")


def make_folder(folder: Path) -> None:
    """Make a folder for results, unless it is there; raise before the work where files cannot be made in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise NotADirectoryError(f"{folder}: expected a folder to write to, but there is a file") from error
    check_writable(folder)


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary name beside `path`, renamed to `path` when the block ends well, else removed.

    The name is no other's, in any process or thread. Errors of the operating system name `path`.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem[:50]}.{os.getpid()}.{next(_numbers)}.tmp{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        if error.errno is None:  # an encoder's own
            raise OSError(f"{path}: cannot be written: {error}") from error
        if error.filename not in (None, str(temporary), temporary):
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new folder beside `path`, which takes its place when the block ends well, else is removed."""
    path = Path(path)
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.stem[:50]}.") as temporary:
        made, former = Path(temporary) / "new", Path(temporary) / "former"
        made.mkdir()
        yield made
        if path.exists():
            path.rename(former)
        made.rename(path)


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file that hold something; a ValueError begins with its name."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: no text in UTF-8 ({error})") from error
    if any("\0" in line for line in lines):
        raise ValueError(f"{path}: expected a path in each line, got a zero byte")
    return [line.strip() for line in lines if line.strip()]


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file; a ValueError begins with its name and says why it is none."""
    path = Path(path)
    if path.stat().st_size > LARGEST_JSON:
        raise ValueError(f"{path}: at most {LARGEST_JSON} bytes are read, it has {path.stat().st_size}")
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: no JSON in UTF-8 ({error})") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object, unless a key comes twice and nobody knows which value is meant."""
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = next(key for key in values if sum(key == other for other, _ in pairs) > 1)
        raise ValueError(f"the key {twice!r:.40} comes twice in one object")
    return values
