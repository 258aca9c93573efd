"""The segmentation benchmark: its cases, its pictures, its checks and its judgement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shapetailor.bench import memory, segment
from shapetailor.bench.segment import FEW, ITERATIONS, MANY, Case, Timing


def row(case, seconds, labels=0, area=10.0):
    return Timing(case, case.iterations, 1.0, area, 0.0, seconds, 1.0, np.full((4, 4), labels))


def test_every_comparison_has_both_its_sides():
    found = segment.cases([256, 512], quick=False)
    assert len(set(found)) == len(found)
    for model in segment.MODELS:
        assert Case(model, 256, ITERATIONS) in found
        assert {Case(model, 256, FEW, cells=2), Case(model, 256, FEW, cells=MANY)} <= set(found)
        (cold,) = (case for case in found if case.model == model and case.backend == "torch")
        assert {replace(cold, backend="auto"), Case(model, 256, FEW), Case(model, 512, FEW)} <= set(found)


def test_the_slow_model_is_not_run_at_large_sizes():
    assert Case("texture", 2048, FEW) in segment.cases([256, 2048], quick=False)
    assert Case("paper", 2048, FEW) not in segment.cases([256, 2048], quick=False)


def test_memory_is_told_for_each_pixel(monkeypatch):
    monkeypatch.setattr(memory, "peak_memory", lambda _, size: 1500 * size**2)
    outcome = memory.run([128, 64])
    assert [row["size"] for row in outcome.data["rows"]] == [64, 128]
    assert outcome.text.count("1500 bytes") == 2


def test_pictures_have_two_regions_and_are_always_the_same():
    one, two = segment.picture(48), segment.picture(48)
    assert np.array_equal(one.image, two.image)
    assert np.unique(one.truths[0]).tolist() == [0, 1]


def test_cells_are_those_nearest_to_their_points():
    labels = segment.start(5, np.zeros((40, 40), np.int64))
    assert labels.shape == (40, 40)
    assert np.unique(labels).tolist() == [0, 1, 2, 3, 4]
    across = (labels[:, 1:] != labels[:, :-1]).sum() + (labels[1:] != labels[:-1]).sum()
    assert across < 40 * 10  # cells, not confetti


def test_the_start_is_the_inner_half_of_a_region():
    truth = np.zeros((1, 12), np.int64)
    truth[:, :8] = 1
    assert segment.start(None, truth).tolist() == [[1, 1, 1, 1] + [0] * 8]


def test_a_case_is_segmented_and_its_work_is_counted():
    found = segment.measure(Case("texture", 128, 2, cells=3))
    assert found.labels.shape == (128, 128)
    assert 0 <= found.iterations <= 2
    assert 1 < found.first < 3  # the dilated regions overlap
    assert found.area >= found.first
    assert found.seconds > 0


def test_both_solvers_give_the_same_regions():
    cold = segment.measure(Case("texture", 32, 1, "torch"))
    ours = segment.measure(Case("texture", 32, 1))
    assert segment.agreement([cold, ours]) == {"texture": pytest.approx(1.0, abs=1 - segment.AGREEMENT)}


def test_regions_that_differ_are_noticed():
    case = Case("texture", 48, 2)
    assert segment.agreement([row(replace(case, backend="torch"), 1.0, 1), row(case, 1.0, 0)]) == {"texture": 0.0}


def test_targets_are_judged_on_the_rows_they_name():
    rows = []
    for model, usual in segment.MODELS.items():
        base = Case(model, 256, usual)
        full, few = Case(model, 256, ITERATIONS), Case(model, 256, FEW)
        rows += [row(each, 0.75, area=10.5) for each in {base, full, few}]
        rows += [row(replace(base, backend="torch"), 7.5), row(replace(few, size=512), 12.0, area=42.0)]
        rows += [row(Case(model, 256, FEW, cells=2), 2.0), row(Case(model, 256, FEW, cells=MANY), 5.0)]
    others = [{"method": "chan_vese", "seconds": 9.0}, {"method": segment.SHIPPED, "seconds": 3.0}]
    verdicts = [(round(each["value"], 6), each["reached"]) for each in segment.judge(rows, 256, others, 17 * 10**9)]
    assert verdicts == [(1.5, True), (10.0, False), (1.0, True), (2.5, False)] * 2 + [(3.0, False), (17.0, False)]
    assert segment.judge(rows, 128) == []


def test_the_shipped_model_and_scikit_image_are_timed_and_compared_with_the_truth():
    found = segment.time_others(48)
    names = [segment.SHIPPED, "chan_vese, 20 iterations", "chan_vese", "random_walker"]
    assert [each["method"] for each in found] == names
    assert all(each["seconds"] > 0 and -1 <= each["rand"] <= 1 for each in found)


def test_tiny_pictures_are_refused():
    with pytest.raises(ValueError, match="at least 32 pixels, got 16"):
        segment.run([16])


def test_memory_is_taken_of_a_large_picture_at_its_own_size():
    call = segment.prepare_memory(256, small=128)
    assert call.args[0].shape == (256, 256, 3)
    assert call().labels.shape == (256, 256)
    assert call.func.__self__.max_pixels == 256**2
