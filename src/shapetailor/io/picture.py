"""A picture as it was read: its values, and which of its pixels are inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Array, Mask

#: A file whose samples take more bytes than this, and than so many times its own size, is taken for corrupt. Deflate
#: packs at most 1032 to 1, and eight pixels may share a byte.
SMALL, MOST_PACKED = 2**24, 9000
#: Most channels of a picture. Arrays stored as pages are taken for rows where there are more, and fewer columns.
MAX_CHANNELS = 16


class Picture(NamedTuple):
    """A picture and which of its pixels are inside it."""

    values: Array  # H×W or H×W×C, of the stored type
    inside: Mask | None = None  # H×W; None: all of them


class UnfitError(ValueError):
    """What is wrong with a file, in our words."""


def both(first: Mask | None, second: Mask | None) -> Mask | None:
    """Join two masks, of which None is all pixels."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def finite_pixels(array: Array) -> Mask | None:
    """Which pixels have a number in every channel; None if all do."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return None
    return np.asarray(np.atleast_3d(np.isfinite(array)).all(axis=2))


def gray_if_gray(colours: Array) -> Array:
    """Take a palette of grays for a gray image (Sun raster and GIF know no other)."""
    colours = colours[..., :3]
    gray = colours[..., 0]
    return gray if (colours == gray[..., None]).all() else colours


def pages_error(pages: int, shape: tuple[int, ...]) -> UnfitError:
    """Say that a file holds several pages, and what to do."""
    return UnfitError(
        f"holds a stack of {pages} pages of {'×'.join(map(str, shape))}; choose a page with --page N, or pages as "
        "channels with --channels 0,1,2 (page= and channels= of read_image in Python)"
    )


def check_declared(declared: int, size: int) -> None:
    """Raise if a file declares more bytes of samples than its size can hold, before room is made for them."""
    if declared > max(SMALL, MOST_PACKED * size):
        raise UnfitError(f"corrupt: it declares {declared:,} bytes of samples, but has {size:,}")


def check_page(page: int, pages: int) -> None:
    """Raise unless a file with so many pages has this one."""
    if not 0 <= page < pages:
        raise UnfitError(f"has pages 0 to {pages - 1}; page {page} was asked for")


def chosen(values: Array, channels: Sequence[int]) -> Array:
    """Return the channels that were asked for, in this order."""
    planes = values[..., None] if values.ndim == 2 else values
    if not len(channels) or not all(0 <= channel < planes.shape[2] for channel in channels):
        raise UnfitError(
            f"has channels 0 to {planes.shape[2] - 1}; channels {', '.join(map(str, channels))} were asked for"
        )
    chosen: Array = planes[..., list(channels)]
    return chosen[..., 0] if len(channels) == 1 else chosen


def check_channels(values: Array) -> None:
    """Raise if there are more channels than are supported."""
    if values.ndim == 3 and values.shape[2] > MAX_CHANNELS:
        raise UnfitError(
            f"has {values.shape[2]} channels; at most {MAX_CHANNELS} are supported: choose some, such as "
            "--channels 0,1,2 (channels= in Python)"
        )
