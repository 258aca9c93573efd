"""What an experiment is given: settings, and a folder of results that survives interruptions."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from ..arrays import Labels
from ..baselines import BASELINES, Baseline
from ..io.files import atomic
from ..io.images import read_labels, write_labels

Item = TypeVar("Item")


@dataclass(frozen=True)
class Context:
    """What the user asked for."""

    #: The dataset's folder; without it (`quick` only) generated mosaics.
    data: Path | None
    out: Path
    #: Few images, few training steps.
    quick: bool = False
    #: Name or path of an ST-DNN to use instead of training one.
    model: str | None = None
    seed: int = 0
    device: str = "cpu"
    #: Names of the methods to run; None is all.
    methods: tuple[str, ...] | None = None
    #: Folder of pretrained weights for the convolutional networks.
    weights: Path | None = None
    progress: bool = True
    #: Test on the first so many images only.
    limit: int | None = None
    #: rwtsd: number of folds of the cross-validation; file with a training image's name on each line.
    folds: int | None = None
    split: Path | None = None
    #: bsds500: folder with gPb's contour maps.
    gpb: Path | None = None
    #: Methods that can take part, by name.
    baselines: Mapping[str, Baseline] = field(default_factory=lambda: BASELINES)

    def folder(self, name: str) -> Path:
        """Return the folder ``out/name``, made if need be."""
        path = self.out / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def remember(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return the JSON value in ``out/parts/KEY.json``, computed only if that file is missing."""
        path = self._part("parts", key, ".json")
        if not path.exists():
            text = json.dumps(compute())
            with atomic(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        return json.loads(path.read_text(encoding="utf-8"))

    def remember_labels(self, key: str, compute: Callable[[], Labels]) -> Labels:
        """Return the label map in ``out/labels/KEY.png``, computed only if that file is missing."""
        path = self._part("labels", key, ".png")
        if not path.exists():
            write_labels(path, compute())
        return read_labels(path)

    def watch(self, items: Sequence[Item], what: str) -> Iterator[Item]:
        """Iterate with a progress bar."""
        if self.progress and not sys.stderr.isatty():
            print(f"{what}: {len(items)} images", file=sys.stderr, flush=True)
        yield from tqdm(items, desc=what, unit="image", disable=not (self.progress and sys.stderr.isatty()))

    def _part(self, folder: str, key: str, suffix: str) -> Path:
        path = self.out / folder / f"{key}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path
