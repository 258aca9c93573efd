"""Derivatives inside regions, compiled: for the CPU, where no gradient is wanted."""

from functools import partial
from math import hypot
from typing import Any

import numpy as np
from torch import Tensor

from ..arrays import Array
from ..parallel import compiled, in_threads, thread_count

#: Pixels times channels below which a second thread is not worth its start.
FEW = 2**20


def derivative_into(out: Tensor, x: Tensor, labels: Tensor, step: tuple[int, int], add: bool) -> None:
    """Write to `out`, or add to it, the derivative of (B, ..., H, W) along a step (down, right).

    Bit for bit that of `Domain.derivative`.
    """
    values = x.contiguous().numpy()
    planes = values.reshape(len(values), -1, *values.shape[-2:])
    answers = out.view(planes.shape).numpy()
    one = values.dtype.type(hypot(*step))
    two = values.dtype.type(2) * one
    parts = min(thread_count(), planes.shape[1]) if planes.size > FEW else 1
    in_threads(
        partial(_difference, image[part::parts], owners, *step, one, two, add, answer[part::parts])
        for image, owners, answer in zip(planes, labels.numpy(), answers, strict=True)
        for part in range(parts)
    )


@compiled()
def _difference(x: Array, labels: Array, down: int, right: int, one: Any, two: Any, add: bool, out: Array) -> None:
    """Fill `out` (n, H, W): forward plus backward difference, divided by one or two lengths of the step."""
    channels, height, width = x.shape
    ahead, behind = np.empty(width, np.bool_), np.empty(width, np.bool_)
    divisor, found = np.empty(width, x.dtype), np.empty(width, x.dtype)
    for row in range(height):
        # A row that does not exist is linked to nothing: any row stands in.
        before, after = row - down, row + down
        before = before if 0 <= before < height else row
        after = after if 0 <= after < height else row
        _link(labels[row], labels[after], right, (after != row) | (down == 0), ahead)
        _link(labels[row], labels[before], -right, (before != row) | (down == 0), behind)
        for i in range(width):
            divisor[i] = two if ahead[i] & behind[i] else one
        for channel in range(channels):
            target = found if add else out[channel, row]
            _difference_of_row(
                x[channel, row], x[channel, after], x[channel, before], right, ahead, behind, divisor, target
            )
            if add:
                out[channel, row] += found


@compiled()
def _link(here: Array, there: Array, right: int, exists: bool, linked: Array) -> None:
    """Which pixels of a row belong together with the pixels `right` of them in another row, if that exists."""
    lo, hi = max(0, -right), len(here) - max(0, right)
    linked[:lo] = False
    linked[hi:] = False
    first, second, out = here[lo:hi], there[lo + right : hi + right], linked[lo:hi]
    for i in range(len(first)):
        out[i] = exists & (first[i] >= 0) & (first[i] == second[i])


@compiled(error_model="numpy", inline="never")
def _difference_of_row(
    here: Array, after: Array, before: Array, right: int, ahead: Array, behind: Array, divisor: Array, out: Array
) -> None:
    none = out.dtype.type(0)  # not a product with 0: what is not linked may be NaN
    last = len(here) - 1
    x, a, b, length, to = here[1:last], ahead[1:last], behind[1:last], divisor[1:last], out[1:last]
    upper, lower = after[1 + right : last + right], before[1 - right : last - right]
    for i in range(len(x)):
        forward, backward = upper[i] - x[i], x[i] - lower[i]
        to[i] = ((forward if a[i] else none) + (backward if b[i] else none)) / length[i]
    for i in (0, last):
        forward = after[i + right] - here[i] if ahead[i] else none
        backward = here[i] - before[i - right] if behind[i] else none
        out[i] = (forward + backward) / divisor[i]
