"""Image files and label maps: what is on the disk, as channel-last arrays, and back again.

Reading keeps the stored values: no rescaling, no change of bit depth. Writing goes to a temporary name
in the same folder and is renamed, so that a reader never meets half a file.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from ..arrays import Array, Labels
from .files import atomic

MAX_CHANNELS = 16

_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_ALPHA_SAMPLES = (1, 2)  # TIFF 6.0, ExtraSamples: associated and unassociated alpha
_OPENING = threading.Lock()


def read_image(path: str | os.PathLike[str]) -> Array:
    """Read an image file as an H×W or H×W×C array of the stored type.

    TIFF files of 8, 16 or 32 bits, integer or float, may have up to 16 channels, interleaved, in planes or
    as pages. All else is read by Pillow (which reduces 16-bit *colour* PNG to 8 bits). Palettes are
    applied, alpha is dropped, a photograph is turned upright as its EXIF orientation says.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file is corrupt, of no known format, or no single image. The message begins with its name.
    """
    path = Path(path)
    with _named(path):
        return _tiff_image(path) if _is_tiff(path) else _pillow_image(path)


def as_image(image: Any) -> Array:
    """Return whatever holds a picture as an H×W or H×W×C array of the stored type, upright and without alpha.

    Parameters
    ----------
    image : H×W or H×W×C array, tensor (the same, or C×H×W), PIL image or path
        1 to 16 channels of finite numbers.
    """
    if isinstance(image, (str, os.PathLike)):
        array = read_image(image)
    elif isinstance(image, Image.Image):
        array = _pillow_array(image)
    elif hasattr(image, "detach"):  # a tensor; torch itself is not needed here
        array = image.detach().cpu().numpy()
        if array.ndim == 3 and _channels_first(*array.shape):
            array = np.moveaxis(array, 0, 2)
    else:
        array = np.asarray(image)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8) * 255
    if array.dtype.kind not in "uif":
        raise TypeError(f"image must hold numbers, got {array.dtype} from {type(image).__name__}")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or array.size == 0 or (array.ndim == 3 and array.shape[2] > MAX_CHANNELS):
        raise ValueError(f"image must be H×W or H×W×C with 1 to {MAX_CHANNELS} channels, got shape {array.shape}")
    if array.dtype.kind == "f":
        bad = int(np.count_nonzero(~np.isfinite(array)))
        if bad:
            raise ValueError(f"image must be finite; {bad} of {array.size} values are NaN or infinite")
    return array


def _channels_first(first: int, _: int, last: int) -> bool:
    """Whether a tensor is C×H×W: by the most channels there may be, and for small pictures by the lesser number."""
    return first <= MAX_CHANNELS and (last > MAX_CHANNELS or (first < last and last > 4))


def read_labels(path: str | os.PathLike[str]) -> Labels:
    """Read a label map: an H×W array of int64, equal where the file's pixels are equal.

    A label is the stored integer, the index of a palette, or for a colour c the number
    ``(red << 2b) + (green << b) + blue`` with b bits a channel (24-bit 0xRRGGBB as a rule). A colour file
    that holds grays only gives the gray values.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        As by `read_image`; also for JPEG, whose losses make new labels, and for fractional values.
    """
    path = Path(path)
    with _named(path):
        stored = _tiff_labels(path) if _is_tiff(path) else _pillow_labels(path)
        if stored.dtype.kind == "f" and not np.array_equal(stored, np.rint(stored)):
            raise ValueError("a label map holds integers; this file has fractional or undefined values")
        return _one_label(stored)


def read_rgba(path: str | os.PathLike[str]) -> Array | None:
    """Read a drawing as H×W×4 bytes; None where it holds numbers: gray, indexed without transparency, or TIFF."""
    path = Path(path)
    with _named(path):
        if _is_tiff(path):
            return None
        with _open(path) as file:
            numbers = file.mode in ("1", "L", "I", "F") or file.mode.startswith("I;16") or file.mode == "P"
            if numbers and "transparency" not in file.info:
                return None
            return np.asarray(ImageOps.exif_transpose(file).convert("RGBA"))


def write_image(path: str | os.PathLike[str], image: Array) -> None:
    """Write an H×W or H×W×C array, atomically, in the format that the name ends with.

    TIFF takes any type and number of channels, other formats uint8 gray or colour; PNG also uint16 gray.
    """
    path, image = Path(path), np.asarray(image)
    if image.ndim not in (2, 3):
        raise ValueError(f"image must be H×W or H×W×C, got shape {image.shape}")
    if path.suffix.lower() in (".tif", ".tiff"):
        photometric = "rgb" if image.ndim == 3 and image.shape[2] == 3 else "minisblack"
        planes = "contig" if image.ndim == 3 else None
        with atomic(path) as temporary:
            import tifffile  # only where a TIFF file is met: not every machine that trains has it

            tifffile.imwrite(temporary, image, photometric=photometric, planarconfig=planes, compression="zlib")
        return
    gray16 = image.dtype == np.uint16 and image.ndim == 2 and path.suffix.lower() == ".png"
    byte = image.dtype == np.uint8 and (image.ndim == 2 or image.shape[2] == 3)
    if not (gray16 or byte):
        raise ValueError(
            f"{path}: {image.dtype} of shape {image.shape} does not fit this format; "
            "write uint8 gray or RGB (PNG: also uint16 gray), or name the file .tif"
        )
    with atomic(path) as temporary:
        Image.fromarray(image).save(temporary)


def write_labels(path: str | os.PathLike[str], labels: Array) -> None:
    """Write an H×W integer array, atomically, as PNG (8 or 16 bits as needed) or TIFF (also negative)."""
    path, labels = Path(path), np.asarray(labels)
    if labels.ndim != 2 or labels.dtype.kind not in "iub" or labels.size == 0:
        raise ValueError(f"labels must be an H×W integer array, got {labels.dtype} of shape {labels.shape}")
    low, high = int(labels.min()), int(labels.max())
    suffix = path.suffix.lower()
    if suffix not in (".png", ".tif", ".tiff"):
        raise ValueError(f"{path}: label maps are written as .png or .tif, which lose nothing")
    if low >= 0 and high < 2**16:
        write_image(path, labels.astype(np.uint8 if high < 2**8 else np.uint16))
    elif suffix == ".png" or low < -(2**31) or high >= 2**31:
        limit = "0..65535 in PNG" if suffix == ".png" else "32 bits in TIFF"
        raise ValueError(f"{path}: labels range over {low}..{high}, but must fit {limit}")
    else:
        write_image(path, labels.astype(np.int32))


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turn whatever a decoder raises into a ValueError that begins with the file's name."""
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, PermissionError, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise ValueError(f"{path}: {error}; raise PIL.Image.MAX_IMAGE_PIXELS if you trust it") from error
    except Exception as error:  # decoders of broken files raise nearly anything: struct.error, KeyError, ...
        reason = f"{error}".replace(f"{str(path)!r}", "it") or type(error).__name__
        raise ValueError(f"{path}: {reason}") from error


def _is_tiff(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) in _TIFF_MAGIC


def _open(path: Path) -> Image.Image:
    # Pillow warns from 89 megapixels; 100 are an ordinary aerial picture. Its error at 179 stays.
    # The lock is there because the list of warning filters belongs to the whole process.
    with _OPENING, warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        return Image.open(path)


def _pillow_image(path: Path) -> Array:
    with _open(path) as file:
        return _pillow_array(file)


def _pillow_array(image: Image.Image) -> Array:
    upright = ImageOps.exif_transpose(image)
    if upright.mode in ("1", "LA", "La"):
        return np.asarray(upright.convert("L"))
    if upright.mode == "P":
        mode = "RGBA" if "transparency" in upright.info else "RGB"
        return _gray_if_gray(np.asarray(upright.convert(mode)))
    if upright.mode == "I" and image.format == "PNG":  # how Pillow before 11 opens 16-bit gray
        return np.asarray(upright).astype(np.uint16)
    if upright.mode in ("L", "I", "F") or upright.mode.startswith("I;16"):
        return np.asarray(upright)
    return np.asarray(upright.convert("RGB"))


def _gray_if_gray(colours: Array) -> Array:
    """Take a palette of grays for a gray image (Sun raster and GIF know no other)."""
    colours = colours[..., :3]
    gray = colours[..., 0]
    return gray if (colours == gray[..., None]).all() else colours


def _pillow_labels(path: Path) -> Array:
    with _open(path) as file:
        if file.format in ("JPEG", "MPO"):
            raise ValueError("JPEG cannot hold a label map: its losses make new labels; use PNG or TIFF")
        stored = np.asarray(ImageOps.exif_transpose(file))
    if stored.ndim == 3:
        return stored[..., 0] if stored.shape[2] == 2 else stored[..., :3]  # gray or colour, less alpha
    return stored


def _tiff_image(path: Path) -> Array:
    import tifffile

    with tifffile.TiffFile(path) as file:
        samples = _tiff_samples(file.series[0])
        page: Any = file.series[0].keyframe
        if samples is None:
            return _pillow_image(path)
        if page.photometric == tifffile.PHOTOMETRIC.PALETTE:
            return _gray_if_gray((np.moveaxis(page.colormap, 0, -1) >> 8).astype(np.uint8)[samples])
        if samples.dtype.kind == "b":
            samples = samples.astype(np.uint8) * 255
        if page.photometric == tifffile.PHOTOMETRIC.MINISWHITE and samples.dtype.kind == "u":
            samples = np.iinfo(samples.dtype).max - samples
        return samples


def _tiff_labels(path: Path) -> Array:
    import tifffile

    with tifffile.TiffFile(path) as file:
        samples = _tiff_samples(file.series[0])
    return _pillow_labels(path) if samples is None else samples


def _tiff_samples(series: Any) -> Array | None:
    """Return the stored samples, channel-last and without alpha.

    None where tifffile lacks a codec (LZW, JPEG) that Pillow has; Pillow knows up to four channels.
    """
    try:
        samples = _channel_last(series.asarray(), series.axes)
    except ValueError as error:
        if "imagecodecs" not in str(error) or series.keyframe.samplesperpixel > 4:
            raise
        return None
    has_alpha = any(int(extra) in _ALPHA_SAMPLES for extra in series.keyframe.extrasamples)
    if samples.ndim == 3 and has_alpha:
        samples = samples[..., :-1]
    return samples[..., 0] if samples.ndim == 3 and samples.shape[2] == 1 else samples


def _channel_last(samples: Array, axes: str) -> Array:
    kept = [i for i, axis in enumerate(axes) if axis in "YX" or samples.shape[i] > 1]
    samples, axes = samples.reshape([samples.shape[i] for i in kept]), "".join(axes[i] for i in kept)
    if samples.ndim == 2:
        return samples
    if samples.ndim > 3:
        raise ValueError(f"holds no single image but a stack with axes {axes} of shape {samples.shape}")
    # An H×W×C array that tifffile was not told the axes of is stored as H pages of W×C.
    pages_are_rows = samples.shape[0] > MAX_CHANNELS >= samples.shape[2]
    if axes[2] in "YX" and not pages_are_rows:
        samples = np.moveaxis(samples, next(i for i in range(3) if axes[i] not in "YX"), -1)
    if samples.shape[2] > MAX_CHANNELS:
        raise ValueError(f"has {samples.shape[2]} channels or pages; at most {MAX_CHANNELS} are supported")
    return samples


def _one_label(stored: Array) -> Labels:
    """One integer a pixel, see `read_labels`."""
    if stored.ndim == 3 and stored.shape[2] != 3:
        raise ValueError(f"a label map is gray, indexed or RGB; this file has {stored.shape[2]} channels")
    values: Labels = stored.astype(np.int64)
    if values.ndim == 2:
        return values
    red, green, blue = values[..., 0], values[..., 1], values[..., 2]
    if np.array_equal(red, green) and np.array_equal(red, blue):
        return red
    bits = 8 * stored.dtype.itemsize
    return (red << 2 * bits) + (green << bits) + blue
