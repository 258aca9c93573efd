"""The scripts in studies/: stacked networks are the networks they stack, and a tiny run goes through."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from shapetailor import STDNN, STDNNConfig
from shapetailor.baselines.stld import STLD
from shapetailor.clustering import spectrum
from shapetailor.datasets import FAMILIES, Sample, mosaic, texture
from shapetailor.io.images import write_image, write_labels
from shapetailor.loss import separation_loss
from shapetailor.network.checkpoint import load_model

STUDIES = Path(__file__).parents[2] / "studies"
SMALL = STDNNConfig(
    features="rich", premix=5, scales=(0.4, 2.0), widths=(9, 6, 4), alpha=(0.3, 1.2), head="unit", tol=1e-6
)


@pytest.fixture(scope="module")
def script():
    """Return a function: a script's name → its module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(STUDIES)
        yield import_module
        for path in STUDIES.glob("*.py"):
            sys.modules.pop(path.stem, None)


def networks(config, count=3):
    torch.manual_seed(0)
    nets = [STDNN(config) for _ in range(count)]
    for net in nets:
        net.set_statistics(torch.randn(config.channels), torch.rand(config.channels) + 0.5)
        for layer in net.stages:
            torch.nn.init.normal_(layer.bias, std=0.3)
    return nets


@pytest.mark.parametrize(
    "config",
    [SMALL, replace(SMALL, derivatives=True), replace(SMALL, premix=None, head="softmax"), STDNNConfig()],
    ids=["plain", "derivatives", "softmax", "paper"],
)
def test_a_stack_gives_each_networks_descriptors_and_gradients(script, config):
    nets = networks(config)
    stack = script("stacked").Stack(nets)
    channels = torch.randn(6, config.channels, 12, 10)
    labels = torch.randint(-1, 3, (6, 4, 5)).repeat_interleave(3, 1).repeat_interleave(2, 2)
    found = stack.embed(channels, labels)
    (3 * separation_loss(found, labels)).backward()
    for number, net in enumerate(nets):
        own = slice(2 * number, 2 * number + 2)
        expected = net.embed(channels[own], labels[own])
        torch.testing.assert_close(found[own], expected, rtol=1e-5, atol=1e-6)
        separation_loss(expected, labels[own]).backward()
        for (name, each), stacked in zip(net.named_parameters(), stack.parameters(), strict=True):
            torch.testing.assert_close(stacked.grad[number], each.grad, rtol=1e-3, atol=1e-4, msg=name)


def test_a_network_comes_out_of_a_stack_as_it_went_in(script):
    nets = networks(SMALL)
    stack = script("stacked").Stack(nets)
    for number, net in enumerate(nets):
        state = stack.net(number).state_dict()
        assert all(torch.equal(state[name], value) for name, value in net.state_dict().items())


def test_networks_of_two_architectures_do_not_stack(script):
    with pytest.raises(ValueError, match="one architecture"):
        script("stacked").Stack([STDNN(SMALL), STDNN(replace(SMALL, alpha=(0.3, 2.0)))])


def test_no_variant_draws_from_the_fold_that_it_is_measured_on(script):
    for variant in script("variants").VARIANTS.values():
        for fold in range(4):
            parts = variant.mix(fold)
            assert sorted(part[1:] for part in parts if part[1:]) == [str(each) for each in range(4) if each != fold]
            assert sum(parts.values()) == pytest.approx(sum(variant.sources.values()))


def test_the_pair_loss_is_its_definition(script):
    rng = np.random.default_rng(0)
    descriptors, truth = rng.normal(size=(2, 3, 2, 3)), np.array([[[0, 0, 2], [2, -1, 2]], [[1, 1, 0], [0, 0, -1]]])
    expected = []
    for values, labels in zip(descriptors.reshape(2, 3, -1), truth.reshape(2, -1), strict=True):

        def mean_cost(i, j, values=values, labels=labels):
            d2 = np.square(values[:, labels == i][:, :, None] - values[:, labels == j][:, None]).sum(0)
            return (d2 / 0.5 if i == j else -np.log(1 - np.exp(-d2 / 0.5 - 1e-4))).mean()

        a, b = np.unique(labels[labels >= 0])
        expected.append(((mean_cost(a, a) + mean_cost(b, b)) / 2 + mean_cost(a, b)) / 2)
    found = script("variants").pair_loss(torch.tensor(descriptors), torch.tensor(truth), torch.arange(6), 0.5)
    assert float(found) == pytest.approx(np.mean(expected))


def test_the_batched_spectrum_is_the_librarys(script):
    points = np.random.default_rng(0).normal(size=(60, 3)) + np.repeat(np.eye(3) * 6, 20, axis=0)
    affinity = np.exp(-np.square(points[:, None] - points).sum(2) / 4.0)
    degree = np.sqrt(affinity.sum(1))
    values, vectors = script("clusterings").leading(torch.tensor(affinity / (degree[:, None] * degree))[None], 4)
    expected, expected_vectors = spectrum(points, 4, 4.0)
    np.testing.assert_allclose(values[0], expected, atol=1e-8)
    np.testing.assert_allclose(np.abs(np.sum(vectors[0].numpy() * expected_vectors, 0)), 1, atol=1e-6)


def test_separable_descriptors_are_covered_by_every_method(script):
    truths = torch.zeros(3, 16, 16, dtype=torch.long)
    truths[:, 4:, 7:] = 1
    truths[1:, 9:] = 2
    truths[2, :2] = -1
    centres = torch.eye(4)[truths.clamp(min=0)].movedim(3, 1)
    noise = 0.05 * torch.randn(centres.shape, generator=torch.Generator().manual_seed(0))
    found = script("clusterings").coverings((centres + noise).half(), truths)
    np.testing.assert_allclose(found, 1)


def write_mosaics(folder, kind, count, regions, colour):
    for name in ("images", kind):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        rng = np.random.default_rng([number, regions])
        families = rng.choice(FAMILIES, regions, replace=False)
        sample = mosaic([texture(each, 48, rng, colour) for each in families], 48, rng)
        write_image(folder / "images" / f"{number}.jpg", sample.image)
        write_labels(folder / kind / f"{number}.png", sample.truths[0])


@pytest.fixture
def data(tmp_path):
    write_mosaics(tmp_path / "rwtsd", "masks", 8, 2, colour=True)
    write_mosaics(tmp_path / "multi", "groundtruth", 6, 3, colour=False)
    for split, numbers in (("train", "0 1 2 3"), ("val", "4 5")):
        (tmp_path / "multi" / f"{split}.txt").write_text("\n".join(numbers.split()))
    (tmp_path / "brodatz").mkdir()
    for number in range(9):
        painted = texture(FAMILIES[number], 64, np.random.default_rng(number))
        write_image(tmp_path / "brodatz" / f"D{number}.png", np.rint(255 * painted).astype(np.uint8))
    return tmp_path


def test_a_tiny_run_trains_measures_and_chooses(script, data, capsys):
    folders = ["--rwtsd", data / "rwtsd", "--multi-region", data / "multi", "--brodatz", data / "brodatz"]
    sizes = ["--size", 48, "--steps", 2, "--samples", 4, "--batch", 2, "--mosaics", 4]
    others = ["--variants", "RS,pair0.1,large-scales", "--out", data / "out", "--device", "cpu"]
    script("cross_validate").main([str(each) for each in (*folders, *sizes, *others)])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "±" in line]
    assert [(row[0], row[1]) for row in rows] == [
        (f"| {variant}", name)
        for variant in ("RS", "pair0.1", "large-scales")
        for name in ("rwtsd", "multi-region", "brodatz")
    ]
    assert load_model(data / "out" / "large-scales.3.safetensors")[0].config.alpha == (0.5, 2.0, 8.0)
    with np.load(data / "out" / "RS.npz") as file:
        assert file["rwtsd"].shape == (8, 32, 12, 12)
        assert file["rwtsd"].any(axis=(1, 2, 3)).all()
    script("choose").main([str(data / "out" / "RS.npz")])
    printed = capsys.readouterr().out
    assert "| cut, σ² = .1 |" in printed
    assert "Best on even images: " in printed


@pytest.mark.parametrize("kind", ["texture", "stld"])
def test_grown_descriptors_have_larger_alphas_and_nothing_else(script, kind):
    net = load_model("texture")[0] if kind == "texture" else STLD(3)
    scales = {f: script("growing_alphas").grown(net, f).net.rescaled(256).config.scales for f in (1, 4)}
    np.testing.assert_allclose(scales[4], 4 * np.array(scales[1]))
    assert scales[1] == net.rescaled(256).config.scales
    if kind == "texture":
        grown = script("growing_alphas").grown(net, 4).net.rescaled(256)
        assert [layer.fixed for layer in grown.stages] == [tuple(4 * a for a in layer.fixed) for layer in net.stages]
        assert grown.fine is None
        assert net.fine is not None


def test_growing_alphas_compares_every_way_on_a_picture(script):
    truth = np.repeat([[0] * 16 + [1] * 16], 32, axis=0)
    image = np.where(truth == 0, 60, 180).astype(np.uint8)
    image += np.random.default_rng(0).integers(0, 20, image.shape, dtype=np.uint8)
    found = script("growing_alphas").coverings(load_model("texture")[0], Sample(image, (truth,), "halves"))
    assert len(found) == 10
    assert min(found["×1, start"], found["×1, joint"]) > 0.95
