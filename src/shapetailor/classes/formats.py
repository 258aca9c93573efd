"""Classes in the files of other programs: the writers of label maps, given a picture's classes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from ..drawing import exports
from ..drawing.exports import Entry, LabelMap
from .classification import Classification
from .names import IGNORE


def label_map(found: Classification) -> LabelMap:
    """Return what is written of a picture's classes."""
    labels = np.where(found.labels == IGNORE, -1, found.labels.astype(np.int64))
    entries = [Entry(each.value, each.name, each.rgb) for each in found.classes]
    return LabelMap(labels, entries, found.pixel_size, found.georeference, "value")


def _write(write: Callable[[Path, LabelMap], None], path: Path, found: Classification) -> None:
    write(path, label_map(found))


#: Name of a format → ending of its files, and what writes them.
FORMATS = {name: (ending, partial(_write, write)) for name, (ending, write) in exports.FORMATS.items()}
