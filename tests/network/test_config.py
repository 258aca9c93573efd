from __future__ import annotations

import json

import pytest

from shapetailor.network.stdnn import STDNNConfig


def test_config_survives_json():
    config = STDNNConfig(features="rich", premix=7, alpha=(0.3, 1.2), widths=(9, 4), stride=4, learnable_alphas=True)
    assert STDNNConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert STDNNConfig.from_dict(json.loads(json.dumps(STDNNConfig().to_dict()))) == STDNNConfig()


def test_missing_entries_have_their_defaults_and_unknown_ones_are_named():
    assert STDNNConfig.from_dict({"stride": 2}) == STDNNConfig(stride=2)
    with pytest.raises(ValueError, match=r"unknown entries \['colour'\]"):
        STDNNConfig.from_dict({"colour": 3})


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ({"image_channels": 0}, ValueError),
        ({"image_channels": 17}, ValueError),
        ({"image_channels": True}, TypeError),
        ({"image_channels": 3.0}, TypeError),
        ({"features": "best"}, ValueError),
        ({"scales": []}, TypeError),
        ({"scales": "5"}, TypeError),
        ({"scales": [5, -1]}, ValueError),
        ({"scales": [0.0], "learnable_alphas": True}, ValueError),
        ({"alpha": None}, TypeError),
        ({"alpha": float("nan")}, TypeError),
        ({"widths": []}, ValueError),
        ({"widths": [1] * 6}, ValueError),
        ({"widths": [4, "5"]}, TypeError),
        ({"widths": [8, 2], "alpha": [1.0, 2.0, 3.0]}, ValueError),
        ({"derivatives": 1}, TypeError),
        ({"premix": 0}, ValueError),
        ({"stride": 0}, ValueError),
        ({"tol": 0}, ValueError),
        ({"alpha_rule": "double"}, ValueError),
    ],
)
def test_a_bad_entry_is_named(entry, error):
    with pytest.raises(error, match=f"{'alpha|widths' if 'alpha' in entry else next(iter(entry))} "):
        STDNNConfig.from_dict(entry)


@pytest.mark.parametrize(("rule", "factor"), [("factor", 8.0), ("square", 64.0)])
def test_alphas_follow_the_resolution_by_the_named_rule(rule, factor):
    config = STDNNConfig(resolution=32, alpha_rule=rule, alpha=(1.0, 2.0)).at_resolution(256)
    assert config.alpha == (factor, 2 * factor)
    assert config.scales == tuple(factor * scale for scale in (5.0, 10.0, 15.0, 20.0, 25.0))
    assert config.energy_scales == (0.0, factor, 4 * factor)
    assert config.resolution == 256
    assert config.at_resolution(32).scales == STDNNConfig().scales
