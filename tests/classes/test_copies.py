import numpy as np
import pytest
from class_pictures import picture

from shapetailor.classes.copies import CROP, POSES, ZOOM, copy_of, crop_of


@pytest.mark.parametrize("pose", range(len(POSES)))
def test_marks_change_with_the_picture(pose):
    image, marks = picture(0)
    values, found = copy_of(image[None] / np.float32(255), marks, pose, np.random.default_rng(pose))
    assert values.dtype == np.float32
    assert values.shape[1:] == found.shape
    assert 1 / ZOOM**2 - 0.1 < found.size / marks.size < ZOOM**2 + 0.1
    assert values[0, found == 7].std() > 2 * values[0, found == 3].std()  # the grainy half stays the grainy one


def test_poses_differ():
    image = np.arange(20, dtype=np.float32).reshape(1, 4, 5)
    seen = []
    for pose in range(len(POSES)):
        values, _ = copy_of(image, np.zeros((4, 5), int), pose, np.random.default_rng(0))
        seen.append((values.shape, values.round(3).tobytes()))
    assert len(set(seen)) == len(POSES)


def test_a_crop_has_the_marks_of_its_place_and_the_proportions_of_the_picture():
    places = np.arange(60 * 90).reshape(60, 90)
    seen = [crop_of(places[None].astype(np.float32), places, CROP, np.random.default_rng(seed)) for seed in range(3)]
    for values, marks in seen:
        assert (values[0] == marks).all()
        assert marks.size == pytest.approx(CROP * places.size, rel=0.05)
        assert marks.shape[1] == pytest.approx(1.5 * marks.shape[0], abs=1)
    assert len({int(marks[0, 0]) for _, marks in seen}) == 3
