"""`shapetailor train`: its options reach the training, and one command makes a model."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest

from shapetailor.cli import train as command
from shapetailor.io.images import write_image, write_labels
from shapetailor.network.checkpoint import load_model
from shapetailor.training.train import recipe


def parse(*words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    truth = (np.arange(32) >= 16).astype(np.int64) * np.ones((32, 1), np.int64)
    for kind in ("images", "masks"):
        (tmp_path / "data" / kind).mkdir(parents=True)
    for name in "abc":
        image = rng.integers(20, 230, (2, 3))[truth] + rng.integers(-20, 20, (32, 32, 3))
        write_image(tmp_path / "data" / "images" / f"{name}.png", image.astype(np.uint8))
        write_labels(tmp_path / "data" / "masks" / f"{name}.png", truth)
    return tmp_path / "data"


def test_one_command_makes_model_log_and_curves(data, tmp_path, capsys):
    out = tmp_path / "model.safetensors"
    words = ["--data", str(data), "--out", str(out), "--recipe", "paper", "--steps", "2", "--device", "cpu"]
    assert command.run(parse(*words)) == 0
    printed = capsys.readouterr()
    assert "model.safetensors" in printed.out
    assert "step 2/2: loss" in printed.err
    assert load_model(out)[0].config.widths == (100, 40, 20, 5)
    assert json.loads((tmp_path / "model.log.jsonl").read_text())["step"] == 2
    assert (tmp_path / "model.curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ([], {}),
        (["--steps", "7", "--seed", "3"], {"steps": 7, "seed": 3}),
        (["--no-mosaics"], {"mosaics": False}),
        (["--true-regions"], {"perturb": False}),
    ],
)
def test_options_change_the_recipe(monkeypatch, words, changes):
    seen = {}
    monkeypatch.setattr(command, "train", lambda data, out, config, **options: seen.update(options, config=config))
    command.run(parse("--data", "d", "--out", "m.safetensors", *words))
    assert seen == {"config": recipe("texture", **changes), "ignore": None, "resume": False, "device": None}


def test_an_interrupted_run_says_how_to_go_on(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "train", interrupted)
    assert command.run(parse("--data", "d", "--out", "m.safetensors")) == 130
    assert "--resume" in capsys.readouterr().err
