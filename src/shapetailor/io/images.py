"""Image files and label maps: what is on the disk, as channel-last arrays, and back again.

Pixels that say nothing are outside the picture: those that hold a TIFF file's nodata value in all channels, that are
NaN or infinite in any, or wholly transparent. Reading keeps the stored values: no rescaling, no change of bit depth.
Writing goes to a temporary name in the same folder and is renamed, so that a reader never meets half a file.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

from ..arrays import Array, Labels, Mask, as_array, is_tensor
from .files import atomic
from .palette import palette
from .picture import (
    MAX_CHANNELS,
    Picture,
    UnfitError,
    both,
    check_channels,
    check_declared,
    check_page,
    chosen,
    finite_pixels,
    gray_if_gray,
    pages_error,
)
from .raster import raster_picture
from .tiff import has_data, is_tiff, tiff_labels, tiff_picture, without_nodata

NO_PIXEL = "has no pixel with a value: all {} are nodata, NaN, infinite or transparent"
#: Larger numbers would overflow 32-bit floats on their way to 0..1.
LARGEST_VALUE = 1e37
#: What pixels outside the picture hold in PNG label maps of 8 and of 16 bits; in memory and in TIFF it is −1.
OUTSIDE8, OUTSIDE16 = 255, 65535

_OPENING = threading.Lock()
# Pillow tells of faults that it also raises.
logging.getLogger("PIL").addHandler(logging.NullHandler())


def read_image(path: str | os.PathLike[str], page: int | None = None, channels: Sequence[int] | None = None) -> Array:
    """Read an image file as an H×W or H×W×C array of the stored type.

    TIFF files of 8, 16 or 32 bits, integer or float, may have up to 16 channels, interleaved or in planes. All else is
    read by Pillow (which reduces 16-bit *colour* PNG to 8 bits), and so are CMYK, YCbCr and CIELAB, as RGB. Palettes
    are applied, alpha is dropped, a picture is turned upright as its EXIF or TIFF orientation says.

    Parameters
    ----------
    path : path
    page : int, optional
        Which page, from 0, of a file that holds several.
    channels : sequence of int, optional
        Which channels, from 0, in this order; of a TIFF file with pages, which pages are the channels.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file is corrupt, of no known format, or no single image. The message begins with its name.
    """
    return read_picture(path, page, channels).values


def read_picture(
    path: str | os.PathLike[str], page: int | None = None, channels: Sequence[int] | None = None
) -> Picture:
    """Read an image file as `read_image` does, and which of its pixels are inside."""
    path = Path(path)
    with named(path):
        found = _tiff_file(path, page, channels) if is_tiff(path) else _pillow_file(path, page)
        values = found.values if channels is None else chosen(found.values, channels)
        check_channels(values)
        return Picture(values, both(found.inside, finite_pixels(values)))


def as_image(image: Any) -> Array:
    """Return whatever holds a picture, all of it inside, as an array: see `as_picture`."""
    array, inside = as_picture(image)
    if inside is not None:
        bad = inside.size - int(np.count_nonzero(inside))
        raise ValueError(f"image must be finite and opaque; {bad} of {inside.size} pixels have no value")
    return array


def as_picture(image: Any) -> Picture:
    """Return whatever holds a picture as an H×W or H×W×C array of the stored type, upright, and what is inside.

    Parameters
    ----------
    image : H×W or H×W×C array, tensor (the same, or C×H×W), PIL image, path or Picture
        1 to 16 channels of numbers. NaN, infinite, masked and wholly transparent pixels are outside.
    """
    inside: Mask | None = None
    if isinstance(image, (str, os.PathLike)):
        array, inside = read_picture(image)
    elif isinstance(image, Picture):
        array, inside = image
    elif isinstance(image, Image.Image):
        array, inside = _pillow_picture(image)
    elif isinstance(image, np.ma.MaskedArray):
        array, hidden = image.data, np.ma.getmaskarray(image)
        inside = ~np.asarray(np.atleast_3d(hidden).any(axis=2))
    else:
        array = as_array(image, "image")
        if is_tensor(image) and array.ndim == 3 and _channels_first(*array.shape):
            array = np.moveaxis(array, 0, 2)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8) * 255
    if array.dtype.kind not in "uif":
        raise TypeError(f"image must hold numbers, got {array.dtype} from {type(image).__name__}")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or array.size == 0 or (array.ndim == 3 and array.shape[2] > MAX_CHANNELS):
        first = array.ndim == 3 and array.size > 0 and array.shape[0] <= MAX_CHANNELS
        hint = "; is it C×H×W? numpy.moveaxis(image, 0, -1) puts the channels last" if first else ""
        raise ValueError(f"image must be H×W or H×W×C with 1 to {MAX_CHANNELS} channels, got shape {array.shape}{hint}")
    inside = both(inside, finite_pixels(array))
    if inside is not None and not inside.any():
        raise ValueError(f"image {NO_PIXEL.format(inside.size)}")
    check_range(array, inside)
    return Picture(array, None if inside is None or inside.all() else inside)


def check_range(array: Array, inside: Mask | None) -> None:
    """Raise if a number inside would overflow on its way to 0..1."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 2:
        where = True if inside is None else inside if array.ndim == 2 else inside[..., None]
        largest = max(abs(array.max(where=where, initial=0)), abs(array.min(where=where, initial=0)))
        if largest > LARGEST_VALUE:
            raise ValueError(f"image must have values up to {LARGEST_VALUE:g}, got {largest:g}; is it nodata?")


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
    with named(path):
        samples = tiff_labels(path) if is_tiff(path) else None
        stored = _pillow_labels(path) if samples is None else samples
        if stored.dtype.kind == "f" and not np.array_equal(stored, np.rint(stored)):
            raise UnfitError("a label map holds integers; this file has fractional or undefined values")
        return _one_label(stored)


def read_rgba(path: str | os.PathLike[str]) -> Array | None:
    """Read a drawing as H×W×4 bytes; None where it holds numbers: gray, indexed without transparency, or TIFF."""
    path = Path(path)
    with named(path):
        if is_tiff(path):
            return None
        with open_with_pillow(path) as file:
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
    _write_pillow(path, Image.fromarray(image))


def write_labels(
    path: str | os.PathLike[str], labels: Array, colours: Mapping[int, tuple[int, int, int]] | None = None
) -> None:
    """Write an H×W integer array, atomically, as PNG (8 or 16 bits as needed) or TIFF.

    Up to 256 labels are the indices of colours in PNG: those given, else those of regions. Negative labels, outside the
    picture, are 255 or 65535 in PNG.
    """
    path, labels = Path(path), np.asarray(labels)
    if labels.ndim != 2 or labels.dtype.kind not in "iub" or labels.size == 0:
        raise ValueError(f"labels must be an H×W integer array, got {labels.dtype} of shape {labels.shape}")
    suffix = path.suffix.lower()
    if suffix not in (".png", ".tif", ".tiff"):
        raise ValueError(f"{path}: label maps are written as .png or .tif, which lose nothing")
    outside = labels < 0 if labels.dtype.kind == "i" and suffix == ".png" else np.False_
    if outside.any():
        labels = np.where(outside, OUTSIDE8 if labels.max() < OUTSIDE8 else OUTSIDE16, labels)
        if labels[~outside].max(initial=0) >= OUTSIDE16:
            raise ValueError(f"{path}: labels must fit 0..65534 in PNG, where 65535 is outside; use .tif")
    low, high = int(labels.min()), int(labels.max())
    if low >= 0 and high < 2**8 and suffix == ".png":
        indexed = Image.fromarray(labels.astype(np.uint8))
        black = {high: (0, 0, 0)} if outside.any() else {}
        indexed.putpalette(palette(high + 1, black | dict(colours or {})))
        _write_pillow(path, indexed)
    elif low >= 0 and high < 2**16:
        write_image(path, labels.astype(np.uint8 if high < 2**8 else np.uint16))
    elif suffix == ".png" or low < -(2**31) or high >= 2**31:
        limit = "0..65535 in PNG" if suffix == ".png" else "32 bits in TIFF"
        raise ValueError(f"{path}: labels range over {low}..{high}, but must fit {limit}")
    else:
        write_image(path, labels.astype(np.int32))


def _write_pillow(path: Path, image: Image.Image) -> None:
    """Encode in memory: Pillow's JPEG encoder takes no notice of a full disk."""
    Image.init()
    known = Image.registered_extensions().get(path.suffix.lower())
    if known is None:
        raise ValueError(f"{path}: no image format ends with {path.suffix!r}; .png, .jpg or .tif will do")
    content = BytesIO()
    image.save(content, known)
    with atomic(path) as temporary:
        temporary.write_bytes(content.getbuffer())


@contextmanager
def named(path: Path | str) -> Iterator[None]:
    """Turn whatever a decoder raises into a ValueError that begins with the file's name."""
    try:
        yield
    except MemoryError as error:
        raise MemoryError(f"{path}: too large for the memory that there is, or corrupt") from error
    except Image.DecompressionBombError as error:
        raise ValueError(f"{path}: {error}; raise PIL.Image.MAX_IMAGE_PIXELS if you trust it") from error
    except UnidentifiedImageError as error:
        raise ValueError(f"{path}: no image of a known format, or corrupt") from error
    except UnfitError as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:  # decoders of broken files raise nearly anything: struct.error, KeyError, ...
        if isinstance(error, OSError) and error.filename is not None:  # the operating system's: no such file, a loop, …
            raise
        reason = f"{type(error).__name__}: {error}".replace(f"{str(path)!r}", "it")
        raise ValueError(f"{path}: corrupt, or of a kind that cannot be read ({reason})") from error


def open_with_pillow(path: Path) -> Image.Image:
    """Open a file with Pillow; raise where it declares more than it can hold."""
    # Pillow warns from 89 megapixels; 100 are an ordinary aerial picture. Its error at 179 stays.
    # The lock is there because the list of warning filters belongs to the whole process.
    with _OPENING, warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        file = Image.open(path)
    try:
        if file.format != "WEBP":  # which packs any amount of one colour
            check_declared(file.width * file.height * len(file.getbands()), path.stat().st_size)
    except UnfitError:
        file.close()
        raise
    return file


def _tiff_file(path: Path, page: int | None, channels: Sequence[int] | None) -> Picture:
    """Read a TIFF file by tifffile, rasterio or Pillow, the first that can."""
    found = tiff_picture(path, page, channels) or (raster_picture(path) if page is None else None)
    if found is not None:
        return found
    values, opaque = _pillow_file(path, page)
    return Picture(values, both(opaque, has_data(path, values)))


def _pillow_file(path: Path, page: int | None) -> Picture:
    with open_with_pillow(path) as file:
        pages = getattr(file, "n_frames", 1)
        if page is not None:
            check_page(page, pages)
            file.seek(page)
        elif pages > 1 and file.format == "TIFF":
            raise pages_error(pages, file.size[::-1])
        _load(file)
        return _pillow_picture(file)


def _load(file: Image.Image) -> None:
    """Decode a file; libtiff prints its complaints of corrupt ones itself, and nothing but the screen can stop it."""
    if file.format != "TIFF":
        file.load()
        return
    with _OPENING, Path(os.devnull).open("wb") as nowhere:
        try:
            screen = os.dup(2)
        except OSError:  # there is no screen
            file.load()
            return
        try:
            os.dup2(nowhere.fileno(), 2)
            file.load()
        finally:
            os.dup2(screen, 2)
            os.close(screen)


def _pillow_picture(image: Image.Image) -> Picture:
    upright = ImageOps.exif_transpose(image)
    return Picture(_pillow_values(upright, image.format), _opaque(upright))


def _pillow_values(upright: Image.Image, file_format: str | None) -> Array:
    if upright.mode in ("1", "LA", "La"):
        return np.asarray(upright.convert("L"))
    if upright.mode in ("P", "PA"):
        mode = "RGBA" if "transparency" in upright.info or upright.mode == "PA" else "RGB"
        return gray_if_gray(np.asarray(upright.convert(mode)))
    if upright.mode == "I" and file_format == "PNG":  # how Pillow before 11 opens 16-bit gray
        return np.asarray(upright).astype(np.uint16)
    if upright.mode in ("L", "I", "F") or upright.mode.startswith("I;16"):
        return np.asarray(upright)
    if upright.mode == "LAB":
        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(upright, lab, srgb, outputMode="RGB")
        return np.asarray(converted)
    return np.asarray(upright.convert("RGB"))


def _opaque(image: Image.Image) -> Mask | None:
    """Which pixels are not wholly transparent; None if all are."""
    key = image.info.get("transparency")
    if image.mode.startswith("I"):  # a key colour of 16-bit gray
        opaque = np.asarray(image) != key if isinstance(key, int) else np.True_
    elif "A" in image.getbands() or "a" in image.getbands():
        opaque = np.asarray(image.getchannel(image.getbands()[-1])) > 0
    elif key is not None and image.mode in ("1", "L", "P", "RGB"):
        opaque = np.asarray(image.convert("RGBA"))[..., 3] > 0
    else:
        return None
    return None if opaque.all() else np.asarray(opaque)


def _pillow_labels(path: Path) -> Array:
    with open_with_pillow(path) as file:
        if file.format in ("JPEG", "MPO"):
            raise UnfitError("JPEG cannot hold a label map: its losses make new labels; use PNG or TIFF")
        _load(file)
        stored = np.asarray(ImageOps.exif_transpose(file))
    if is_tiff(path):
        stored = without_nodata(stored, has_data(path, stored))
    if stored.ndim == 3:
        return stored[..., 0] if stored.shape[2] == 2 else stored[..., :3]  # gray or colour, less alpha
    return stored


def _one_label(stored: Array) -> Labels:
    """One integer a pixel, see `read_labels`."""
    if stored.ndim == 3 and stored.shape[2] != 3:
        raise UnfitError(f"a label map is gray, indexed or RGB; this file has {stored.shape[2]} channels")
    values: Labels = stored.astype(np.int64)
    if values.ndim == 2:
        return values
    red, green, blue = values[..., 0], values[..., 1], values[..., 2]
    if np.array_equal(red, green) and np.array_equal(red, blue):
        return red
    bits = 8 * stored.dtype.itemsize
    return (red << 2 * bits) + (green << bits) + blue
