"""An experiment's result: a table of measured rows and of the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

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
#: Image → measure → value.
Measures = Mapping[str, Mapping[str, float]]


@dataclass
class TableRow:
    """A method's figures by column.

    `note` says how it was trained, or why there is no figure; `beside` is the `method` of the paper's row to compare.
    """

    method: str
    values: dict[str, float]
    source: Literal["measured", "paper"]
    note: str = ""
    beside: str = ""


@dataclass
class Results:
    """A table of the paper, measured."""

    title: str
    #: The table's or figure's LaTeX label in the paper.
    label: str
    #: Keys of `TableRow.values`, in order.
    columns: tuple[str, ...]
    #: Which data, how many images.
    data: str
    rows: list[TableRow] = field(default_factory=list)
    #: What a reader must know to compare.
    notes: list[str] = field(default_factory=list)
    #: Method → measures of its images.
    images: dict[str, Measures] = field(default_factory=dict)
    #: Image files in the folder of results, shown in `results.md`.
    pictures: list[str] = field(default_factory=list)

    def add(self, method: str, images: Measures, note: str = "", beside: str = "") -> TableRow:
        """Append a measured row, the means over the images; these are kept too."""
        measured = next(iter(images.values()))
        means = {
            column: float(np.mean([scores[column] for scores in images.values()]))
            for column in self.columns
            if column in measured
        }
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
