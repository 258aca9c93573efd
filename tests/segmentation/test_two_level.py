"""Local means, two networks as one descriptor, and how the second is trained."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shapetailor import STDNN, EvolutionConfig, Segmenter, metrics
from shapetailor.cli import main
from shapetailor.datasets import ProceduralTextures
from shapetailor.datasets.mosaics import MosaicDataset
from shapetailor.evolution.local_means import cell_side, local_means
from shapetailor.evolution.region_costs import Tailor
from shapetailor.network.checkpoint import load_model, save_model
from shapetailor.network.config import STDNNConfig
from shapetailor.network.describer import Describer, Descriptors
from shapetailor.network.two_level import TwoLevels, describe_whole
from shapetailor.training.augmentation import Batches
from shapetailor.training.boundary_samples import PairMaker
from shapetailor.training.corpus import read_corpus
from shapetailor.training.sharpen import SharpenConfig, choice_loss, judge, sharpen

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


@pytest.fixture(scope="module")
def trained(tmp_path_factory, mosaics):
    folder = tmp_path_factory.mktemp("model")
    net = networks()
    net.fine = None
    net.config = FIRST
    save_model(folder / "first.safetensors", net, {"training": {"seed": 0}})
    return folder / "first.safetensors"


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


@pytest.fixture(scope="module")
def pairs(mosaics):
    corpus = read_corpus(mosaics, 64)
    corpus = replace(corpus, images=corpus.images.expand(-1, 3, -1, -1))
    net = networks()
    maker = PairMaker(net, net.fine, 3, 0.125, 1)
    return maker, maker.make(Batches(corpus, 0, perturb=False), 16, 0)


def test_targets_are_the_truth_where_both_regions_reach(pairs):
    _, made = pairs
    contested = made.target >= 0
    assert 0.02 < contested.float().mean() < 0.6
    for number, names in enumerate(made.names):
        truth = made.truths[number, 1::2, 1::2]
        where = contested[number]
        assert (names[made.target[number, where].long()] == truth[where]).all()
        assert (made.inside[number, :, where] >= 0).float().mean() > 0.9


def test_regions_move_to_where_costs_say(pairs):
    maker, made = pairs

    def oracle(few):
        right = torch.stack([few.target != 0, few.target != 1], dim=1).float()
        stay = (few.own < 0.5).float()
        return torch.where((few.target < 0)[:, None], stay, right)

    after = maker.moved(made, oracle)
    before = (made.regions == made.truths).float().mean()
    assert (after.regions == after.truths).float().mean() > before + 0.01
    torch.testing.assert_close(after.names, made.names)


def test_both_sides_of_a_boundary_weigh_the_same():
    cost = torch.zeros(1, 2, 1, 100)
    cost[0, 1] = 0.4  # everything goes to the first
    target = torch.cat([torch.zeros(1, 1, 60), torch.ones(1, 1, 40)], dim=2).long()
    wrong, right = np.log1p(np.exp(2.0)), np.log1p(np.exp(-2.0))
    assert float(choice_loss(cost, target)) == pytest.approx((wrong + right) / 2, rel=1e-6)


CONFIG = SharpenConfig(network=FINE, size=64, steps=30, batch=4, samples=32, save_every=10)


def test_the_second_network_learns_and_the_first_stays(trained, mosaics, tmp_path):
    net = sharpen(trained, mosaics, tmp_path / "new.safetensors", CONFIG, device="cpu", progress=False)
    found, metadata = load_model(tmp_path / "new.safetensors")
    first, _ = load_model(trained)
    for name, each in first.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], each, rtol=0, atol=0)
    assert metadata["sharpening"]["steps"] == 30
    lines = (tmp_path / "new.log.jsonl").read_text().splitlines()
    assert len(lines) == 3
    assert not (tmp_path / "new.resume.safetensors").exists()
    corpus = read_corpus(mosaics, 64)
    corpus = replace(corpus, images=corpus.images.expand(-1, 3, -1, -1))
    made = PairMaker(net, net.fine, 5, 0.125, 1).make(Batches(corpus, 1, perturb=False), 16, 5)
    fresh = networks(7).fine
    fresh.set_statistics(net.fine.mean, net.fine.std)
    assert judge(net.fine, made)["validation_loss"] < judge(fresh, made)["validation_loss"] - 0.01


def test_a_stopped_run_goes_on_as_if_never_stopped(trained, mosaics, tmp_path, monkeypatch):
    config = replace(CONFIG, steps=8, samples=16, save_every=3)
    whole = sharpen(trained, mosaics, tmp_path / "whole.safetensors", config, device="cpu", progress=False)
    from shapetailor.training import sharpen as sharpening

    taken = sharpening._step

    def stop(fine, optimizer, made, step, settings):
        if step == 7:
            raise KeyboardInterrupt
        return taken(fine, optimizer, made, step, settings)

    out = tmp_path / "part.safetensors"
    monkeypatch.setattr(sharpening, "_step", stop)
    with pytest.raises(KeyboardInterrupt):
        sharpen(trained, mosaics, out, config, device="cpu", progress=False)
    monkeypatch.setattr(sharpening, "_step", taken)
    assert not out.exists()
    with pytest.raises(ValueError, match="left from a run"):
        sharpen(trained, mosaics, out, config, device="cpu", progress=False)
    resumed = sharpen(trained, mosaics, out, config, resume=True, device="cpu", progress=False)
    for name, each in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], each, rtol=0, atol=0)
    with pytest.raises(ValueError, match="cannot be resumed"):
        sharpen(trained, mosaics, out, replace(config, steps=9), resume=True, device="cpu", progress=False)


def test_a_picture_is_segmented_with_both_networks_however_it_lies(trained, mosaics):
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


def test_the_command_sharpens_a_model(trained, tmp_path, capsys):
    folder = tmp_path / "data"
    assert main(["data", "mosaics", "--count", "4", "--size", "64", "--regions", "2-2", "--out", str(folder)]) == 0
    arguments = ["sharpen", str(trained), "--data", str(folder), "--steps", "2", "--samples", "4", "--device", "cpu"]
    assert main([*arguments, "--out", str(tmp_path / "new.safetensors")]) == 0
    assert "second network" in capsys.readouterr().out
    assert load_model(tmp_path / "new.safetensors")[0].fine is not None
    assert main([*arguments, "--out", str(tmp_path / "new.txt")]) == 2
