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

    data: Path | None  #: the dataset's folder; without it (`quick` only) generated mosaics
    out: Path
    quick: bool = False  #: few images, few training steps
    model: str | None = None  #: name or path of an ST-DNN to use instead of training one
    seed: int = 0
    device: str = "cpu"
    methods: tuple[str, ...] | None = None  #: names of the methods to run; None is all
    weights: Path | None = None  #: folder of pretrained weights for the convolutional networks
    progress: bool = True
    limit: int | None = None  #: test on the first so many images only
    folds: int | None = None  #: rwtsd: number of folds of the cross-validation
    split: Path | None = None  #: rwtsd: file with a training image's name on each line
    gpb: Path | None = None  #: bsds500: folder with gPb's contour maps
    baselines: Mapping[str, Baseline] = field(default_factory=lambda: BASELINES)  #: that can take part, by name

    def file(self, name: str) -> Path:
        """Return the path ``out/name``, in a folder that is made if need be."""
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def remember(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return the JSON value in ``out/parts/KEY.json``, computed only if that file is missing."""
        path = self.file(f"parts/{key}.json")
        if not path.exists():
            text = json.dumps(compute())
            with atomic(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        return json.loads(path.read_text(encoding="utf-8"))

    def remember_labels(self, key: str, compute: Callable[[], Labels]) -> Labels:
        """Return the label map in ``out/labels/KEY.png``, computed only if that file is missing."""
        path = self.file(f"labels/{key}.png")
        if not path.exists():
            write_labels(path, compute())
        return read_labels(path)

    def watch(self, items: Sequence[Item], what: str) -> Iterator[Item]:
        """Iterate with a progress bar."""
        if self.progress and not sys.stderr.isatty():
            print(f"{what}: {len(items)} images", file=sys.stderr, flush=True)
        yield from tqdm(items, desc=what, unit="image", disable=not (self.progress and sys.stderr.isatty()))
