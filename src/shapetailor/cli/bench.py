"""`shapetailor bench NAME`: run a benchmark, print its tables, write its figures."""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path

from ..io.files import atomic
from ..network.device import usable_device

#: Benchmark → one line of help. Each is a module of `bench`, imported only when it is asked for.
BENCHMARKS = {
    "poisson": "smoothing inside regions, against SciPy's splu, PyAMG, the dense inverse and a torch loop",
    "train": "a gradient of the network, against the explicit inverse and back-propagation through unrolled solvers",
    "strokes": "from a stroke to the label map: preview and refined boundary",
    "page": "from a stroke in a real browser to the painted preview; frames while painting; the server's memory",
    "segment": "segmentation with our solver, against a cold torch solver, Chan–Vese and the random walker",
    "scale": "one picture at 1 to 100 megapixels: coarse to fine, averaged down, in tiles",
    "memory": "memory of a segmentation by the shipped model, for each pixel",
}
#: Benchmarks that also measure a GPU, by functions of `bench.gpu`.
GPU = ("poisson", "train", "segment")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `shapetailor bench`."""
    names = parser.add_subparsers(dest="name", metavar="NAME", required=True)
    for name, summary in BENCHMARKS.items():
        benchmark = names.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        benchmark.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
        benchmark.add_argument("--sizes", type=int, nargs="+", metavar="N", help="sides of the images, in pixels")
        benchmark.add_argument("--quick", action="store_true", help="a first impression, in about a minute")
        if name in GPU:
            benchmark.add_argument("--device", default="cpu", metavar="D", help="cuda: time it on a GPU instead")


def run(args: argparse.Namespace) -> int:
    """Run the benchmark; return 1 if one of the answers was wrong."""
    if args.json is not None and not args.json.resolve().parent.is_dir():
        raise ValueError(f"--json: {args.json.parent} is not a folder")
    if getattr(args, "device", "cpu") == "cpu":
        outcome = import_module(f"..bench.{args.name}", __package__).run(args.sizes, args.quick)
    else:
        device = usable_device(args.device)
        outcome = getattr(import_module("..bench.gpu", __package__), args.name)(device, args.sizes, args.quick)
    print(outcome.text)
    if args.json is not None:
        with atomic(args.json) as temporary:
            temporary.write_text(json.dumps(outcome.data, indent=1) + "\n", encoding="utf-8")
    return 0 if outcome.sound else 1
