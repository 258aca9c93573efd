"""The command line: parse, call, report.

Each subcommand is a module here, with `add_arguments(parser)` and `run(args) -> exit status`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

from .._version import __version__

#: Subcommand → one line of help. The modules are imported only when their command is asked for.
COMMANDS = {
    "segment": "split pictures into their textured regions",
    "train": "train a network on images and masks",
    "sharpen": "teach a trained network where regions end",
    "teach": "teach classes with the marked pictures of a project",
    "apply": "give every pixel of pictures its class, and all pictures one table",
    "serve": "open a folder of pictures in the browser: draw, watch, teach, apply",
    "evaluate": "measure label maps against the truth: region and boundary metrics",
    "data": "make datasets: mosaics of textures with their truth",
    "experiment": "repeat one of the paper's experiments and set it beside the paper's figures",
    "bench": "measure our speed and memory against the alternatives",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the `shapetailor` command and return its exit status."""
    # Threads that spin while they wait make small tensor operations ten times slower where another program runs.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a name that the terminal cannot show is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if argv is None else argv)
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    try:
        args = _parser(chosen).parse_args(arguments)
        status = int(args.run(args))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has had enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (ValueError, TypeError, OSError, MemoryError, RuntimeError) as error:
        words = _words(error)
        if words is None:
            raise
        print(f"shapetailor {chosen}: {words}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"shapetailor {chosen}: stopped", file=sys.stderr)
        return 130
    return status


def _words(error: Exception) -> str | None:
    """Return what an error says to the user; None is a mistake of ours."""
    if isinstance(error, (MemoryError, RuntimeError)):
        from ..workers import memory_words

        return memory_words(error)
    return str(error) or type(error).__name__


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """Return the parser of the command line, with the options of the chosen command."""
    parser = argparse.ArgumentParser(
        prog="shapetailor",
        description="Split a picture into its textured regions with shape-tailored networks.",
    )
    parser.add_argument("--version", action="version", version=f"shapetailor {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == chosen:
            module = import_module(f".{name}", __package__)
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    return parser
