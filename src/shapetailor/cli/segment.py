"""`shapetailor segment`: pictures in, label maps and overlays out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tqdm import tqdm

from ..drawing.animation import Recorder
from ..io.files import check_writable, image_files
from ..io.images import read_labels, read_picture
from ..strokes import rasterise, read_scribbles, read_strokes

if TYPE_CHECKING:
    from ..segmentation.segmenter import Segmenter

#: Vanished regions that are named.
MOST_NAMED = 10
FORMATS = {"png": ".png", "tiff": ".tif"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("inputs", nargs="+", type=Path, metavar="IMAGE_OR_FOLDER", help="pictures, or folders of them")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write to")
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
    parser.add_argument("--polygons", action="store_true", help="also write NAME.geojson, the regions' outlines")
    parser.add_argument("--force", action="store_true", help="do again what is done already")
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
    images = _inputs(args.inputs, args.out)
    for name in ("init", "scribbles", "strokes"):
        given = getattr(args, name)
        if given is not None and not given.exists():
            raise FileNotFoundError(f"--{name} {given}: no such file or folder")
        if given is not None and given.is_file() and len(images) > 1 and not args.same_marks:
            raise ValueError(
                f"--{name} {given} is one file for {len(images)} pictures; name a folder with a file for each stem, or "
                "add --same-marks to use it for all"
            )
    _check_outputs(images, args)
    waiting = [path for path in images if args.force or not all(map(_exists, _outputs(path.stem, args)))]
    args.out.mkdir(parents=True, exist_ok=True)
    check_writable(args.out)
    outcome = _Outcome(skipped=len(images) - len(waiting))
    try:
        if waiting:
            _segment_all(waiting, args, outcome)
    finally:  # Ctrl-C keeps the list of failures
        if outcome.begun or not waiting:
            _report(outcome)
    return 1 if outcome.failures else 0


@dataclass
class _Outcome:
    """What has come of a run so far."""

    skipped: int
    begun: bool = False
    segmented: int = 0
    failures: list[str] = field(default_factory=list)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long
        return False


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


def _inputs(paths: list[Path], out: Path) -> list[Path]:
    """Return all images that are named, folders opened."""
    images: list[Path] = []
    for path in paths:
        if path.is_dir():
            if path.resolve() == out.resolve():
                raise ValueError(f"--out must be another folder than the pictures', got {out} for both")
            found = image_files(path)
            if not found:
                raise ValueError(f"{path} holds no pictures")
            images += found
        elif path.exists():
            images.append(path)
        else:
            raise FileNotFoundError(f"{path}: no such file or folder")
    return images


def _check_outputs(images: list[Path], args: argparse.Namespace) -> None:
    """Make sure that no output is that of another image, nor an input."""
    source: dict[Path, Path] = {}
    inputs = {path.resolve() for path in images}
    for path in images:
        for output in _outputs(path.stem, args):
            other = source.setdefault(output, path)
            if other is not path:
                raise ValueError(f"{other} and {path} would both be written to {output}; give them different --out")
            if output.resolve() in inputs:
                raise ValueError(f"{output} would overwrite a picture that is to be segmented; choose another --out")


def _outputs(stem: str, args: argparse.Namespace) -> list[Path]:
    """Return what is to be written for an image; the label map is written last, and so vouches for the rest."""
    wanted = [
        (True, ".overlay.png"),
        (args.uncertainty, ".uncertainty.png"),
        (args.statistics, ".csv"),
        (args.polygons, ".geojson"),
        (args.animate, ".gif"),
    ]
    endings = [ending for asked, ending in wanted if asked] + [FORMATS[args.format]]
    return [args.out / f"{stem}{ending}" for ending in endings]


def _segment_all(images: list[Path], args: argparse.Namespace, outcome: _Outcome) -> None:
    """Segment and save; note a line for each image that failed."""
    segmenter = load_segmenter(args.model, args.device, args.max_pixels)
    outcome.begun = True
    for path in tqdm(images, desc="segment", unit="image", disable=None):
        try:
            _segment_one(segmenter, path, args)
            outcome.segmented += 1
        except Exception as error:  # whatever is wrong with one image must not cost the others
            reason = str(error) or type(error).__name__
            outcome.failures.append(reason if str(path) in reason else f"{path}: {reason}")


def _segment_one(segmenter: Segmenter, path: Path, args: argparse.Namespace) -> None:
    picture = read_picture(path, args.page, args.channels)
    options: dict[str, Any] = {"seed": args.seed, "regions": args.regions}
    if args.init is not None:
        options["init"] = read_labels(_partner(args.init, path.stem))
    if args.scribbles is not None:
        options["scribbles"] = read_scribbles(_partner(args.scribbles, path.stem))
    if args.strokes is not None:
        strokes = read_strokes(_partner(args.strokes, path.stem, (".json",)))
        options["scribbles"] = rasterise(strokes, picture.values.shape[:2])
    if args.regions is None and args.init is None and "scribbles" not in options:
        options["regions"] = 2
    if args.iterations is not None:
        options["iterations"] = args.iterations
    recorder = Recorder(*picture) if args.animate else None
    image = picture.values if picture.inside is None else picture
    result = segmenter.segment(image, callback=recorder, **options)
    if result.vanished:
        shown = ", ".join(map(str, result.vanished[:MOST_NAMED]))
        more = len(result.vanished) - MOST_NAMED
        tqdm.write(f"{path}: no pixel in region {shown}{f' and {more} more' if more > 0 else ''}", file=sys.stderr)
    savers: dict[str, Callable[[Path], None]] = {
        ".overlay.png": result.save_overlay,
        ".uncertainty.png": result.save_uncertainty,
        ".csv": result.save_statistics,
        ".geojson": result.save_polygons,
        ".gif": lambda output: recorder.save(output, result.labels) if recorder else None,
    }
    for output in _outputs(path.stem, args):
        savers.get(output.name.removeprefix(path.stem), result.save)(output)


def _partner(path: Path, stem: str, suffixes: tuple[str, ...] = (".png", ".tif")) -> Path:
    """Return the file that goes with an image: the file itself, or that with the image's stem in a folder."""
    if not path.is_dir():
        return path
    files = [path / f"{stem}{suffix}" for suffix in suffixes] if ".json" in suffixes else image_files(path)
    found = [each for each in files if each.stem == stem and each.is_file()]
    if len(found) != 1:
        raise ValueError(f"expected one file {stem}{' or '.join(suffixes)} in {path}, found {len(found)}")
    return found[0]


def _report(outcome: _Outcome) -> None:
    parts = [f"{outcome.segmented} segmented"]
    parts += [f"{outcome.skipped} done before (--force does them again)"] if outcome.skipped else []
    parts += [f"{len(outcome.failures)} failed"] if outcome.failures else []
    print(", ".join(parts))
    for line in outcome.failures:
        print(f"failed: {line}", file=sys.stderr)
