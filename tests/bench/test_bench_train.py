"""The training benchmark: all ways give one gradient, wrong ones are caught, targets are judged as written."""

from __future__ import annotations

import pytest
import torch

from shapetailor.bench import train
from shapetailor.bench.train import CHEBYSHEV, COMPUTED, CONJUGATE, OURS, READY, GradientTiming
from shapetailor.poisson import smooth


def difference(one, two):
    return float((one - two).norm() / two.norm())


@pytest.fixture(scope="module")
def batch():
    return train.make_batch(20)


@pytest.fixture(scope="module")
def exact(batch):
    return train.tight_gradient(*batch)


def test_a_batch_is_two_textures_in_each_picture_and_always_the_same(batch):
    net, image, labels = batch
    assert image.shape == (train.IMAGES, 3, 20, 20)
    assert all(each.unique().tolist() == [0, 1] for each in labels)
    again = train.make_batch(20)
    assert torch.equal(image, again[1])
    assert torch.equal(net.layers[0].weight, again[0].layers[0].weight)
    assert net.config.alpha == pytest.approx(5 * 20 / 32)


@pytest.mark.parametrize("name", [OURS, READY, CHEBYSHEV, CONJUGATE])
def test_every_way_gives_the_same_gradient(name, batch, exact):
    def multiply(domain, x, alpha):
        return train.explicit_smooth(train.invert(batch[0], batch[2]), domain, x, alpha)

    ways = {OURS: None, READY: multiply, **train.UNROLLED}
    assert difference(train.gradient(*batch, ways[name]), exact) < train.ACCURACY


def test_a_gradient_of_leaking_solves_is_caught_and_not_timed(batch):
    def leak(domain, x, alpha):
        return smooth(x, torch.zeros_like(domain.labels), alpha, 1e-4)

    good, bad = train.compare(20, batch, {OURS: None, "leaking": leak}, {}, quick=True)
    assert good.error <= train.ACCURACY < bad.error
    assert good.seconds is not None
    assert bad.seconds is None


def test_computing_inverses_costs_more_than_having_them():
    ours, ready, computed = train.explicit_timings(16, quick=True)
    assert (ours.method, ready.method, computed.method) == (OURS, READY, COMPUTED)
    assert computed.seconds > ready.seconds


def test_targets_are_ratios_of_the_same_size():
    rows = [
        GradientTiming(32, OURS, 0.0, 2.0, None),
        GradientTiming(32, READY, 0.0, 3.0, None),
        GradientTiming(32, COMPUTED, 0.0, 10.0, None),
        GradientTiming(256, OURS, 0.0, 1.0, 300),
        GradientTiming(256, CONJUGATE, 0.0, 6.0, 1000),
        GradientTiming(256, CHEBYSHEV, 1.0, None, 3000),
    ]
    verdicts = [(each["value"], each["reached"]) for each in train.judge(rows)]
    assert verdicts == [(1.5, True), (5.0, False), (6.0, True), (0.1, True), (0.3, False)]


def test_the_run_reports_every_row_and_is_unsound_when_a_gradient_is_wrong():
    outcome = train.run([16], quick=True)
    assert outcome.sound
    assert [row["method"] for row in outcome.data["rows"]] == [OURS, READY, COMPUTED]
    assert "inverses ready" in outcome.text
    wrong = train.run([16], quick=True, accuracy=1e-12)
    assert not wrong.sound
    assert {row["seconds"] for row in wrong.data["rows"]} == {None}


def test_tiny_pictures_are_refused():
    with pytest.raises(ValueError, match="at least 16 pixels, got 8"):
        train.run([8])
