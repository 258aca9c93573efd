"""`shapetailor segment`: pictures in, label maps and overlays out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tqdm import tqdm

from ..drawing import exports
from ..drawing.animation import Recorder
from ..io.files import image_files, make_folder
from ..io.georeference import check_crs
from ..io.images import read_labels
from ..io.pixel_size import as_pixel_size
from ..io.remote import Location, check_outputs, delivered, fetched, location, names_in
from ..io.source import Source, open_source
from ..strokes import rasterise, read_scribbles, read_strokes
from ..workers import Outcome, each_done, failed
from .pictures import FAILURES, add_crs_argument, add_worker_arguments, check_failures_file, opened, report_failures

if TYPE_CHECKING:
    from ..segmentation.result import Segmentation
    from ..segmentation.segmenter import Segmenter

#: Vanished regions that are named.
MOST_NAMED = 10
FORMATS = {"png": ".png", "tiff": ".tif"}
EXPORTS = ("geojson", "coco", "imagej", "ome-tiff", "ome-zarr")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("inputs", nargs="+", metavar="IMAGE_OR_FOLDER", help="pictures, or folders of them, or URLs")
    parser.add_argument("--out", type=location, required=True, metavar="DIR", help="the folder to write to")
    parser.add_argument(
        "--regions",
        type=_count,
        metavar="K",
        help='how many regions, or "auto" (default: 2, or as --init or the marks say)',
    )
    parser.add_argument("--model", default="texture", metavar="NAME_OR_PATH", help="default: texture")
    parser.add_argument(
        "--init", type=Path, metavar="FILE_OR_FOLDER", help="label map to start from; a folder holds one for each stem"
    )
    parser.add_argument(
        "--scribbles",
        type=Path,
        metavar="FILE_OR_FOLDER",
        help="picture of marked pixels, 255 or transparent where nothing is marked; a folder holds one for each stem",
    )
    parser.add_argument(
        "--strokes", type=Path, metavar="FILE_OR_FOLDER", help="strokes as JSON; a folder holds one file for each stem"
    )
    parser.add_argument(
        "--same-marks", action="store_true", help="use one file of marks or one label map for all pictures"
    )
    parser.add_argument("--page", type=int, metavar="N", help="which page, from 0, of files that hold several")
    parser.add_argument(
        "--channels", type=_numbers, metavar="LIST", help="which channels, or pages as channels, such as 0,1,2"
    )
    parser.add_argument("--iterations", type=int, metavar="N", help="of the evolution, at most")
    parser.add_argument(
        "--max-pixels",
        type=int,
        metavar="N",
        help="regions of larger pictures are found at a reduced size (default: 160000), boundaries at the full one",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the start (default: 0)")
    parser.add_argument("--format", choices=FORMATS, default="png", help="of the label maps (default: png)")
    parser.add_argument("--animate", action="store_true", help="also write NAME.gif, the evolution")
    parser.add_argument("--uncertainty", action="store_true", help="also write NAME.uncertainty.png, with marks")
    parser.add_argument("--statistics", action="store_true", help="also write NAME.csv, a line for each region")
    parser.add_argument("--polygons", action="store_true", help="the same as --export geojson")
    parser.add_argument(
        "--export",
        nargs="+",
        default=[],
        choices=EXPORTS,
        help="also write NAME.geojson (QuPath, GIS), .coco.json, .rois.zip (ImageJ), .ome.tif, .ome.zarr",
    )
    add_crs_argument(parser)
    parser.add_argument("--pixel-size", metavar="SIDE", help="with its unit, such as 0.5um")
    add_worker_arguments(parser)
    parser.add_argument("--force", action="store_true", help="do again what is done already, over any file")
    parser.add_argument("--device", default="cpu", metavar="D", help="cpu (default) or cuda")


def run(args: argparse.Namespace) -> int:
    """Segment all that is not done yet; return 1 if some image could not be."""
    if args.seed < 0:
        raise ValueError(f"--seed must not be negative, got {args.seed}")
    if args.iterations is not None and args.iterations < 0:
        raise ValueError(f"--iterations must not be negative, got {args.iterations}")
    if args.max_pixels is not None and args.max_pixels < 1:
        raise ValueError(f"--max-pixels must be at least 1, got {args.max_pixels}")
    if args.scribbles is not None and args.strokes is not None:
        raise ValueError("give --scribbles or --strokes, got both")
    if args.uncertainty and args.scribbles is None and args.strokes is None:
        raise ValueError("--uncertainty is of regions that are marked; give --strokes or --scribbles")
    if args.pixel_size is not None:
        as_pixel_size(args.pixel_size)
    check_crs(args.crs)
    if args.polygons and "geojson" not in args.export:
        args.export.append("geojson")
    images = opened(args.inputs, args.out)
    for name in ("init", "scribbles", "strokes"):
        given = getattr(args, name)
        if given is not None and not given.exists():
            raise FileNotFoundError(f"--{name} {given}: no such file or folder")
        if given is not None and given.is_file() and len(images) > 1 and not args.same_marks:
            raise ValueError(
                f"--{name} {given} is one file for {len(images)} pictures; name a folder with a file for each stem, or "
                "add --same-marks to use it for all"
            )
    there = set() if args.force else names_in(args.out)
    check_outputs(images, args.out, partial(_outputs, args=args), there)
    if not args.force:
        check_failures_file(args.out)
    if args.statistics and any(f"{path.stem}.csv" == FAILURES for path in images):
        raise ValueError(f"the statistics of a picture would be written to {FAILURES}, which lists failures; rename it")
    waiting = [path for path in images if not there.issuperset(_outputs(path.stem, args))]
    if isinstance(args.out, Path):
        make_folder(args.out)
    outcome = _Outcome(skipped=len(images) - len(waiting))
    try:
        if waiting:
            _segment_all(waiting, args, outcome)
    finally:  # Ctrl-C keeps the list of failures
        if outcome.begun or not waiting:
            _report(outcome, [str(path) for path in images], args.out)
    return 1 if outcome.failures else 0


@dataclass
class _Outcome:
    """What has come of a run so far."""

    skipped: int
    begun: bool = False
    segmented: int = 0
    failures: dict[str, str] = field(default_factory=dict)


def load_segmenter(name_or_path: str, device: str, max_pixels: int | None) -> Segmenter:
    """Load the model; torch and the network are imported only now."""
    from ..segmentation.segmenter import MAX_PIXELS, Segmenter

    return Segmenter.from_pretrained(name_or_path, device, max_pixels or MAX_PIXELS)


def _count(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'expected a number of at least 1, or "auto", got {text!r}')
    return int(text)


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(each) for each in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0:
        raise argparse.ArgumentTypeError(f"expected numbers from 0 on, such as 0,1,2, got {text!r}")
    return numbers


def _outputs(stem: str, args: argparse.Namespace) -> list[str]:
    """Return what is to be written for an image, in this order; the label map comes last and vouches for the rest."""
    wanted = [
        (True, ".overlay.png"),
        (args.uncertainty, ".uncertainty.png"),
        (args.statistics, ".csv"),
        (args.animate, ".gif"),
        *((name in args.export, ending) for name, (ending, _) in exports.FORMATS.items()),
        (True, FORMATS[args.format]),
    ]
    return [f"{stem}{ending}" for asked, ending in wanted if asked]


def _segment_all(images: list[Location], args: argparse.Namespace, outcome: _Outcome) -> None:
    """Segment and save; note a reason for each image that failed."""
    segmenter = load_segmenter(args.model, args.device, args.max_pixels)
    outcome.begun = True
    gpu = args.device.startswith("cuda")
    marked = any(each is not None for each in (args.init, args.scribbles, args.strokes))
    if gpu and not marked and not args.animate and args.ray is None and args.jobs in (None, 1):
        done = _side_by_side(segmenter, images, args)
    else:
        done = each_done(partial(_segment_one, segmenter, args), images, args.jobs, args.ray, gpus=int(gpu))
    for each in tqdm(done, total=len(images), desc="segment", unit="image", disable=None):
        if each.reason:
            outcome.failures[str(each.item)] = each.reason
            continue
        outcome.segmented += 1
        if each.result:
            tqdm.write(each.result, file=sys.stderr)


def _side_by_side(
    segmenter: Segmenter, images: list[Location], args: argparse.Namespace
) -> Iterator[Outcome[Location, str]]:
    """Segment images in batches; files are read and written meanwhile."""
    from ..segmentation.many import BATCH_SIZE, Job, Options, segment_each

    def start(image: Location) -> Job[str]:
        with ExitStack() as stack:
            source, outputs = _opened(stack, image, args)
            return Job(source, lambda result: _save(result, source, image, outputs, args), stack.pop_all())

    regions = 2 if args.regions is None else args.regions
    options = Options(0 if regions == "auto" else regions, args.iterations, seed=args.seed)
    for done in segment_each(segmenter, images, start, options, BATCH_SIZE):
        yield Outcome(done.item, done.result) if done.error is None else failed(done.item, done.error)


def _segment_one(segmenter: Segmenter, args: argparse.Namespace, image: Location) -> str:
    """Segment an image and write its files; return what the user should know."""
    with ExitStack() as stack:
        source, outputs = _opened(stack, image, args)
        options: dict[str, Any] = {"seed": args.seed, "regions": args.regions}
        if args.init is not None:
            options["init"] = read_labels(_partner(args.init, image.stem))
        if args.scribbles is not None:
            options["scribbles"] = read_scribbles(_partner(args.scribbles, image.stem))
        if args.strokes is not None:
            strokes = read_strokes(_partner(args.strokes, image.stem, ".json"))
            options["scribbles"] = rasterise(strokes, source.shape)
        if args.regions is None and args.init is None and "scribbles" not in options:
            options["regions"] = 2
        if args.iterations is not None:
            options["iterations"] = args.iterations
        recorder = Recorder(*source.whole()) if args.animate else None
        result = segmenter.segment(source, callback=recorder, **options)
        return _save(result, source, image, outputs, args, recorder)


def _opened(stack: ExitStack, image: Location, args: argparse.Namespace) -> tuple[Source, list[Path]]:
    """Open an image, and the folder of its files; return it and their paths."""
    names = _outputs(image.stem, args)
    path, folder = stack.enter_context(fetched(image)), stack.enter_context(delivered(args.out, names))
    source = stack.enter_context(open_source(path, args.page, args.channels))
    return source, [folder / name for name in names]


def _save(
    result: Segmentation,
    source: Source,
    path: Location,
    outputs: list[Path],
    args: argparse.Namespace,
    recorder: Recorder | None = None,
) -> str:
    """Write an image's files; return what the user should know."""
    place = source.georeference and replace(source.georeference, target=args.crs)
    size = source.pixel_size if args.pixel_size is None else as_pixel_size(args.pixel_size)
    found = exports.LabelMap(result.labels, exports.region_entries(result.labels), size, place)
    savers: dict[str, Callable[[Path], None]] = {
        ".overlay.png": result.save_overlay,
        ".uncertainty.png": result.save_uncertainty,
        ".csv": partial(result.save_statistics, pixel_size=size),
        ".gif": lambda output: recorder.save(output, result.labels) if recorder else None,
        ".png": result.save,
        **{ending: partial(write, found=found) for ending, write in exports.FORMATS.values()},
    }
    for output in outputs:
        savers[output.name.removeprefix(path.stem)](output)
    if not result.vanished:
        return ""
    shown, more = ", ".join(map(str, result.vanished[:MOST_NAMED])), len(result.vanished) - MOST_NAMED
    return f"{path}: no pixel in region {shown}{f' and {more} more' if more > 0 else ''}"


def _partner(path: Path, stem: str, endings: str = ".png or .tif") -> Path:
    """Return the file that goes with an image: the file itself, or that with the image's stem in a folder."""
    if not path.is_dir():
        return path
    files = [path / f"{stem}.json"] if endings == ".json" else image_files(path)
    found = [each for each in files if each.stem == stem and each.is_file()]
    if len(found) != 1:
        raise ValueError(f"expected one file {stem}{endings} in {path}, found {len(found)}")
    return found[0]


def _report(outcome: _Outcome, images: list[str], out: Location) -> None:
    parts = [f"{outcome.segmented} segmented"]
    parts += [f"{outcome.skipped} done before (--force does them again)"] if outcome.skipped else []
    parts += [f"{len(outcome.failures)} failed"] if outcome.failures else []
    print(", ".join(parts))
    report_failures({name: outcome.failures[name] for name in images if name in outcome.failures}, out)
