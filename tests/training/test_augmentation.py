"""Training samples: what they are made of, and that they depend on seed, step and index alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from shapetailor.training import augmentation as augment
from shapetailor.training.augmentation import (
    Batches,
    change_tones,
    cut_textures,
    grow,
    move_boundaries,
    perturbed_regions,
    turn,
)
from shapetailor.training.corpus import Corpus

SIZE = 32


def corpus(images=3, channels=3, size=SIZE, seed=0):
    """Images of two halves, each of one colour, so that a pixel's colour says which texture it came from."""
    generator = torch.Generator().manual_seed(seed)
    colours = torch.rand(images, 2, channels, generator=generator) * 0.8 + 0.1
    truths = (torch.arange(size) >= size // 2).long().expand(images, size, size).contiguous()
    pictures = torch.stack([colours[i][truths[i]].permute(2, 0, 1) for i in range(images)])
    return Corpus(pictures, truths, tuple(f"image{i}" for i in range(images)))


def test_a_sample_depends_on_seed_step_and_index_alone():
    first, second = Batches(corpus(), seed=5), Batches(corpus(), seed=5)
    whole = first(7, range(6))
    second(3, range(2))  # what was drawn before does not matter
    for part, expected in zip(second(7, range(1, 6, 2)), whole, strict=True):
        assert torch.equal(part, expected[1::2])


def test_other_steps_and_seeds_give_other_samples():
    batches = Batches(corpus(), seed=5)
    drawn = [batches(7, range(4)), batches(8, range(4)), Batches(corpus(), seed=6)(7, range(4))]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert not torch.equal(drawn[i].images, drawn[j].images)


def test_without_mosaics_and_perturbation_samples_are_the_images_with_their_truth():
    data = corpus()
    batch = Batches(data, seed=0, mosaics=False, perturb=False)(0, range(8))
    assert torch.equal(batch.regions, batch.truths)
    for image, truth in zip(batch.images, batch.truths, strict=True):
        matches = [torch.equal(image, each) for each in data.images]
        assert torch.equal(truth, data.truths[matches.index(True)])


def test_each_region_of_a_mosaic_shows_one_texture():
    batches, rng = Batches(corpus(images=4), seed=1), np.random.default_rng(1)
    shown = 0
    for image, truth in (batches._mosaic(batches._textures[0], rng) for _ in range(6)):
        means = []
        for region in truth.unique():
            pixels = image[:, truth == region]
            assert torch.allclose(pixels, pixels[:, :1].expand_as(pixels), atol=1e-5)
            means.append(pixels[:, 0])
        assert all(not torch.allclose(a, b, atol=1e-3) for a, b in pairwise(means))
        shown += len(means)
    assert shown >= 12


def test_textures_never_show_a_pixel_from_outside_their_rectangle():
    images = torch.zeros(1, 1, SIZE, SIZE)
    images[:, :, 8:20, 4:14] = 1.0
    cut = cut_textures(images, np.array([[0, 8, 4, 12, 10]] * 5), np.random.default_rng(0))
    assert cut.shape == (5, 1, SIZE, SIZE)
    assert torch.allclose(cut, torch.ones_like(cut), atol=1e-5)


def test_a_texture_is_turned_and_scaled_not_only_copied():
    ramp = torch.linspace(0, 1, SIZE).expand(1, 1, SIZE, SIZE).contiguous()
    cut = cut_textures(ramp, np.array([[0, 0, 0, SIZE, SIZE]] * 8), np.random.default_rng(0))
    slopes = torch.diff(cut[:, 0, :, :2], dim=2).abs()[:, :, 0].median(1).values * (SIZE - 1)
    assert slopes.min() < 0.5  # turned away from the axis
    assert slopes.max() <= 1 / augment.SCALES[0] + 1e-3


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_changed_tones_stay_in_range_and_in_order(seed, channels):
    ramp = torch.linspace(0, 1, 16).expand(2, channels, 4, 16).contiguous()
    changed = change_tones(ramp, np.random.default_rng(seed))
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert (torch.diff(changed, dim=-1) > 0).all()


@given(st.integers(0, 4), st.integers(0, 1000))
def test_growing_is_a_square_dilation(radius, seed):
    truth = torch.from_numpy(np.random.default_rng(seed).integers(-1, 3, (12, 12)))
    expected = ndimage.grey_dilation((truth == 1).numpy(), size=2 * radius + 1, mode="constant")
    assert np.array_equal((grow(truth, 1, radius) == 1).numpy(), expected)
    assert torch.equal(grow(truth, 1, radius)[~torch.from_numpy(expected)], truth[~torch.from_numpy(expected)])


def test_moved_boundaries_keep_most_of_each_region():
    truth = corpus().truths[0]
    kept = [(move_boundaries(truth, np.random.default_rng(i)) == truth).float().mean().item() for i in range(20)]
    assert 0.75 < np.mean(kept) < 0.999
    assert min(kept) < 0.97


def test_every_kind_of_regions_occurs():
    truth = corpus().truths[0]
    drawn = [perturbed_regions(truth, np.random.default_rng(i)) for i in range(200)]
    whole = sum(not bool(each.any()) for each in drawn)
    true = sum(torch.equal(each, truth) for each in drawn)
    boxes = sum(int(each.max()) > 1 for each in drawn)
    assert 70 < whole < 140
    assert true > 15
    assert boxes > 5
    assert all(each.dtype == truth.dtype and each.shape == truth.shape for each in drawn)


def test_textures_too_small_for_mosaics_leave_photographs():
    stripes = (torch.arange(SIZE) // 2 % 2).long().expand(2, SIZE, SIZE).contiguous()
    data = Corpus(torch.rand(2, 1, SIZE, SIZE), stripes, ("a", "b"))
    batch = Batches(data, seed=0)(0, range(4))
    assert batch.images.shape == (4, 1, SIZE, SIZE)


def test_turning_by_a_quarter_moves_pixels_exactly():
    image, truth = torch.rand(3, SIZE, SIZE), stripes_of(SIZE)
    turned, labels = turn(image, truth, np.pi / 2)
    torch.testing.assert_close(turned, image.rot90(1, (1, 2)), atol=1e-4, rtol=0)
    assert torch.equal(labels, truth.rot90(1))


@pytest.mark.parametrize("angle", [0.3, 1.0, 2.5])
def test_turning_by_any_angle_fills_the_square_from_inside(angle):
    # A frame of ones around zeros: the turned square is inscribed, so that it touches the frame in few places only.
    image = torch.ones(1, SIZE, SIZE)
    image[:, 1:-1, 1:-1] = 0
    turned, labels = turn(image, stripes_of(SIZE), angle)
    assert turned.mean() < 0.5 * image.mean()
    assert set(labels.unique().tolist()) == {0, 1}


def test_a_turn_that_would_lose_a_region_is_not_done():
    truth = torch.zeros(SIZE, SIZE, dtype=torch.long)
    truth[0, 0] = 1
    image = torch.rand(1, SIZE, SIZE)
    turned, labels = turn(image, truth, np.pi / 4)
    assert turned is image
    assert labels is truth


def test_folders_are_drawn_equally_often_and_mosaics_do_not_mix_them():
    few, many = 2, 6
    dark, bright = torch.full((few, 1, SIZE, SIZE), 0.1), torch.full((many, 1, SIZE, SIZE), 0.9)
    truths = stripes_of(SIZE).expand(few + many, -1, -1).contiguous()
    names = tuple(f"{i}" for i in range(few + many))
    data = Corpus(torch.cat([dark, bright]), truths, names, (0,) * few + (1,) * many)
    images = Batches(data, seed=0)(0, range(60)).images.flatten(1)
    is_dark = images.amax(1) < 0.4
    assert bool((is_dark | (images.amin(1) > 0.4)).all()), "a mosaic mixes textures of two folders"
    assert 15 < int(is_dark.sum()) < 45


def stripes_of(size):
    return (torch.arange(size) >= size // 2).long().expand(size, size).contiguous()
