from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

from shapetailor.evolution.atlas import group, pack

SIZES = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=12)


def boxes(sizes):
    return [np.ones(size, bool) for size in sizes]


def blobs(sizes, seed):
    rng = np.random.default_rng(seed)
    return [gaussian_filter(rng.standard_normal(size), 2) > -0.05 for size in sizes]


def covered(layout, masks):
    canvas = np.zeros((layout.height + 50, layout.width + 50), int)
    for (y, x), mask in zip(layout.corners, masks, strict=True):
        canvas[y : y + mask.shape[0], x : x + mask.shape[1]] += mask
    return canvas


@given(SIZES, st.integers(0, 2**31), st.sampled_from([1, 4]))
def test_shapes_lie_on_the_canvas_and_do_not_overlap(sizes, seed, multiple):
    masks = blobs(sizes, seed)
    layout = pack(masks, multiple)
    canvas = covered(layout, masks)
    assert canvas.max(initial=0) <= 1
    assert canvas.sum() == canvas[: layout.height, : layout.width].sum() == sum(mask.sum() for mask in masks)
    assert not np.any(np.array([*layout.corners, (layout.height, layout.width)]) % multiple)


@given(st.integers(0, 2**31))
def test_blocks_of_pixels_hold_one_shape_only(seed):
    masks = blobs([(17, 30), (22, 9), (12, 12), (40, 21)], seed)
    layout = pack(masks, 4)
    numbered = [(k + 1) * mask for k, mask in enumerate(masks)]
    canvas = covered(layout, numbered)[: layout.height, : layout.width]
    blocks = canvas.reshape(layout.height // 4, 4, layout.width // 4, 4).transpose(0, 2, 1, 3).reshape(-1, 16)
    for block in blocks:
        assert len(set(block[block > 0].tolist())) <= 1


def test_equal_squares_leave_little_free():
    assert pack(boxes([(5, 5)] * 16)).area <= 1.25 * 400


def test_shapes_take_the_room_that_others_leave_in_their_boxes():
    triangle = np.tri(60, dtype=bool)
    layout = pack([triangle, triangle[::-1, ::-1]])
    assert layout.area < 1.3 * triangle.sum() * 2
    assert layout.area < 2 * triangle.size * 0.7


@given(SIZES, st.integers(0, 500), st.integers(1, 3000))
def test_every_shape_is_on_one_canvas_and_shared_ones_are_small(sizes, overhead, largest):
    found = group(boxes(sizes), overhead, largest)
    assert sorted(k for members, _ in found for k in members) == list(range(len(sizes)))
    for members, layout in found:
        assert len(members) == len(layout.corners)
        assert len(members) == 1 or layout.area <= largest


def test_a_shape_that_would_waste_a_canvas_gets_its_own():
    masks = boxes([(100, 10), (10, 100)])
    assert [members for members, _ in group(masks, overhead=0, largest=10**6)] == [[0], [1]]
    assert [members for members, _ in group(masks, overhead=10**5, largest=10**6)] == [[0, 1]]


def test_nothing_takes_no_canvas():
    assert group([], 0, 10) == []
