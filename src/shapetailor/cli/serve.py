"""`shapetailor serve`: a folder of pictures as a page in the browser."""

from __future__ import annotations

import argparse
import getpass
import os
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="FOLDER_OR_PROJECT",
        help="pictures, or a project (default: shapetailor-project here, for pictures that are dropped on the page)",
    )
    parser.add_argument("--port", type=int, metavar="N", help="default: 8317, or the next that is free")
    parser.add_argument("--no-browser", action="store_true", help="print the link and open nothing")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="where to listen; others than this machine reach it only with one of the next two (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--password",
        action="store_true",
        help="whoever knows it may open the page without the link; asked for, or SHAPETAILOR_PASSWORD",
    )
    parser.add_argument(
        "--i-know-what-i-do", action="store_true", help="listen beyond this machine, with the link as the only key"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from ..page.guard import is_loopback
    from ..page.server import serve
    from ..page.workspace import OWN_FOLDER

    if not is_loopback(args.host) and not (args.password or args.i_know_what_i_do):
        raise ValueError(
            f"--host {args.host} lets other machines in, and what they send is not encrypted; "
            "add --password or --i-know-what-i-do"
        )
    if args.port is not None and not 0 <= args.port < 65536:
        raise ValueError(f"--port must be 0 to 65535, got {args.port}")
    folder = args.folder or Path(OWN_FOLDER)
    if args.folder is not None and not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder")
    serve(folder, args.host, args.port, _password() if args.password else None, _say, not args.no_browser)
    return 0


def _say(link: str) -> None:
    print(f"{link}\nStop with Ctrl-C; what is drawn is in the folder.", flush=True)


def _password() -> str:
    password = os.environ.get("SHAPETAILOR_PASSWORD") or getpass.getpass("Password of the page: ")
    if len(password) < 8:
        raise ValueError("--password: at least 8 characters are needed")
    return password
