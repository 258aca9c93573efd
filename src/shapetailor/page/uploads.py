"""What is sent to the server, with limits: JSON, and pictures, which are judged by their headers before decoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from ..io.files import atomic
from ..io.header import read_size
from ..io.images import read_picture
from .refusal import Refusal
from .workspace import Workspace

#: Largest picture in bytes and in pixels, and largest JSON.
MOST_BYTES, MOST_PIXELS, MOST_JSON = 2**30, 178_956_970, 2**20


async def receive_json(request: Request) -> dict[str, Any]:
    """Read a JSON object."""
    _check_declared(request, MOST_JSON)
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MOST_JSON:
            raise Refusal(413, f"At most {MOST_JSON} bytes of JSON are taken.")
    try:
        given = json.loads(content)
    except (ValueError, RecursionError):
        raise Refusal(400, "The request must hold JSON.") from None
    if not isinstance(given, dict):
        raise Refusal(400, "The request must hold a JSON object.")
    return given


async def receive_picture(request: Request, workspace: Workspace) -> Path:
    """Write an uploaded picture into the workspace, unless it is too large, no picture, or there already."""
    _check_declared(request, MOST_BYTES)
    path = await run_in_threadpool(workspace.add_picture, request.query_params.get("file", ""))
    with atomic(path) as temporary:
        written = 0
        with temporary.open("wb") as file:
            async for part in request.stream():
                written += len(part)
                if written > MOST_BYTES:
                    raise Refusal(413, f"{path.name} is too large: at most {MOST_BYTES >> 20} MB are taken.")
                await run_in_threadpool(file.write, part)
        await run_in_threadpool(_check_picture, temporary, path.name)
        if path.exists():
            raise Refusal(409, f"There is a picture called {path.stem} already. Rename the new one.")
    await run_in_threadpool(workspace.picture_added, path)
    return path


def _check_declared(request: Request, most: int) -> None:
    declared = request.headers.get("content-length", "0")
    if not declared.isascii() or not declared.isdigit() or int(declared) > most:
        raise Refusal(413, f"At most {most >> 20} MB are taken at once.")


def _check_picture(path: Path, name: str) -> None:
    """Raise unless a file is a picture that is small enough by its header, and can be decoded."""
    words = f"{name} has more than {MOST_PIXELS / 1e6:.0f} megapixels, which are the most."
    try:
        height, width = read_size(path)
        if height * width > MOST_PIXELS:
            raise Refusal(413, words)
        read_picture(path)
    except (ValueError, MemoryError) as error:
        if isinstance(error.__cause__, Image.DecompressionBombError):
            raise Refusal(413, words) from None
        why = str(error).replace(str(path), name).rstrip(".")
        raise Refusal(415, f"{why}. Save it anew as PNG or TIFF.") from None
