"""The second network: its samples, what it learns, and what the model's file says of it afterwards."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shapetailor import STDNN, EvolutionConfig
from shapetailor.cli import main
from shapetailor.cli import sharpen as command
from shapetailor.datasets import ProceduralTextures
from shapetailor.datasets.mosaics import MosaicDataset
from shapetailor.evolution.region_shape import shape_of
from shapetailor.io.intensity import Intensity
from shapetailor.network.checkpoint import load_model, read_model, save_model
from shapetailor.network.config import STDNNConfig
from shapetailor.segmentation.usage import Usage
from shapetailor.training.augmentation import Batches
from shapetailor.training.boundary_samples import PairMaker, region_masks
from shapetailor.training.corpus import read_corpus
from shapetailor.training.run_state import state_path
from shapetailor.training.sharpen import SharpenConfig, choice_loss, judge, sharpen

sharpening = import_module("shapetailor.training.sharpen")  # the package has a function of this name

SMALL = STDNNConfig(
    features="rich", premix=4, scales=(0.5, 4.0), widths=(8, 6), alpha=1.0, head="unit", resolution=64, tol=1e-3
)
FIRST, FINE = replace(SMALL, stride=4), replace(SMALL, stride=2)
NEAR = EvolutionConfig(iterations=3, reach=3, locality=0.125, rim=1)
CONFIG = SharpenConfig(network=FINE, near=NEAR, size=64, steps=30, batch=4, samples=32, save_every=10)


def networks(seed=0):
    torch.manual_seed(seed)
    return STDNN(replace(FIRST, fine=FINE)).eval()


@pytest.fixture(scope="module")
def mosaics():
    return MosaicDataset(ProceduralTextures(8, 96), 12, (2, 3), 64, 0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A first network, in a file that does not say how it is used."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "first.safetensors"
    save_model(path, STDNN(FIRST), {"training": {"seed": 0}})
    return path


def run(trained, mosaics, out, config=CONFIG, **options):
    return sharpen(trained, mosaics, out, config, device="cpu", progress=False, **options)


@pytest.fixture(scope="module")
def sharpened(trained, mosaics, tmp_path_factory):
    out = tmp_path_factory.mktemp("sharpened") / "new.safetensors"
    run(trained, mosaics, out)
    return out


@pytest.fixture(scope="module")
def pairs(mosaics):
    corpus = read_corpus(mosaics, 64)
    corpus = replace(corpus, images=corpus.images.expand(-1, 3, -1, -1))
    net = networks()
    maker = PairMaker(net, net.fine, NEAR, 2)
    return maker, maker.make(Batches(corpus, 0, perturb=False), 16, 0)


@given(st.integers(0, 2**31), st.sampled_from([(1, 0), (2, 1), (5, 2), (10, 4)]), st.integers(1, 12))
def test_regions_have_the_dilations_and_cores_that_they_have_in_the_evolution(seed, reach_and_rim, scale):
    reach, rim = reach_and_rim
    rng = np.random.default_rng(seed)
    coarse = rng.integers(-1, 3, (2, -(-40 // scale), -(-44 // scale)))
    coarse[:, :1] = np.resize([0, 1, 2], coarse[:, :1].shape)
    labels = coarse.repeat(scale, axis=1).repeat(scale, axis=2)[:, :40, :44]
    names = rng.integers(3, size=2) % (labels.max(axis=(1, 2)) + 1)
    dilated, core = region_masks(torch.from_numpy(labels), torch.from_numpy(names), reach, rim)
    for number, name in enumerate(names):
        if (labels[number] == name).any():
            shape = shape_of(labels[number], int(name), (slice(0, 40), slice(0, 44)), reach, rim)
            np.testing.assert_array_equal(dilated[number], shape.dilated)
            np.testing.assert_array_equal(core[number], shape.core)


@pytest.mark.parametrize(("left", "own"), [(2, True), (3, False)])
def test_a_region_is_its_own_core_where_less_than_a_tenth_is_left(left, own):
    labels = np.ones((1, 20, 20), np.int64)
    labels[0, 2:5, 2 : 4 + left] = 0  # has a core of `left` pixels
    labels[0, 8, : 30 - np.count_nonzero(labels == 0)] = 0  # has none
    _, core = region_masks(torch.from_numpy(labels), torch.tensor([0]), 2, 1)
    np.testing.assert_array_equal(core[0], shape_of(labels[0], 0, (slice(0, 20), slice(0, 20)), 2, 1).core)
    assert int(core.sum()) == (30 if own else left)


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
    right = torch.stack([made.target != 0, made.target != 1], dim=1).float()
    stay = (made.own < 0.5).float()
    after = maker.moved(made, torch.where((made.target < 0)[:, None], stay, right))
    before = (made.regions == made.truths).float().mean()
    assert (after.regions == after.truths).float().mean() > before + 0.01
    torch.testing.assert_close(after.names, made.names)


def test_samples_follow_the_evolution_and_the_positions_that_they_are_made_for(pairs, mosaics):
    maker, made = pairs
    corpus = read_corpus(mosaics, 64)
    corpus = replace(corpus, images=corpus.images.expand(-1, 3, -1, -1))

    def again(**changes):
        return replace(maker, **changes).make(Batches(corpus, 0, perturb=False), 16, 0)

    further = again(evolution=replace(NEAR, reach=5))
    assert (further.inside >= 0).sum() > (made.inside >= 0).sum()
    assert torch.equal(further.own, made.own)
    assert again(evolution=replace(NEAR, rim=0)).own.sum() > made.own.sum()
    assert not torch.equal(again(evolution=replace(NEAR, locality=0.5)).first, made.first)
    assert not torch.equal(again(positions=1).first, made.first)


def test_both_sides_of_a_boundary_weigh_the_same():
    cost = torch.zeros(1, 2, 1, 100)
    cost[0, 1] = 0.4  # everything goes to the first
    target = torch.cat([torch.zeros(1, 1, 60), torch.ones(1, 1, 40)], dim=2).long()
    wrong, right = np.log1p(np.exp(2.0)), np.log1p(np.exp(-2.0))
    assert float(choice_loss(cost, target)) == pytest.approx((wrong + right) / 2, rel=1e-6)


def test_the_second_network_learns_and_the_first_stays(trained, sharpened, pairs):
    net, metadata = load_model(sharpened)
    first, _ = load_model(trained)
    for name, each in first.state_dict().items():
        torch.testing.assert_close(net.state_dict()[name], each, rtol=0, atol=0)
    assert metadata["sharpening"]["steps"] == 30
    assert len(sharpened.with_suffix(".log.jsonl").read_text().splitlines()) == 3
    assert not state_path(sharpened).exists()
    fresh = networks(7).fine
    fresh.set_statistics(net.fine.mean, net.fine.std)
    _, made = pairs
    assert judge(net.fine, made, 0.125)["validation_loss"] < judge(fresh, made, 0.125)["validation_loss"] - 0.01


def test_the_file_says_that_the_network_is_used_as_it_was_trained(sharpened):
    usual = Usage.usual(4, two_networks=True)
    assert Usage.from_dict(read_model(sharpened).usage) == replace(usual, near=NEAR)


def test_what_the_first_network_says_of_its_use_stays(trained, mosaics, tmp_path):
    usage = replace(Usage.usual(4, False), intensity=Intensity(1.0, 99.0), positions=1)
    save_model(tmp_path / "first.safetensors", load_model(trained)[0], usage=usage.to_dict())
    config = replace(CONFIG, steps=2, samples=2)
    run(tmp_path / "first.safetensors", mosaics, tmp_path / "new.safetensors", config)
    expected = replace(usage, near=CONFIG.near, far=CONFIG.far)
    assert Usage.from_dict(read_model(tmp_path / "new.safetensors").usage) == expected


def test_a_stopped_run_goes_on_as_if_never_stopped(trained, mosaics, sharpened, tmp_path, monkeypatch):
    out, taken = tmp_path / "part.safetensors", sharpening.batch_loss

    def stop(fine, made, step, config):
        if step == 25:  # past the middle
            raise KeyboardInterrupt
        return taken(fine, made, step, config)

    with monkeypatch.context() as patch:
        patch.setattr(sharpening, "batch_loss", stop)
        with pytest.raises(KeyboardInterrupt):
            run(trained, mosaics, out)
    assert not out.exists()
    with pytest.raises(ValueError, match="left from a run"):
        run(trained, mosaics, out)
    for name in ("near", "far"):
        changed = replace(CONFIG, **{name: replace(getattr(CONFIG, name), reach=6)})
        with pytest.raises(ValueError, match=rf"cannot be resumed; .*sharpening\.{name}\.reach: \d → 6"):
            run(trained, mosaics, out, changed, resume=True)
    run(trained, mosaics, out, resume=True)
    assert out.read_bytes() == sharpened.read_bytes()


def test_a_finished_run_is_not_resumed_with_other_settings(trained, mosaics, sharpened):
    before = sharpened.read_bytes()
    run(trained, mosaics, sharpened, resume=True)
    assert sharpened.read_bytes() == before
    with pytest.raises(ValueError, match=r"cannot be resumed; .*sharpening\.near\.rim: 1 → 2"):
        run(trained, mosaics, sharpened, replace(CONFIG, near=replace(NEAR, rim=2)), resume=True)


def test_the_command_sharpens_a_model(trained, tmp_path, capsys, monkeypatch):
    asked = []

    def small(model, data, out, config, **options):
        asked.append(config)
        return sharpen(model, data, out, replace(config, network=FINE, size=64), **options)

    monkeypatch.setattr(command, "sharpen", small)
    folder = tmp_path / "data"
    assert main(["data", "mosaics", "--count", "4", "--size", "64", "--regions", "2-2", "--out", str(folder)]) == 0
    arguments = ["sharpen", str(trained), "--data", str(folder), "--steps", "2", "--samples", "4", "--device", "cpu"]
    assert main([*arguments, "--out", str(tmp_path / "new.safetensors")]) == 0
    assert asked == [SharpenConfig(steps=2, samples=4)]
    assert "second network" in capsys.readouterr().out
    assert load_model(tmp_path / "new.safetensors")[0].fine is not None
    assert main([*arguments, "--out", str(tmp_path / "new.txt")]) == 2
