"""What can be known of an image file without decoding all of it: its size, a small version."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from ..arrays import Array
from .images import named, open_with_pillow, read_picture
from .picture import Picture
from .tiff import is_tiff

ORIENTATION = 0x0112
#: Orientations whose rows are the upright picture's columns.
TURNED = (5, 6, 7, 8)


def read_size(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Read an image file's height and width, upright, from its header; raises as `read_image` does."""
    path = Path(path)
    with named(path):
        if is_tiff(path):
            return _tiff_size(path)
        with open_with_pillow(path) as file:
            turned = file.getexif().get(ORIENTATION, 1) in TURNED
            return (file.width, file.height) if turned else (file.height, file.width)


def read_small(path: str | os.PathLike[str], side: int) -> Picture:
    """Read an image file, reduced by the decoder where it can (JPEG), but to no less than `side` a side; else whole."""
    path = Path(path)
    with named(path):
        if not is_tiff(path):
            with open_with_pillow(path) as file:
                if file.format == "JPEG" and file.mode in ("L", "RGB"):
                    return Picture(_reduced_jpeg(file, side))
    return read_picture(path)


def _reduced_jpeg(file: Image.Image, side: int) -> Array:
    file.draft(file.mode, (side, side))
    return np.asarray(ImageOps.exif_transpose(file))


def _tiff_size(path: Path) -> tuple[int, int]:
    import tifffile

    with tifffile.TiffFile(path) as file:
        page: Any = file.pages[0]
        height, width = int(page.imagelength), int(page.imagewidth)
        tag = page.tags.get(ORIENTATION)
    return (width, height) if tag is not None and int(tag.value) in TURNED else (height, width)
