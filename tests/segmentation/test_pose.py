"""A picture's own pose: the same for all its turned and mirrored versions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shapetailor.segmentation.pose import Frame, Pose, frame_of, pose_of

SYMMETRIES = [(turns, mirrored) for turns in range(4) for mirrored in (False, True)]


def moved(picture, turns, mirrored):
    turned = np.rot90(picture, turns, (-2, -1))
    return turned[..., ::-1] if mirrored else turned


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("diagonal", [False, True])
def test_undo_undoes(rows, columns, diagonal):
    picture = np.random.default_rng(0).random((2, 3, 5))
    pose = Pose(rows, columns, diagonal)
    np.testing.assert_array_equal(pose.undo(pose.apply(picture)), picture)


@pytest.mark.parametrize(("turns", "mirrored"), SYMMETRIES)
@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 9, 14), (3, 14, 9), (1, 1, 7), (1, 1, 1)])
def test_all_versions_of_a_picture_have_one_pose(shape, turns, mirrored):
    picture = np.random.default_rng(1).random(shape)
    version = moved(picture, turns, mirrored)
    np.testing.assert_array_equal(pose_of(version).apply(version), pose_of(picture).apply(picture))


@given(arrays(np.uint8, (1, 6, 6)), st.sampled_from(SYMMETRIES))
@settings(max_examples=200)
def test_any_picture_that_is_not_balanced_has_one_pose(picture, symmetry):
    lever = np.arange(6) - 2.5
    down, right = picture[0].sum(1) @ lever, picture[0].sum(0) @ lever
    if 0 in (down, right) or abs(down) == abs(right):
        return  # balanced: several poses are equally good
    version = moved(picture, *symmetry)
    np.testing.assert_array_equal(pose_of(version).apply(version), pose_of(picture).apply(picture))


def test_a_balanced_picture_is_left_as_it_is():
    assert pose_of(np.ones((3, 8, 8))) == Pose(False, False, False)


@pytest.mark.parametrize(
    ("side", "stride", "zoom"), [(128, 4, 1), (127, 4, 2), (64, 4, 2), (40, 4, 4), (1, 4, 8), (5, 1, 1), (5, 0, 1)]
)
def test_small_pictures_are_enlarged_for_networks_that_work_on_blocks(side, stride, zoom):
    assert frame_of(np.zeros((3, 1, side)), stride).zoom == zoom


@pytest.mark.parametrize("zoom", [1, 2, 3, 8])
def test_labels_come_back_from_any_frame(zoom):
    labels = np.random.default_rng(0).integers(0, 4, (5, 7))
    frame = Frame(Pose(True, False, True), zoom)
    assert frame.labels(labels).shape == (7 * zoom, 5 * zoom)
    np.testing.assert_array_equal(frame.undo(frame.labels(labels)), labels)


def test_an_enlarged_picture_is_the_same_picture():
    values = np.random.default_rng(0).random((2, 6, 4), np.float32)
    enlarged = Frame(Pose(False, False, False), 4).picture(values)
    assert enlarged.shape == (2, 24, 16)
    means = enlarged.reshape(2, 6, 4, 4, 4).mean((2, 4))
    assert np.corrcoef(means.ravel(), values.ravel())[0, 1] > 0.95
    np.testing.assert_array_equal(Frame(Pose(False, False, False), 3).picture(np.ones((1, 2, 2), np.float32)), 1)
