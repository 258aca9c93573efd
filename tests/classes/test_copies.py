import numpy as np
import pytest
from class_pictures import picture

from shapetailor.classes.copies import POSES, ZOOM, copy_of


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
