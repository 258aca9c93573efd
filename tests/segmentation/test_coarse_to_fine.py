"""Boundaries carried up: to the pixel, in windows as in the whole, and with all that `segment` promises."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.ndimage import gaussian_filter
from skimage.measure import label as connected_components

from shapetailor import Segmenter, Stroke
from shapetailor.io.picture import Picture
from shapetailor.io.source import Source, open_source
from shapetailor.labels import smooth_boundaries
from shapetailor.segmentation import coarse_to_fine, textures
from shapetailor.segmentation.canvas import Pose, canvas_of
from shapetailor.segmentation.cleanup import pieces_of
from shapetailor.segmentation.coarse_to_fine import (
    RADIUS,
    Kept,
    Seen,
    levels,
    refine,
    refined,
    sharpened,
    smoothed,
    stretched,
)
from shapetailor.segmentation.described import Described
from shapetailor.segmentation.textures import Colours, Textures, lying, moments, posed


def waves(height=320, width=384):
    """Two colours with noise, and a boundary that no block of pixels follows."""
    y, x = np.mgrid[:height, :width]
    truth = (x > width / 2 + 40 * np.sin(y / 25)).astype(np.int64)
    noise = np.random.default_rng(0).normal(0, 12, (height, width, 3))
    colours = np.array([[90, 120, 100], [150, 110, 100]])[truth]
    return np.clip(colours + noise, 0, 255).astype(np.uint8), truth


def on_canvas(image, truth, factor):
    """A canvas of so many pixels a block, and the truth on it."""
    canvas = canvas_of(image, 3, 1, -(-truth.size // factor**2))
    assert canvas.factor == factor
    return canvas, canvas.labels_in(truth, "truth")


def wrong(found, truth):
    return np.mean(found != truth)


@pytest.mark.parametrize("factor", [2, 3, 4, 8])
def test_boundaries_come_to_lie_where_the_colours_change(factor):
    image, truth = waves()
    canvas, small = on_canvas(image, truth, factor)
    sharp = sharpened(small, canvas)
    assert sharp.shape == truth.shape
    assert wrong(sharp, truth) < 0.35 * wrong(canvas.labels_out(small), truth)
    assert wrong(sharp, truth) < 0.003


def test_windows_give_the_same_labels_as_the_whole():
    image, truth = waves()
    canvas, _ = on_canvas(image, truth, 2)
    rough = np.roll(truth, 2, axis=1).astype(np.int16)
    seen = Seen.of(canvas, 1)
    whole = refined(rough, seen, None, core=1000)
    moved = whole != rough
    assert moved.mean() > 0.005
    np.testing.assert_array_equal(refined(rough, seen, None, core=48), whole)
    again = refined(whole, seen, None, moved, core=1000)
    assert (again != whole).any()
    np.testing.assert_array_equal(refined(whole, seen, None, moved, core=48), again)


def test_a_halo_that_is_too_small_is_noticed(monkeypatch):
    monkeypatch.setattr(coarse_to_fine, "HALO", 4)
    with pytest.raises(AssertionError):
        test_windows_give_the_same_labels_as_the_whole()


@pytest.mark.parametrize("turn", [lambda a: a[::-1], lambda a: a[:, ::-1], lambda a: a.swapaxes(0, 1)])
def test_a_turned_picture_gets_the_turned_boundaries(turn):
    image, truth = waves()
    straight = sharpened(*on_canvas(image, truth, 4)[::-1])
    turned = sharpened(*on_canvas(np.ascontiguousarray(turn(image)), turn(truth), 4)[::-1])
    np.testing.assert_array_equal(turned, turn(straight))


def test_marked_pixels_keep_their_region():
    image, truth = waves()
    canvas, small = on_canvas(image, truth, 4)
    marks = np.full(truth.shape, -1)
    marks[100, 100:300], marks[200, 100:300] = 0, 1
    sharp = sharpened(small, canvas, marks)
    np.testing.assert_array_equal(sharp[marks >= 0], marks[marks >= 0])


@pytest.mark.parametrize("seed", range(5))
def test_smoothing_at_some_places_is_that_of_the_whole(seed):
    rng = np.random.default_rng(seed)
    blobs = gaussian_filter(rng.random((4, 50, 70)), (0, 3, 3)).argmax(axis=0).astype(np.int16) * 3
    blobs[rng.random(blobs.shape) < 0.1] = -1
    places = rng.permutation(np.flatnonzero(blobs >= 0))[:1500]
    np.testing.assert_array_equal(smoothed(blobs, places), smooth_boundaries(blobs, RADIUS).ravel()[places])


def test_how_the_labels_lie_in_memory_changes_nothing():
    _, truth = waves()
    seen = np.random.default_rng(0).random((3, *truth.shape), np.float32)
    known = np.where(np.arange(truth.shape[0])[:, None] % 50 < 3, truth, -1)
    rows = refine(truth, seen, known)
    columns = refine(np.asfortranarray(truth), np.asfortranarray(seen), np.asfortranarray(known))
    np.testing.assert_array_equal(rows, columns)


def test_the_outside_stays_outside_and_says_nothing():
    image, truth = waves()
    inside = np.ones(truth.shape, bool)
    inside[40:120, 150:250], inside[:, :7] = False, False
    first, second = (
        sharpened(*on_canvas(np.ma.masked_array(values, np.repeat(~inside[..., None], 3, 2)), truth, 4)[::-1])
        for values in (image, np.where(inside[..., None], image, 255).astype(np.uint8))
    )
    np.testing.assert_array_equal(first < 0, ~inside)
    np.testing.assert_array_equal(first, second)
    assert wrong(first[inside], truth[inside]) < 0.005


def dappled(height=240, width=240):
    """Two regions whose brightness varies far more than the little by which their hues differ."""
    rng = np.random.default_rng(3)
    y, x = np.mgrid[:height, :width]
    truth = (x > width / 2 + 20 * np.sin(y / 30)).astype(np.int64)
    light = 60 * gaussian_filter(rng.standard_normal((height, width)), 4)
    light *= 45 / light.std()
    hue = np.array([[0, 4, -4], [0, -4, 4]])[truth]
    image = 128 + light[..., None] + hue + rng.normal(0, 1, (height, width, 3))
    return np.clip(image, 0, 255).astype(np.uint8), truth


def test_a_faint_hue_counts_where_only_brightness_varies(monkeypatch):
    image, truth = dappled()
    given = on_canvas(image, truth, 4)[::-1]
    found = wrong(sharpened(*given), truth)
    monkeypatch.setattr(coarse_to_fine, "stretched", lambda patches: np.eye(3, dtype=np.float32))
    assert found < 0.002 < wrong(sharpened(*given), truth) / 2


def test_colours_are_stretched_only_where_neighbours_differ_little():
    values = np.random.default_rng(0).uniform(0, 1, (3, 60, 60)).astype(np.float32)
    np.testing.assert_allclose(stretched([values]), np.eye(3), atol=1e-6)
    gray = np.repeat(values[:1], 3, axis=0)
    np.testing.assert_allclose(stretched([gray]) @ np.ones(3), 1, rtol=1e-3)
    unlike = np.array([1, -1, 0]) / np.sqrt(2)
    assert np.linalg.norm(stretched([gray]) @ unlike) > 10
    masked = np.where(np.arange(60) < 20, np.float32(np.inf), values)
    np.testing.assert_array_equal(stretched([masked]), stretched([values[..., 20:]]))


def test_a_boundary_further_off_than_a_band_comes_home_in_several_passes(monkeypatch):
    image, truth = waves()
    canvas, small = on_canvas(image, truth, 4)
    shifted = np.roll(small, 7, axis=1)
    shifted[:, :7] = small[:, :7]
    home = wrong(sharpened(shifted, canvas), truth)
    monkeypatch.setattr(coarse_to_fine, "PASSES", 1)
    assert home < 0.004 < wrong(sharpened(shifted, canvas), truth)


def grains(height=320, width=384):
    """Gray: noise of the same mean and deviation in both regions, coarse in the one and fine in the other."""
    _, truth = waves(height, width)
    noise = np.random.default_rng(1).standard_normal((2, height, width))
    coarse, fine = (gaussian_filter(each, sigma) for each, sigma in zip(noise, (4, 1), strict=True))
    image = 128 + 40 * np.where(truth, fine / fine.std(), coarse / coarse.std())
    return np.clip(image, 0, 255).astype(np.uint8), truth


def stained(height=320, width=384):
    """The same in colour: of one tone and one deviation in both regions, and noise in each channel."""
    image, truth = grains(height, width)
    noise = np.random.default_rng(2).normal(0, 4, (height, width, 3))
    return np.clip(image[..., None] * [1, 0.9, 0.8] + noise, 0, 255).astype(np.uint8), truth


def described(image, factor):
    net = Segmenter.from_pretrained("texture").net
    canvas = canvas_of(image, 3, net.stride, -(-image.shape[0] * image.shape[1] // factor**2))
    assert canvas.factor == factor
    return Described.of(canvas, net, torch.device("cpu"), 1, needs_whole=False)


@pytest.mark.parametrize("kind", [grains, stained])
def test_textures_bring_boundaries_home_that_colours_do_not_show(monkeypatch, kind):
    image, truth = kind()
    seen = described(image, 2)
    rough = np.roll(seen.canvas.labels_in(truth, "truth"), 5, axis=1)
    rough[:, :5] = 0
    found = wrong(sharpened(rough, seen.canvas, described=seen), truth)
    assert found < 0.6 * wrong(sharpened(rough, seen.canvas), truth)
    monkeypatch.setattr(coarse_to_fine, "DESCRIBED", truth.size - 1)
    assert found < 0.6 * wrong(sharpened(rough, seen.canvas, described=seen), truth)


def test_textures_count_in_the_first_passes_of_a_level_and_colours_alone_in_the_last(monkeypatch):
    image, truth = stained()
    seen, told = described(image, 4), []

    def noted(*args, textures, **more):
        told.append(textures is not None)
        return refined(*args, textures=textures, **more)

    monkeypatch.setattr(coarse_to_fine, "refined", noted)
    sharpened(np.roll(seen.canvas.labels_in(truth, "truth"), 3, axis=1), seen.canvas, described=seen)
    assert told == [True] * 5 + [False] * 2 + [True] * 2 + [False]  # blocks of 4 to 2 pixels, and of 2 to 1


@pytest.mark.parametrize("kind", [grains, stained])
def test_windows_of_textures_give_the_same_labels_as_the_whole(monkeypatch, kind):
    monkeypatch.setattr(textures, "TILE", 128)
    image, truth = kind()
    level = described(image, 2)
    rough = np.roll(truth, 6, axis=1).astype(np.int16)
    seen = Seen.of(level.canvas, 1)
    told = Textures.of(level, seen.read, rough.shape)
    whole = refined(rough, seen, None, core=1000, textures=told)
    assert (whole != refined(rough, seen, None, core=1000)).any()
    np.testing.assert_array_equal(refined(rough, seen, None, core=48, textures=told), whole)
    monkeypatch.setattr(Textures, "margin", 8)
    assert (refined(rough, seen, None, core=48, textures=told) != whole).any()


def test_tiles_are_described_like_the_whole(monkeypatch):
    image, truth = grains()
    level = described(image, 2)
    read = Seen.of(level.canvas, 1).read
    whole, tiled = (Textures.of(level, read, truth.shape) for _ in range(2))
    whole.cover(truth)
    monkeypatch.setattr(textures, "TILE", 128)
    tiled.cover(truth)
    box = slice(0, 320), slice(0, 384)
    got = tiled._blocks(box)
    monkeypatch.undo()
    assert len(tiled.tiles) > len(whole.tiles) == 1
    np.testing.assert_allclose(got, whole._blocks(box), atol=0.02)


@pytest.mark.parametrize("kind", [grains, stained])
def test_a_turned_picture_with_textures_gets_the_turned_boundaries(kind):
    image, truth = kind()
    straight, turned = described(image, 2), described(np.ascontiguousarray(image.swapaxes(0, 1)[:, ::-1]), 2)
    small = straight.canvas.labels_in(truth, "truth")
    first, second = (sharpened(small, each.canvas, described=each) for each in (straight, turned))
    np.testing.assert_array_equal(second, first.T[:, ::-1])


@pytest.mark.parametrize(("kind", "low", "high"), [(stained, 0.0, 0.1), (waves, 1.0, 100.0)])
def test_textures_count_the_less_the_better_colours_tell_regions_apart(monkeypatch, kind, low, high):
    image, truth = kind()
    level, box, seen = described(image, 2), (slice(0, 320), slice(0, 384)), []
    layer = Textures.of(level, Seen.of(level.canvas, 1).read, truth.shape)
    layer.cover(truth)
    bands = coarse_to_fine.bands_of(truth, 4)
    told = Colours.told
    monkeypatch.setattr(Colours, "told", lambda self: seen.append(told(self)[self.count > 1]) or told(self))
    found = layer.costs(truth, box, bands)
    assert low <= np.quantile(seen[0], 0.1) <= np.quantile(seen[0], 0.9) < high
    monkeypatch.setattr(Colours, "told", lambda self: np.zeros(self.count.shape))
    alone = layer.costs(truth, box, bands)
    for number, (_, cost) in bands.items():
        added, most = (each[number].cost - cost for each in (found, alone))
        assert (added >= most / (1 + high) - 1e-5).all()
        assert added.sum() <= most.sum() / (1 + low) + 1e-3


def test_what_colours_tell_is_the_ratio_of_variances_between_and_within_regions():
    rng = np.random.default_rng(4)
    pixels = [rng.multivariate_normal(mean, np.diag(spread), 4000) for mean, spread in
              [((0.2, 0.5, 0.4), (0.01, 0.02, 0.005)), ((0.4, 0.4, 0.4), (0.02, 0.01, 0.01))]]  # fmt: skip
    colours, y, x = Colours(9, (2, 3)), np.array([1]), np.array([2])
    colours.add(np.zeros((9, 1), np.float32), np.array([0]), np.array([1]))  # a region that meets no other
    assert not colours.told().any()
    for each in pixels:
        planes = each.T.reshape(3, 40, 100).astype(np.float32)
        colours.add(moments(torch.from_numpy(planes), 100).mean(axis=2), y, x)
    within = sum(np.cov(each.T, bias=True) for each in pixels) / 2 + coarse_to_fine.ALIKE**2 * np.eye(3)
    between = np.cov(np.stack([each.mean(axis=0) for each in pixels], axis=1), bias=True)
    expected = np.zeros((2, 3))
    expected[1, 2] = np.trace(np.linalg.solve(within, between))
    np.testing.assert_allclose(colours.told(), expected, rtol=1e-3)


def test_moments_leave_out_what_is_outside():
    values = torch.rand(2, 8, 8, generator=torch.Generator().manual_seed(0))
    values[:, :3, :2] = torch.inf
    values[:, 4:, 4:] = torch.inf
    found = moments(values, 4)
    known = values[:, :4, :4][:, values[0, :4, :4].isfinite()].numpy()
    expected = [known[0], known[1], known[0] ** 2, known[0] * known[1], known[1] ** 2]
    np.testing.assert_allclose(found[:, 0, 0], [each.mean() for each in expected], rtol=1e-5)
    np.testing.assert_array_equal(found[:, 1, 1], 0)


@pytest.mark.parametrize("flips", list(product([False, True], repeat=3)))
def test_a_box_lies_where_its_pixels_come_from(flips):
    pose, picture, box = Pose(*flips), np.arange(35).reshape(5, 7), (slice(1, 4), slice(0, 2))
    np.testing.assert_array_equal(pose.apply(picture)[box], pose.apply(picture[lying(pose, box, (5, 7))]))
    assert posed(pose, lying(pose, box, (5, 7)), (5, 7)) == box


@given(st.integers(1, 5000))
def test_levels_lead_down_to_the_pixel_in_steps_of_at_most_two(factor):
    steps = list(levels(factor))
    assert [coarse for coarse, _ in steps[1:]] == [fine for _, fine in steps[:-1]]
    assert (steps[-1][1] if steps else factor) == 1
    assert all(1 < coarse / fine <= 2 for coarse, fine in steps)


def recorded(image, sizes):
    """A source that notes how many pixels are read at once."""
    whole = open_source(image)

    def window(top, bottom, left, right):
        sizes.append((bottom - top) * (right - left))
        return Picture(whole.read(top, bottom, left, right), None)

    return Source("image", whole.shape, whole.channels, whole.dtype, window)


def test_a_large_picture_is_read_in_windows(monkeypatch):
    for name, value in (("CORE", 64), ("KEPT", 100)):
        monkeypatch.setattr(coarse_to_fine, name, value)
    monkeypatch.setattr("shapetailor.segmentation.canvas.STRIP", 2**14)
    image, truth = waves(640, 768)
    sizes = []
    canvas, small = on_canvas(recorded(image, sizes), truth, 4)
    found = sharpened(small, canvas)
    assert 0 < max(sizes) <= 2**14 + 4 * 768
    np.testing.assert_array_equal(found, sharpened(small, canvas_of(image, 3, 1, truth.size // 16)))


def test_windows_that_look_the_same_are_not_done_again(monkeypatch):
    image, truth = waves(640, 768)  # four windows
    canvas, small = on_canvas(image, truth, 4)
    other = small.copy()
    other[:6] = 1 - other[:6].clip(0, 1)
    kept, done = Kept(), []
    first = sharpened(small, canvas, kept=kept)
    monkeypatch.setattr(coarse_to_fine, "refine", lambda *args: done.append(args) or refine(*args))
    np.testing.assert_array_equal(sharpened(small, canvas, kept=kept), first)
    assert not done
    changed = sharpened(other, canvas, kept=kept)
    partly, _ = len(done), done.clear()
    np.testing.assert_array_equal(changed, sharpened(other, canvas))
    assert 0 < partly < len(done)


@pytest.fixture(scope="module")
def segmenter():
    return Segmenter.from_pretrained("texture", max_pixels=160**2)


@pytest.fixture(scope="module")
def pebbly():
    """Two textures that a small picture still shows, larger than what regions are found on."""
    image, truth = waves(300, 308)
    return image, truth


def test_regions_of_a_large_picture_have_boundaries_to_the_pixel(segmenter, pebbly):
    image, truth = pebbly
    seen = []
    result = segmenter.segment(
        image, 2, return_descriptors=True, callback=lambda _, labels, __: seen.append(labels.shape)
    )
    labels = result.labels if result.labels[0, 0] == truth[0, 0] else 1 - result.labels
    assert labels.dtype == np.int64
    assert wrong(labels, truth) < 0.004
    assert set(seen) == {(150, 154)}
    assert result.descriptors.shape[1:] == (150, 154)


def test_given_regions_and_marks_hold_on_a_large_picture(segmenter, pebbly):
    image, truth = pebbly
    marks = np.full(truth.shape, -1)
    marks[150, 10:40], marks[150, 60:62] = 0, 1  # the second in the midst of the other region
    result = segmenter.segment(image, init=truth, scribbles=marks, iterations=1)
    np.testing.assert_array_equal(result.labels[marks >= 0], marks[marks >= 0])
    assert wrong(result.labels, truth) < 0.01


def test_no_iteration_leaves_given_regions_as_they_are(segmenter, pebbly):
    image, _ = pebbly
    start = np.repeat(np.arange(308)[None] // 154, 300, axis=0)
    np.testing.assert_array_equal(segmenter.segment(image, init=start, iterations=0, min_share=0).labels, start)


def test_strokes_on_a_large_picture_end_in_sharp_boundaries(segmenter, pebbly):
    image, truth = pebbly
    session = segmenter.open(image, 2)
    session.add(Stroke(0, [(30, 150), (60, 200)]))
    session.add(Stroke(1, [(270, 150)]))
    assert wrong(session.result().labels, truth) < 0.3 * wrong(session.result(refine=False).labels, truth) + 0.004


@given(arrays(np.int16, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.integers(-1, 2)))
def test_pieces_are_the_connected_ones_in_the_order_of_their_first_pixels(labels):
    pieces, region, area = pieces_of(labels)
    np.testing.assert_array_equal(pieces, connected_components(labels, background=-1, connectivity=1))
    np.testing.assert_array_equal(region[pieces], labels)
    np.testing.assert_array_equal(area, np.bincount(pieces.ravel(), minlength=len(area)))
