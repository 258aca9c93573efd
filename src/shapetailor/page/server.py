"""Start the server: address, link, and uvicorn."""

from __future__ import annotations

import asyncio
import atexit
import os
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from .app import Page
from .guard import Guard, hosts_of, new_token
from .talk import LONGEST_MESSAGE
from .workspace import Workspace

PORT = 8317
#: Exit status after Ctrl-C, by which alone a server ends.
INTERRUPTED = 130


def serve(
    folder: Path,
    host: str = "127.0.0.1",
    port: int | None = None,
    password: str | None = None,
    said: Callable[[str], None] = print,
    opens_browser: bool = True,
) -> None:
    """Serve a folder until interrupted.

    Parameters
    ----------
    folder : path
    host : str
    port : int, optional
        0 is any free one; by default 8317, or the next free one.
    password : str, optional
        A second way in, beside the link.
    said : callable
        Gets the link.
    opens_browser : bool
    """
    workspace = Workspace(folder)
    listening = _listen(host, port)
    number = int(listening.getsockname()[1])
    token = new_token()
    page = Page(workspace, warm=True)
    guarded = Guard(page.app, hosts_of(host, number), number, token, password)
    shown = "localhost" if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host
    link = f"http://{shown}:{number}/?token={token}"
    said(link)
    config = uvicorn.Config(
        guarded,
        log_level="warning",
        access_log=False,
        ws="websockets-sansio",
        ws_max_size=LONGEST_MESSAGE,
        ws_per_message_deflate=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
        lifespan="on",
    )
    if opens_browser:
        threading.Timer(0.5, webbrowser.open, [link]).start()
    try:
        asyncio.run(uvicorn.Server(config).serve([listening]))
    finally:
        if page.engine.is_working:  # compiled code that still runs would crash the interpreter's own end
            atexit.register(os._exit, INTERRUPTED)


def _listen(host: str, port: int | None) -> socket.socket:
    """Take the port that is asked for, or the first free one from the usual on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in [port] if port is not None else [*range(PORT, PORT + 20), 0]:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
            listening.listen(128)  # whoever follows the link at once waits a moment
            return listening
        except OSError as error:
            listening.close()
            last = error
    raise OSError(f"{host}:{port if port is not None else PORT}: the server cannot listen there ({last.strerror})")
