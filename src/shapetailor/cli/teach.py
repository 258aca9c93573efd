"""`shapetailor teach`: a project's marks in, its model out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("project", type=Path, metavar="PROJECT", help="folder with classes.json, pictures/ and marks/")
    parser.add_argument("--model", default="texture", metavar="NAME_OR_PATH", help="the networks (default: texture)")
    parser.add_argument(
        "--fine-tune", action="store_true", help="train the networks too: minutes; a stopped run goes on when repeated"
    )
    parser.add_argument("--steps", type=int, metavar="N", help="of --fine-tune")
    parser.add_argument("--device", default="cpu", metavar="D", help="cpu (default) or cuda")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="default: 0")
    parser.add_argument(
        "--progress-json", action="store_true", help="print a line of JSON for each picture, for programs that watch"
    )


def run(args: argparse.Namespace) -> int:
    """Teach and report."""
    from ..classes.fine_tune import FineTuneConfig
    from ..classes.project import Project

    if args.seed < 0:
        raise ValueError(f"--seed must not be negative, got {args.seed}")
    began = perf_counter()
    project = Project(args.project)
    if args.steps is not None and not args.fine_tune:
        raise ValueError("--steps is for --fine-tune")
    # A GPU has time for more and larger crops, which gained most in trials.
    settings = {} if args.device == "cpu" else {"steps": 500, "batch": 8, "crop": 256}
    if args.steps is not None:
        settings["steps"] = args.steps
    fine = FineTuneConfig(**settings) if args.fine_tune else None
    then = "Learning the classes" + (", then fine-tuning" if args.fine_tune else "")
    look, watch = (_looked_at, partial(_described, then)) if args.progress_json else (iter, iter)
    taught = project.teach(args.model, args.seed, fine, progress=True, look=look, watch=watch, device=args.device)
    for each in taught.classes:
        count = taught.record["marked_pixels"][each.name]
        print(f"{each.value:3d} {each.name}: {count} pixels marked{'' if count else ', so it is never found'}")
    if held := taught.record["held_out"]:
        print(
            f"held-out pictures ({held['folds']} folds, head only): "
            f"mean IoU {held['mean_iou']:.3f}, accuracy {held['accuracy']:.3f} of marked pixels"
        )
    if args.fine_tune:
        tuned = taught.record["fine_tune"]
        names = ", ".join(tuned["held_out"])
        if names:
            before, after = (
                f"{each['mean_iou']:.3f}/{each['accuracy']:.3f}" for each in (tuned["before"], tuned["after"])
            )
            print(f"{names}, held out from a trial: mean IoU/accuracy {before} by the head, {after} fine-tuned")
        print("fine-tuned with all pictures" if tuned["helped"] else "the head stays as it was taught")
    print(f"{len(taught.record['pictures'])} pictures, {perf_counter() - began:.1f} s: {project.model}")
    return 0


def _looked_at(samples: Iterable[Any]) -> Iterator[Any]:
    """Yield marked pictures, and print the name of each."""
    for done, sample in enumerate(samples):
        _say(done, f"Looking at {sample.name}")
        yield sample


def _described(then: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the names of marked pictures and print each, and at last what comes then."""
    done = 0
    for done, name in enumerate(names, 1):
        _say(done - 1, f"Describing {name}")
        yield name
    _say(done, then)


def _say(done: int, text: str) -> None:
    print(json.dumps({"done": done, "text": text}), flush=True)
