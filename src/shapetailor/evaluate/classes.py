"""Maps of classes against the truth: confusion matrix, IoU of each class, error of area fractions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Ints, Mask


class ClassScores(NamedTuple):
    """Scores over all pixels of all pictures.

    Attributes
    ----------
    mean_iou, accuracy : float
        The mean is over classes that occur in the truth.
    area_error : float
        Mean absolute error of a class's fraction of a picture, over classes and pictures.
    iou : ndarray, (K,)
        NaN for a class that does not occur in the truth.
    area_errors : ndarray, (K,)
        The same for each class.
    matrix : ndarray, (K, K)
        Pixels by true class (rows) and found class (columns).
    """

    mean_iou: float
    accuracy: float
    area_error: float
    iou: Floats
    area_errors: Floats
    matrix: Ints


def confusion(truth: Ints, found: Ints, values: Sequence[int]) -> Ints:
    """Count pixels by true and found class, (K, K + 1).

    Pixels whose truth is none of `values` are left out; the last column counts those found to be of no class.

    Examples
    --------
    >>> confusion(np.array([[1, 1, 2, 255]]), np.array([[1, 2, 0, 1]]), [1, 2])
    array([[1, 1, 0],
           [0, 0, 1]])
    """
    if truth.shape != found.shape:
        raise ValueError(f"found must have the truth's shape {truth.shape}, got {found.shape}")
    count = len(values)
    rows, columns = _places(truth, values), _places(found, values)
    judged: Mask = rows < count
    counts = np.bincount(rows[judged] * (count + 1) + columns[judged], minlength=count * (count + 1))
    return counts.reshape(count, count + 1)


def scores(matrices: Sequence[Ints]) -> ClassScores:
    """Judge pictures by their confusion matrices."""
    if not matrices or not sum(each.sum() for each in matrices):
        raise ValueError("truth must hold a pixel of some class, got none")
    total = np.sum(matrices, axis=0)
    true, found, right = total.sum(axis=1), total.sum(axis=0)[:-1], np.diag(total)
    with np.errstate(invalid="ignore"):
        iou = np.where(true > 0, right / (true + found - right), np.nan)
    errors = [np.abs(each.sum(axis=1) - each.sum(axis=0)[:-1]) / each.sum() for each in matrices if each.sum()]
    by_class = np.mean(errors, axis=0)
    return ClassScores(
        float(np.nanmean(iou)), float(right.sum() / total.sum()), float(by_class.mean()), iou, by_class, total
    )


def classes_text(judged: ClassScores, names: Mapping[int, str]) -> str:
    """Return the scores as a table: for each class its IoU, error of its area fraction, and row of the matrix."""
    width = max(len("mean"), *(len(name) for name in names.values()))
    found = [*(f"found {value}" for value in names), "no class"]
    lines = [f"{'':{width}}       IoU  area error  " + "  ".join(f"{each:>10}" for each in found)]
    for (value, name), iou, error, row in zip(
        names.items(), judged.iou, judged.area_errors, judged.matrix, strict=True
    ):
        cells = "  ".join(f"{count:>10}" for count in row)
        lines.append(f"{name:{width}} {value:3d}  {iou:.4f}      {error:.4f}  {cells}")
    lines.append(f"{'mean':{width}}      {judged.mean_iou:.4f}      {judged.area_error:.4f}")
    return "\n".join([*lines, f"accuracy {judged.accuracy:.4f}"])


def _places(labels: Ints, values: Sequence[int]) -> Ints:
    """Return the place of each label in `values`, or their number where it is none of them."""
    order = np.argsort(values)
    ordered = np.asarray(values)[order]
    at = np.searchsorted(ordered, labels).clip(max=len(values) - 1)
    return np.asarray(np.where(ordered[at] == labels, order[at], len(values)))
