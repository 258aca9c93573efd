from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shapetailor.packing import group, pack

SIZES = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=30)


@given(SIZES)
def test_rectangles_lie_on_the_canvas_and_do_not_overlap(sizes):
    layout = pack(sizes)
    covered = np.zeros((layout.height, layout.width), int)
    for (y, x), (height, width) in zip(layout.corners, sizes, strict=True):
        covered[y : y + height, x : x + width] += 1
    assert covered.sum() == sum(height * width for height, width in sizes)
    assert covered.max() == 1


def test_equal_squares_leave_nothing_free():
    assert pack([(5, 5)] * 16).area == 400


def test_what_is_packed_is_not_much_larger_than_its_parts():
    rng = np.random.default_rng(0)
    sizes = [tuple(rng.integers(40, 100, 2).tolist()) for _ in range(20)]
    assert pack(sizes).area < 1.35 * sum(height * width for height, width in sizes)


@given(SIZES, st.integers(0, 500), st.integers(1, 3000))
def test_every_rectangle_is_in_one_group_and_shared_canvases_are_small(sizes, overhead, largest):
    groups = group(sizes, overhead, largest)
    assert sorted(k for members in groups for k in members) == list(range(len(sizes)))
    for members in groups:
        assert len(members) == 1 or pack([sizes[k] for k in members]).area <= largest


def test_a_rectangle_that_would_waste_a_canvas_gets_its_own():
    sizes = [(100, 10), (10, 100)]
    assert group(sizes, overhead=0, largest=10**6) == [[0], [1]]
    assert group(sizes, overhead=10**4, largest=10**6) == [[0, 1]]


def test_nothing_makes_no_group():
    assert group([], 0, 10) == []
