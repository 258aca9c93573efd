"""Methods to compare with: hand-crafted descriptors and the classical ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from shapetailor.baselines import BASELINES, FitSettings, classical, stdnn_method, vision
from shapetailor.baselines.stld import STLD
from shapetailor.datasets import RWTSD
from shapetailor.evolution.config import EvolutionConfig
from shapetailor.metrics import covering
from shapetailor.network import features
from shapetailor.network.checkpoint import load_model

NAMES = {"stdnn", "siamese", "stld", "stld-whole", "fcn-ce", "fcn-loss", "deeplab-ce", "deeplab-loss"}
NAMES |= {"kmeans-colour", "forest", "chan-vese"}
UNTRAINED = [name for name, each in BASELINES.items() if not each.learns]


def fit(name, **settings):
    if BASELINES[name].available():
        pytest.skip(BASELINES[name].available())
    return BASELINES[name].fit([], Path(), FitSettings(**settings))


def disc(size=48):
    y, x = np.indices((size, size)) - (size - 1) / 2
    return (x**2 + y**2 < (size / 3.5) ** 2).astype(np.int64)


def flat_picture(truth, colours):
    """Every region in its colour, with a little noise."""
    noise = np.random.default_rng(0).normal(0, 4, (*truth.shape, 3))
    return (np.asarray(colours, float)[truth] + noise).clip(0, 255).astype(np.uint8)


def test_baselines_are_those_of_the_paper_and_common_sense():
    assert set(BASELINES) == NAMES
    assert all(each.name == name for name, each in BASELINES.items())
    assert len({each.title for each in BASELINES.values()}) == len(BASELINES)


@pytest.mark.parametrize("name", UNTRAINED)
@pytest.mark.parametrize("gray", [False, True])
def test_two_flat_regions_are_found_again(name, gray):
    truth = disc()
    image = flat_picture(truth, [(30, 60, 40), (200, 160, 220)])
    method = fit(name)
    labels = method.segment(image[:, :, 0] if gray else image, 2)
    assert labels.dtype == np.int64
    assert method.parameters == 0
    # features of several pixels, gradients above all, cannot place a boundary to the pixel; one region has 0.62
    assert covering(labels, truth) > (0.75 if name in ("forest", "stld", "stld-whole") else 0.999)


@pytest.mark.parametrize("name", [name for name in UNTRAINED if name != "chan-vese"])
def test_three_regions_are_numbered_from_0(name):
    truth = np.repeat(np.arange(3), 16)[None].repeat(48, axis=0)
    image = flat_picture(truth, [(20, 20, 20), (120, 130, 110), (240, 240, 240)])
    labels = fit(name).segment(image, 3)
    assert np.unique(labels).tolist() == [0, 1, 2]
    assert covering(labels, truth) > 0.8


@pytest.mark.parametrize("name", UNTRAINED)
def test_the_seed_decides_everything_random(name):
    image = np.random.default_rng(1).integers(0, 255, (32, 32, 3), np.uint8)
    method = fit(name)
    assert np.array_equal(method.segment(image, 2, seed=3), method.segment(image, 2, seed=3))


def test_chan_vese_refuses_other_numbers_of_regions():
    with pytest.raises(ValueError, match=r"2 regions, regions is 3"):
        fit("chan-vese").segment(np.zeros((8, 8)), 3)


def test_forest_marks_the_surer_half_of_each_cluster():
    values = flat_picture(disc(), [(30, 60, 40), (200, 160, 220)]).transpose(2, 0, 1).astype(np.float32) / 255
    marks = classical.sure_pixels(values, 2, np.random.default_rng(0))
    assert np.unique(marks).tolist() == [0, 1, 2]
    assert np.mean(marks > 0) == pytest.approx(0.5, abs=0.01)
    outer = marks[0, 0]
    assert (disc()[marks == 3 - outer] == 1).all()  # far from the boundary, where the blur mixes colours


def test_forest_of_a_constant_picture_is_one_region():
    assert not fit("forest").segment(np.full((16, 16), 7, np.uint8), 2).any()


def laplacian(inside):
    """The graph Laplacian of a region's pixels, explicitly: an oracle that shares no code with the solver."""
    places = [tuple(p) for p in np.argwhere(inside)]
    number = {place: k for k, place in enumerate(places)}
    matrix = np.zeros((len(places), len(places)))
    for (y, x), k in number.items():
        for other in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
            if other in number:
                matrix[k, k] += 1
                matrix[k, number[other]] -= 1
    return matrix


def test_stld_is_each_channel_smoothed_inside_its_region():
    inside = disc(12) == 1
    stld = STLD(1).rescaled(12)
    prepared = stld.prepare(torch.rand(1, 1, 12, 12, generator=torch.manual_seed(0)))
    labels = torch.from_numpy(np.where(inside, 0, -1))[None]
    found = stld(prepared, labels)[0].double().numpy()
    gray, scale = prepared[0, 0].double().numpy()[inside], float(prepared[0, 1, 0, 0])
    for number, alpha in enumerate((5, 10, 15, 20, 25)):
        expected = np.linalg.solve(np.eye(inside.sum()) + alpha * 12 / 32 * laplacian(inside), scale * gray)
        assert np.allclose(found[5 * number][inside], expected, rtol=0, atol=5e-3)
    assert not found[:, ~inside].any()


def test_stld_channels_have_equal_spread_over_the_picture():
    stld = STLD(3).rescaled(64)
    image = torch.rand(1, 3, 64, 64, generator=torch.manual_seed(0))
    image[..., 32:] *= torch.tensor([0.1, 0.2, 0.3])[:, None, None]  # darker, of less contrast, and tinted
    descriptors = stld(stld.prepare(image), torch.zeros(1, 64, 64, dtype=torch.long))
    spread = descriptors.reshape(5, 8, -1).transpose(0, 1).flatten(1).std(dim=1)
    assert torch.allclose(spread, torch.ones(8), atol=0.15)  # the floor takes a little


def test_stld_never_looks_across_a_boundary():
    labels = torch.zeros(1, 16, 16, dtype=torch.long)
    labels[:, :, 9:] = 1
    stld = STLD(3)
    image = stld.prepare(torch.rand(1, 3, 16, 16, generator=torch.manual_seed(0)))
    other = image.clone()
    other[:, :3, :, 9:] = 5.0
    assert torch.equal(stld(image, labels)[..., :9], stld(other, labels)[..., :9])
    assert not torch.allclose(stld(image, labels * 0)[..., :9], stld(other, labels * 0)[..., :9])


def test_stld_has_the_channels_of_the_papers_first_layer():
    prepared = STLD(3).prepare(torch.rand(1, 3, 8, 8))
    assert prepared.shape[1] == 3 + features.channel_count(3, "paper", 0)
    assert STLD(3)(prepared, torch.zeros(1, 8, 8, dtype=torch.long)).shape[1] == 40


def test_only_the_whole_image_variant_keeps_its_descriptors(monkeypatch):
    calls = []
    forward = STLD.forward
    monkeypatch.setattr(STLD, "forward", lambda self, *rest: calls.append(1) or forward(self, *rest))
    image = flat_picture(disc(), [(90, 90, 90), (140, 150, 140)])
    fit("stld-whole", evolution=EvolutionConfig(iterations=3)).segment(image, 2)
    whole = len(calls)
    fit("stld", evolution=EvolutionConfig(iterations=3)).segment(image, 2)
    assert whole == 2  # for the start, and for the evolution
    assert len(calls) - whole > 2


def test_a_given_model_is_a_method():
    method = stdnn_method("texture", FitSettings())
    truth = disc(64)
    labels = method.segment(flat_picture(truth, [(30, 60, 40), (200, 160, 220)]), 2)
    assert covering(labels, truth) > 0.9
    net = load_model("texture")[0]
    total, fine = (sum(each.numel() for each in part.parameters()) for part in (net, net.fine))
    assert method.parameters == total - fine
    assert stdnn_method("texture", FitSettings(start="ncut")).parameters == total


def test_what_is_not_installed_is_said(monkeypatch):
    for module in (classical, vision):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    vision.missing.cache_clear()
    assert "scikit-learn is not installed" in BASELINES["forest"].available()
    assert "torchvision is not installed: pip install" in BASELINES["fcn-ce"].available()
    with pytest.raises(ImportError, match="not installed"):
        vision.segmentation_network("fcn_resnet101", 2)
    vision.missing.cache_clear()
    assert BASELINES["stld"].available() is None


def test_stld_is_sensible_on_photographs(data_dir):
    dataset = RWTSD(data_dir("rwtsd"))
    samples = [dataset[number] for number in (0, 40, 72)]

    def mean(name):
        return np.mean([covering(fit(name).segment(each.image, 2), each.truths[0]) for each in samples])

    stld = mean("stld")
    assert stld > mean("kmeans-colour") + 0.05
    assert stld > 0.7
