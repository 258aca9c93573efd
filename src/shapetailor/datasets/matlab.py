"""Arrays, cells and structures of MATLAB 5 files, as BSDS500 stores its annotations.

scipy.io.loadmat reads more, but a corrupt file can end its process (a segmentation fault) or make it wait for room that
the file only claims to need. The format: "MAT-File Format", MathWorks, level 5.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

HEADER = 128
MATRIX, COMPRESSED = 14, 15
CELL, STRUCT, CHAR = 1, 2, 4
#: Data type → NumPy's name of it.
NUMBERS = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}
#: Cells and structures inside one another, and bytes that a compressed variable may become.
DEEPEST, LARGEST = 8, 2**28


def read_mat(content: bytes) -> dict[str, Any]:
    """Return the variables of a file: arrays as they are stored, cells as lists, 1×1 structures as dictionaries."""
    if content[126:128] != b"IM":
        raise ValueError("no MATLAB 5 file in the byte order of most machines")
    found = {}
    for kind, data in _elements(content[HEADER:]):
        if kind == COMPRESSED:
            ((kind, data),) = _elements(zlib.decompressobj().decompress(data, LARGEST))
        if kind == MATRIX:
            name, value = _matrix(data, DEEPEST)
            found[name] = value
    return found


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield types and contents, one after the other; short contents lie beside their type."""
    place = 0
    while place + 8 <= len(data):
        kind, length = struct.unpack_from("<II", data, place)
        if kind >> 16:
            yield kind & 0xFFFF, data[place + 4 : place + 4 + min(kind >> 16, 4)]
            place += 8
            continue
        if place + 8 + length > len(data):
            raise ValueError("truncated")
        yield kind, data[place + 8 : place + 8 + length]
        place += 8 + length + (-length % 8 if kind != COMPRESSED else 0)


def _matrix(data: bytes, depth: int) -> tuple[str, Any]:
    if depth == 0:
        raise ValueError(f"more than {DEEPEST} arrays inside one another")
    (_, flags), (_, sizes), (_, name), *rest = _elements(data)
    shape = np.frombuffer(sizes, "<i4").tolist()
    number = prod(shape)
    if flags[0] == CELL:
        value: Any = [_matrix(each, depth - 1)[1] for _, each in rest]
    elif flags[0] == STRUCT and number == 1:
        (_, length), (_, names), *values = rest
        size = int.from_bytes(length, "little")
        keys = [names[at : at + size].rstrip(b"\0").decode() for at in range(0, len(names), max(1, size))]
        value = {key: _matrix(each, depth - 1)[1] for key, (_, each) in zip(keys, values, strict=True)}
    elif flags[0] > CHAR and rest:
        value = np.frombuffer(rest[0][1], NUMBERS[rest[0][0]]).reshape(shape, order="F")
    else:
        value = None  # empty, text, or of a kind that annotations do not have
    if isinstance(value, list) and len(value) != number:
        raise ValueError(f"{len(value)} of {number} cells")
    return name.decode(), value
