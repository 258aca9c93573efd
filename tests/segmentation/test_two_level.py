"""Local means, and two networks as one descriptor."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shapetailor import STDNN, EvolutionConfig, Segmenter, metrics
from shapetailor.datasets import ProceduralTextures
from shapetailor.datasets.mosaics import MosaicDataset
from shapetailor.evolution.local_means import cell_side, local_means
from shapetailor.evolution.region_costs import Tailor
from shapetailor.network.checkpoint import load_model, save_model
from shapetailor.network.config import STDNNConfig
from shapetailor.network.describer import Describer, Descriptors
from shapetailor.network.two_level import TwoLevels, describe_whole

SMALL = STDNNConfig(
    features="rich", premix=4, scales=(0.5, 4.0), widths=(8, 6), alpha=1.0, head="unit", resolution=64, tol=1e-3
)
FIRST, FINE = replace(SMALL, stride=4), replace(SMALL, stride=2)


def networks(seed=0):
    torch.manual_seed(seed)
    return STDNN(replace(FIRST, fine=FINE)).eval()


@pytest.fixture(scope="module")
def mosaics():
    return MosaicDataset(ProceduralTextures(8, 96), 12, (2, 3), 64, 0)


def slow_means(values, inside, sigma):
    """a(x) at every pixel of (H, W), by all pairs of pixels."""
    places = np.argwhere(np.ones(values.shape))
    distance = np.square(places[:, None] - places[None]).sum(axis=2)
    weight = np.exp(-distance / (2 * sigma**2)) * inside.ravel()
    rest = 1e-3
    mean = values[inside].mean()
    return ((weight @ values.ravel() + rest * mean) / (weight.sum(axis=1) + rest)).reshape(values.shape)


@given(st.integers(0, 2**31), st.sampled_from([0.7, 2.0, 9.0]))
def test_local_means_are_gaussian_averages_of_the_region(seed, sigma):
    rng = np.random.default_rng(seed)
    values, inside = rng.normal(size=(6, 9)), rng.random((6, 9)) < 0.5
    inside[2, 3] = True
    weight = torch.from_numpy(inside)[None].double()
    found = local_means(torch.from_numpy(values)[None] * weight, weight, sigma)
    np.testing.assert_allclose(found[0], slow_means(values, inside, sigma), rtol=1e-9)


def test_means_that_look_far_are_the_regions_mean():
    values = torch.arange(12.0, dtype=torch.float64).reshape(1, 3, 4)
    ones = torch.ones_like(values)
    for sigma in (inf, 1e5):
        torch.testing.assert_close(local_means(values, ones, sigma), torch.full_like(values, 5.5))


def test_cells_are_few_and_made_of_blocks():
    assert [cell_side(*each) for each in ((256, 2), (257, 2), (4096, 4), (5, 1))] == [4, 6, 64, 1]


def test_costs_with_local_means_are_those_of_all_pairs():
    rng = np.random.default_rng(3)
    gray = rng.normal(size=(12, 14)).astype(np.float32)
    labels = np.tile((np.arange(14) >= 6).astype(np.int64), (12, 1))

    def values(image, maps):
        return image * (maps >= 0)[:, None]

    regions = Tailor(torch.from_numpy(gray)[None, None], Descriptors(values), 2, sigma=3.0).start(labels)
    for number, region in regions.items():
        # The region's box is wider than the region by its reach.
        columns = slice(0, 8) if number == 0 else slice(4, 14)
        means = slow_means(gray[:, columns], labels[:, columns] == number, 3.0)
        expected = np.full(gray.shape, np.nan)
        expected[:, columns] = np.square(gray[:, columns] - means)
        np.testing.assert_allclose(region.cost, expected.ravel()[region.band], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(region.own, expected[labels == number], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sigma", [inf, 6.0])
def test_costs_of_blocks_are_those_of_their_pixels(sigma):
    net = networks()
    image = net.fine.prepare(torch.rand(1, 3, 40, 44, generator=torch.Generator().manual_seed(1)))
    labels = np.zeros((40, 44), np.int64)
    labels[:, 21:], labels[25:, 10:30] = 1, 2
    by_blocks = Tailor(image, net.fine.descriptors, 4, sigma=sigma).start(labels)
    by_pixels = Tailor(image, Descriptors(net.fine, 2), 4, sigma=sigma).start(labels)
    for number, region in by_blocks.items():
        np.testing.assert_allclose(region.cost, by_pixels[number].cost, atol=1e-4)
        np.testing.assert_allclose(region.own, by_pixels[number].own, atol=1e-4)


def test_two_levels_say_what_both_networks_say():
    net = networks()
    picture = torch.rand(1, 3, 32, 36)
    first = torch.rand(6, 16, 18).repeat_interleave(2, 1).repeat_interleave(2, 2)
    levels = TwoLevels(net.fine, 6)
    labels = torch.full((1, 32, 36), -1)
    labels[:, 4:, :20], labels[:, 4:, 20:] = 0, 1
    found = levels(levels.prepare(picture, first), labels)
    with torch.no_grad():
        alone = net.fine(net.fine.prepare(picture), labels)
    torch.testing.assert_close(found[:, :6], alone)
    torch.testing.assert_close(found[:, 6:], first[None] * (labels >= 0)[:, None])


def test_averaged_descriptors_keep_their_length_and_move_by_half_a_block():
    class Blocks(Describer):  # which block of 4 each pixel is in, as a direction
        image_channels, stride = 1, 4

        def __call__(self, picture, labels):
            columns = torch.arange(picture.shape[3]) // 4
            return torch.stack([columns.cos(), columns.sin()])[None, :, None].expand(1, 2, len(labels[0]), -1).clone()

    found = describe_whole(Blocks(), torch.zeros(1, 1, 8, 16), positions=2)
    torch.testing.assert_close(found.square().sum(dim=1), torch.ones(1, 8, 16))
    changes = (found[0, 0, 0].diff().abs() > 1e-6).nonzero().squeeze(1)
    assert set((changes + 1).tolist()) == {2, 4, 6, 8, 10, 12, 14}


def test_a_network_with_a_second_one_is_one_file(tmp_path):
    net = networks()
    save_model(tmp_path / "m.safetensors", net)
    other, _ = load_model(tmp_path / "m.safetensors")
    assert other.config == net.config
    assert other.config.to_dict()["fine"]["stride"] == 2
    for name, each in net.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], each, rtol=0, atol=0)
    assert other.rescaled(128).fine.config.resolution == 128


@pytest.mark.parametrize(
    ("fine", "message"),
    [
        (replace(FINE, stride=3), "twice fine's"),
        (replace(FINE, image_channels=1), "image_channels 3"),
        (replace(FINE, resolution=32), "resolution 64"),
        (replace(FIRST, fine=FINE), "without a further"),
        (7, "got 7"),
    ],
)
def test_a_second_network_fits_the_first(fine, message):
    with pytest.raises((TypeError, ValueError), match=message):
        replace(FIRST, fine=fine)


def test_the_exact_gradient_wants_one_mean_a_region():
    with pytest.raises(ValueError, match="infinite locality"):
        EvolutionConfig(gradient="exact", locality=0.1)
    with pytest.raises(ValueError, match="locality must be positive"):
        EvolutionConfig(locality=0.0)


def test_a_picture_is_segmented_with_both_networks_however_it_lies(mosaics):
    net = networks(2)
    segmenter = Segmenter(net)
    image = mosaics[1].image[:60, :52]
    seen = []
    found = segmenter.segment(image, 2, callback=lambda *each: seen.append(each[2]))
    assert found.labels.shape == (60, 52)
    assert seen == found.energy
    assert (np.diff(found.energy) < 0).all()
    turned = segmenter.segment(np.rot90(image)[:, ::-1], 2).labels
    assert metrics.covering(turned, np.rot90(found.labels)[:, ::-1]) == 1.0
    marks = np.full(image.shape[:2], -1)
    marks[5:9, 5:9], marks[-9:-5, -9:-5] = 0, 1
    kept = segmenter.segment(image, scribbles=marks).labels
    np.testing.assert_array_equal(kept[marks >= 0], marks[marks >= 0])
