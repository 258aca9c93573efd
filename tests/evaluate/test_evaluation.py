"""`evaluate` in Python: the measures of a dataset, their summary and ranking."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from shapetailor import metrics
from shapetailor.evaluate.evaluation import MEASURES, Evaluation, evaluate

RNG = np.random.default_rng(3)
LEFT = np.repeat([[0, 1]], 6, axis=1).repeat(10, axis=0)


def sample(name, truths=(LEFT,)):
    return SimpleNamespace(image=RNG.random((10, 12)), truths=truths, name=name)


def evaluation(values):
    """Images whose measures are all the given value."""
    return Evaluation({f"{i:03d}": dict.fromkeys(MEASURES, float(v)) for i, v in enumerate(values)})


def test_measures_are_the_metrics():
    top = np.repeat([[0], [1]], 5, axis=0).repeat(12, axis=1)
    (scores,) = evaluate(lambda image: top, [sample("a", (LEFT, top))]).images.values()
    assert list(scores) == list(MEASURES)
    assert scores["covering"] == metrics.covering(top, [LEFT, top])
    assert scores["variation_of_information"] == metrics.variation_of_information(top, [LEFT, top])
    assert (scores["voc_predicted"], scores["voc_true"]) == metrics.voc_accuracy(top, [LEFT, top])
    assert scores["boundary_recall"] == metrics.boundary_f(top, [LEFT, top]).recall


def test_predict_gets_the_image_and_may_return_a_tensor():
    seen = []

    def predict(image):
        seen.append(image)
        return torch.from_numpy(LEFT)

    samples = [sample("b"), sample("a")]
    ours = evaluate(predict, samples)
    assert all(given is each.image for given, each in zip(seen, samples, strict=True))
    assert list(ours.images) == ["b", "a"]
    assert ours.summary()["boundary_f"] == (1.0, 1.0, 1.0, 1.0)


def test_pixels_labelled_minus_one_are_left_out_unless_told_otherwise():
    truth = np.where(np.arange(12) < 9, LEFT, -1)
    prediction = LEFT.copy()
    prediction[:, 9:] = RNG.integers(0, 9, (10, 3))
    assert evaluate(lambda _: prediction, [sample("a", [truth])]).images["a"]["covering"] == 1.0
    judged = evaluate(lambda _: prediction, [sample("a", [truth])], ignore=None)
    assert judged.images["a"]["covering"] < 1.0


def test_summary_has_mean_median_and_an_interval_of_the_mean():
    values = [0.1, 0.2, 0.3, 0.8]
    summary = evaluation(values).summary()["covering"]
    assert summary.mean == pytest.approx(0.35)
    assert summary.median == pytest.approx(0.25)
    assert min(values) <= summary.low < summary.mean < summary.high <= max(values)
    assert evaluation(values).summary() == evaluation(values).summary()


def test_interval_is_that_of_the_normal_approximation_for_many_images():
    values = np.random.default_rng(0).normal(0.5, 0.1, 400)
    summary = evaluation(values).summary()["mean_iou"]
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert summary.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert summary.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_ranking_goes_from_worst_to_best_whichever_way_a_measure_points():
    ours = evaluation([0.5, 0.1, 0.9, 0.1])
    assert ours.ranked() == ["001", "003", "000", "002"]
    assert ours.ranked("variation_of_information") == ["002", "000", "001", "003"]
    with pytest.raises(ValueError, match="measure must be one of covering"):
        ours.ranked("accuracy")


def test_progress_goes_to_standard_error(capsys):
    evaluate(lambda _: LEFT, [sample("a")], progress=True)
    out, err = capsys.readouterr()
    assert not out
    assert "evaluate" in err


def test_errors_name_the_sample():
    with pytest.raises(ValueError, match=r"b: truth\[0\] has shape \(10, 12\), but prediction has \(9, 12\)"):
        evaluate(lambda _: LEFT[1:], [sample("b")])
    with pytest.raises(TypeError, match="b: prediction must hold integer labels"):
        evaluate(lambda _: LEFT * 0.5, [sample("b")])
    with pytest.raises(ValueError, match="b: truth is an empty list"):
        evaluate(lambda _: LEFT, [sample("b", ())])
    with pytest.raises(ValueError, match="two samples called 'b'"):
        evaluate(lambda _: LEFT, [sample("b"), sample("b")])
    with pytest.raises(ValueError, match="dataset is empty"):
        evaluate(lambda _: LEFT, [])
