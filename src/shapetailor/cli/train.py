"""`shapetailor train`: a folder of images and masks in, a model out."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ..training.train import RECIPES, recipe, train


def add_shared_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that `sharpen` has too."""
    what = "folders that hold images/ and masks/, files of equal names"
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="DIR", help=what)
    parser.add_argument("--most", type=int, metavar="N", help="take at most so many images of each folder")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of all randomness (default: 0)")
    parser.add_argument("--ignore", type=int, metavar="V", help="mask value of pixels that belong to no region")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was stopped, if there is one")
    parser.add_argument("--device", metavar="D", help="cpu or cuda (default: a GPU if there is one)")


#: Options that change the recipe's number.
NUMBERS = {
    "steps": "optimiser steps",
    "batch": "images in a step",
    "validate-every": "steps between validations",
    "samples": "augmented samples to draw from",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_shared_arguments(parser)
    what = "the model to write; log and curves beside"
    parser.add_argument("--out", type=Path, required=True, metavar="MODEL.safetensors", help=what)
    parser.add_argument("--recipe", choices=tuple(RECIPES), default="texture", help="default: texture")
    for name, what in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"{what} (default: the recipe's)")
    parser.add_argument("--no-mosaics", action="store_true", help="train on the images as they are")
    parser.add_argument("--true-regions", action="store_true", help="compute descriptors in the true regions only")


def run(args: argparse.Namespace) -> int:
    """Train; return 0."""
    changes = {"seed": args.seed, "most": args.most}
    given = {name: getattr(args, name) for name in ("steps", "batch", "samples", "validate_every")}
    changes |= {name: value for name, value in given.items() if value is not None}
    changes |= {"mosaics": False} if args.no_mosaics else {}
    changes |= {"perturb": False} if args.true_regions else {}
    config = recipe(args.recipe, **changes)
    try:
        train(args.data, args.out, config, ignore=args.ignore, resume=args.resume, device=args.device)
    except KeyboardInterrupt:
        print("\nstopped; the same command with --resume goes on", file=sys.stderr)
        return 130
    if os.environ.get("RANK", "0") == "0":  # of several processes one speaks
        print(f"{args.out}: trained on {', '.join(map(str, args.data))}; log and curves beside it")
    return 0
