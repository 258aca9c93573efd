"""Label maps as small PNG files, and the binary frames that bring them to the page."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

from ..arrays import Array
from ..classes.names import IGNORE, UNLABELLED
from ..io.palette import palette


@dataclass(frozen=True, eq=False)
class Frame:
    """What the page shall paint: a label map, and where it is unsure; each with what is said of it."""

    header: dict[str, Any]
    parts: tuple[bytes, ...]


def frame(header: dict[str, Any], png: bytes, unsure: tuple[dict[str, Any], bytes] | None = None) -> Frame:
    """Pack a label map, and with it the uncertainty."""
    parts = [packed(header | {"type": "labels"}, png)]
    if unsure is not None:
        parts.append(packed(header | {"type": "uncertainty"} | unsure[0], unsure[1]))
    return Frame(header, tuple(parts))


def packed(header: dict[str, Any], png: bytes) -> bytes:
    r"""Four bytes of the header's length, little-endian; the header as JSON; the PNG.

    >>> packed({"a": 1}, b"png")
    b'\x07\x00\x00\x00{"a":1}png'
    """
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<I", len(text)) + text + png


def labels_png(values: Array, colours: Mapping[int, tuple[int, int, int]]) -> bytes:
    """Encode H×W bytes with a palette; what has no class, and what is outside, is transparent."""
    image = Image.fromarray(np.ascontiguousarray(values, np.uint8))
    image.putpalette(palette(256, colours))
    clear = bytes(0 if index in (UNLABELLED, IGNORE) else 255 for index in range(256))
    return _png(image, transparency=clear)


def gray_png(values: Array) -> bytes:
    """Encode H×W bytes as gray."""
    return _png(Image.fromarray(np.ascontiguousarray(values, np.uint8)))


def _png(image: Image.Image, **options: Any) -> bytes:
    content = BytesIO()
    image.save(content, "PNG", compress_level=1, **options)
    return content.getvalue()


def table(values: Array, scale: int) -> list[dict[str, Any]]:
    """Pixels and fraction of each value that occurs."""
    counts = np.array(Image.fromarray(np.ascontiguousarray(values, np.uint8)).histogram())  # of bytes, as they are
    counts[[UNLABELLED, IGNORE]] = 0
    total = max(1, int(counts.sum()))
    return [
        {"value": int(value), "pixels": int(counts[value]) * scale**2, "fraction": counts[value] / total}
        for value in np.flatnonzero(counts)
    ]
