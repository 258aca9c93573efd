"""A project: a folder of pictures, their marks, the classes, the model taught with them, and its results.

```text
PROJECT/
  classes.json        {"version": 1, "classes": [{"value": 1, "name": "ferrite", "color": "#e6194b"}, …]}
  pictures/           the pictures; or pictures.txt, a path in each line, relative ones from PROJECT
  marks/NAME.json     strokes whose region is the class's value
  marks/NAME.png      or a map of these values: 0 unlabelled, 255 ignore
  model.safetensors   the model; former ones are model.1.safetensors, model.2.safetensors, …
  results/            what `shapetailor apply PROJECT` writes
```
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..arrays import Labels
from ..io.files import SUFFIXES, atomic, check_writable, image_files, read_lines
from ..io.images import read_image, read_labels
from .classifier import Classifier
from .fine_tune import FineTuneConfig, fine_tune
from .lesson import Taught, class_numbers
from .names import ClassName, read_classes

CLASSES, PICTURES, LIST, MARKS, RESULTS = "classes.json", "pictures", "pictures.txt", "marks", "results"
MODEL = "model.safetensors"
MAP_ENDINGS = (".png", ".tif", ".tiff")


class Project:
    """A project's folder.

    Parameters
    ----------
    folder : path
        It must hold `classes.json`, and pictures.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise FileNotFoundError(f"{self.folder}: no such folder")
        if not (self.folder / CLASSES).is_file():
            raise FileNotFoundError(
                f"{self.folder / CLASSES}: a project names its classes there, and there is no such file"
            )
        self.classes: tuple[ClassName, ...] = read_classes(self.folder / CLASSES)
        self.model, self.results = self.folder / MODEL, self.folder / RESULTS

    @property
    def pictures(self) -> list[Path]:
        """All pictures, in the order of their names."""
        listed, folder = self.folder / LIST, self.folder / PICTURES
        if listed.is_file():
            found = [self.folder / line for line in read_lines(listed)]
        elif folder.is_dir():
            found = image_files(folder)
        else:
            raise FileNotFoundError(f"{self.folder}: it has neither the folder {PICTURES} nor the list {LIST}")
        if not found:
            raise ValueError(f"{listed if listed.is_file() else folder} holds no pictures")
        by_stem: dict[str, Path] = {}
        for path in found:
            other = by_stem.setdefault(path.stem, path)
            if other is not path:
                raise ValueError(f"{other} and {path}: pictures of a project must have different names before the dot")
        return sorted(found, key=lambda path: path.stem)

    @property
    def marked(self) -> list[tuple[Path, Path]]:
        """Pictures that have marks, and the files of these."""
        folder = self.folder / MARKS
        pictures = {path.stem: path for path in self.pictures}
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        found: dict[str, Path] = {}
        for path in files:
            if path.name.startswith(".") or path.suffix.lower() not in (".json", *SUFFIXES):
                continue
            if path.suffix.lower() not in (".json", *MAP_ENDINGS):
                raise ValueError(f"{path}: marks are NAME.json, or a map in one of {', '.join(MAP_ENDINGS)}")
            if path.stem not in pictures:
                raise ValueError(f"{path}: there is no picture called {path.stem} in the project")
            other = found.setdefault(path.stem, path)
            if other is not path:
                raise ValueError(f"{other} and {path} both mark {path.stem}; keep one of them")
        if not found:
            raise ValueError(f"{folder}: no picture is marked; expected NAME.json or NAME.png for some picture NAME")
        return [(pictures[stem], path) for stem, path in found.items()]

    def samples(self) -> Iterator[Taught]:
        """Read the marked pictures, one after the other."""
        for picture, marks in self.marked:
            image = read_image(picture)
            yield Taught(picture.name, image, read_class_marks(marks, (image.shape[0], image.shape[1])))
            del image  # before the next is read

    def check(self) -> int:
        """Raise unless all marked pictures can be learnt from; return how many there are."""
        pairs = self.marked
        for picture, marks in pairs:
            image = read_image(picture)
            shape = (image.shape[0], image.shape[1])
            class_numbers(read_class_marks(marks, shape), self.classes, shape, str(marks))
        return len(pairs)

    def teach(
        self,
        model: str | os.PathLike[str] = "texture",
        seed: int = 0,
        fine: FineTuneConfig | None = None,
        progress: bool = False,
        look: Callable[[Iterable[Taught]], Iterable[Taught]] = iter,
        watch: Callable[[Iterable[str]], Iterable[str]] = iter,
        device: str = "cpu",
    ) -> Classifier:
        """Learn from all marks and write the model; a former model that differs is kept under a number.

        With `fine`, the networks learn too. All marked pictures are in memory then. `look` is given the marked pictures
        as they are read, `watch` their names as they are described (`Classifier.teach`).
        """
        check_writable(self.folder)
        self.check()
        samples = look(self.samples())
        taught = Classifier.teach(samples, self.classes, model=model, seed=seed, device=device, watch=watch)
        if fine is not None:
            state = self.folder / "fine-tune.safetensors"
            taught = fine_tune(taught, list(self.samples()), fine, state=state, progress=progress, device=device)
        self.keep(taught)
        return taught

    def keep(self, taught: Classifier) -> None:
        """Write a model; a former one that differs is kept under the next free number."""
        with atomic(self.model) as fresh:
            taught.save(fresh)
            if self.model.exists():
                former, (last, free) = self.model.read_bytes(), _last_and_free(self.model)
                kept = last.read_bytes() if last else b""  # by a run that was killed before the new one had its name
                if former not in (fresh.read_bytes(), kept):
                    with atomic(free) as temporary:
                        temporary.write_bytes(former)


def _last_and_free(model: Path) -> tuple[Path | None, Path]:
    """Return the names of the model that was kept last, if there is one, and of the next."""
    number, last = 1, None
    while (path := model.with_name(f"{model.stem}.{number}{model.suffix}")).exists():
        number, last = number + 1, path
    return last, path


def read_class_marks(path: Path, shape: tuple[int, int]) -> Labels:
    """Read marks of classes as H×W values, 0 where nothing is marked; a ValueError begins with the file's name."""
    if path.suffix.lower() != ".json":
        return read_labels(path)
    from ..strokes.files import read_strokes
    from ..strokes.marks import rasterise

    try:
        drawn = rasterise(read_strokes(path), shape)
    except ValueError as error:
        raise ValueError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    return drawn.clip(min=0)
