import pytest
import torch

from shapetailor.classes.features import SCALES, feature_count, feature_sources
from shapetailor.classes.head import fit
from shapetailor.classes.second_order import LENGTHS, line_means, second_order, second_order_sources, smooth_whole
from shapetailor.network.checkpoint import read_model


def _features(x):
    return second_order({alpha: smooth_whole(x, alpha) for alpha in SCALES})


def test_every_feature_has_a_source():
    for count in (2, 4):
        assert _features(torch.rand(1, count, 12, 10)).shape == (1, len(second_order_sources(count)), 12, 10)


@pytest.mark.parametrize("line", [torch.eye(41), torch.eye(41).flip(1), torch.eye(41)[20].expand(41, 41)])
def test_a_line_stands_out_and_a_dot_does_not(line):
    dot = torch.zeros(41, 41)
    dot[20, 20] = 1
    longest = -2  # the largest mean along the longest lines
    on_line, on_dot = (line_means(each[None, None])[0, longest, 20, 20] for each in (line, dot))
    assert on_line > 0.6
    assert on_dot < 0.1


def test_quarter_turns_and_mirroring_turn_and_mirror_the_features():
    x = torch.randn(1, 4, 24, 24, generator=torch.Generator().manual_seed(0))
    expected = _features(x)
    for turned in (lambda y: y.rot90(1, (2, 3)), lambda y: y.flip(3)):
        torch.testing.assert_close(_features(turned(x)), turned(expected), atol=2e-3, rtol=1e-3)


def test_deviations_tell_a_grain_from_its_mean():
    checks = (torch.arange(32)[:, None] + torch.arange(32)) % 2 * 2.0 - 1
    even, grain = torch.zeros(1, 1, 32, 32), checks[None, None]
    deviations = slice(4 * len(LENGTHS), 4 * len(LENGTHS) + 1)
    assert _features(grain)[:, deviations].mean() > 10 * _features(even)[:, deviations].mean()


def test_a_head_of_one_picture_does_not_read_the_second_order_and_one_of_two_does():
    net = read_model("texture").net
    features = torch.randn(50, feature_count(net), generator=torch.Generator().manual_seed(0))
    targets = torch.arange(50) % 2
    changed = features.clone()
    changed[:, -len(second_order_sources(4)) :] += 1
    few, many = (fit(features, targets, 2, feature_sources(net, pictures), seed=0, steps=2) for pictures in (1, 2))
    assert torch.equal(few(changed), few(features))
    assert not torch.equal(many(changed), many(features))
