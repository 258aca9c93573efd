"""`shapetailor teach`: a project's marks in, its model out."""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("project", type=Path, metavar="PROJECT", help="folder with classes.json, pictures/ and marks/")
    parser.add_argument("--model", default="texture", metavar="NAME_OR_PATH", help="the networks (default: texture)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="default: 0")


def run(args: argparse.Namespace) -> int:
    """Teach and report."""
    from ..classes.project import Project

    if args.seed < 0:
        raise ValueError(f"--seed must not be negative, got {args.seed}")
    began = perf_counter()
    project = Project(args.project)
    taught = project.teach(args.model, args.seed)
    for each in taught.classes:
        count = taught.record["marked_pixels"][each.name]
        print(f"{each.value:3d} {each.name}: {count} pixels marked{'' if count else ', so it is never found'}")
    print(f"{len(taught.record['pictures'])} pictures, {perf_counter() - began:.1f} s: {project.model}")
    return 0
