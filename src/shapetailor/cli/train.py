"""`shapetailor train`: a folder of images and masks in, a model out."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ..training.train import RECIPES, recipe, train


def add_shared_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that `sharpen` has too."""
    parser.add_argument(
        "--data",
        type=Path,
        nargs="+",
        required=True,
        metavar="DIR",
        help="folders that hold images/ and masks/, files of equal names",
    )
    parser.add_argument("--most", type=int, metavar="N", help="take at most so many images of each folder")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of all randomness (default: 0)")
    parser.add_argument("--ignore", type=int, metavar="V", help="mask value of pixels that belong to no region")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was stopped, if there is one")
    parser.add_argument("--device", metavar="D", help="cpu or cuda (default: a GPU if there is one)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_shared_arguments(parser)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="MODEL.safetensors", help="the model to write; log and curves beside"
    )
    parser.add_argument("--recipe", choices=tuple(RECIPES), default="texture", help="default: texture")
    parser.add_argument("--steps", type=int, metavar="N", help="optimiser steps (default: the recipe's)")
    parser.add_argument("--batch", type=int, metavar="N", help="images in a step (default: the recipe's)")
    parser.add_argument(
        "--validate-every", type=int, metavar="N", help="steps between validations (default: the recipe's)"
    )
    parser.add_argument(
        "--samples", type=int, metavar="N", help="augmented samples to draw from (default: the recipe's)"
    )
    parser.add_argument("--no-mosaics", action="store_true", help="train on the images as they are")
    parser.add_argument("--true-regions", action="store_true", help="compute descriptors in the true regions only")


def run(args: argparse.Namespace) -> int:
    """Train; return 0."""
    changes = {"seed": args.seed, "most": args.most}
    for name in ("steps", "batch", "samples", "validate_every"):
        changes |= {} if getattr(args, name) is None else {name: getattr(args, name)}
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
