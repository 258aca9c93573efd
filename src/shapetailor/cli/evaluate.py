"""`shapetailor evaluate`: label maps in two folders in, tables out."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from ..arrays import Array
from ..classes.names import read_classes
from ..datasets.published import read_bsds_truths
from ..evaluate.classes import classes_text, confusion, scores
from ..evaluate.evaluation import Evaluation, evaluate
from ..evaluate.report import Case, images_text, summary_text, to_csv, to_html, to_json
from ..io.files import atomic, check_writable, image_files
from ..io.images import OUTSIDE8, OUTSIDE16, read_labels, read_picture

PREDICTIONS = (".png", ".tif", ".tiff")
TRUTHS = (*PREDICTIONS, ".mat")
#: Pictures that `shapetailor segment` and `apply` write beside their label maps.
BESIDE = (".overlay", ".uncertainty")
#: How the names end of what `--export ome-tiff` writes beside them.
OME = ".ome.tif"
#: Cases in the page, of the worst and of the best.
SHOWN = 4
#: Problems of one kind that are listed.
MOST_LISTED = 5


class Pair(NamedTuple):
    """The files of a prediction and of its truth, as a sample of `evaluate`."""

    name: str
    prediction: Path
    truth: Path

    @property
    def image(self) -> Path:
        """The file that holds the prediction."""
        return self.prediction

    @property
    def truths(self) -> list[Array]:
        """One label map an annotator."""
        is_bsds = self.truth.suffix.lower() == ".mat"
        return read_bsds_truths(self.truth) if is_bsds else [read_labels(self.truth)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--pred", type=Path, required=True, metavar="DIR", help="predicted label maps: NAME.png or NAME.tif"
    )
    parser.add_argument(
        "--truth", type=Path, required=True, metavar="DIR", help="true label maps: NAME.png, .tif or BSDS .mat"
    )
    parser.add_argument("--subset", action="store_true", help="leave out truths that have no prediction")
    parser.add_argument("--images", type=Path, metavar="DIR", help="the pictures NAME.*, to be shown in the HTML page")
    parser.add_argument("--ignore", type=int, metavar="V", help="label of the truth to leave out")
    parser.add_argument(
        "--classes",
        type=Path,
        metavar="FILE",
        help="classes.json: compare values of classes instead of regions; 0 and 255 in the truth are left out",
    )
    parser.add_argument("--per-image", action="store_true", help="print a line for each image too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write summary and images as JSON")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each image as CSV")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one page with tables, worst and best cases")


def run(args: argparse.Namespace) -> int:
    """Evaluate and report; nothing is written unless every file is in order."""
    outputs = [path for path in (args.json, args.csv, args.html) if path]
    _check_folders([args.pred, args.truth, *([args.images] if args.images else [])], outputs)
    pairs, problems = pair_files(args.pred, args.truth, args.subset)
    problems += _unusable(pairs, args.ignore)
    if problems:
        raise ValueError("nothing evaluated, because\n" + "\n".join(f"  {line}" for line in _shortened(problems)))
    if args.classes is not None:
        if outputs or args.per_image:
            raise ValueError("--classes prints one table; --json, --csv, --html and --per-image are for regions")
        names = {each.value: each.name for each in read_classes(args.classes)}
        found = [confusion(pair.truths[0], read_labels(pair.prediction), list(names)) for pair in pairs]
        print(classes_text(scores(found), names))
        return 0
    evaluation = evaluate(read_labels, pairs, ignore=args.ignore, progress=True)
    if args.per_image:
        print(images_text(evaluation), end="\n\n")
    print(summary_text(evaluation))
    page = partial(_page, pairs=pairs, ignore=args.ignore, images=args.images)
    for path, content in ((args.json, to_json), (args.csv, to_csv), (args.html, page)):
        if path is not None:
            with atomic(path) as temporary:
                temporary.write_text(content(evaluation), encoding="utf-8")
    return 0


def pair_files(predictions: Path, truths: Path, subset: bool = False) -> tuple[list[Pair], list[str]]:
    """Match files of two folders by stem; also return a line for every file that has no partner.

    A `subset` of the truths may have predictions.
    """
    predicted, problems = _by_stem(predictions, PREDICTIONS, exports=True)
    true, more = _by_stem(truths, TRUTHS)
    problems += more
    missing = [] if subset and predicted else sorted(true.keys() - predicted)
    problems += [f"missing: {true[n]} has no prediction in {predictions} (--subset leaves it out)" for n in missing]
    problems += [f"extra: {predicted[n]} has no truth in {truths}" for n in sorted(predicted.keys() - true)]
    if not predicted and not true:
        problems.append(f"no label maps in {predictions} nor in {truths}; expected {', '.join(TRUTHS)} files")
    return [Pair(n, predicted[n], true[n]) for n in sorted(predicted.keys() & true)], problems


def _shortened(problems: list[str]) -> list[str]:
    """The first problems of each kind, and how many more there are."""
    kinds: dict[str, list[str]] = {}
    for line in problems:
        kinds.setdefault(line.partition(":")[0], []).append(line)
    lines = []
    for kind, found in kinds.items():
        more = len(found) - MOST_LISTED
        lines += found if more <= 1 else [*found[:MOST_LISTED], f"{kind}: and {more} more"]
    return lines


def _by_stem(folder: Path, suffixes: tuple[str, ...], exports: bool = False) -> tuple[dict[str, Path], list[str]]:
    """Return the files of a folder by stem, and a line for each that has another's; `exports` of a map may be there."""
    found: dict[str, Path] = {}
    problems = []
    paths = sorted(folder.iterdir())
    stems = {path.stem for path in paths}
    for path in paths:
        if exports and path.name.endswith(OME) and path.name.removesuffix(OME) in stems:
            continue
        hidden = path.name.startswith(".") or path.stem.endswith(BESIDE)
        if hidden or path.suffix.lower() not in suffixes or not path.is_file():
            continue
        if path.stem in found and not (exports and _is_copy(path, found[path.stem])):
            problems.append(f"ambiguous: {path} and {found[path.stem]} have the same stem")
        found.setdefault(path.stem, path)
    return found, problems


def _is_copy(path: Path, other: Path) -> bool:
    """Whether two files hold the same map, as those of `apply --export tiff` do; PNG and TIFF differ outside."""
    try:
        first, second = (
            np.where(np.isin(labels, (OUTSIDE8, OUTSIDE16)), -1, labels) for labels in map(read_labels, (path, other))
        )
    except (ValueError, OSError):
        return False
    return np.array_equal(first, second)


def _unusable(pairs: list[Pair], ignore: int | None) -> list[str]:
    """Read everything and return a line for each pair that cannot be compared."""
    problems = []
    for pair in tqdm(pairs, desc="check", unit="image"):
        try:
            shape = read_labels(pair.prediction).shape
            truths = pair.truths
        except (ValueError, OSError) as error:
            problems.append(f"unreadable: {error}")
            continue
        others = sorted({truth.shape for truth in truths} - {shape})
        if others:
            problems.append(
                f"misshapen: {pair.prediction} is {_size(shape)}, but {pair.truth} is "
                + " and ".join(_size(other) for other in others)
            )
        elif not truths:
            problems.append(f"empty: {pair.truth} holds no annotator")
        elif ignore is not None and any((truth == ignore).all() for truth in truths):
            problems.append(f"ignored: {pair.truth} is {ignore} everywhere, nothing is left to judge")
    return problems


def _size(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) + " (height × width)"


def _check_folders(inputs: list[Path], outputs: list[Path]) -> None:
    for folder in inputs + [path.parent for path in outputs]:
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder")
    for path in outputs:
        check_writable(path.parent)


def _page(evaluation: Evaluation, pairs: list[Pair], ignore: int | None, images: Path | None) -> str:
    pictures = {path.stem: path for path in image_files(images)} if images else {}
    by_name = {pair.name: pair for pair in pairs}
    ranked = evaluation.ranked()
    # A small set is split in half rather than shown twice.
    lowest = ranked[: min(SHOWN, (len(ranked) + 1) // 2)]
    highest = ranked[::-1][: min(SHOWN, len(ranked) // 2)]
    worst, best = (
        [
            Case(
                name,
                read_labels(by_name[name].prediction),
                by_name[name].truths,
                read_picture(pictures[name]) if name in pictures else None,
            )
            for name in names
        ]
        for names in (lowest, highest)
    )
    return to_html(evaluation, worst, best, ignore=ignore)
