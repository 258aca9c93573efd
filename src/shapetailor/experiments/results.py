"""What an experiment hands back: a table whose rows say where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..evaluate.evaluation import Evaluation

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


@dataclass
class Row:
    """One line of a table.

    Attributes
    ----------
    method : str
        What the line is about.
    values : dict
        Column → figure; columns may be missing.
    source : str
        "measured" by this run, or the "paper"'s figure.
    note : str
        How the method was trained, or why there is no figure.
    beside : str
        The paper's row that a measured one is set beside, by its `method`.
    """

    method: str
    values: dict[str, float]
    source: Literal["measured", "paper"]
    note: str = ""
    beside: str = ""


@dataclass
class Results:
    """A table of the paper, measured.

    Attributes
    ----------
    title : str
        Heading.
    label : str
        The table's or figure's LaTeX label in the paper.
    columns : tuple of str
        Keys of `Row.values` in the order of the table.
    data : str
        Which data, how many images.
    rows : list of Row
        Measured and the paper's.
    notes : list of str
        What a reader must know to compare.
    images : dict
        Method → image → measure → value.
    pictures : list of str
        Files in the folder of results that `results.md` shows.
    """

    title: str
    label: str
    columns: tuple[str, ...]
    data: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    images: dict[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    pictures: list[str] = field(default_factory=list)

    def add(self, method: str, images: Mapping[str, Mapping[str, float]], note: str = "", beside: str = "") -> Row:
        """Append a measured row: the means over the images, which are kept too."""
        means = {name: summary.mean for name, summary in Evaluation(images).summary().items()}
        row = Row(
            method, {column: means[column] for column in self.columns if column in means}, "measured", note, beside
        )
        self.rows.append(row)
        self.images[method] = images
        return row

    def cite(self, table: Mapping[str, Iterable[float]], columns: Iterable[str] = PAPER_COLUMNS) -> None:
        """Append the paper's rows: method → its figures in the order of `columns`."""
        names = tuple(columns)
        for method, figures in table.items():
            self.rows.append(Row(method, dict(zip(names, figures, strict=True)), "paper"))
