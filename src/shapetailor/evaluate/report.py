"""An evaluation as text, JSON, CSV, or an HTML page with pictures."""

from __future__ import annotations

import base64
import colorsys
import csv
import io
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, StrictUndefined
from PIL import Image

from .. import metrics
from ..arrays import RGB8, Ints
from ..io.intensity import Intensity
from ..io.picture import Picture
from ..metrics.contingency import LabelMap
from .evaluation import MEASURES, Evaluation

#: Label maps with a longer side are subsampled for the page.
LARGEST_SIDE = 512
#: Measures beside a case's pictures.
SHOWN = ("covering", "rand_index", "mean_iou", "boundary_f")
#: Bins of a measure's histogram.
BINS = 20
INK, AGREE, DIFFER, IGNORED = (30, 30, 30), (235, 235, 235), (214, 39, 40), (150, 150, 150)


class Case(NamedTuple):
    """An image to show."""

    name: str
    prediction: LabelMap
    truths: Sequence[LabelMap]
    picture: Picture | None = None


def summary_text(evaluation: Evaluation) -> str:
    """Return the table of all measures over the images."""
    width = max(map(len, MEASURES.values()))
    lines = [f"{'':{width}}     mean   median   95 % of the mean"]
    for name, s in evaluation.summary().items():
        lines.append(f"{MEASURES[name]:{width}}  {s.mean:7.4f}  {s.median:7.4f}   {s.low:.4f} – {s.high:.4f}")
    return "\n".join([*lines, _count(evaluation)])


def images_text(evaluation: Evaluation) -> str:
    """Return the table of all measures of each image; the columns are named as in CSV and JSON."""
    width = max(5, *map(len, evaluation.images))
    lines = ["  ".join([f"{'image':{width}}", *MEASURES])]
    for name, scores in evaluation.images.items():
        lines.append("  ".join([f"{name:{width}}", *(f"{scores[m]:{len(m)}.4f}" for m in MEASURES)]))
    return "\n".join(lines)


def to_json(evaluation: Evaluation) -> str:
    """Return summary and images as JSON."""
    summary = {name: value._asdict() for name, value in evaluation.summary().items()}
    images = [{"name": name, **scores} for name, scores in evaluation.images.items()]
    return json.dumps({"count": len(images), "summary": summary, "images": images}, indent=2) + "\n"


def to_csv(evaluation: Evaluation) -> str:
    """Return one row an image as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["name", *MEASURES])
    table.writerows([name, *scores.values()] for name, scores in evaluation.images.items())
    return text.getvalue()


def to_html(evaluation: Evaluation, worst: Sequence[Case], best: Sequence[Case], *, ignore: int | None = None) -> str:
    """Return one page that needs no other file: the summary, the cases' pictures, every image's scores."""
    template = resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8")
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(template)
    return page.render(
        count=_count(evaluation),
        measures=MEASURES,
        summary=evaluation.summary(),
        histograms={name: histogram([scores[name] for scores in evaluation.images.values()]) for name in MEASURES},
        shown=SHOWN,
        groups=[
            (title, [_shown(case, ignore) for case in cases]) for title, cases in (("Worst", worst), ("Best", best))
        ],
        images=evaluation.images,
        ranked=evaluation.ranked(),
    )


def case_pictures(case: Case, ignore: int | None = None) -> tuple[RGB8, RGB8, RGB8]:
    """Draw prediction, first truth and where they differ; paired regions have the same colour."""
    prediction, truth = metrics.align_labels(case.prediction, case.truths[0], ignore=ignore)
    step = -(-max(truth.shape) // LARGEST_SIDE)
    prediction, truth = prediction[::step, ::step], truth[::step, ::step]
    difference = np.where((prediction == truth)[..., None], AGREE, DIFFER).astype(np.uint8)
    difference[metrics.label_boundaries(truth)] = INK
    difference[truth < 0] = IGNORED
    return _coloured(prediction), _coloured(truth), difference


def _coloured(labels: Ints) -> RGB8:
    """One colour a label, the boundary in ink, negative labels gray."""
    palette = np.array([_colour(i) for i in range(int(labels.max()) + 1)] + [IGNORED], dtype=np.uint8)
    picture: RGB8 = palette[labels]
    picture[metrics.label_boundaries(labels)] = INK
    return picture


def _colour(index: int) -> tuple[int, ...]:
    """Hues a golden angle apart."""
    hue = (0.58 + 0.618034 * index) % 1.0
    lightness = (0.62, 0.74, 0.5)[index // 5 % 3]
    return tuple(round(255 * channel) for channel in colorsys.hls_to_rgb(hue, lightness, 0.6))


def _count(evaluation: Evaluation) -> str:
    count = len(evaluation.images)
    return f"{count} image" if count == 1 else f"{count} images"


def _shown(case: Case, ignore: int | None) -> dict[str, Any]:
    """What the page shows of a case: its name, and captions with pictures."""
    truth = "truth" if len(case.truths) == 1 else f"truth, 1 of {len(case.truths)}"
    drawn = list(zip(("prediction", truth, "difference"), case_pictures(case, ignore), strict=True))
    if case.picture is not None:
        drawn.insert(0, ("picture", _thumbnail(case.picture)))
    return {"name": case.name, "pictures": [(caption, _data_uri(picture)) for caption, picture in drawn]}


def histogram(values: Sequence[float]) -> dict[str, Any]:
    """Count values in bins over 0 to 1, or more where they need it; heights are shares of the fullest bin."""
    finite = [value for value in values if np.isfinite(value)]
    low, high = min([0.0, *finite]), max([1.0, *finite])
    counts = np.histogram(finite, BINS, (low, high))[0]
    return {"low": low, "high": high, "counts": counts.tolist(), "heights": (counts / max(1, counts.max())).tolist()}


def _thumbnail(picture: Picture) -> RGB8:
    """The picture as people see it, subsampled as label maps are."""
    step = -(-max(picture.values.shape[:2]) // LARGEST_SIDE)
    values = np.atleast_3d(picture.values)[::step, ::step]
    inside = None if picture.inside is None else picture.inside[::step, ::step]
    colours = values[..., :3] if values.shape[2] >= 3 else values[..., :1].repeat(3, axis=2)
    return Intensity().bytes(np.ascontiguousarray(colours), inside)


def _data_uri(picture: RGB8) -> str:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
