"""The simulated user, and that every method answers it."""

from __future__ import annotations

import numpy as np
import pytest

from shapetailor import Segmenter
from shapetailor.experiments import strokes

TRUTH = np.zeros((64, 64), np.int64)
TRUTH[:, 40:] = 1


def test_the_first_strokes_lie_in_the_deepest_points_and_stay_inside():
    marks = np.full(TRUTH.shape, -1)
    for region in (0, 1):
        strokes.mark(marks, TRUTH, region == TRUTH)
    assert set(np.unique(marks)) == {-1, 0, 1}
    assert (marks[marks >= 0] == TRUTH[marks >= 0]).all()
    rows, columns = np.nonzero(marks == 1)
    assert abs(columns.mean() - 51.5) < 1
    assert len(rows) <= 9


def test_the_next_stroke_goes_to_the_largest_wrong_component():
    wrong = np.zeros(TRUTH.shape, bool)
    wrong[2:6, 2:6] = wrong[30:50, 45:60] = True
    largest = strokes.largest_component(wrong, TRUTH)
    assert largest[40, 50]
    assert largest.sum() == 20 * 15


def test_a_perfect_answer_needs_no_further_stroke_and_a_stubborn_one_gets_all():
    asked = []
    curve = strokes.simulated(lambda regions: lambda marks: TRUTH, TRUTH)
    assert curve == [1.0] * 11

    def stubborn(marks):
        asked.append((marks >= 0).sum())
        return np.zeros_like(TRUTH)

    assert len(strokes.simulated(lambda regions: stubborn, TRUTH)) == 11
    assert np.all(np.diff(asked) >= 0)
    assert len(asked) == 11


def test_figures_of_a_curve_are_those_of_its_strokes():
    found = strokes.figures([0.8, 0.89, 0.91, 0.90, 0.96, 0.96, 0.95, 0.97, 0.97, 0.97, 0.98])
    assert found["covering_2"] == 0.8
    assert found["covering_6"] == 0.96
    assert found["covering_12"] == 0.98
    assert (found["strokes_to_90"], found["strokes_to_95"]) == (4, 6)
    assert found["falls"] == pytest.approx(2 / 10)


@pytest.mark.parametrize("title", [title for title in strokes.METHODS if strokes._missing(title) is None])
def test_every_method_keeps_a_clear_picture(title):
    image = np.repeat(np.where(TRUTH, 200, 60)[..., None], 3, axis=2).astype(np.uint8)
    image += np.random.default_rng(0).integers(0, 9, image.shape, dtype=np.uint8)
    marks = np.full(TRUTH.shape, -1)
    marks[10:20, 10:20], marks[30:40, 50:60] = 0, 1
    answer = strokes.METHODS[title](Segmenter.from_pretrained("texture"), image, 2)
    assert np.mean(answer(marks) == TRUTH) > 0.95
