"""TIFF files: samples, pages, orientation, nodata. What tifffile cannot decode is left to Pillow."""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Array, Mask
from .picture import (
    MAX_CHANNELS,
    Picture,
    UnfitError,
    both,
    check_declared,
    check_page,
    gray_if_gray,
    pages_error,
)

MOST_COMPLAINTS = 500

_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_ALPHA_SAMPLES = (1, 2)  # TIFF 6.0, ExtraSamples: associated and unassociated alpha
ORIENTATION, _NODATA = 274, 42113  # TIFF tags; the second is GDAL's
_MASK = 4  # TIFF 6.0, NewSubfileType: a mask of another picture, not one of its reductions
_JPEG_COLOURS = 6, 7  # YCbCr by JPEG, which GDAL reads as RGB
PILLOW_COLOURS = (5, 6, 8, 9, 10)  # TIFF 6.0, PhotometricInterpretation: CMYK, YCbCr, kinds of CIELAB


class Complaints(logging.Handler):
    """Keeps tifffile's complaints from the user, and ends the reading of a file that gives rise to too many.

    A corrupt file may pretend to have thousands of pages with thousands of tags, each of them wrong.
    """

    count = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """Count a complaint of this thread's file."""
        self.count.value = getattr(self.count, "value", 0) + 1
        if self.count.value > MOST_COMPLAINTS:
            raise UnfitError(f"corrupt: more than {MOST_COMPLAINTS} faults in its pages and tags")


logging.getLogger("tifffile").addHandler(Complaints())


def is_tiff(path: Path) -> bool:
    """Whether a file begins as TIFF files do."""
    with path.open("rb") as file:
        return file.read(4) in _TIFF_MAGIC


def tiff_picture(path: Path, page: int | None, channels: Sequence[int] | None) -> Picture | None:
    """Read a picture; None where rasterio or Pillow has to (`_tiff_samples`)."""
    import tifffile

    Complaints.count.value = 0
    with tifffile.TiffFile(path) as file:
        samples = _tiff_samples(file, page, channels is not None)
        frame: Any = file.series[0].keyframe
        if samples is None:
            return None
        values, inside = finished(samples, frame)
        mask = mask_series(file)
        if mask is not None:
            orientation = frame.tags.valueof(ORIENTATION, 1)
            inside = both(inside, turned(np.asarray(mask.asarray()), orientation) != 0)
        return Picture(values, inside)


def mask_series(file: Any) -> Any:
    """Return the mask of a file's one picture: TIFF 6.0, NewSubfileType; None where there is none."""
    series = file.series[0]
    if prod(series.shape) != prod(series.keyframe.shape):
        return None
    size = series.keyframe.imagelength, series.keyframe.imagewidth
    masks = [each for each in file.series[1:] if each.shape == size and int(each.keyframe.subfiletype or 0) == _MASK]
    return masks[0] if masks and has_codecs(masks[0].keyframe) else None


def gdal_means_the_same(series: Any) -> bool:
    """Whether rasterio reads a file as it is meant: one upright picture, of whole bytes, in grays or RGB."""
    frame = series.keyframe
    colours = int(frame.photometric) in (1, 2) or (int(frame.photometric), int(frame.compression)) == _JPEG_COLOURS
    whole = frame.bitspersample in (8, 16, 32, 64) and prod(series.shape) == prod(frame.shape)
    return bool(colours and whole and frame.tags.valueof(ORIENTATION, 1) == 1)


def has_codecs(frame: Any) -> bool:
    """Whether tifffile can decode a page with what is installed."""
    import tifffile

    try:
        tifffile.TIFF.DECOMPRESSORS[frame.compression](b"")
    except (KeyError, ImportError):  # unknown, or known and not there
        return False
    except Exception as error:  # it is there, and has nothing to decode
        del error
    return frame.predictor in tifffile.TIFF.UNPREDICTORS


def finished(samples: Array, frame: Any, gray_palette: bool | None = None) -> Picture:
    """Return what upright, channel-last samples mean: alpha, palette, one bit, nodata and white as 0.

    A palette is applied as gray if all its colours in these samples are; `gray_palette` decides it for windows.
    """
    import tifffile

    samples, opaque = _without_alpha(samples, frame)
    if frame.photometric == tifffile.PHOTOMETRIC.PALETTE and samples.ndim == 2:
        colours = colour_map(frame)[samples]
        samples = gray_if_gray(colours) if gray_palette is None else colours[..., 0] if gray_palette else colours
    if samples.dtype.kind == "b":
        samples = samples.astype(np.uint8) * 255
    inside = both(opaque, _has_data(samples, frame))
    if frame.photometric == tifffile.PHOTOMETRIC.MINISWHITE and samples.dtype.kind == "u":
        samples = np.iinfo(samples.dtype).max - samples
    return Picture(samples, inside)


def colour_map(frame: Any) -> Array:
    """Return the colours of a palette as N×3 bytes."""
    return np.asarray((np.moveaxis(frame.colormap, 0, -1) >> 8).astype(np.uint8))


def tiff_labels(path: Path) -> Array | None:
    """Read the samples of a label map, −1 where it holds its nodata value; None where Pillow has to."""
    import tifffile

    Complaints.count.value = 0
    with tifffile.TiffFile(path) as file:
        samples = _tiff_samples(file, None, False)
        if samples is None:
            return None
        samples = _without_alpha(samples, file.series[0].keyframe)[0]
        return without_nodata(samples, _has_data(samples, file.series[0].keyframe))


def without_nodata(samples: Array, inside: Mask | None) -> Array:
    """Return the samples of a label map, −1 where it has no data."""
    if inside is None or samples.ndim > 2:
        return samples
    return np.where(inside, samples if samples.dtype.kind == "f" else samples.astype(np.int64), -1)


def _tiff_samples(file: Any, page: int | None, pages_are_channels: bool) -> Array | None:
    """Return the stored samples, channel-last and upright.

    None where rasterio or Pillow has to read the file: they have codecs that tifffile lacks (LZW, JPEG), and Pillow
    knows CMYK, YCbCr and CIELAB.
    """
    series = checked_series(file)
    frame = series.keyframe
    if int(frame.photometric) in PILLOW_COLOURS or not has_codecs(frame):
        return None
    samples = series.asarray()
    return turned(channel_last(samples, series.axes, page, pages_are_channels), frame.tags.valueof(ORIENTATION, 1))


def checked_series(file: Any) -> Any:
    """Return the first series of a file; raise if it has none, is corrupt, or has colours that nobody reads."""
    check_chain(file)
    if not len(file.series):
        raise UnfitError("holds no image")
    series = file.series[0]
    frame = series.keyframe
    check_declared(
        prod(series.shape) * (series.dtype.itemsize if series.dtype is not None else 1), file.filehandle.size
    )
    if int(frame.photometric) in PILLOW_COLOURS:
        if frame.bitspersample != 8 or (int(frame.photometric) == 5 and frame.samplesperpixel not in (4, 5)):
            name = f"{frame.photometric.name} of {frame.samplesperpixel}×{frame.bitspersample} bits"
            raise UnfitError(f"its colours are stored as {name}, which is not supported; store them as RGB")
        if frame.photometric == 6 and frame.compression == 1 and frame.tags.valueof(530, (2, 2)) != (1, 1):
            raise UnfitError("its colours are stored as subsampled YCbCr, which is not supported; store them as RGB")
        return series
    for each in series.pages:
        if each is not None and min(len(each.dataoffsets), len(each.databytecounts)) < prod(frame.chunked):
            raise UnfitError(f"corrupt: it has {len(each.dataoffsets)} of {prod(frame.chunked)} strips or tiles")
    return series


def check_chain(file: Any) -> None:
    """Raise if the pages of a file follow each other in a circle: tifffile would go round for ever."""
    handle, form = file.filehandle, file.tiff
    seen: set[int] = set()
    offset = file.pages.first.offset
    while offset:
        if offset in seen:
            raise UnfitError("corrupt: its pages follow each other in a circle")
        seen.add(offset)
        handle.seek(offset)
        count = handle.read(form.tagnosize)
        if len(count) < form.tagnosize:
            return
        handle.seek(struct.unpack(form.tagnoformat, count)[0] * form.tagsize, 1)
        following = handle.read(form.offsetsize)
        offset = struct.unpack(form.offsetformat, following)[0] if len(following) == form.offsetsize else 0


def _without_alpha(samples: Array, frame: Any) -> tuple[Array, Mask | None]:
    """Return the colours, and which pixels are not wholly transparent."""
    opaque = None
    if samples.ndim == 3 and any(int(extra) in _ALPHA_SAMPLES for extra in frame.extrasamples):
        samples, opaque = samples[..., :-1], samples[..., -1] != 0
    return samples[..., 0] if samples.ndim == 3 and samples.shape[2] == 1 else samples, opaque


def has_data(path: Path, samples: Array) -> Mask | None:
    """Which pixels that Pillow decoded hold anything but nodata; None where the file names no such value.

    Raises
    ------
    UnfitError
        Pillow has kept less than is stored: of colours of 16 bits it takes 8.
    """
    import tifffile

    with tifffile.TiffFile(path) as file:
        frame: Any = file.pages[0]
        if frame.bitspersample > 8 * samples.dtype.itemsize:
            packed = getattr(frame.compression, "name", frame.compression)
            raise UnfitError(
                f"its numbers of {frame.bitspersample} bits, packed as {packed}, need rasterio: "
                "pip install shapetailor[geo]"
            )
        return _has_data(samples, frame)


def _has_data(samples: Array, frame: Any) -> Mask | None:
    """Which pixels hold anything but GDAL's nodata value; None where the file names no such value."""
    try:
        nodata = float(str(frame.tags.valueof(_NODATA, "")).strip(" \0").replace(",", "."))
    except ValueError:
        return None
    # GDAL writes the shortest decimal; of a float32 file it means the nearest float32.
    with np.errstate(over="ignore"):
        value = np.float32(nodata) if samples.dtype == np.float32 else nodata
    return np.asarray(np.atleast_3d(samples != value).any(axis=2))


def turned(samples: Array, orientation: int) -> Array:
    """Turn H×W or H×W×C upright: TIFF 6.0, Orientation."""
    if orientation in (5, 6, 7, 8):
        samples = samples.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        samples = samples[::-1]
    if orientation in (2, 3, 6, 7):
        samples = samples[:, ::-1]
    return samples


def channel_last(samples: Array, axes: str, page: int | None, pages_are_channels: bool) -> Array:
    """Bring stored axes to H×W or H×W×C: one page, or pages as channels."""
    kept = [i for i, axis in enumerate(axes) if axis in "YX" or samples.shape[i] > 1]
    samples, axes = samples.reshape([samples.shape[i] for i in kept]), "".join(axes[i] for i in kept)
    # An H×W×C array that tifffile was not told the axes of is stored as H pages of W×C.
    if samples.ndim == 3 and axes[2] in "YX" and samples.shape[0] > MAX_CHANNELS >= samples.shape[2]:
        return samples
    order = sorted(
        range(len(axes)), key=lambda i: 1 if axes[i] == "Y" else 2 if axes[i] == "X" else 3 * (axes[i] in "SC")
    )
    samples, stacked = samples.transpose(order), sum(axis not in "YXSC" for axis in axes)
    pages = samples.reshape(-1, *samples.shape[stacked:])
    if page is not None:
        check_page(page, len(pages))
        samples = pages[page]
    elif stacked and pages_are_channels and pages.ndim == 3:
        samples = np.moveaxis(pages, 0, -1)
    elif stacked:
        raise pages_error(len(pages), pages.shape[1:])
    if samples.ndim > 3:
        raise UnfitError(f"holds no single image but a stack with axes {axes} of shape {samples.shape}")
    return samples
