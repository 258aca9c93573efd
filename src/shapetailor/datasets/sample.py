"""What every dataset yields, and the message of every loader about missing files."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..arrays import Array, Labels


@dataclass(frozen=True, eq=False)
class Sample:
    """An image with its truths.

    Attributes
    ----------
    image : ndarray
        H×W or H×W×C, of the type it is stored in.
    truths : tuple of ndarray
        H×W int64 label maps, one an annotator; none for plain textures. Labels run from 0 without gaps, in the order
        of the stored values; -1 marks pixels to ignore.
    name : str
        Unique in its dataset.
    """

    image: Array
    truths: tuple[Labels, ...]
    name: str


def consecutive(labels: Labels, ignore: int | None = None) -> Labels:
    """Renumber `labels` to 0, 1, …, keeping their order; pixels equal to `ignore` become -1.

    >>> consecutive(np.array([[7, 0], [255, 7]]), ignore=255)
    array([[ 1,  0],
           [-1,  1]])
    """
    kept = labels != ignore if ignore is not None else np.ones(labels.shape, bool)
    renumbered = np.full(labels.shape, -1, np.int64)
    renumbered[kept] = np.unique(labels[kept], return_inverse=True)[1]
    return renumbered


def require(paths: Iterable[Path], dataset: str, layout: str, source: str) -> None:
    """Raise a FileNotFoundError that names the missing ones of `paths` and where to get them."""
    missing = [path for path in paths if not path.exists()]
    if missing:
        lines = [f"{dataset} is not complete, missing:", *(f"  {path}" for path in missing[:20])]
        lines += [f"  and {len(missing) - 20} more files"] if len(missing) > 20 else []
        raise FileNotFoundError("\n".join([*lines, f"Expected layout: {layout}", f"Available from: {source}"]))
