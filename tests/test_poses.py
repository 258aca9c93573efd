"""A picture's own pose: the same for all its turned and mirrored versions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shapetailor.poses import Pose, pose_of

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
