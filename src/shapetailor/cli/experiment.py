"""`shapetailor experiment NAME`: run one of the paper's experiments, and set it beside the paper's figures."""

from __future__ import annotations

import argparse
import shlex
import sys
import textwrap
from dataclasses import fields
from pathlib import Path

from ..experiments import EXPERIMENTS, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `shapetailor experiment`."""
    parser.add_argument("name", nargs="?", choices=EXPERIMENTS, metavar="NAME", help=", ".join(EXPERIMENTS))
    parser.add_argument("--list", action="store_true", help="say what each experiment does, and stop")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the dataset (see --list); not needed with --quick")
    parser.add_argument("--out", type=Path, metavar="DIR", help="results; given again, a stopped run goes on")
    parser.add_argument("--quick", action="store_true", help="a small version: few images, few training steps")
    parser.add_argument("--model", metavar="NAME_OR_PATH", help="use this ST-DNN instead of training one")
    parser.add_argument("--methods", type=_names, metavar="A,B,…", help="only these methods (default: all; see --list)")
    parser.add_argument("--limit", type=_positive, metavar="N", help="test on the first N images only")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of splits, training and starts (default: 0)")
    parser.add_argument("--device", default="cpu", help='"cpu" (default) or "cuda": where networks run')
    parser.add_argument("--weights", type=Path, metavar="DIR", help="pretrained weights of torchvision's networks")
    parser.add_argument("--folds", type=_positive, metavar="N", help="rwtsd: cross-validate with N folds")
    parser.add_argument("--split", type=Path, metavar="FILE", help="rwtsd: a training image's name on each line")
    parser.add_argument("--gpb", type=Path, metavar="DIR", help="bsds500: gPb's contour maps, ID.mat (ucm2) or ID.png")


def run(args: argparse.Namespace) -> int:
    """Run the experiment and print its table."""
    if args.list:
        print(_listing())
        return 0
    if args.name is None or args.out is None:
        raise ValueError("say which experiment, and where to: shapetailor experiment NAME --out DIR (or --list)")
    # Imported here: the listing does not need them.
    from ..experiments.context import Context
    from ..experiments.running import run_experiment

    options = {field.name for field in fields(Context)}
    context = Context(**{name: value for name, value in vars(args).items() if name in options})
    run_experiment(args.name, context, shlex.join(["shapetailor", *sys.argv[1:]]))
    print((args.out / "results.md").read_text(encoding="utf-8"), end="")
    return 0


def _listing() -> str:
    from ..baselines import BASELINES

    lines = []
    for name in EXPERIMENTS:
        lines += [name, textwrap.indent(textwrap.fill(load(name).SUMMARY, 96), "    "), ""]
    width = max(map(len, BASELINES))
    lines += ["Methods", *(f"    {name:{width}}  {each.title}" for name, each in BASELINES.items())]
    return "\n".join(lines)


def _names(text: str) -> tuple[str, ...]:
    from ..baselines import BASELINES

    names = tuple(text.split(","))
    for name in names:
        if name not in BASELINES:
            raise argparse.ArgumentTypeError(f"no method is called {name!r}; there are {', '.join(BASELINES)}")
    return names


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got {text!r}")
    return int(text)
