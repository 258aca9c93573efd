"""`shapetailor experiment classes`: strokes, splits, a quick run."""

import json

import numpy as np

from shapetailor import cli
from shapetailor.experiments.classes import STROKE_SHARE, _splits, simulated_strokes


def test_strokes_lie_inside_their_classes_and_mark_about_one_percent():
    truth = np.zeros((120, 160), np.int64)
    truth[:, 100:], truth[:20] = 1, -1
    marks = simulated_strokes(truth, np.random.default_rng(0))
    marked = marks >= 0
    assert np.array_equal(marks[marked], truth[marked])
    assert STROKE_SHARE <= marked.mean() < 3 * STROKE_SHARE
    assert set(np.unique(marks)) == {-1, 0, 1}


def test_no_picture_is_taught_and_tested():
    for taught, tested in _splits(24, 8, 4, None, seed=0):
        assert sorted(taught + tested) == list(range(24))
        assert len(taught) == 8


def test_the_publishers_folds_are_used_where_they_leave_so_many_pictures():
    folds = [[0, 1], [2, 3], [4, 5]]
    assert [tested for _, tested in _splits(6, 4, 9, folds, seed=0)] == folds
    assert len(_splits(6, 2, 9, folds, seed=0)) == 9
    assert _splits(6, 8, 9, folds, seed=0) == []


def test_a_quick_run_sets_the_forest_beside_ours(tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main(["experiment", "classes", "--quick", "--out", str(out)]) == 0
    rows = {row["method"]: row["values"] for row in json.loads((out / "results.json").read_text())["rows"]}
    assert list(rows) == [
        "ours, 1 by maps",
        "ours, 1 by strokes",
        "ours, 2 by maps",
        "ours, 2 by strokes",
        "forest on filters, 1 by maps",
        "forest on filters, 2 by maps",
    ]
    iou = {name: values["mean_iou"] for name, values in rows.items()}
    assert iou["ours, 2 by maps"] > max(0.5, iou["forest on filters, 2 by maps"])
    assert iou["ours, 2 by maps"] > iou["ours, 1 by maps"] + 0.1
    maps, strokes = (np.mean([iou[f"ours, {taught} by {marks}"] for taught in (1, 2)]) for marks in ("maps", "strokes"))
    assert strokes > maps - 0.12  # one draw of two pictures alone varies by .1
    assert "Classes taught with a few pictures" in capsys.readouterr().out
