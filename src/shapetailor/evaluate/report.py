"""An evaluation as text, JSON, CSV, or one web page with pictures."""

from __future__ import annotations

import base64
import colorsys
import csv
import html
import io
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from .. import metrics
from ..arrays import RGB8, Ints
from ..metrics.labels import LabelMap
from .evaluation import MEASURES, Evaluation

#: Longer sides are thinned out before they go into a page.
LARGEST_SIDE = 512
INK, AGREE, DIFFER, IGNORED = (30, 30, 30), (235, 235, 235), (214, 39, 40), (150, 150, 150)


class Case(NamedTuple):
    """One image to show: its name and the label maps."""

    name: str
    prediction: LabelMap
    truths: Sequence[LabelMap]


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
    rows = [
        [MEASURES[name], *(f"{v:.4f}" for v in (s.mean, s.median)), f"{s.low:.4f} – {s.high:.4f}"]
        for name, s in evaluation.summary().items()
    ]
    images = [[name, *(f"{value:.4f}" for value in evaluation.images[name].values())] for name in evaluation.ranked()]
    return PAGE.format(
        count=_count(evaluation),
        summary=_table(["", "mean", "median", "95 % of the mean"], rows),
        cases="".join(
            f"<h2>{title}</h2>" + "".join(_figure(case, evaluation, ignore) for case in cases)
            for title, cases in (("Worst", worst), ("Best", best))
            if cases
        ),
        images=_table(["image", *MEASURES], images),
    )


def case_pictures(case: Case, ignore: int | None = None) -> tuple[RGB8, RGB8, RGB8]:
    """Draw prediction, first truth and where they differ, partners in the same colour."""
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
    """Hues a golden angle apart: neighbours in the order differ, and there are as many as asked for."""
    hue = (0.58 + 0.618034 * index) % 1.0
    lightness = (0.62, 0.74, 0.5)[index // 5 % 3]
    return tuple(round(255 * channel) for channel in colorsys.hls_to_rgb(hue, lightness, 0.6))


def _count(evaluation: Evaluation) -> str:
    count = len(evaluation.images)
    return f"{count} image" if count == 1 else f"{count} images"


def _figure(case: Case, evaluation: Evaluation, ignore: int | None) -> str:
    scores = evaluation.images[case.name]
    first = "truth" if len(case.truths) == 1 else f"truth, 1 of {len(case.truths)}"
    captions = ("prediction", first, "difference")
    pictures = "".join(
        f'<figure><img src="{_data_uri(picture)}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'
        for picture, caption in zip(case_pictures(case, ignore), captions, strict=True)
    )
    shown = ", ".join(f"{MEASURES[m]} {scores[m]:.3f}" for m in ("covering", "rand_index", "mean_iou", "boundary_f"))
    return f"<article><h3>{html.escape(case.name)}</h3><p>{shown}</p><div>{pictures}</div></article>"


def _data_uri(picture: RGB8) -> str:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    def row(cells: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Evaluation of {count}</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 72rem; margin: 2rem auto;
  padding: 0 1rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .2rem .8rem; border-bottom: 1px solid #ddd; text-align: right; }}
th:first-child, td:first-child {{ text-align: left; }}
article div {{ display: flex; gap: 1rem; }}
figure {{ flex: 1; margin: 0; min-width: 0; }}
img {{ width: 100%; max-height: 26rem; object-fit: contain; object-position: left;
  image-rendering: pixelated; }}
figcaption, article p {{ color: #555; margin: 0 0 .4rem; }}
h3 {{ margin: 1.4rem 0 0; }}
details {{ margin: 2rem 0; overflow-x: auto; }}
</style>
</head>
<body>
<h1>Evaluation of {count}</h1>
{summary}
<p>Cases are ranked by covering. A predicted region has the colour of the true region it is paired with;
regions without a partner have colours of their own. Red in the difference: pixels outside the pairing.
Gray: pixels left out.</p>
{cases}
<details><summary>All images, from the worst</summary>{images}</details>
</body>
</html>
"""
