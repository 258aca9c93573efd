"""An experiment's settings, its folder of results that survives interruptions, and its table with the paper's rows."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
from tqdm import tqdm

from .._version import __version__
from ..arrays import Labels
from ..baselines import BASELINES, Baseline
from ..bench.measure import machine
from ..datasets import Sample
from ..evaluate.evaluation import Evaluation
from ..io.files import atomic
from ..io.images import read_labels, write_labels
from ..training.run_state import require_same_run
from . import load

#: Column → how it is printed, ↑ larger or ↓ smaller is better. Columns that are not listed print as they are.
COLUMNS = {
    "boundary_f": "F-meas. ↑",
    "covering": "GT-cov. ↑",
    "rand_index": "Rand index ↑",
    "variation_of_information": "Var. info. ↓",
    "mean_iou": "mean IoU ↑",
    "adjusted_rand": "adj. Rand ↑",
    "covering_ois": "GT-cov., OIS ↑",
    "rand_index_ois": "Rand index, OIS ↑",
    "variation_of_information_ois": "Var. info., OIS ↓",
    "voc_true": "VOC acc. of true regions ↑",
    "voc_predicted": "VOC acc. of predicted regions ↑",
}
#: The columns of the paper's tables on textures.
PAPER_COLUMNS = ("boundary_f", "covering", "rand_index", "variation_of_information")
QUICK = " **A quick run: it shows that everything works, its figures say nothing about the methods.**"
Source = Literal["measured", "paper"]
#: Image → measure → value.
Measures = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Context:
    """What the user asked for."""

    data: Path | None  #: the dataset's folder; without it (`quick` only) generated mosaics
    out: Path
    quick: bool = False  #: few images, few training steps
    model: str | None = None  #: name or path of an ST-DNN to use instead of training one
    seed: int = 0
    device: str = "cpu"
    methods: tuple[str, ...] | None = None  #: names of the methods to run; None is all
    weights: Path | None = None  #: folder of pretrained weights for the convolutional networks
    progress: bool = True
    limit: int | None = None  #: test on the first so many images only
    folds: int | None = None  #: rwtsd: number of folds of the cross-validation
    split: Path | None = None  #: rwtsd: file with a training image's name on each line
    gpb: Path | None = None  #: bsds500: folder with gPb's contour maps
    baselines: Mapping[str, Baseline] = field(default_factory=lambda: BASELINES)  #: that can take part, by name

    def file(self, name: str) -> Path:
        """Return the path ``out/name``, in a folder that is made if need be."""
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def remember(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return the JSON value in ``out/parts/KEY.json``, computed only if that file is missing."""
        path = self.file(f"parts/{key}.json")
        if not path.exists():
            text = json.dumps(compute())
            with atomic(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        return json.loads(path.read_text(encoding="utf-8"))

    def remember_labels(self, key: str, compute: Callable[[], Labels]) -> Labels:
        """Return the label map in ``out/labels/KEY.png``, computed only if that file is missing."""
        path = self.file(f"labels/{key}.png")
        if not path.exists():
            write_labels(path, compute())
        return read_labels(path)

    def watch(self, samples: Sequence[Sample], what: str) -> Iterator[Sample]:
        """Iterate with a progress bar."""
        if self.progress and not sys.stderr.isatty():
            print(f"{what}: {len(samples)} images", file=sys.stderr, flush=True)
        yield from tqdm(samples, desc=what, unit="image", disable=not (self.progress and sys.stderr.isatty()))


@dataclass
class TableRow:
    """A method's figures by column."""

    method: str
    values: dict[str, float]
    source: Source
    note: str = ""  #: how it was trained, or why there is no figure
    beside: str = ""  #: `method` of the paper's row to compare


@dataclass
class Results:
    """A table of the paper, measured."""

    title: str
    label: str  #: the table's or figure's LaTeX label in the paper
    columns: tuple[str, ...]  #: keys of `TableRow.values`, in order
    data: str  #: which data, how many images
    rows: list[TableRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  #: what a reader must know to compare
    images: dict[str, Measures] = field(default_factory=dict)  #: method → measures of its images
    pictures: list[str] = field(default_factory=list)  #: image files beside `results.md`, shown in it

    def add(self, method: str, images: Measures, note: str = "", beside: str = "") -> TableRow:
        """Append a measured row, the means over the images; these are kept too."""
        measured = next(iter(images.values()))
        columns = [column for column in self.columns if column in measured]
        means = {column: float(np.mean([scores[column] for scores in images.values()])) for column in columns}
        row = TableRow(method, means, "measured", note, beside)
        self.rows.append(row)
        self.images[method] = images
        return row

    def cite(self, table: Mapping[str, Iterable[float]], columns: Iterable[str] = PAPER_COLUMNS) -> None:
        """Append the paper's rows: method → its figures in the order of `columns`."""
        names = tuple(columns)
        for method, figures in table.items():
            self.rows.append(TableRow(method, dict(zip(names, figures, strict=True)), "paper"))


def as_text(value: float | None, digits: int = 3) -> str:
    """Set a figure: a score with decimals, a count with separators.

    >>> as_text(0.91234), as_text(8900), as_text(None)
    ('0.912', '8,900', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}f}"


def run_experiment(name: str, context: Context, command: str) -> Results:
    """Run one of `EXPERIMENTS`, or the rest of an interrupted run, and write its results into ``context.out``.

    `command` is what the user typed, for the record. A ValueError says that there is no data, or that the folder holds
    parts of a run with other settings.
    """
    if context.data is None and not context.quick:
        raise ValueError(f"data is missing: {name} needs a dataset (--data DIR), or --quick for generated mosaics")
    if context.data is not None and not context.data.is_dir():
        raise FileNotFoundError(f"data: {context.data} is not a folder")
    _require_same_settings(name, context)
    begin, path = perf_counter(), context.out / "spent.json"
    before: float = json.loads(path.read_text(encoding="utf-8"))["seconds"] if path.exists() else 0.0
    try:
        results: Results = load(name).run(context)
    finally:  # the time of a stopped run counts too
        seconds = before + perf_counter() - begin
        with atomic(path) as temporary:
            temporary.write_text(json.dumps({"seconds": seconds}), encoding="utf-8")
    write_results(context, name, results, command, seconds)
    return results


def _require_same_settings(name: str, context: Context) -> None:
    """Write down what the parts in the folder depend on; refuse a folder whose parts depend on something else.

    Methods and limits may change: parts are kept for each method and image.
    """
    settings: dict[str, Any] = {"experiment": name, "version": __version__}
    settings |= {key: getattr(context, key) for key in ("quick", "model", "seed", "folds")}
    folders = {"data": context.data, "weights": context.weights}
    settings |= {key: folder and str(folder.resolve()) for key, folder in folders.items()}
    settings["split"] = context.split and context.split.read_text(encoding="utf-8").split()
    path = context.file("settings.json")
    if path.exists() and any((context.out / part).exists() for part in ("parts", "labels", "models")):
        require_same_run(path, json.loads(path.read_text(encoding="utf-8")), settings)
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def write_results(context: Context, experiment: str, results: Results, command: str, seconds: float) -> None:
    """Write `results.json`, with 95 % bootstrap intervals of the means, and `results.md` into the folder of results."""
    summaries = {method: Evaluation(images).summary() for method, images in results.images.items()}
    record = {
        "experiment": experiment,
        "version": __version__,
        "command": command,
        "quick": context.quick,
        "seed": context.seed,
        "machine": machine(context.device),
        "seconds": round(seconds, 1),
        **asdict(results),
        "intervals": {
            method: {name: [summary[name].low, summary[name].high] for name in results.columns if name in summary}
            for method, summary in summaries.items()
        },
    }
    plain = json.loads(json.dumps(record), parse_constant=lambda name: None)  # JSON knows no NaN
    texts = {
        "results.json": json.dumps(plain, indent=1, ensure_ascii=False) + "\n",
        "results.md": markdown(results, record),
    }
    for name, text in texts.items():
        with atomic(context.out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def markdown(results: Results, record: dict[str, Any]) -> str:
    """Set results as a page: our rows with the paper's figures in brackets, then all rows of the paper."""
    head = ["method", *(COLUMNS.get(name, name) for name in results.columns), ""]
    paper = {row.method: row for row in results.rows if row.source == "paper"}
    measured = [row for row in results.rows if row.source == "measured"]
    lines = [[row.method, *_cells(row, paper.get(row.beside), results.columns), row.note] for row in measured]
    lines += [[f"*{row.method}*", *_cells(row, None, results.columns), row.note or "*paper*"] for row in paper.values()]
    table = [head, ["---", *["---:"] * len(results.columns), "---"], *lines]
    where = record["machine"]
    parts = [
        f"# {results.title}",
        f"`{results.label}` in the paper. Data: {results.data}.{QUICK if record['quick'] else ''}",
        "\n".join("| " + " | ".join(line) + " |" for line in table),
        "In brackets: the paper's figure for that method. *Italics*: rows of the paper's table, not measured here.",
        "\n".join(f"- {note}" for note in dict.fromkeys(results.notes)),
        *(f"![{name}]({name})" for name in results.pictures),
        f"`{record['command']}`\n\nVersion {record['version']}, seed {record['seed']}, {where['date']}, "
        f"{record['seconds']} s in all runs of this folder; {where['system']}, {where['cpu']}, "
        f"{where['cores']} cores, torch {where['versions']['torch']}, {where['device']}.",
    ]
    return "\n\n".join(parts) + "\n"


def _cells(row: TableRow, beside: TableRow | None, columns: tuple[str, ...]) -> list[str]:
    cells = []
    for column in columns:
        text = as_text(row.values.get(column))
        if beside and column in beside.values:
            text += f" ({as_text(beside.values[column], digits=2)})"
        cells.append(text)
    return cells
