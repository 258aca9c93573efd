"""Label maps: tessellations, dilations, distances, boxes and lengths, against oracles and exact answers."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.ndimage import distance_transform_edt

from gallery import same_partition
from shapetailor.labels import (
    UNMARKED,
    boundary_length,
    bounding_box,
    boxes,
    dilate,
    from_scribbles,
    largest_rectangle,
    present,
    relabel,
    resize_labels,
    signed_distance,
)

SHAPES = st.tuples(st.integers(1, 12), st.integers(1, 12))
MASKS = arrays(bool, SHAPES)
MAPS = arrays(np.int64, SHAPES, elements=st.integers(0, 3))


def test_two_regions_make_a_checkerboard():
    labels = boxes((6, 9), 2, per_side=3)
    assert labels.shape == (6, 9)
    np.testing.assert_array_equal(labels[::2, ::3], [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


@given(st.integers(1, 30), st.integers(6, 9))
def test_every_region_gets_boxes_that_do_not_touch_its_own(regions, per_side):
    labels = boxes((40, 50), regions, per_side)
    assert np.unique(labels).tolist() == list(range(regions))
    if regions > 1:
        assert (np.diff(labels, axis=1) != 0).sum() == 40 * (per_side - 1)
        assert (np.diff(labels, axis=0) != 0).sum() == 50 * (per_side - 1)


@pytest.mark.parametrize("regions", range(2, 9))
def test_every_row_and_column_of_boxes_has_every_region(regions):
    labels = boxes((64, 64), regions, per_side=8)[::8, ::8]
    assert all(len(np.unique(line)) == regions for line in (*labels, *labels.T))


@pytest.mark.parametrize("regions", [5, 7, 8])
def test_boxes_make_no_diagonal_stripes(regions):
    labels = boxes((64, 64), regions, per_side=8)[::8, ::8]
    assert (labels[1:, 1:] != labels[:-1, :-1]).all()
    assert (labels[1:, :-1] != labels[:-1, 1:]).all()


def test_an_image_smaller_than_the_boxes_is_tessellated_by_pixels():
    np.testing.assert_array_equal(boxes((1, 1), 3), [[0]])
    np.testing.assert_array_equal(boxes((1, 3), 2), [[0, 1, 0]])


def test_too_few_boxes_are_refused():
    with pytest.raises(ValueError, match="per_side must give each of 5 regions a box, got 2"):
        boxes((10, 10), 5, per_side=2)


@given(MASKS, st.floats(0, 15))
def test_dilation_is_what_lies_within_the_euclidean_distance(mask, radius):
    expected = distance_transform_edt(~mask) <= radius if mask.any() else mask
    np.testing.assert_array_equal(dilate(mask, radius), expected)


@given(st.tuples(st.integers(0, 20), st.integers(0, 14)), st.floats(0, 25))
def test_a_pixel_dilates_to_a_disk(pixel, radius):
    y, x = np.mgrid[:21, :15]
    squares = (y - pixel[0]) ** 2 + (x - pixel[1]) ** 2
    np.testing.assert_array_equal(dilate(squares == 0, radius), squares <= radius**2)


def test_signed_distance_of_a_half_plane_counts_from_the_edge():
    mask = np.arange(6)[None] < 3
    np.testing.assert_allclose(signed_distance(mask), [[2.5, 1.5, 0.5, -0.5, -1.5, -2.5]])


@given(MASKS)
def test_signed_distance_has_the_sign_of_the_mask_and_changes_with_it(mask):
    distance = signed_distance(mask)
    np.testing.assert_array_equal(distance > 0, mask)
    np.testing.assert_array_equal(signed_distance(~mask), -distance)


@given(MASKS, st.integers(0, 3))
def test_bounding_box_is_the_smallest_with_its_margin(mask, margin):
    if not mask.any():
        with pytest.raises(ValueError, match="mask must hold a pixel"):
            bounding_box(mask)
        return
    for side, where, length in zip(bounding_box(mask, margin), np.nonzero(mask), mask.shape, strict=True):
        assert side.start == max(where.min() - margin, 0)
        assert side.stop == min(where.max() + 1 + margin, length)


@pytest.mark.parametrize("degrees", range(0, 180, 15))
def test_length_of_straight_lines_is_within_six_percent(degrees):
    y, x = np.mgrid[-200:200, -200:200] + 0.5
    angle = math.radians(degrees)
    labels = (x * math.cos(angle) + y * math.sin(angle) > 0.3).astype(np.int64)
    length = 400 / max(abs(math.cos(angle)), abs(math.sin(angle)))
    assert boundary_length(labels) == pytest.approx(length, rel=0.06)


def test_one_region_has_no_boundary():
    assert boundary_length(np.zeros((5, 7), dtype=np.int64)) == 0.0


@given(MAPS)
def test_relabelled_maps_are_the_same_partition_and_former_numbers_lead_back(labels):
    numbers, former = relabel(labels * 7 - 2)
    assert np.unique(numbers).tolist() == list(range(len(former)))
    np.testing.assert_array_equal(former[numbers], labels * 7 - 2)
    assert same_partition(numbers, labels)


def test_scribbles_come_back_with_one_value_for_unmarked():
    marks = from_scribbles(np.array([[0, -1], [-7, 1]], dtype=np.int16))
    assert marks.dtype == np.int64
    np.testing.assert_array_equal(marks, [[0, UNMARKED], [UNMARKED, 1]])


@pytest.mark.parametrize(
    ("scribbles", "words"),
    [
        ([[0, 3, -1]], "every region 0..3; none marks 1, 2"),
        ([[-1, -1]], "mark no pixel"),
        ([0, 1], "must be H×W"),
    ],
)
def test_unusable_scribbles_are_named(scribbles, words):
    with pytest.raises(ValueError, match=words):
        from_scribbles(np.array(scribbles))


def test_fractional_scribbles_are_refused():
    with pytest.raises(TypeError, match="integer labels, got dtype float64"):
        from_scribbles(np.zeros((2, 2)))


@given(arrays(bool, st.tuples(st.integers(1, 7), st.integers(1, 7))))
def test_the_largest_rectangle_is_the_best_of_all(mask):
    height, width = mask.shape
    areas = [
        (bottom - top) * (right - left)
        for top in range(height)
        for bottom in range(top + 1, height + 1)
        for left in range(width)
        for right in range(left + 1, width + 1)
        if mask[top:bottom, left:right].all()
    ]
    box = largest_rectangle(mask)
    assert mask[box].all()
    assert mask[box].size == max(areas, default=0)


def test_of_equal_rectangles_the_lowest_comes_first():
    mask = np.array([[0, 1, 0, 1, 1], [0, 1, 0, 0, 0], [0, 0, 0, 1, 1]], dtype=bool)
    assert largest_rectangle(mask) == (slice(0, 1), slice(3, 5))


def test_a_resized_label_map_takes_the_nearest_labels():
    labels = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(resize_labels(labels, (6, 12)), labels.repeat(2, axis=0).repeat(3, axis=1))
    np.testing.assert_array_equal(resize_labels(labels.repeat(3, axis=0).repeat(3, axis=1), (3, 4)), labels)


@pytest.mark.parametrize("rows", [1, 31, 32, 100])
def test_the_numbers_that_are_present_are_found_without_a_copy_of_the_map(rows):
    labels = np.full((rows, 4000), 7)
    labels[-1, -1] = -1
    labels[rows // 2, 0] = 3
    tracemalloc.start()
    found = present(labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(found, np.unique(labels))
    assert peak < 3.5 * labels[:32].nbytes
