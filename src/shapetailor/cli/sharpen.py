"""`shapetailor sharpen`: a trained model in, one that places boundaries better out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..training.sharpen import SharpenConfig, sharpen
from .train import add_shared_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="MODEL", help="a model's name or file; best with the data it was trained on")
    add_shared_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="NEW.safetensors", help="the model to write")
    parser.add_argument("--steps", type=int, metavar="N", help=f"optimiser steps (default: {SharpenConfig.steps})")
    parser.add_argument(
        "--samples", type=int, metavar="N", help=f"samples to draw from (default: {SharpenConfig.samples})"
    )


def run(args: argparse.Namespace) -> int:
    """Train the second network; return 0."""
    given = {name: getattr(args, name) for name in ("most", "steps", "samples", "seed")}
    config = SharpenConfig(**{name: value for name, value in given.items() if value is not None})
    try:
        sharpen(args.model, args.data, args.out, config, ignore=args.ignore, resume=args.resume, device=args.device)
    except KeyboardInterrupt:
        print("\nstopped; the same command with --resume goes on", file=sys.stderr)
        return 130
    print(f"{args.out}: {args.model} with a second network for boundaries; log beside it")
    return 0
