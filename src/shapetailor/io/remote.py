"""Files at URLs (s3, gs, http, …), through fsspec: fetched before they are read, uploaded after they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from .files import SUFFIXES

_LOCAL = "file://"


@dataclass(frozen=True)
class Remote:
    """A file or folder at a URL; with the names that a path has."""

    url: str

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> Remote:
        return Remote(f"{self.url.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """What comes last, without a query."""
        return PurePosixPath(self.url.partition("?")[0]).name

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return PurePosixPath(self.name).stem

    def resolve(self) -> Remote:
        """Return this: there is one name for it."""
        return self

    def system(self) -> tuple[Any, str]:
        """Return fsspec's file system and the path in it."""
        try:
            import fsspec
        except ImportError as error:
            raise ValueError("URLs need fsspec: pip install shapetailor[ray]") from error
        try:
            system, path = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise ValueError(f"{self.url}: cannot be reached ({error})") from error
        return system, path


Location = Path | Remote


@contextmanager
def _reached(place: Remote, what: str) -> Iterator[None]:
    """Turn whatever a file system raises into a ValueError that begins with the URL."""
    try:
        yield
    except Exception as error:  # each file system has its own
        raise ValueError(f"{place}: cannot be {what} ({type(error).__name__}: {error})") from error


def location(text: str) -> Location:
    """Return what a text names: a path, or a URL. A local file's is a path, so that results are renamed, not copied."""
    if text.startswith(_LOCAL) and "*" not in text:
        return Path(text.removeprefix(_LOCAL))
    return Remote(text) if "://" in text else Path(text)


def names_in(folder: Location) -> set[str]:
    """Return the names in a folder; none where it is not there."""
    if isinstance(folder, Path):
        return {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    system, path = folder.system()
    with _reached(folder, "listed"), suppress(FileNotFoundError):
        return {PurePosixPath(name.rstrip("/")).name for name in system.ls(path, detail=False)}
    return set()


def remote_pictures(folder: Remote) -> list[Remote]:
    """Return the pictures that a URL names: one file, those of a folder (…/), or those that match (*)."""
    if not folder.url.endswith("/") and "*" not in folder.url:
        return [folder]
    system, path = folder.system()
    with _reached(folder, "listed"):
        found = system.glob(path) if "*" in folder.url else system.ls(path, detail=False)
    names = sorted(name for name in found if PurePosixPath(name).suffix.lower() in SUFFIXES)
    return [Remote(system.unstrip_protocol(name)) for name in names]


def check_outputs(
    pictures: Sequence[Location], out: Location, names: Callable[[str], list[str]], there: set[str]
) -> None:
    """Raise if what is written for a picture is also written for another, is a picture itself, or is not ours.

    Parameters
    ----------
    names : callable
        Stem of a picture → the names of its results, in the order in which they are written.
    there : set of str
        The names in `out` that may not be lost.
    """
    source: dict[str, Location] = {}
    inputs = {path.resolve() for path in pictures}
    for path in pictures:
        wanted = names(path.stem)
        for name in wanted:
            other = source.setdefault(name, path)
            if other is not path:
                raise ValueError(f"{other} and {path} would both be written to {name}; give them different --out")
            if (out / name).resolve() in inputs:
                raise ValueError(f"{name} would overwrite a picture that is to be read; choose another --out")
        check_ours(wanted, out, there)


def check_ours(names: Sequence[str], out: Location, there: set[str]) -> None:
    """Raise if some of the files that are written in this order are there without the first: somebody else's then."""
    found = [name for name in names if name in there]
    if found and names[0] not in there and names[0] not in names_in(out):  # or another process has just written it
        raise ValueError(
            f"{out / found[0]} is there already and is no result of this command; choose another --out, or --force "
            "overwrites it"
        )


@contextmanager
def fetched(file: Location) -> Iterator[Path]:
    """Yield a path to read from: the file's own, or that of a copy."""
    if isinstance(file, Path):
        yield file
        return
    with TemporaryDirectory(prefix="shapetailor.") as folder:
        system, path = file.system()
        copy = Path(folder) / file.name
        with _reached(file, "fetched"):
            system.get_file(path, str(copy))
        try:
            yield copy
        except Exception as error:  # the copy's name is another in every run
            words = [each.replace(str(copy), str(file)) if isinstance(each, str) else each for each in error.args]
            error.args = tuple(words)
            raise


@contextmanager
def delivered(folder: Location, names: Sequence[str]) -> Iterator[Path]:
    """Yield a folder to write to; of a URL's, files of these names are uploaded in this order when the block ends well.

    Object stores take a file whole or not at all.
    """
    if isinstance(folder, Path):
        yield folder
        return
    with TemporaryDirectory(prefix="shapetailor.") as temporary:
        yield Path(temporary)
        system, path = folder.system()
        with _reached(folder, "written to"):
            system.makedirs(path, exist_ok=True)
            for name in names:
                if (Path(temporary) / name).exists():
                    system.put(f"{temporary}/{name}", f"{path.rstrip('/')}/{name}", recursive=True)
