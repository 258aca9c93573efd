"""Pixels near a boundary go with those around them that look like them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shapetailor import EvolutionConfig, Segmenter, metrics
from shapetailor.evolution.colour_crf import (
    ALIKE,
    NEAR,
    ROUNDS,
    STEP,
    TEMPERATURE,
    WINDOW,
    _weights,
    follow,
    window_steps,
)
from shapetailor.evolution.evolve import evolve
from shapetailor.evolution.region_costs import Region
from shapetailor.network.checkpoint import load_model


def region(labels, costs, number, band):
    """A region of which `follow` sees only costs on a band."""
    places = np.flatnonzero(band)
    none = np.zeros(len(places))
    cost = costs[number].ravel()[places].astype(np.float32)
    return Region(places, none.astype(np.float32), none, none, cost, costs[number][labels == number])


def regions_of(labels, costs, bands):
    return {number: region(labels, costs, number, band) for number, band in enumerate(bands)}


def slow_follow(labels, costs, bands, seen, weight):
    """The mean field, pixel by pixel and pair by pair."""
    height, width = labels.shape
    contested = np.sum(bands, axis=0) > 1
    share = np.stack([(labels == number).astype(float) for number in range(len(bands))])
    for _ in range(ROUNDS):
        after = share.copy()
        for y, x in np.argwhere(contested):
            votes, total = np.zeros(len(bands)), 0.0
            for v in range(y - WINDOW, y + WINDOW + 1, STEP):
                for u in range(x - WINDOW, x + WINDOW + 1, STEP):
                    if 0 <= v < height and 0 <= u < width and (v, u) != (y, x):
                        far = ((v - y) ** 2 + (u - x) ** 2) / (2 * NEAR**2)
                        unlike = np.square(seen[:, v, u] - seen[:, y, x]).sum() / (2 * ALIKE**2)
                        total += np.exp(-far - unlike)
                        votes += np.exp(-far - unlike) * share[:, v, u]
            mine = [number for number, band in enumerate(bands) if band[y, x]]
            logits = weight * votes[mine] / max(total, 1e-30) - np.array([costs[i][y, x] for i in mine]) / TEMPERATURE
            likely = np.exp(logits - logits.max())
            after[:, y, x] = 0
            after[mine, y, x] = likely / likely.sum()
        share = after
    return np.where(contested, share.argmax(axis=0), labels), share


@settings(max_examples=10)
@given(st.integers(0, 2**31), st.integers(2, 4))
def test_it_is_the_mean_field_of_all_pairs_in_the_window(seed, count):
    rng = np.random.default_rng(seed)
    labels = rng.integers(count, size=(9, 11))
    bands = (rng.random((count, 9, 11)) < 0.6) | (labels == np.arange(count)[:, None, None])
    costs = rng.random((count, 9, 11))
    seen = (0.5 + 0.04 * rng.normal(size=(3, 9, 11))).astype(np.float32)
    found = follow(labels, regions_of(labels, costs, bands), seen, 3.0)
    expected, share = slow_follow(labels, costs, bands, seen, 3.0)
    likely = np.sort(share, axis=0)
    clear = (likely[-1] - likely[-2]) > 1e-4
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(found[clear], expected[clear])


def split(column, size=48):
    return np.tile((np.arange(size) >= column).astype(np.int64), (size, 1))


@pytest.mark.parametrize("contrast", [0.01, 0.2, 1.0])
def test_weights_are_exponentials_of_unlike_colours_and_none_beyond_the_picture(contrast):
    rng = np.random.default_rng(0)
    seen = contrast * rng.random((3, 30, 40), np.float32)
    seen[:, 4:9, 7] = np.inf  # outside
    rows, columns = np.nonzero(np.isfinite(seen[0]))
    steps, width = window_steps(), 40 + 2 * WINDOW
    found = _weights(seen, (rows + WINDOW) * width + columns + WINDOW, steps @ [width, 1])
    wide = np.pad(seen.astype(float), ((0, 0), (WINDOW, WINDOW), (WINDOW, WINDOW)), constant_values=np.inf)
    around = wide[:, rows[:, None] + WINDOW + steps[:, 0], columns[:, None] + WINDOW + steps[:, 1]]
    unlike = np.square(around - seen[:, rows, columns][:, :, None]).sum(axis=0) / (2 * ALIKE**2)
    expected = np.exp(-np.square(steps).sum(axis=1) / (2 * NEAR**2)) * np.exp(-unlike)
    expected /= np.maximum(expected.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    there = expected.max(axis=1) > 1e-30
    assert there.mean() > 0.5
    np.testing.assert_allclose(found[there], expected[there], rtol=1e-4, atol=1e-9)
    assert (found[np.isinf(unlike)] == 0).all()


def test_a_boundary_beside_an_edge_moves_to_it():
    truth, labels = split(24), split(19)
    seen = np.where(truth == 1, 0.7, 0.3)[None].astype(np.float32)
    seen += 0.02 * np.random.default_rng(0).normal(size=seen.shape).astype(np.float32)
    band = np.abs(np.arange(48) - 19) < 10
    bands = np.broadcast_to(band, (2, 48, 48))
    even = regions_of(labels, np.zeros((2, 48, 48)), bands)
    np.testing.assert_array_equal(follow(labels, even, seen, 4.0), truth)
    # costs that are sure of another place count for more
    sure = regions_of(labels, np.stack([labels == 1, labels == 0]).astype(float) * 2, bands)
    np.testing.assert_array_equal(follow(labels, sure, seen, 4.0), labels)


def test_marked_pixels_and_pixels_out_of_reach_stay():
    truth, labels = split(24), split(19)
    seen = np.where(truth == 1, 0.7, 0.3)[None].astype(np.float32)
    bands = np.broadcast_to(np.abs(np.arange(48) - 19) < 3, (2, 48, 48))
    fixed = np.full(labels.shape, -1)
    fixed[10, 20] = 1
    found = follow(labels, regions_of(labels, np.zeros((2, 48, 48)), bands), seen, 4.0, fixed)
    assert found[10, 20] == 1
    assert found[11, 20] == 0
    np.testing.assert_array_equal(found[~bands[0]], labels[~bands[0]])


def test_nothing_is_contested_by_a_single_region():
    labels = np.zeros((5, 6), np.int64)
    alone = regions_of(labels, np.zeros((1, 5, 6)), np.ones((1, 5, 6), bool))
    assert follow(labels, alone, np.zeros((1, 5, 6), np.float32), 4.0) is labels


def test_the_evolution_ends_with_it_where_it_is_told_what_is_seen():
    truth, start = split(24), split(20)
    seen = np.where(truth == 1, 0.7, 0.3)[None].astype(np.float32)
    blurred = np.clip((np.arange(48) - 20) / 8, 0, 1)  # descriptors that know the boundary only roughly
    image = torch.from_numpy(np.tile(blurred, (48, 1)).astype(np.float32))[None, None]

    def values(picture, maps):
        return picture * (maps >= 0)[:, None]

    config = EvolutionConfig(iterations=1, reach=8, move=1.0, likeness=8.0)
    without = evolve(image, start, values, config)
    with_it = evolve(image, start, values, config, seen=seen)
    assert metrics.covering(with_it.labels, truth) > metrics.covering(without.labels, truth)
    assert with_it.energy == without.energy
    np.testing.assert_array_equal(
        evolve(image, start, values, replace(config, likeness=0.0), seen=seen).labels, without.labels
    )
    np.testing.assert_array_equal(evolve(image, start, values, replace(config, iterations=0), seen=seen).labels, start)


def test_a_likeness_that_makes_no_sense_is_refused():
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="likeness must be finite and not negative"):
            EvolutionConfig(likeness=wrong)


def test_every_model_on_blocks_follows_edges_and_the_papers_does_not():
    texture = Segmenter.from_pretrained("texture")
    alone = load_model("texture")[0]
    alone.fine = None
    for segmenter in (texture, Segmenter(alone)):
        assert segmenter.evolution.likeness > 0
    paper = Segmenter.from_pretrained("paper")
    assert paper.evolution == EvolutionConfig()


def test_a_boundary_is_found_to_the_pixel_where_the_eye_sees_one():
    rng = np.random.default_rng(2)
    height = 70 + 12 * np.sin(np.arange(144) / 20)
    truth = (np.arange(144)[:, None] > height).astype(np.int64)
    noise = rng.normal(0, 12, (144, 144, 3)) + 25 * np.sin(np.arange(144) / 1.5)[:, None] * (truth == 1)[..., None]
    image = np.clip(np.where(truth[..., None] == 1, [90, 120, 90], [150, 110, 90]) + noise, 0, 255).astype(np.uint8)
    alone = load_model("texture")[0]
    alone.fine = None
    for segmenter in (Segmenter.from_pretrained("texture"), Segmenter(alone)):
        without = segmenter.segment(image, 2, evolution=replace(segmenter.evolution, likeness=0.0)).labels
        labels = segmenter.segment(image, 2).labels
        assert metrics.covering(labels, truth) > max(0.985, metrics.covering(without, truth))
