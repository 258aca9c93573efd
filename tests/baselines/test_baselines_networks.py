"""Networks to compare with: they train, they are found again, they count their weights right."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from itertools import permutations

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from shapetailor.baselines import BASELINES, FitSettings, trained, vision
from shapetailor.baselines.cnn import CNN, load_cnn, load_pretrained, pretrained_file
from shapetailor.baselines.cnn_training import (
    Schedule,
    largest_regions,
    matched_cross_entropy,
    train_cnn,
    turned_and_scaled,
)
from shapetailor.datasets import Sample
from shapetailor.loss import separation_loss
from shapetailor.network.stdnn import STDNN
from shapetailor.training.corpus import read_corpus

needs_torchvision = pytest.mark.skipif(vision.missing() is not None, reason=str(vision.missing()))
QUICK = FitSettings(quick=True)


def samples(count=6, size=48):
    """Pictures of two textures: stripes of two directions and colours."""
    rng = np.random.default_rng(0)
    y, x = np.indices((size, size))
    found = []
    for number in range(count):
        truth = (x > rng.uniform(0.3, 0.7) * size).astype(np.int64)
        stripes = np.where(truth == 1, y, x) // 2 % 2
        colours = rng.integers(40, 200, (2, 3))
        image = colours[truth] + 40 * stripes[:, :, None] + rng.normal(0, 5, (size, size, 3))
        found.append(Sample(image.clip(0, 255).astype(np.uint8), (truth,), str(number)))
    return found


def test_siamese_is_a_pointwise_network_of_smoothed_channels():
    torch.manual_seed(0)
    net = STDNN(replace(trained.SIAMESE, stride=1)).eval()
    image = net.prepare(torch.rand(1, 3, 16, 16))
    labels = torch.zeros(1, 16, 16, dtype=torch.long)
    labels[:, 5:] = 1
    grid = net.grid(image, labels)
    x = net.stages[0].transform(net.standardise(net.channels(image, grid)), grid.layers)[0, 0].flatten(1)
    for number, layer in enumerate(net.stages):
        x = (x if number == 0 else x.relu()).T @ layer.weight.T + layer.bias
        x = x.T
    expected = (x / x.norm(dim=0)).reshape(5, 16, 16)
    assert torch.allclose(net(image, labels)[0], expected, atol=1e-4)


def test_siamese_trains_and_is_found_again(tmp_path):
    method = BASELINES["siamese"].fit(samples(), tmp_path / "new", QUICK)
    assert method.parameters == 40 * 100 + 100 * 40 + 40 * 20 + 20 * 5 + (100 + 40 + 20 + 5)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "new/siamese.log.jsonl").read_text().splitlines()]
    assert losses[-1] < losses[0]
    written = (tmp_path / "new/siamese.safetensors").stat().st_mtime_ns
    again = BASELINES["siamese"].fit(samples(), tmp_path / "new", QUICK)
    assert (tmp_path / "new/siamese.safetensors").stat().st_mtime_ns == written
    image = samples()[0].image
    assert np.array_equal(again.segment(image, 2), method.segment(image, 2))
    with pytest.raises(ValueError, match="seed: 0 → 1"):
        BASELINES["siamese"].fit(samples(), tmp_path / "new", replace(QUICK, seed=1))


def test_stdnn_trains_on_the_samples(tmp_path):
    method = BASELINES["stdnn"].fit(samples(), tmp_path, QUICK)
    assert (tmp_path / "stdnn.safetensors").exists()
    assert method.title == "ST-DNN"
    assert method.segment(samples()[0].image, 2).shape == (48, 48)


class SmallCNN(torch.nn.Module):
    """Stands for torchvision's networks."""

    architecture = "small"
    prepare = staticmethod(lambda images: images)
    bounded = staticmethod(lambda logits: torch.nn.functional.normalize(logits, dim=1))

    def __init__(self):
        super().__init__()
        first, last = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 4, 1)
        self.logits = torch.nn.Sequential(first, torch.nn.ReLU(), torch.nn.Dropout(0.2), last)


@pytest.mark.parametrize("loss", ["ce", "loss"])
def test_a_convolutional_network_learns_and_repeats_itself(loss, capsys):
    corpus = read_corpus(samples(), 16)

    def trained_net(steps):
        torch.manual_seed(0)
        net = SmallCNN()
        train_cnn(net, corpus, loss, Schedule(16, steps, batch=4, learning_rate=1e-2), 0, "cpu", progress=True)
        assert not net.training
        return net

    def measured(net):
        logits = net.logits(corpus.images).detach()
        if loss == "ce":
            return float(matched_cross_entropy(logits, corpus.truths))
        return float(separation_loss(net.bounded(logits), corpus.truths))

    one, start = trained_net(30), trained_net(1)
    assert "step 30/30: loss" in capsys.readouterr().err
    assert measured(one) < 0.9 * measured(start)
    assert torch.equal(one.logits[0].weight, trained_net(30).logits[0].weight)


def test_a_diverging_convolutional_network_stops_with_advice():
    schedule = Schedule(size=16, steps=20, batch=4, learning_rate=1e30)
    with pytest.raises(ValueError, match=r"step \d+ failed, a lower learning_rate may help"):
        train_cnn(SmallCNN(), read_corpus(samples(), 16), "ce", schedule, 0, "cpu", progress=False)


@given(st.integers(0, 1000), st.integers(2, 4), st.integers(0, 2))
def test_matched_cross_entropy_is_that_of_the_best_naming(seed, regions, spare):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(5 * regions) % regions).reshape(1, 5, regions)
    logits = torch.from_numpy(rng.normal(size=(1, regions + spare, 5, regions)))
    names = permutations(range(regions + spare), regions)
    # equally large regions: the mean over regions is torch's own mean over pixels
    named = [torch.from_numpy(np.array(each)[labels]) for each in names]
    expected = min(float(torch.nn.functional.cross_entropy(logits, each)) for each in named)
    assert float(matched_cross_entropy(logits, torch.from_numpy(labels))) == pytest.approx(expected)


def test_matched_cross_entropy_weighs_regions_alike_and_ignores_the_rest():
    logits = torch.tensor([[[[3.0, 3.0, 3.0, 0.0, 9.0]], [[0.0, 0.0, 0.0, 1.0, -9.0]]]])
    labels = torch.tensor([[[0, 0, 0, 1, -1]]])
    expected = np.mean([np.log1p(np.exp(-3)), np.log1p(np.exp(-1))])
    assert float(matched_cross_entropy(logits, labels)) == pytest.approx(expected)
    assert float(matched_cross_entropy(logits, torch.full_like(labels, -1))) == 0


def test_largest_regions_count():
    truths = torch.tensor([[[0, 1, 1, 2, 2, 2, -1]], [[0, 0, 0, 0, 0, 1, 1]]])
    assert largest_regions(truths, 2).tolist() == [[[-1, 1, 1, 2, 2, 2, -1]], [[0, 0, 0, 0, 0, 1, 1]]]


def test_pictures_and_regions_are_turned_together():
    truth = torch.zeros(8, 32, 32, dtype=torch.long)
    truth[:, :, 20:] = 1
    truth[:, 20:, :9] = 2
    images, truths = turned_and_scaled(truth[:, None].float(), truth, np.random.default_rng(0))
    assert set(truths.unique().tolist()) == {0, 1, 2}
    assert (truths != truth).any(dim=(1, 2)).sum() > 4
    # bilinear and nearest differ on boundaries only
    assert (images[:, 0].round() == truths).float().mean() > 0.9


@pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is not installed")
def test_torchvision_imports_in_a_fresh_process_whatever_its_operators():
    code = "from shapetailor.baselines import vision; assert vision.missing() is None, vision.missing()"
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], check=False).returncode == 0


def test_a_torchvision_that_fails_is_a_reason(monkeypatch):
    def broken():
        raise RuntimeError("operator torchvision::other does not exist")

    monkeypatch.setattr(vision, "find_spec", lambda name: name)
    monkeypatch.setattr(vision, "_networks", broken)
    vision.missing.cache_clear()
    try:
        assert "operator torchvision::other" in BASELINES["deeplab-loss"].available()
    finally:
        vision.missing.cache_clear()


@needs_torchvision
@pytest.mark.parametrize(
    ("architecture", "published", "middle"),
    [("fcn_resnet101", 54_314_346, 512), ("deeplabv3_resnet101", 60_996_202, 256)],
)
def test_cnn_parameters_are_torchvisions_without_the_auxiliary_head(architecture, published, middle):
    auxiliary = 1024 * 256 * 9 + 2 * 256 + (256 + 1) * 21
    fewer_outputs = (21 - 2) * (middle + 1)
    with torch.device("meta"):
        count = sum(each.numel() for each in CNN(architecture, 2, "softmax").parameters())
    assert count == published - auxiliary - fewer_outputs


@needs_torchvision
@pytest.mark.parametrize(("name", "dimension"), [("fcn-loss", 32), ("deeplab-ce", 2)])
def test_cnn_trains_and_is_found_again(name, dimension, tmp_path):
    file = tmp_path / "new" / f"{name}.safetensors"
    try:
        method = BASELINES[name].fit(samples(3), file.parent, QUICK)
        assert method.title.endswith(", from scratch")
        written = file.stat().st_mtime_ns
        again = BASELINES[name].fit(samples(3), file.parent, QUICK)
        assert file.stat().st_mtime_ns == written
        assert again.parameters == method.parameters == sum(each.numel() for each in load_cnn(file)[0].parameters())
        image = samples(1)[0].image[:, :, 0]  # gray pictures are repeated
        assert np.array_equal(again.segment(image, 2), method.segment(image, 2))
        descriptors = load_cnn(file)[0](torch.zeros(1, 3, 32, 32), torch.zeros(1, 32, 32, dtype=torch.long))
        assert descriptors.shape == (1, dimension, 32, 32)
        with pytest.raises(ValueError, match="seed: 0 → 1"):
            BASELINES[name].fit(samples(3), file.parent, replace(QUICK, seed=1))
    finally:
        file.unlink(missing_ok=True)  # a quarter of a gigabyte


@needs_torchvision
def test_pretrained_weights_are_taken_but_for_the_last_layer(tmp_path):
    torch.manual_seed(0)
    donor, net = CNN("fcn_resnet101", 21, "softmax"), CNN("fcn_resnet101", 2, "softmax")
    file = tmp_path / "fcn_resnet101_coco-x.safetensors"
    backbone = tmp_path / "resnet101-x.safetensors"
    try:
        safetensors.torch.save_file(donor.body.state_dict(), file)
        assert pretrained_file("fcn_resnet101", tmp_path) == file
        load_pretrained(net, file)
        own, given = net.body.state_dict(), donor.body.state_dict()
        assert all(torch.equal(own[name], given[name]) for name in own if not name.startswith("classifier.4"))
        file.unlink()
        plain = {name.removeprefix("backbone."): each for name, each in given.items() if "backbone." in name}
        safetensors.torch.save_file({**plain, "fc.weight": torch.zeros(1)}, backbone)
        assert pretrained_file("deeplabv3_resnet101", tmp_path) == backbone
        other = CNN("fcn_resnet101", 2, "softmax")
        load_pretrained(other, backbone)
        assert torch.equal(other.body.state_dict()["backbone.conv1.weight"], given["backbone.conv1.weight"])
        safetensors.torch.save_file({"conv1.weight": plain["conv1.weight"]}, backbone)
        with pytest.raises(ValueError, match="does not hold the weights"):
            load_pretrained(other, backbone)
    finally:
        file.unlink(missing_ok=True)
        backbone.unlink(missing_ok=True)


def test_a_missing_folder_of_weights_is_named(tmp_path):
    assert pretrained_file("fcn_resnet101", None) is None
    assert pretrained_file("fcn_resnet101", tmp_path) is None
    with pytest.raises(FileNotFoundError, match="nowhere"):
        pretrained_file("fcn_resnet101", tmp_path / "nowhere")
