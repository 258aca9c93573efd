import numpy as np
import pytest
from class_pictures import picture

from shapetailor.classes.copies import CROP, POSES, ZOOM, copy_of


@pytest.mark.parametrize("number", range(len(POSES)))
def test_marks_change_with_the_picture(number):
    image, marks = picture(0)
    values, found = copy_of(image[None] / np.float32(255), marks, POSES[number], 1, np.random.default_rng(number))
    assert values.dtype == np.float32
    assert values.shape[1:] == found.shape
    assert 1 / ZOOM**2 - 0.1 < found.size / marks.size < ZOOM**2 + 0.1
    assert values[0, found == 7].std() > 2 * values[0, found == 3].std()  # the grainy half stays the grainy one


def test_poses_differ():
    image = np.arange(20, dtype=np.float32).reshape(1, 4, 5)
    seen = []
    for pose in POSES:
        values, _ = copy_of(image, np.zeros((4, 5), int), pose, 1, np.random.default_rng(0))
        seen.append((values.shape, values.round(3).tobytes()))
    assert len(set(seen)) == len(POSES)


def test_a_crop_has_the_marks_of_its_place_and_the_proportions_of_the_picture():
    places = np.arange(60 * 90).reshape(60, 90)
    plane = (places / places.size).astype(np.float32)[None]  # linear, so that a zoom keeps it
    seen = [copy_of(plane, places, POSES[0], CROP, np.random.default_rng(seed)) for seed in range(3)]
    for values, marks in seen:
        inner = values[0, 2:-2, 2:-2] - marks[2:-2, 2:-2] / places.size
        assert abs(inner).max() < 1.1 / 60  # a row at most
        rows, columns = (len(np.unique(each)) for each in np.divmod(marks, 90))
        assert CROP / ZOOM**2 - 0.03 < rows * columns / places.size < CROP + 0.03
        assert marks.shape[1] == pytest.approx(1.5 * marks.shape[0], abs=1)
    assert len({int(marks[0, 0]) for _, marks in seen}) == 3
