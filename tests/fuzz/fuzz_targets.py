"""Fuzz targets: good files of every kind, seeded ways to spoil them, and what each reader may answer.

A reader returns something sound or raises one of `ANSWERS` whose message names the file; all else is a fault.
"""

from __future__ import annotations

import io
import json
import shutil
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import safetensors.torch
import tifffile
import torch
from PIL import Image
from scipy.io import savemat

from shapetailor.classes import Classifier, ClassName
from shapetailor.classes.features import channel_count, feature_count
from shapetailor.classes.head import Head
from shapetailor.classes.names import read_classes
from shapetailor.classes.project import Project
from shapetailor.classes.standard import Standard
from shapetailor.datasets import FolderDataset
from shapetailor.datasets.published import read_bsds_truths
from shapetailor.io.header import read_size, read_small
from shapetailor.io.images import as_picture, read_labels, read_picture
from shapetailor.io.intensity import Intensity
from shapetailor.io.source import open_source
from shapetailor.network import STDNN, STDNNConfig
from shapetailor.network.checkpoint import ENTRY, save_model
from shapetailor.network.masked import Statistics
from shapetailor.page.history import History
from shapetailor.segmentation.segmenter import Segmenter
from shapetailor.segmentation.usage import Usage
from shapetailor.strokes import Stroke, rasterise, read_scribbles, read_strokes

ANSWERS = (ValueError, OSError, MemoryError)
#: Numbers that lengths, offsets and sizes are replaced by.
EXTREMES = (0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0xFFFFFFFF)
#: What JSON values are replaced by.
ODD = (None, True, -1, 0, 1e308, 10**400, "", "x" * 1000, [], {}, [[[]]], [1e9] * 50, {"a": {"b": None}}, float("nan"))

Rng = np.random.Generator
Files = dict[str, bytes]


def _saved(image: Image.Image, suffix: str, **options: object) -> bytes:
    content = io.BytesIO()
    image.save(content, suffix, **options)
    return content.getvalue()


def _tiff(array: np.ndarray, **options: object) -> bytes:
    content = io.BytesIO()
    tifffile.imwrite(content, array, **options)
    return content.getvalue()


@cache
def pictures() -> Files:
    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 256, (12, 17, 3), dtype=np.uint8)
    gray, colour = Image.fromarray(rgb[..., 0]), Image.fromarray(rgb)
    alpha = Image.fromarray(np.dstack([rgb, rgb[..., :1] // 128 * 255]))
    nodata = {"extratags": [(42113, "s", 0, "-9999", True)], "photometric": "minisblack"}
    exif = Image.Exif()
    exif[0x0112] = 6
    return {
        "gray.png": _saved(gray, "PNG"),
        "alpha.png": _saved(alpha, "PNG"),
        "palette.png": _saved(colour.quantize(7), "PNG", transparency=2),
        "deep.png": _saved(Image.fromarray(rng.integers(0, 65536, (9, 11), dtype=np.uint16)), "PNG"),
        "photo.jpg": _saved(colour, "JPEG", exif=exif),
        "cmyk.jpg": _saved(colour.convert("CMYK"), "JPEG"),
        "small.gif": _saved(gray, "GIF"),
        "small.bmp": _saved(colour, "BMP"),
        "small.webp": _saved(colour, "WEBP"),
        "small.ppm": _saved(colour, "PPM"),
        "small.jp2": _saved(colour, "JPEG2000"),
        "lzw.tif": _saved(colour, "TIFF", compression="tiff_lzw"),
        "lab.tif": _saved(colour.convert("CMYK"), "TIFF"),
        "plain.tif": _tiff(rgb, photometric="rgb"),
        "alpha.tif": _tiff(np.asarray(alpha), photometric="rgb", extrasamples=["unassalpha"], compression="zlib"),
        "float.tif": _tiff(rng.random((12, 17)).astype(np.float32), **nodata),
        "stack.tif": _tiff(rng.integers(0, 9, (3, 8, 8), dtype=np.uint16), photometric="minisblack"),
        "tiles.tif": _tiff(rng.integers(0, 9, (40, 40), dtype=np.uint8), tile=(16, 16), photometric="minisblack"),
        "planes.tif": _tiff(rgb.transpose(2, 0, 1), photometric="rgb", planarconfig="separate", rowsperstrip=4),
    }


@cache
def label_maps() -> Files:
    labels = np.repeat([[0, 1, 2, 255]], 6, axis=0).astype(np.uint8)
    kept = ("gray.png", "palette.png", "deep.png", "small.gif", "lzw.tif", "float.tif", "tiles.tif")
    made = {"map.png": _saved(Image.fromarray(labels), "PNG"), "map.tif": _tiff(labels, photometric="minisblack")}
    return made | {name: pictures()[name] for name in kept}


@cache
def models() -> Files:
    net = STDNN(STDNNConfig(widths=(4, 3), scales=(1.0, 2.0), stride=2))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_model(path, net, {"seed": 3}, Usage.usual(2, two_networks=False).to_dict())
        return {path.name: path.read_bytes()}


@cache
def classifiers() -> Files:
    fine = STDNNConfig(features="rich", widths=(4, 3), scales=(1.0, 2.0), stride=2)
    net = STDNN(replace(fine, stride=4, fine=fine))
    classes = (ClassName(1, "ferrite"), ClassName(7, "bar", ignored=True))
    count = channel_count(net)
    usual = [Statistics(torch.zeros(1, count, 1, 1), torch.ones(1, count, 1, 1)) for _ in range(2)]
    standard = Standard(torch.full((count,), 0.5), tuple(usual))
    taught = Classifier(classes, net, Head(feature_count(net), 2), standard, 64, Intensity(), False, {"seed": 0})
    with TemporaryDirectory() as folder:
        path = Path(folder) / "classifier.safetensors"
        taught.save(path)
        return {path.name: path.read_bytes()}


@cache
def large_pictures() -> Files:
    """What windows are read of: also with a place on the Earth, and with the size of a pixel."""
    rng = np.random.default_rng(1)
    values = rng.integers(0, 256, (40, 50), dtype=np.uint8)
    placed = [
        (33550, "d", 3, (0.5, 0.5, 0.0), True),
        (33922, "d", 6, (0.0, 0.0, 0.0, 5e5, 5e6, 0.0), True),
        (34735, "H", 16, (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32632), True),
    ]
    size = {"axes": "YX", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5}
    tiles = {"photometric": "minisblack", "tile": (16, 16), "compression": "zlib"}
    made = {
        "placed.tif": _tiff(values, photometric="minisblack", extratags=placed, metadata=None),
        "sized.ome.tif": _tiff(values, photometric="minisblack", ome=True, metadata=size),
        "imagej.tif": _tiff(values, imagej=True, resolution=(2, 2), metadata={"unit": "um"}),
        "predicted.tif": _tiff(values, predictor=True, bigtiff=True, **tiles),
        "turned.tif": _tiff(values, extratags=[(274, "H", 1, 6, True)], **tiles),
    }
    return made | pictures()


@cache
def zarr_parts() -> Files:
    """The files of an OME-Zarr picture, by the name that their place in the folder is made of."""
    import zarr

    with TemporaryDirectory() as folder:
        group = zarr.create_group(folder, zarr_format=3)
        array = group.create_array("0", shape=(3, 20, 30), chunks=(3, 16, 16), dtype="uint8")
        array[...] = np.random.default_rng(0).integers(0, 256, (3, 20, 30), dtype=np.uint8)
        steps = [{"type": "scale", "scale": [1, 0.5, 0.5]}]
        axes = [{"name": axis, "type": "space", "unit": "micrometer"} for axis in "cyx"]
        scale = {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": steps}]}
        group.attrs["ome"] = {"version": "0.5", "multiscales": [scale]}
        files = (path for path in sorted(Path(folder).rglob("*")) if path.is_file())
        return {str(path.relative_to(folder)).replace("/", "%"): path.read_bytes() for path in files}


@cache
def project_parts() -> Files:
    """The files of a project with a picture of 20×30 pixels and two marked ones."""
    strokes = [Stroke(1, [(3, 4), (9, 8)], 2.5), Stroke(7, [(20, 10)])]
    drawn = {"version": 1, "strokes": [stroke.to_dict() for stroke in strokes]}
    marks = np.zeros((20, 30), np.uint8)
    marks[:, :9], marks[:, 20:], marks[0] = 1, 7, 255
    return class_files() | {
        "marks%a.json": json.dumps(drawn).encode(),
        "marks%b.png": _saved(Image.fromarray(marks), "PNG"),
        "pictures.txt": b"a.png\nb.png\n",
    }


@cache
def journals() -> Files:
    stroke = Stroke(1, [(3, 4), (9, 8)], 2.5).to_dict()
    events = [{"do": "start", "strokes": [stroke]}, {"do": "add", "stroke": stroke, "id": "x"}, {"do": "undo"}]
    events += [{"do": "redo"}, {"do": "clear"}, {"do": "set", "strokes": [stroke]}]
    return {".a.history.jsonl": b"".join(json.dumps(event).encode() + b"\n" for event in events)}


@cache
def stroke_files() -> Files:
    strokes = [
        Stroke(0, [(3, 4), (9, 8)], 2.5),
        Stroke(1, [(1, 1), (20, 3), (5, 15)], kind="lasso"),
        Stroke(-1, [(2, 2), (4, 9)], kind="box"),
    ]
    values = {"version": 1, "strokes": [stroke.to_dict() for stroke in strokes]}
    return {"marks.json": json.dumps(values).encode()}


@cache
def class_files() -> Files:
    classes = [{"value": 1, "name": "ferrite", "color": "#e6194b"}, {"value": 7, "name": "bar", "ignored": True}]
    return {"classes.json": json.dumps({"version": 1, "classes": classes}).encode()}


def spoil_json(content: bytes, rng: Rng, _: bytes) -> bytes:
    """Replace a value somewhere in a JSON file, or its key, by something odd."""
    values = json.loads(content)
    place: object = values
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))  # type: ignore[arg-type]
        key = keys[int(rng.integers(len(keys)))]
        inner = place[key]  # type: ignore[index]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.2:
            odd = ODD[int(rng.integers(len(ODD)))]
            if isinstance(place, dict) and rng.random() < 0.2:
                place[str(odd)[:20]] = place.pop(key)
            else:
                place[key] = odd  # type: ignore[index]
            return json.dumps(values).encode()
        place = inner


def spoil_if_json(content: bytes, rng: Rng, other: bytes) -> bytes:
    """Replace a value of a JSON file, spoil any other."""
    return spoil_json(content, rng, other) if content.startswith(b"{") else spoil(content, rng, other)


def spoil_line(content: bytes, rng: Rng, _: bytes) -> bytes:
    """Replace a value in a line of JSON, or take a line out."""
    lines = content.splitlines(keepends=True)
    chosen = int(rng.integers(len(lines)))
    lines[chosen] = spoil_json(lines[chosen], rng, b"") + b"\n" if rng.random() < 0.8 else b""
    return b"".join(lines)


@cache
def annotations() -> Files:
    cells = np.empty((1, 2), dtype=object)
    for i in range(2):
        cells[0, i] = {"Segmentation": np.eye(6, dtype=np.uint16) + 1, "Boundaries": np.eye(6, dtype=bool)}
    content = io.BytesIO()
    savemat(content, {"groundTruth": cells}, do_compression=True)
    plain = io.BytesIO()
    savemat(plain, {"groundTruth": cells})
    return {"truth.mat": content.getvalue(), "plain.mat": plain.getvalue()}


def spoil(content: bytes, rng: Rng, other: bytes) -> bytes:
    """Change bytes: some flipped, numbers made extreme, a part cut, doubled or taken from another file."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(data))) if rng.random() < 0.6 else int(rng.integers(min(len(data), 200)))
        kind = int(rng.integers(6))
        if kind == 0:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[at] = int(rng.integers(256))
        elif kind == 2:
            form = ("<H", ">H", "<I", ">I")[int(rng.integers(4))]
            number = EXTREMES[int(rng.integers(len(EXTREMES)))] & (0xFFFF if form[1] == "H" else 0xFFFFFFFF)
            data[at : at + struct.calcsize(form)] = struct.pack(form, number)
        elif kind == 3:
            del data[at : len(data) if rng.random() < 0.5 else at + int(rng.integers(1, 50))]
        elif kind == 4:
            data[at:at] = data[at : at + int(rng.integers(1, 50))]
        else:
            data[at : at + 20] = other[at : at + 20]
        if not data:
            return b""
    return bytes(data)


def spoil_png(content: bytes, rng: Rng, other: bytes) -> bytes:
    """Spoil the data of a chunk and set its checksum right, or Pillow would look no further."""
    place, chunks = 8, []
    while place + 8 <= len(content):
        length = int.from_bytes(content[place : place + 4], "big")
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + length]))
        place += 12 + length
    chosen = int(rng.integers(len(chunks)))
    name, data = chunks[chosen]
    chunks[chosen] = name, spoil(data, rng, other) if data else bytes(rng.integers(0, 256, 5, dtype=np.uint8))
    made = [
        len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big") for name, data in chunks
    ]
    return content[:8] + b"".join(made)


def spoil_header(content: bytes, rng: Rng, _: bytes) -> bytes:
    """Replace a value somewhere in a model's header, the checksum of the tensors included."""
    tensors = safetensors.torch.load(content)
    length = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][ENTRY])
    at = header
    while True:
        key = list(at)[int(rng.integers(len(at)))] if isinstance(at, dict) else int(rng.integers(len(at)))
        if not isinstance(at[key], (dict, list)) or not at[key] or rng.random() < 0.3:
            break
        at = at[key]
    odd = ODD[int(rng.integers(len(ODD)))]
    if rng.random() < 0.2 and isinstance(at, dict):
        del at[key]
    else:
        at[key] = odd
    return safetensors.torch.save(tensors, {ENTRY: json.dumps(header if rng.random() < 0.95 else odd)})


def read_as_picture(path: Path) -> None:
    page = (None, None, 0, 2)[len(path.read_bytes()) % 4]
    channels = (None, None, [0], [2, 1])[len(path.read_bytes()) // 4 % 4]
    found = as_picture(read_picture(path, page, channels))
    assert found.values.ndim in (2, 3)
    assert found.values.dtype.kind in "uif"
    assert found.inside is None or found.inside.shape == found.values.shape[:2]


def read_as_labels(path: Path) -> None:
    found = read_labels(path)
    assert found.ndim == 2
    assert found.dtype == np.int64


def read_as_scribbles(path: Path) -> None:
    found = read_scribbles(path)
    assert found.ndim == 2
    assert found.max() >= 0


def read_as_strokes(path: Path) -> None:
    try:
        rasterise(read_strokes(path), (20, 30))
    except ValueError as error:  # what does not fit the picture is named by its number
        raise ValueError(f"{path.name}: {error}") from error


def read_as_source(path: Path) -> None:
    """Windows, the small version, the place and the size of a picture."""
    read_size(path)
    with open_source(path) as source:
        height, width = source.shape
        window = source.read(height // 3, height, 0, -(-width // 2))
        assert window.shape[:2] == (height - height // 3, -(-width // 2))
        assert source.reduced(3).shape[:2] == (-(-height // 3), -(-width // 3))
        assert source.pixel_size is None or 0 < source.pixel_size.side < np.inf
        if source.georeference is not None:
            try:
                assert np.isfinite(source.georeference.points(np.array([[0, 0], [width, height]]))).all()
            except ValueError as error:
                raise ValueError(f"{path.name}: {error}") from error
    read_small(path, 8)


def _with_part(path: Path, parts: Files, kind: str) -> Path:
    """Return a folder of good files, but for one."""
    root = path.with_name(f"{path.name}.{kind}")
    shutil.rmtree(root, ignore_errors=True)
    for name, content in (parts | {path.name: path.read_bytes()}).items():
        place = root / name.replace("%", "/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return root


def read_as_zarr(path: Path) -> None:
    with open_source(_with_part(path, zarr_parts(), "zarr")) as source:
        assert source.whole().values.shape[:2] == source.shape


def read_as_project(path: Path) -> None:
    root = _with_part(path, project_parts(), "project")
    for name in ("a.png", "b.png"):
        (root / name).write_bytes(_saved(Image.fromarray(np.zeros((20, 30), np.uint8)), "PNG"))
    assert Project(root).check() > 0


def read_as_history(path: Path) -> None:
    history = History(path.parent, "a")
    assert history.revision >= 0
    history.undo()
    (path.parent / "a.json").unlink(missing_ok=True)


def read_as_dataset(path: Path) -> None:
    """A folder whose image and mask are the same spoilt file."""
    root = path.with_suffix(".data")
    for name in ("images", "masks"):
        (root / name).mkdir(parents=True, exist_ok=True)
        for old in (root / name).iterdir():
            old.unlink()
        (root / name / path.name).write_bytes(path.read_bytes())
    assert isinstance(FolderDataset(root).problems(), list)


Spoil = Callable[[bytes, Rng, bytes], bytes]
#: Reader → good files, and ways to spoil them.
TARGETS: dict[str, tuple[Callable[[Path], object], Callable[[], Files], tuple[Spoil, ...]]] = {
    "picture": (read_as_picture, pictures, (spoil,)),
    "labels": (read_as_labels, label_maps, (spoil,)),
    "scribbles": (read_as_scribbles, label_maps, (spoil,)),
    "strokes": (read_as_strokes, stroke_files, (spoil, spoil_json, spoil_json)),
    "classes": (read_classes, class_files, (spoil, spoil_json, spoil_json)),
    "model": (Segmenter.from_pretrained, models, (spoil, spoil_header, spoil_header)),
    "classifier": (Classifier.load, classifiers, (spoil, spoil_header, spoil_header)),
    "source": (read_as_source, large_pictures, (spoil,)),
    "zarr": (read_as_zarr, zarr_parts, (spoil, spoil_if_json)),
    "project": (read_as_project, project_parts, (spoil, spoil_if_json)),
    "history": (read_as_history, journals, (spoil, spoil_line, spoil_line)),
    "annotation": (read_bsds_truths, annotations, (spoil,)),
    "dataset": (read_as_dataset, label_maps, (spoil,)),
}


def spoilt(target: str, seed: int) -> tuple[str, bytes]:
    """Return the name and content of input number `seed` of a target."""
    _, good, ways = TARGETS[target]
    rng = np.random.default_rng([seed, *target.encode()])
    files = good()
    names = list(files)
    name = names[int(rng.integers(len(names)))]
    way = ways[int(rng.integers(len(ways)))]
    if name.endswith(".png") and rng.random() < 0.7:
        way = spoil_png
    return name, way(files[name], rng, files[names[int(rng.integers(len(names)))]])


def attempt(target: str, seed: int, folder: Path) -> str | None:
    """Read one spoilt file; return what is wrong with the answer, or None."""
    name, content = spoilt(target, seed)
    path = folder / name
    path.write_bytes(content)
    try:
        TARGETS[target][0](path)
    except ANSWERS as error:
        named = name in str(error) or isinstance(error, OSError) or "image " in str(error)
        return (
            None
            if named and len(str(error)) < 5000
            else f"a message without the file's name, or too long: {error!r:.300}"
        )
    except BaseException as error:
        return f"{type(error).__name__}: {error!s:.300}"
    return None
