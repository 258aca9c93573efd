"""Checks of the label maps that the public functions take."""

import operator
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch

from ..arrays import Array

LabelMap: TypeAlias = Array | torch.Tensor
#: One label map, or a list with one an annotator.
Truth: TypeAlias = LabelMap | Sequence[LabelMap]


def as_labels(name: str, value: LabelMap) -> Array:
    """Return `value` as an H×W integer array; errors call it `name`."""
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    if array.dtype.kind not in "iub":
        raise TypeError(f"{name} must hold integer labels, got dtype {array.dtype}")
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name} must be H×W with at least one pixel, got shape {array.shape}")
    return array


def as_truths(truth: Truth, shape: tuple[int, ...], ignore: int | None) -> list[Array]:
    """Return one label map an annotator, each of the prediction's `shape` and with a pixel to judge."""
    if ignore is not None:
        try:
            operator.index(ignore)
        except TypeError:
            raise TypeError(f"ignore must be an integer label or None, got {ignore!r}") from None
    several = isinstance(truth, list | tuple)
    if several and not len(truth):
        raise ValueError("truth is an empty list, expected at least one label map")
    names = [f"truth[{i}]" for i in range(len(truth))] if several else ["truth"]
    truths = [as_labels(n, t) for n, t in zip(names, truth if several else [truth], strict=True)]
    for name, array in zip(names, truths, strict=True):
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, but prediction has {shape}")
        if ignore is not None and np.all(array == ignore):
            raise ValueError(f"{name} is ignored everywhere: all its pixels carry the label {ignore}")
    return truths
