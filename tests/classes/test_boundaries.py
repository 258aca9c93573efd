"""Boundaries of classes follow the colours, where marked pixels show that these tell the classes apart."""

import tracemalloc

import numpy as np
import pytest
import torch
from class_pictures import thinned
from hypothesis import given, settings
from hypothesis import strategies as st

from shapetailor import Classifier
from shapetailor.classes.boundaries import HALO, SIDE, _windows, colours_tell, follow_colours, told_apart


def halves(side=64, seed=0, noise=0.02):
    """A picture that is dark left of a wavy line and bright right of it, and where it is bright."""
    rows, columns = np.mgrid[:side, :side]
    right = columns > side / 2 + 3 * np.sin(rows / 5)
    rng = np.random.default_rng(seed)
    gray = np.where(right, 0.7, 0.3) + noise * rng.standard_normal((side, side))
    return np.stack([gray] * 3).astype(np.float32), right


def blurred(right):
    """Probabilities of two classes whose boundary is straight and soft."""
    columns = np.arange(right.shape[1])
    p = 1 / (1 + np.exp(-(columns - right.shape[1] / 2) / 4)) + np.zeros(right.shape)
    return np.stack([1 - p, p]).astype(np.float32)


def test_a_soft_boundary_finds_the_colours_edge_and_probabilities_stay_probabilities():
    seen, right = halves()
    before = blurred(right)
    after = follow_colours(before, seen)
    assert np.mean(before.argmax(axis=0) == right) < 0.98
    assert np.mean(after.argmax(axis=0) == right) > 0.995
    np.testing.assert_allclose(after.sum(axis=0), 1, atol=1e-5)
    np.testing.assert_array_equal(after[:, :, :20], before[:, :, :20])  # far from the boundary
    np.testing.assert_array_equal(before, blurred(right))


def test_windows_give_what_the_whole_picture_gives():
    rng = np.random.default_rng(3)
    seen = rng.random((3, 260, 300)).astype(np.float32)
    planes = np.stack([np.kron(rng.random((13, 15)), np.ones((20, 20))) for _ in range(3)])
    planes = (planes / planes.sum(axis=0)).astype(np.float32)
    whole = follow_colours(planes, seen)
    assert (whole.argmax(axis=0) != planes.argmax(axis=0)).any()
    np.testing.assert_array_equal(follow_colours(planes, seen, side=64), whole)


@given(st.integers(1, 2 * SIDE + 5), st.integers(1, 2 * SIDE + 5))
def test_windows_cover_a_picture_once_and_see_as_far_as_they_must(height, width):
    covered = np.zeros((height, width), np.uint8)
    for inner, outer in _windows((height, width), SIDE):
        covered[inner] += 1
        for near, far, side in zip(inner, outer, (height, width), strict=True):
            assert far.start == max(0, near.start - HALO)
            assert min(far.stop, side) == min(near.stop + HALO, side)
    assert (covered == 1).all()


@settings(max_examples=20)
@given(st.integers(0, 2**31), st.integers(2, 5))
def test_colours_by_chance_tell_nothing_and_colours_of_their_own_everything(seed, count):
    rng = np.random.default_rng(seed)
    marks = rng.integers(-1, count, (40, 50))
    assert abs(told_apart(rng.random((3, 40, 50)).astype(np.float32), marks, rng)) < 0.3
    own = np.linspace(0, 1, count)[np.maximum(marks, 0)] * np.ones((3, 1, 1))
    assert told_apart(own.astype(np.float32), marks, rng) == 1
    assert told_apart(own.astype(np.float32), np.where(marks == 1, 1, -1), rng) is None


def test_very_many_classes_are_compared_in_little_memory():
    rng = np.random.default_rng(0)
    marks = np.repeat(np.arange(240), 500).reshape(240, 500)
    seen = rng.random((3, 240, 500)).astype(np.float32)
    tracemalloc.start()
    told_apart(seen, marks, rng)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400e6


def test_pictures_of_one_class_have_no_say():
    assert colours_tell([None, 0.9, 0.5])
    assert not colours_tell([None, 0.3])
    assert not colours_tell([None])


@pytest.mark.parametrize("noise", [0.02, 0.4])
def test_marked_pixels_decide_and_a_file_remembers(tmp_path, noise):
    seen, right = halves(96, noise=noise)
    image = np.moveaxis((255 * seen.clip(0, 1)).astype(np.uint8), 0, 2)
    taught = Classifier.teach([(image, thinned(right + 1))], ["dark", "bright"])
    assert taught.colours_tell == (noise < 0.1)
    taught.save(tmp_path / "a.safetensors")
    assert Classifier.load(tmp_path / "a.safetensors").colours_tell == taught.colours_tell


def test_the_number_of_threads_changes_no_bit():
    seen, right = halves(40)
    image = np.moveaxis((255 * seen.clip(0, 1)).astype(np.uint8), 0, 2)
    taught = Classifier.teach([(image, thinned(right + 1))], ["dark", "bright"])
    threads = torch.get_num_threads()
    found = []
    for count in (1, 2):
        torch.set_num_threads(count)
        found.append(taught.apply(image).probabilities)
    torch.set_num_threads(threads)
    np.testing.assert_array_equal(*found)
