"""Strokes on an opened picture: what is marked stays, order does not matter, what was undone leaves no trace."""

from __future__ import annotations

import numpy as np
import pytest

from gallery import TURNS
from shapetailor import Segmenter, Stroke, metrics
from shapetailor.datasets import mosaic, texture
from shapetailor.segmentation import session as session_module
from shapetailor.segmentation.mending import merged, opened
from shapetailor.segmentation.propagation import pooled, walk


@pytest.fixture(scope="module")
def segmenter():
    return Segmenter.from_pretrained("texture")


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(8)
    textures = [texture(family, 128, rng, colour=True) for family in ("cells", "grass", "dots")]
    return mosaic(textures, 128, rng)


@pytest.fixture(scope="module")
def strokes(sample):
    """A disc somewhere inside each region, and one more."""
    found = []
    for region in (0, 1, 2, 0):
        rows, columns = np.nonzero(sample.truths[0] == region)
        at = len(rows) * (len(found) + 1) // 6
        found.append(Stroke(region, [(int(columns[at]), int(rows[at]))], radius=2))
    return found


@pytest.fixture(scope="module")
def session(segmenter, sample):
    return segmenter.open(sample.image, regions=3)


def preview(session, strokes):
    while session.marks:
        session.remove(0)
    for stroke in strokes:
        session.add(stroke)
    return session.result(refine=False)


def test_a_stroke_keeps_its_pixels(session, strokes):
    for refine in (False, True):
        preview(session, strokes)
        labels = session.result(refine=refine).labels
        for stroke in strokes:
            assert (labels[stroke.mask(labels.shape)] == stroke.region).all()


def test_regions_are_those_that_were_marked(session, strokes, sample):
    preview(session, strokes)
    result = session.result()
    assert metrics.covering(result.labels, sample.truths[0]) > 0.85
    assert np.mean(result.labels == sample.truths[0]) > 0.9  # by their numbers, too


def test_the_order_of_strokes_does_not_matter(session, strokes):
    first = preview(session, strokes)
    second = preview(session, strokes[::-1])
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first.probabilities, second.probabilities)


def test_strokes_see_descriptors_in_the_metric_of_the_unaided_regions(session):
    scene, unaided = session._without_marks(3)
    top = unaided.share.argmax(axis=0)

    def stretched(planes):
        """The largest variance inside regions over the mean one."""
        spare = np.concatenate(
            [planes[:, top == i] - planes[:, top == i].mean(axis=1)[:, None] for i in range(3)], axis=1
        )
        variances = np.linalg.eigvalsh(np.cov(spare))
        return variances[-1] / variances.mean()

    assert stretched(scene.whole) < 0.7 * stretched(pooled(session._described.descriptors(), scene.grid))


def test_what_was_undone_leaves_no_trace(session, strokes):
    before = preview(session, strokes[:3]).labels
    session.add(Stroke(2, [(5, 5)], radius=9))
    assert session.undo()
    np.testing.assert_array_equal(session.result(refine=False).labels, before)
    assert session.redo()
    changed = session.result(refine=False).labels
    session.remove(3)
    np.testing.assert_array_equal(session.result(refine=False).labels, before)
    assert session.undo()
    np.testing.assert_array_equal(session.result(refine=False).labels, changed)
    session.add(strokes[3])
    assert not session.redo()


def test_a_stroke_where_its_region_is_already_changes_nearly_nothing(session, strokes):
    before = preview(session, strokes[:3]).labels
    inside = np.argwhere(before == 1)
    y, x = inside[len(inside) // 2].tolist()
    after = preview(session, [*strokes[:3], Stroke(1, [(x, y)], radius=2)]).labels
    assert np.mean(before != after) < 0.02


def test_regions_that_are_prepared_are_not_looked_for_again_and_a_stopped_search_leaves_no_trace(
    segmenter, session, strokes, sample, monkeypatch
):
    looked, find = [], session_module.ncut_start
    monkeypatch.setattr(session_module, "ncut_start", lambda *args: looked.append(args[1]) or find(*args))
    fresh, turns = segmenter.open(sample.image), iter([False, False])
    fresh.prepare(3, lambda: next(turns, True))
    assert looked == [3]
    fresh.prepare(3)
    assert looked == [3, 3]
    expected, found = preview(session, strokes), preview(fresh, strokes)
    assert looked == [3, 3]
    np.testing.assert_array_equal(found.labels, expected.labels)


def test_segment_with_scribbles_is_the_same_engine(segmenter, session, strokes):
    preview(session, strokes)
    marks = np.full(session.shape, -1)
    for stroke in strokes:
        marks[stroke.mask(session.shape)] = stroke.region
    found = segmenter.segment(session._described.canvas.original, scribbles=marks)
    np.testing.assert_array_equal(found.labels, session.result().labels)
    assert found.uncertainty.shape == marks.shape


def test_a_refinement_shows_the_probabilities_of_its_preview_and_no_caller_can_spoil_them(session, strokes):
    before, after = preview(session, strokes), session.result()
    np.testing.assert_array_equal(before.probabilities, after.probabilities)
    with pytest.raises(ValueError, match="read-only"):
        before.probabilities[0, 0, 0] = 2
    before.labels[:] = 0
    assert session.result(refine=False).labels.any()


def test_probabilities_sum_to_one_and_uncertainty_is_zero_on_marks(session, strokes):
    result = preview(session, strokes)
    assert result.probabilities.shape == (3, *session.shape)
    np.testing.assert_allclose(result.probabilities.sum(axis=0), 1, atol=1e-4)
    assert result.uncertainty.min() >= -1e-5
    assert result.uncertainty.max() <= 1 + 1e-5
    for stroke in strokes:
        assert result.uncertainty[stroke.mask(session.shape)].max() < 0.05


def test_regions_without_a_stroke_are_found_among_what_is_left(session, strokes, sample):
    result = preview(session, strokes[:2])
    assert result.vanished == ()
    assert metrics.covering(result.labels, sample.truths[0]) > 0.6


@pytest.mark.parametrize("turn", list(TURNS.values())[1:3])
def test_turned_pictures_have_turned_regions(segmenter, sample, turn):
    labels = sample.truths[0]
    marks = np.full(labels.shape, -1)
    marks[::17, ::17] = labels[::17, ::17]
    straight = segmenter.segment(sample.image, scribbles=marks).labels
    turned = segmenter.segment(
        np.ascontiguousarray(turn(sample.image)), scribbles=np.ascontiguousarray(turn(marks))
    ).labels
    np.testing.assert_array_equal(turned, turn(straight))


def test_a_large_picture_is_answered_at_its_size(segmenter):
    columns = np.where(np.arange(600) < 300, 40, 200).astype(np.uint8)
    session = segmenter.open(np.tile(columns, (500, 1)))
    session.add({"region": 0, "points": [[80, 200]], "radius": 9})
    session.add({"region": 1, "points": [[500, 200]], "radius": 9})
    labels = session.result(refine=False).labels
    assert labels.shape == (500, 600)
    assert np.mean(labels != (np.arange(600) >= 300)) < 0.01


@pytest.fixture(scope="module")
def classified(sample):
    """The true regions, but region 1 was taken for region 2; and a stroke that says so."""
    truth = sample.truths[0]
    rows, columns = np.nonzero(truth == 1)
    middle = len(rows) // 2
    return np.where(truth == 1, 2, truth), Stroke(1, [(int(columns[middle]), int(rows[middle]))], radius=3)


@pytest.mark.parametrize("refine", [False, True])
def test_given_regions_are_kept_where_no_stroke_says_otherwise(segmenter, sample, classified, refine):
    truth, (wrong, stroke) = sample.truths[0], classified
    session = segmenter.open(sample.image, regions=3, init=wrong)
    session.add(stroke)
    mended = session.result(refine).labels
    assert np.mean(mended[truth == 1] == 1) > 0.8
    assert np.mean(mended[truth == 2] == 2) > 0.97
    np.testing.assert_array_equal(mended[truth == 0], 0)


def test_given_regions_that_no_stroke_contradicts_are_the_result(segmenter, sample, classified):
    wrong, stroke = classified
    session = segmenter.open(sample.image, regions=3, init=wrong)
    session.add(Stroke(2, stroke.points, stroke.radius))
    np.testing.assert_array_equal(session.result().labels, wrong)


def test_a_brush_that_slips_over_an_edge_opens_no_other_piece():
    given = np.zeros((9, 12), int)
    given[:, 6:] = 1
    marks = np.full(given.shape, -1)
    marks[2:6, 5:12] = 0
    assert set(np.unique(opened(marks, given)[:, 6:])) == {1}
    marks[2:6, 5:12] = 2
    marks[3:6, 5] = -1  # one pixel of 25 lies in the other piece
    assert not opened(marks, given)[:, :6].any()


def test_what_is_too_thin_for_the_canvas_goes_when_all_that_it_hung_on_is_mended():
    given = np.zeros((12, 12), int)
    given[:, :7] = 1
    given[3, 11] = 1  # a speck, which no stroke has touched
    posed = np.where(np.arange(12) < 6, 1, 0) * np.ones_like(given)  # blocks of two: the seventh column is lost
    mended = np.where(posed == 1, 2, 0)
    expected = np.where(np.arange(12) < 6, 2, 0) * np.ones_like(given)
    expected[3, 11] = 1
    np.testing.assert_array_equal(merged(mended, given, posed, posed == 1), expected)
    np.testing.assert_array_equal(merged(posed, given, posed, posed == 1), given)


@pytest.mark.parametrize(
    ("init", "words"),
    [
        (np.zeros((5, 5), int), "size"),
        (np.full((128, 128), -1), "every pixel"),
        (np.full((128, 128), 3), "region 3"),
        (np.zeros((128, 128)), "integer"),
    ],
)
def test_regions_to_mend_are_checked_when_a_picture_is_opened(segmenter, sample, init, words):
    with pytest.raises((ValueError, TypeError), match=words):
        segmenter.open(sample.image, regions=3, init=init)


@pytest.mark.parametrize(
    ("mark", "error", "words"),
    [
        (Stroke(0, [(500, 3)]), ValueError, "outside the picture"),
        (Stroke(7, [(5, 3)]), ValueError, "region 7, but 3 regions"),
        ({"region": 0, "points": []}, ValueError, "got 0"),
        (np.zeros((3, 3), np.int64), ValueError, "size"),
        (np.zeros((3, 3)), TypeError, "integer labels"),
    ],
)
def test_a_bad_mark_is_refused_and_nothing_is_lost(session, strokes, mark, error, words):
    preview(session, strokes)
    with pytest.raises(error, match=words):
        session.add(mark)
    assert session.marks == strokes


def test_more_regions_than_there_may_be_are_refused_with_the_limit(segmenter):
    image = np.zeros((48, 48), np.uint8)
    with pytest.raises(ValueError, match="regions must be a number from 1 to 1024, got 5000"):
        segmenter.open(image, regions=5000)
    one_each = np.arange(image.size).reshape(image.shape)
    with pytest.raises(ValueError, match="init names region 2303, but 1024 regions"):
        segmenter.open(image, init=one_each)
    session = segmenter.open(image)
    for mark in (Stroke(1024, [(5, 3)]), one_each):
        with pytest.raises(ValueError, match="but 1024 regions are numbered 0 to 1023"):
            session.add(mark)
    session.add(Stroke(1023, [(5, 3)]))
    assert len(session.marks) == 1
    with pytest.raises(ValueError, match="region 2303, but 1024 regions"):
        segmenter.segment(image, scribbles=one_each)


def test_nothing_marked_is_an_error_in_words(segmenter):
    session = segmenter.open(np.zeros((32, 32), np.uint8))
    with pytest.raises(ValueError, match="nothing is marked"):
        session.result()
    assert not session.undo()
    with pytest.raises(IndexError, match="there are 0 marks, got number 2"):
        session.remove(2)


def test_the_walk_is_between_its_priors_and_keeps_what_is_held():
    rng = np.random.default_rng(0)
    prior = rng.random((3, 9, 12))
    prior /= prior.sum(axis=0)
    held = np.full((9, 12), 0.01)
    held[4, 5], prior[:, 4, 5] = 1e6, (0, 1, 0)
    u = walk(prior, held, (np.ones((9, 11)), np.ones((8, 12))), 1e-8)
    np.testing.assert_allclose(u.sum(axis=0), 1, atol=1e-5)
    assert u[1, 4, 5] > 0.999
    assert u.min() > -1e-5
