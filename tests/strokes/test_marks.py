"""Strokes, outlines, boxes and partial label maps become pixels in one way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapetailor.strokes import Stroke, as_mark, rasterise

COORDINATE = st.floats(-20, 60, allow_nan=False)
POINTS = st.lists(st.tuples(COORDINATE, COORDINATE), min_size=1, max_size=5)


def distance_to_path(points, shape):
    """The distance of every pixel's centre from a path, by many points along it."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    points = [np.array(p, float) for p in points]
    along = [
        a + t * (b - a) for a, b in zip(points, points[1:] or points, strict=False) for t in np.linspace(0, 1, 400)
    ]
    return np.min([np.hypot(x - px, y - py) for px, py in along], axis=0)


@given(POINTS, st.floats(0.8, 9))
def test_a_brush_covers_what_is_within_its_radius_of_the_path(points, radius):
    shape = (30, 40)
    covered = Stroke(0, points, radius).mask(shape)
    distance = distance_to_path(points, shape)
    assert covered[distance <= radius - 0.11].all()
    assert not covered[distance > radius + 0.01].any()


def test_a_disc_is_a_disc():
    y, x = np.mgrid[:20, :30]
    covered = Stroke(1, [(12, 7)], radius=4).mask((20, 30))
    np.testing.assert_array_equal(covered, (x - 12) ** 2 + (y - 7) ** 2 <= 16)


@given(st.tuples(st.floats(0, 38), st.floats(0, 28)), st.tuples(st.floats(0, 38), st.floats(0, 28)))
def test_the_thinnest_brush_leaves_no_gap(start, end):
    covered = Stroke(0, [start, end], radius=1e-3).mask((30, 40))
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]))
    assert covered.sum() >= max(1, np.floor(steps))


def test_a_lasso_is_filled_with_its_outline():
    covered = Stroke(0, [(2, 2), (9, 2), (9, 6), (2, 6)], kind="lasso").mask((10, 12))
    expected = np.zeros((10, 12), bool)
    expected[2:7, 2:10] = True
    np.testing.assert_array_equal(covered, expected)


@given(st.tuples(COORDINATE, COORDINATE), st.tuples(COORDINATE, COORDINATE))
def test_a_box_holds_the_pixels_between_its_corners(a, b):
    y, x = np.mgrid[:30, :40]
    inside = (x >= min(a[0], b[0])) & (x <= max(a[0], b[0])) & (y >= min(a[1], b[1])) & (y <= max(a[1], b[1]))
    np.testing.assert_array_equal(Stroke(0, [a, b], kind="box").mask((30, 40)), inside)


def test_the_last_mark_has_a_pixel_and_an_eraser_takes_it():
    partial = np.full((4, 6), -5)
    partial[0, 0] = 3
    marks = [
        as_mark(partial),
        Stroke(0, [(0, 0), (5, 3)], kind="box"),
        Stroke(1, [(2, 1), (3, 2)], kind="box"),
        Stroke(-1, [(3, 2)], radius=0.5),
    ]
    drawn = rasterise(marks, (4, 6))
    assert drawn[0, 0] == 0
    assert drawn[1:3, 2:4].tolist() == [[1, 1], [1, -1]]
    assert rasterise(marks[:1], (4, 6))[0, 0] == 3


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 3)), max_size=6), st.randoms())
def test_strokes_that_do_not_overlap_may_come_in_any_order(places, random):
    strokes = [Stroke(region, [(4 * x, 4 * y)], radius=1) for region, x, y in {p[1:]: p for p in places}.values()]
    shuffled = strokes.copy()
    random.shuffle(shuffled)
    np.testing.assert_array_equal(rasterise(strokes, (16, 24)), rasterise(shuffled, (16, 24)))


@given(
    st.sampled_from(["brush", "lasso"]), st.integers(-1, 70), POINTS.filter(lambda p: len(p) >= 3), st.floats(0.1, 50)
)
def test_a_stroke_survives_json(kind, region, points, radius):
    if region > 65535:
        return
    stroke = Stroke(region, points, radius if kind == "brush" else 4.0, kind)
    assert Stroke.from_dict(stroke.to_dict()) == stroke


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"region": 0, "points": []}, ValueError, "brush has 1 to 100000 points, got 0"),
        ({"region": 0, "points": [[1, 2]], "kind": "lasso"}, ValueError, "lasso has 3 to"),
        ({"region": 0, "points": [[1, 2]] * 3, "kind": "box"}, ValueError, "box has two corners, got 3"),
        ({"region": 0, "points": [[1, float("nan")]]}, ValueError, "finite numbers"),
        ({"region": 0, "points": [[10**400, 2]]}, ValueError, "finite numbers"),
        ({"region": 0, "points": [[1, 2]], "radius": 10**400}, ValueError, "radius must be a positive"),
        ({"region": 0, "points": [[1, 2, 3]]}, TypeError, r"list of \(x, y\)"),
        ({"region": 0, "points": "abc"}, TypeError, r"list of \(x, y\)"),
        ({"region": 0, "points": [[1, 2]], "radius": 0}, ValueError, "radius must be a positive"),
        ({"region": 0, "points": [[1, 2]], "radius": "4"}, ValueError, "radius must be a positive"),
        ({"region": -2, "points": [[1, 2]]}, ValueError, "region must be 0 to 65535"),
        ({"region": 1.5, "points": [[1, 2]]}, TypeError, "region must be a whole number"),
        ({"region": 0, "points": [[1, 2]], "kind": "spray"}, ValueError, "kind must be one of"),
        ({"region": 0, "point": [[1, 2]]}, ValueError, r"unknown \['point'\], missing \['points'\]"),
        ([0, 1], TypeError, "a stroke must be an object"),
    ],
)
def test_a_bad_stroke_is_named(values, error, words):
    with pytest.raises(error, match=words):
        Stroke.from_dict(values)


@pytest.mark.parametrize(
    ("marks", "words"),
    [
        ([Stroke(0, [(90, 3)])], "stroke 0 lies outside the picture of 12×10"),
        ([Stroke(0, [(3, 3)]), Stroke(2, [(3, 3)])], "mark 1 is of region 2, but 2 regions are numbered 0 to 1"),
        ([np.zeros((3, 3), np.int64)], r"size \(10, 12\), got \(3, 3\)"),
    ],
)
def test_marks_that_do_not_fit_the_picture_are_refused(marks, words):
    with pytest.raises(ValueError, match=words):
        rasterise(marks, (10, 12), regions=2)
