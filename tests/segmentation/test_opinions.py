"""Second opinions: other cuts, unlike each other, scored; and numbers of regions with their likelihoods."""

from __future__ import annotations

import numpy as np
import pytest

from shapetailor import Segmenter, metrics
from shapetailor.datasets import mosaic, texture
from shapetailor.segmentation.opinions import coverings, groupings, second_opinions
from shapetailor.segmentation.region_count import numbers


@pytest.fixture(scope="module")
def three():
    """Descriptors of three regions, two of which are meant to be one."""
    truth = np.zeros((48, 48), np.int64)
    truth[:, 16:32], truth[:, 32:] = 1, 2
    centres = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.8, 0.6]])
    noise = 0.05 * np.random.default_rng(0).standard_normal((3, 48, 48))
    return (centres[truth].transpose(2, 0, 1) + noise).astype(np.float32), truth


@pytest.mark.parametrize("pair", [(0, 1), (0, 2), (1, 2)])
def test_every_way_to_take_two_of_three_textures_for_one_is_among_three_opinions(three, pair):
    descriptors, truth = three
    meant = np.isin(truth, pair).astype(np.int64)
    first = (truth == 0).astype(np.int64)
    _, others = second_opinions(descriptors, first, groupings(descriptors, 2), 3)
    assert max(metrics.covering(each, meant) for each in (first, *(other.labels for other in others))) > 0.98


def test_scores_sum_to_one_and_fall(three):
    descriptors, truth = three
    score, others = second_opinions(descriptors, np.minimum(truth, 1), groupings(descriptors, 2), 3)
    scores = [each.score for each in others]
    assert score + sum(scores) == pytest.approx(1)
    assert scores == sorted(scores, reverse=True)


def test_a_picture_of_one_reading_has_no_opinion_that_is_the_first_again(three):
    descriptors, truth = three
    _, others = second_opinions(descriptors, truth, groupings(descriptors, 3), 3)
    assert all(metrics.covering(each.labels, truth) < 0.95 for each in others)


def test_coverings_are_the_metric():
    rng = np.random.default_rng(0)
    maps = rng.integers(0, 3, (4, 200))
    expected = [[metrics.covering(a[None], b[None]) for b in maps] for a in maps]
    np.testing.assert_allclose(coverings(maps), expected, atol=1e-6)


def test_the_likeliest_number_of_clear_regions_is_the_true_one(three):
    clear = np.eye(3)[three[1]].transpose(2, 0, 1) + 0.1 * np.random.default_rng(1).standard_normal((3, 48, 48))
    found = numbers(clear.astype(np.float32), 8)
    weights = [each.weight for each in found]
    assert [len(each.means) for each in found] == list(range(1, 9))
    assert sum(weights) == pytest.approx(1)
    assert int(np.argmax(weights)) + 1 == 3


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(8)
    return mosaic([texture(family, 128, rng, colour=True) for family in ("cells", "grass", "dots")], 128, rng)


@pytest.mark.parametrize("regions", [2, "auto"])
def test_alternatives_are_whole_segmentations_unlike_each_other(sample, regions):
    segmenter = Segmenter.from_pretrained("texture")
    plain = segmenter.segment(sample.image, regions)
    result = segmenter.segment(sample.image, regions, alternatives=2)
    np.testing.assert_array_equal(result.labels, plain.labels)
    assert plain.alternatives == ()
    assert plain.score is None
    assert len(result.alternatives) == 2
    maps = [result.labels, *(each.labels for each in result.alternatives)]
    assert all(metrics.covering(a, b) < 0.95 for i, a in enumerate(maps) for b in maps[:i])
    assert result.score + sum(each.score for each in result.alternatives) == pytest.approx(1)
    counts = {len(np.unique(each)) for each in maps}
    assert counts == {2} if regions == 2 else len(counts) > 1


@pytest.mark.parametrize(
    ("more", "words"),
    [({"alternatives": -1}, "from 0 on"), ({"alternatives": 1, "init": np.zeros((128, 128), int)}, "leave them out")],
)
def test_bad_alternatives_are_refused_in_words(sample, more, words):
    with pytest.raises(ValueError, match=words):
        Segmenter.from_pretrained("texture").segment(sample.image, None if "init" in more else 2, **more)
