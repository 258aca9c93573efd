"""The dense conditional random field of the BSDS500 experiment."""

import numpy as np
import pytest

from shapetailor.experiments.dense_crf import dense_crf

pytest.importorskip("pydensecrf", reason="needs pydensecrf2")


def noisy_halves():
    rng = np.random.default_rng(0)
    truth = np.repeat([[0] * 30 + [3] * 30], 60, axis=0)
    image = np.where(truth[..., None] == 3, 200, 50) + rng.integers(-10, 10, (60, 60, 3))
    labels = np.where(rng.random((60, 60)) < 0.1, 5, truth)
    return truth, image.astype(np.uint8), labels


def test_specks_are_removed_along_the_images_edges():
    truth, image, labels = noisy_halves()
    np.testing.assert_array_equal(dense_crf(labels, image, 0.02), truth)


def test_read_only_images_are_taken():
    truth, image, labels = noisy_halves()
    image.flags.writeable = False
    np.testing.assert_array_equal(dense_crf(labels, image, 0.02), truth)


def test_there_is_nothing_to_decide_where_only_one_region_is_large():
    _, image, _ = noisy_halves()
    labels = np.full((60, 60), 4)
    labels[:6, :10] = np.arange(60).reshape(6, 10) + 5  # single pixels
    assert (dense_crf(labels, image, 0.02) == 4).all()
