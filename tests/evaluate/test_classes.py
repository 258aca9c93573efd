"""Maps of classes against the truth."""

import json

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, jaccard_score

from shapetailor.cli import main
from shapetailor.evaluate.classes import confusion, scores
from shapetailor.io.images import write_labels


def test_scores_are_those_of_another_implementation():
    rng = np.random.default_rng(0)
    truth, found = rng.integers(0, 3, (2, 20, 30)) + 4
    judged = scores([confusion(truth, found, [4, 5, 6])])
    assert np.array_equal(judged.matrix[:, :3], confusion_matrix(truth.ravel(), found.ravel()))
    np.testing.assert_allclose(judged.iou, jaccard_score(truth.ravel(), found.ravel(), average=None))
    assert judged.accuracy == np.mean(truth == found)


def test_values_that_are_no_class_are_left_out_of_the_truth_and_wrong_where_found():
    judged = scores([confusion(np.array([[1, 1, 2, 2, 0, 255]]), np.array([[1, 0, 2, 2, 1, 1]]), [1, 2])])
    assert judged.accuracy == 0.75
    assert judged.iou.tolist() == [0.5, 1.0]


def test_the_area_error_is_the_mean_over_pictures_and_classes():
    half, none = np.array([[1, 1, 2, 2]]), np.array([[1, 1, 1, 1]])
    judged = scores([confusion(half, none, [1, 2]), confusion(half, half, [1, 2])])
    assert judged.area_error == 0.25


def test_a_class_that_never_occurs_does_not_count():
    judged = scores([confusion(np.array([[1, 2]]), np.array([[1, 2]]), [1, 2, 3])])
    assert judged.mean_iou == 1.0
    assert np.isnan(judged.iou[2])


def test_the_command_prints_each_class(tmp_path, capsys):
    for name in ("pred", "truth"):
        (tmp_path / name).mkdir()
        write_labels(tmp_path / name / "a.png", np.array([[3, 3, 7, 7]]))
    write_labels(tmp_path / "pred" / "a.uncertainty.png", np.array([[0, 0, 0, 0]]))
    classes = [{"value": 3, "name": "ferrite"}, {"value": 7, "name": "pearlite"}]
    (tmp_path / "classes.json").write_text(json.dumps({"version": 1, "classes": classes}))
    folders = ["--pred", str(tmp_path / "pred"), "--truth", str(tmp_path / "truth")]
    assert main(["evaluate", *folders, "--classes", str(tmp_path / "classes.json")]) == 0
    output = capsys.readouterr().out
    assert "pearlite   7  1.0000" in output
    assert "accuracy 1.0000" in output


def test_no_pixel_of_any_class_is_an_error():
    with pytest.raises(ValueError, match="a pixel of some class"):
        scores([confusion(np.array([[0]]), np.array([[1]]), [1, 2])])
