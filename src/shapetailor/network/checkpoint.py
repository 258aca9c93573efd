"""Models as files: weights in safetensors, and in the same file's header what is needed to use them.

The header has one entry, "shapetailor", of JSON: `format` ("model"), `format_version`, `version` (of the package that
wrote it), `sha256` (of the tensors; not in older files), `config` (the architecture), `usage` (how pictures are read
and regions move, see `segmentation.usage`; not in older files) and `metadata` (what training records: its
configuration, seed, data fingerprint, validation figures).
One entry, because safetensors keeps several in no order, and equal models shall be equal files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from .._version import __version__
from ..io.files import atomic
from .stdnn import STDNN, STDNNConfig

SUFFIX = ".safetensors"
ENTRY = "shapetailor"
FORMAT = "model"
#: What files of tensors hold.
KINDS = (FORMAT, "classifier")
#: Raised when an older package could no longer understand a file.
FORMAT_VERSION = 1

_PICKLE_SUFFIXES = frozenset((".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".bin"))
_PICKLE_MAGIC = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


class Model(NamedTuple):
    """What a model's file holds; `usage` and `metadata` are plain JSON values, empty where it says nothing."""

    net: STDNN
    usage: dict[str, Any]
    metadata: dict[str, Any]


def save_model(
    path: str | os.PathLike[str],
    net: STDNN,
    metadata: Mapping[str, Any] | None = None,
    usage: Mapping[str, Any] | None = None,
) -> None:
    """Write a network to one file, atomically.

    Parameters
    ----------
    path : path
        Where to; the name ends with ``.safetensors``.
    net : STDNN
    metadata : mapping, optional
        What else to keep, of JSON's types.
    usage : mapping, optional
        How the network is used: `Usage.to_dict()`.
    """
    header = {"config": net.config.to_dict(), "metadata": dict(metadata or {}), "usage": dict(usage or {})}
    write_tensors(model_path(path), net.state_dict(), FORMAT, FORMAT_VERSION, header)


def load_model(name_or_path: str | os.PathLike[str]) -> tuple[STDNN, dict[str, Any]]:
    """Read a network, on the CPU and in evaluation mode, and its metadata.

    Parameters
    ----------
    name_or_path : str or path
        A shipped model's name (see `shipped_models`), or a ``.safetensors`` file.

    Raises
    ------
    FileNotFoundError
        There is no such file, or no shipped model of this name.
    ValueError
        The file is a pickle, truncated, of another program, or of a newer format.
    """
    model = read_model(name_or_path)
    return model.net, model.metadata


def read_model(name_or_path: str | os.PathLike[str]) -> Model:
    """Read all that a model's file holds, as `load_model` does."""
    path = _locate(name_or_path)
    tensors, header = read_tensors(path, FORMAT, FORMAT_VERSION)
    try:
        net = STDNN(STDNNConfig.from_dict(header["config"]))
        net.load_state_dict(tensors)
        usage, metadata = header.get("usage", {}), header["metadata"]
        if not isinstance(usage, dict) or not isinstance(metadata, dict):
            raise TypeError("usage and metadata must be mappings")
    except (KeyError, TypeError, ValueError, RuntimeError) as error:  # RecursionError is a RuntimeError
        raise ValueError(f"{path}: weights and configuration do not fit this version's network: {error}") from error
    check_finite(path, tensors)
    return Model(net.eval(), usage, metadata)


def shipped_models() -> list[str]:
    """Return the names of the models in the package."""
    folder = resources.files("shapetailor") / "models"
    if not folder.is_dir():
        return []
    return sorted(entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX))


def model_path(path: str | os.PathLike[str]) -> Path:
    """Return `path`, or raise a ValueError where its name is none for a model."""
    path = Path(path)
    if path.suffix != SUFFIX:
        raise ValueError(f"{path}: a model's file name ends with {SUFFIX}")
    return path


def write_tensors(path: Path, tensors: Mapping[str, Tensor], kind: str, version: int, header: dict[str, Any]) -> None:
    """Write named tensors and a header of JSON values to a safetensors file, atomically and down to the disk."""
    plain = {name: each.detach().cpu().contiguous() for name, each in tensors.items()}
    about = {"format": kind, "format_version": version, "version": __version__, "sha256": checksum(plain)}
    content = {**about, **header}
    payload = safetensors.torch.save(plain, {ENTRY: json.dumps(content, sort_keys=True)})
    with atomic(path) as temporary, temporary.open("wb") as file:
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())  # before the rename, or a power cut could leave the new name with no content


def read_tensors(path: Path, kind: str, version: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote; a ValueError says what a file is that is none of this kind."""
    _refuse_pickle(path)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(ENTRY, "{}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        header: Any = json.loads(text)
    except (safetensors.SafetensorError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: truncated, or no safetensors file ({error})") from error
    found = header.get("format") if isinstance(header, dict) else None
    if found != kind:
        holds = f"holds a {found}" if isinstance(found, str) and found in KINDS else "a safetensors file"
        raise ValueError(f"{path}: {holds}, but not a {kind} written by shapetailor")
    written = header.get("format_version")
    if not isinstance(written, int) or isinstance(written, bool):
        raise ValueError(f"{path}: its format_version must be a whole number, got {written!r}")
    if written > version:
        raise ValueError(
            f"{path}: written by a newer shapetailor ({header.get('version')}, format {written}; "
            f"this one is {__version__} and reads up to format {version}); please update shapetailor"
        )
    if header.get("sha256", "") not in ("", checksum(tensors)):
        raise ValueError(f"{path}: corrupt, its weights are not those that were written (SHA-256 differs)")
    return tensors, header


def check_finite(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise if some weight is no number."""
    if not all(bool(each.isfinite().all()) for each in tensors.values()):
        raise ValueError(f"{path}: corrupt, some of its weights are NaN or infinite")


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of tensors on the CPU: names, types, shapes and bytes, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        each = tensors[name]
        digest.update(f"{name} {each.dtype} {tuple(each.shape)}\n".encode())
        digest.update(each.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _locate(name_or_path: str | os.PathLike[str]) -> Path:
    path = Path(name_or_path)
    if path.exists() and not path.is_dir():
        return path
    if path.suffix or path.parent != Path():
        raise FileNotFoundError(f"{path}: no such model file")
    shipped = Path(str(resources.files("shapetailor") / "models" / f"{path}{SUFFIX}"))
    if not shipped.exists():
        names = ", ".join(shipped_models()) or "none in this installation"
        raise FileNotFoundError(f"no model is named {str(path)!r}; shipped models: {names}. A file ends with {SUFFIX}")
    return shipped


def _refuse_pickle(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(9)
    # A safetensors file begins with its header's length, which can look like a pickle's mark, and then a brace.
    pickled = start.startswith(_PICKLE_MAGIC) and start[8:] != b"{"
    if path.suffix.lower() in _PICKLE_SUFFIXES or pickled:
        raise ValueError(f"{path}: pickled models can run any program when read, and are refused; use {SUFFIX} files")
