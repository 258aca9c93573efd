"""Pictures for the eye: decoded once, halved until they fit a tile, cut into tiles."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from threading import Lock

import numpy as np
from PIL import Image

from ..arrays import RGB8, Array, Floats32, Mask
from ..io.header import read_small
from ..io.images import read_picture
from ..io.intensity import Intensity, scaled
from ..io.picture import Picture
from .refusal import Refusal

#: Side of a tile, longest side of a thumbnail, quality of both as JPEG.
TILE, THUMB, QUALITY = 512, 192, 88
#: Bytes of decoded pictures that are kept; the newest is kept in any case. Thumbnails that are kept.
MOST_BYTES, MOST_THUMBS = 2**29, 2000
#: Gray of what is outside a picture.
OUTSIDE = 200
#: Rows that are halved at once.
STRIP = 1024


@dataclass(frozen=True, eq=False)
class View:
    """A picture in levels; level k is halved k times, by averaging."""

    levels: list[Array]  # H×W or H×W×C, of the stored type
    inside: list[Mask] | None
    range: tuple[float, float]  # stored numbers that are shown black and white
    limits: tuple[float, float]

    @classmethod
    def of(cls, picture: Picture) -> View:
        """Make the levels of a picture."""
        levels, masks = [picture.values], None if picture.inside is None else [picture.inside]
        while max(levels[-1].shape[:2]) > TILE:
            mask = None if masks is None else masks[-1]
            levels.append(halved(levels[-1], mask))
            if masks is not None and mask is not None:
                masks.append(halved(mask.astype(np.uint8) * 255, None) > 0)
        smallest, known = levels[-1], None if masks is None else masks[-1]
        return cls(levels, masks, Intensity().limits(smallest, known), _limits(picture.values))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        height, width = self.levels[0].shape[:2]
        return width, height

    @property
    def channels(self) -> int:
        """How many channels the file has."""
        return 1 if self.levels[0].ndim == 2 else int(self.levels[0].shape[2])

    @property
    def weight(self) -> int:
        """Bytes that it takes."""
        return sum(level.nbytes for level in (*self.levels, *(self.inside or ())))

    def level_of(self, most_pixels: int) -> int:
        """The first level that has at most so many pixels."""
        sizes = [level.shape[0] * level.shape[1] for level in self.levels]
        return next((k for k, size in enumerate(sizes) if size <= most_pixels), len(sizes) - 1)

    def picture(self, level: int) -> Picture:
        """A level as the engine takes it."""
        return Picture(self.levels[level], None if self.inside is None else self.inside[level])

    def tile(self, level: int, column: int, row: int, shown: tuple[float, float] | None) -> bytes:
        """Cut a tile, as JPEG."""
        if not 0 <= level < len(self.levels):
            raise Refusal(404, f"The picture has levels 0 to {len(self.levels) - 1}.")
        box = slice(row * TILE, (row + 1) * TILE), slice(column * TILE, (column + 1) * TILE)
        part = self.levels[level][box]
        if part.size == 0 or column < 0 or row < 0:
            raise Refusal(404, "There is no such tile.")
        seen = as_seen(part, shown or self.range)
        return jpeg(seen if self.inside is None else veiled(seen, self.inside[level][box]))


def as_seen(values: Array, shown: tuple[float, float]) -> RGB8:
    """Bring stored numbers to 8 bits, gray or colour: of more than three channels the first three, two averaged."""
    if values.ndim == 3:
        values = values[..., :3] if values.shape[2] >= 3 else values.mean(axis=2)
    if values.dtype == np.uint8 and shown == (0.0, 255.0):
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        return np.rint(255 * scaled(values.astype(np.float32), *shown)).astype(np.uint8)


def veiled(image: RGB8, inside: Mask) -> RGB8:
    """Show what is outside the picture (transparent, without data) in one gray."""
    mask = inside if image.ndim == 2 else inside[..., None]
    return np.where(mask, image, np.uint8(OUTSIDE))


def jpeg(image: RGB8) -> bytes:
    """Encode a picture."""
    content = BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(content, "JPEG", quality=QUALITY)
    return content.getvalue()


def halved(values: Array, inside: Mask | None) -> Array:
    """Average blocks of 2×2 pixels, those inside only; the last row and column may be of one."""
    if inside is None and values.dtype == np.uint8 and (values.ndim == 2 or values.shape[2] == 3):
        return np.asarray(Image.fromarray(values).reduce(2))
    height, width = (-(-side // 2) for side in values.shape[:2])
    small = np.empty((height, width, *values.shape[2:]), values.dtype)
    for first in range(0, height, STRIP):
        rows = slice(2 * first, 2 * (first + STRIP))
        mean = _mean(values[rows], None if inside is None else inside[rows])
        small[first : first + STRIP] = mean if values.dtype.kind == "f" else np.rint(mean)
    return small


def _mean(values: Array, inside: Mask | None) -> Floats32:
    odd = [(0, side % 2) for side in values.shape[:2]]
    deep = np.pad(values.astype(np.float32), [*odd, *[(0, 0)] * (values.ndim - 2)], mode="edge")
    blocks = deep.reshape(deep.shape[0] // 2, 2, deep.shape[1] // 2, 2, *deep.shape[2:])
    if inside is None:
        return np.asarray(blocks.mean(axis=(1, 3)), np.float32)
    known = np.pad(inside, odd).reshape(blocks.shape[:4])
    known = known if values.ndim == 2 else known[..., None]
    total = np.where(known, blocks, 0).sum(axis=(1, 3))
    return np.asarray(total / np.maximum(known.sum(axis=(1, 3)), 1), np.float32)


def _limits(values: Array) -> tuple[float, float]:
    """Numbers between which brightness may be chosen: all of 8 bits, else those that occur."""
    if values.dtype == np.uint8:
        return 0.0, 255.0
    finite = np.isfinite(values) if values.dtype.kind == "f" else True
    low = values.min(where=finite, initial=values.flat[0]) if values.dtype.kind == "f" else values.min()
    high = values.max(where=finite, initial=values.flat[0]) if values.dtype.kind == "f" else values.max()
    low, high = (float(each) if np.isfinite(each) else 0.0 for each in (low, high))
    return low, high


class Views:
    """The decoded pictures that are kept, and thumbnails; pictures are decoded one at a time."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._views: OrderedDict[tuple[Path, int, int], View] = OrderedDict()
        self._thumbs: OrderedDict[tuple[Path, int, int], bytes] = OrderedDict()
        self._lock, self._decoding = Lock(), Lock()

    def get(self, path: Path) -> View:
        """The levels of a picture's file."""
        key = _key(path)
        with self._lock:
            if key in self._views:
                self._views.move_to_end(key)
                return self._views[key]
        with self._decoding:
            with self._lock:
                if key in self._views:
                    return self._views[key]
            view = View.of(_read(path))
            with self._lock:
                self._views[key] = view
                while len(self._views) > 1 and sum(each.weight for each in self._views.values()) > self.most_bytes:
                    self._views.popitem(last=False)
        return view

    def thumb(self, path: Path) -> bytes:
        """A small picture, as JPEG."""
        key = _key(path)
        with self._lock:
            if key in self._thumbs:
                self._thumbs.move_to_end(key)
                return self._thumbs[key]
            view = self._views.get(key)
        if view is not None:
            values, shown = view.levels[-1], view.range
            inside = None if view.inside is None else view.inside[-1]
        else:
            with self._decoding:
                whole = read_small(path, 2 * THUMB)
            step = max(1, max(whole.values.shape[:2]) // (2 * THUMB))
            values = whole.values[::step, ::step]
            inside = None if whole.inside is None else whole.inside[::step, ::step]
            shown = Intensity().limits(values, inside)
        seen = as_seen(values, shown)
        image = Image.fromarray(np.ascontiguousarray(seen if inside is None else veiled(seen, inside)))
        image.thumbnail((THUMB, THUMB))
        small = jpeg(np.asarray(image))
        with self._lock:
            self._thumbs[key] = small
            while len(self._thumbs) > MOST_THUMBS:
                self._thumbs.popitem(last=False)
        return small


def _read(path: Path) -> Picture:
    """Read a picture; what is wrong with it is told by the file's name."""
    try:
        return read_picture(path)
    except ValueError as error:
        why = str(error).replace(str(path), path.name).rstrip(".")
        raise Refusal(422, f"{why}. Save it anew as PNG or TIFF, or take it out of the folder.") from error


def _key(path: Path) -> tuple[Path, int, int]:
    try:
        found = path.stat()
    except OSError:
        raise Refusal(404, f"{path.name} is gone from the folder.") from None
    return path, found.st_mtime_ns, found.st_size
