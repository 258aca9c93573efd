"""The training loop: it learns, it repeats itself bit for bit, it says early what would fail late."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from math import isclose

import numpy as np
import pytest
import torch

from shapetailor.datasets import Sample
from shapetailor.io.intensity import Intensity
from shapetailor.network.checkpoint import load_model, read_model
from shapetailor.network.stdnn import STDNN, STDNNConfig
from shapetailor.segmentation.usage import Usage
from shapetailor.training import loop
from shapetailor.training.loop import Loop, Pace, learning_rate
from shapetailor.training.run_state import State, load_state, save_state, state_path
from shapetailor.training.train import TrainConfig, recipe, train

training = import_module("shapetailor.training.train")  # the package has a function of this name

SIZE = 16
NETWORK = STDNNConfig(widths=(6, 3), scales=(1.0,), alpha=1.0, resolution=SIZE)


def samples(count=6, seed=0):
    """Pictures whose halves differ in colour and are noisy."""
    rng = np.random.default_rng(seed)
    truth = (np.arange(SIZE) >= SIZE // 2).astype(np.int64) * np.ones((SIZE, 1), np.int64)
    pictures = [
        rng.random((2, 3))[truth] * 0.8 + rng.normal(0, 0.05, (SIZE, SIZE, 3)).clip(-0.1, 0.1) for _ in range(count)
    ]
    return [Sample(image.clip(0, 1), (truth,), f"{number}") for number, image in enumerate(pictures)]


def tiny(**changes):
    settings = {"network": NETWORK, "size": SIZE, "steps": 6, "batch": 4, "samples": 12, "validate_every": 2}
    settings |= {"validation_share": 0.3}
    return TrainConfig(**{**settings, **changes})


def run(out, config=None, **options):
    return train(samples(), out, config or tiny(), device="cpu", progress=False, **options)


def timeless_log(out):
    """Return the log of a run without its seconds."""
    records = [json.loads(line) for line in out.with_suffix(".log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Train once without interruption."""
    out = tmp_path_factory.mktemp("finished") / "model.safetensors"
    run(out)
    return out


def test_the_model_file_says_how_it_came_about(finished):
    net, metadata = load_model(finished)
    assert net.config == NETWORK
    assert metadata["training"] == json.loads(json.dumps(tiny().to_dict()))
    assert len(metadata["data"]["fingerprint"]) == 64
    log = timeless_log(finished)
    assert [each["step"] for each in log] == [2, 4, 6]
    best = max(log, key=lambda each: each["covering"])
    assert metadata["validation"]["covering"] == best["covering"]
    assert metadata["validation"]["step"] == best["step"]
    assert len(metadata["validation"]["images"]) == 2


def test_the_model_file_says_how_it_is_used(finished, tmp_path):
    assert Usage.from_dict(read_model(finished).usage) == Usage.usual(1, two_networks=False)
    usage = Usage(intensity=Intensity(1.0, 99.0), positions=2)
    run(tmp_path / "other.safetensors", tiny(usage=usage, steps=1))
    assert Usage.from_dict(read_model(tmp_path / "other.safetensors").usage) == usage


def test_the_usual_use_follows_the_network():
    config = recipe("texture")
    assert config.model_usage == Usage.usual(4, two_networks=False)
    assert replace(config, network=NETWORK).model_usage == Usage.usual(1, two_networks=False)


def test_a_loop_without_a_file_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = torch.nn.Linear(1, 1)
    steps = Loop(net, Pace(steps=5, learning_rate=0.1, every=2))
    for _ in steps:
        steps.take(lambda: (net(torch.ones(1, 1)) - 1).square().mean())
        if steps.due:
            steps.record({})
    assert [each["step"] for each in steps.state.records] == [2, 4, 5]
    assert steps.state.records[-1]["loss"] < steps.state.records[0]["loss"]
    assert list(tmp_path.iterdir()) == []


def test_a_finished_run_leaves_model_log_and_curves_only(finished):
    left = sorted(path.name for path in finished.parent.iterdir())
    assert left == ["model.curves.png", "model.log.jsonl", "model.safetensors"]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(finished, tmp_path):
    run(tmp_path / "same.safetensors")
    run(tmp_path / "other.safetensors", tiny(seed=1))
    assert (tmp_path / "same.safetensors").read_bytes() == finished.read_bytes()
    assert (tmp_path / "other.safetensors").read_bytes() != finished.read_bytes()


class Killed(BaseException):
    """Stands for a signal: nothing in the program may catch it."""


@pytest.mark.parametrize(
    ("where", "call", "after"),
    [
        ("loop.gradients", 4, False),
        ("loop.save_state", 1, False),
        ("loop.save_state", 2, True),
        ("train.save_model", 1, False),
        ("train.draw_curves", 1, True),
    ],
)
def test_stopped_anywhere_and_resumed_it_ends_with_the_same_bytes(finished, tmp_path, monkeypatch, where, call, after):
    out, calls = tmp_path / "model.safetensors", []
    module, name = import_module(f"shapetailor.training.{where.split('.')[0]}"), where.split(".")[1]
    original = getattr(module, name)

    def dies(*args, **kwargs):
        calls.append(where)
        result = original(*args, **kwargs) if after or len(calls) < call else None
        if len(calls) == call:
            raise Killed
        return result

    with monkeypatch.context() as patch:
        patch.setattr(module, name, dies)
        with pytest.raises(Killed):
            run(out)
    run(out, resume=True)
    assert out.read_bytes() == finished.read_bytes()
    assert not state_path(out).exists()
    assert timeless_log(out) == timeless_log(finished)  # the best step may come early; the last must be equal too


def test_resuming_a_finished_run_changes_nothing(finished, monkeypatch):
    before = finished.read_bytes()
    monkeypatch.setattr(loop, "gradients", None)  # no step may be taken
    run(finished, resume=True)
    assert finished.read_bytes() == before


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """Stop a training after its first validation."""
    out = tmp_path / "model.safetensors"

    def dies(*args):
        save_state(*args)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(loop, "save_state", dies)
        with pytest.raises(Killed):
            run(out)
    return out


def test_another_training_is_not_resumed(stopped):
    with pytest.raises(ValueError, match=r"cannot be resumed; .*training\.learning_rate: 0\.003 → 0\.1"):
        run(stopped, tiny(learning_rate=0.1), resume=True)
    with pytest.raises(ValueError, match=r"cannot be resumed; .*data\.fingerprint"):
        train(samples(seed=1), stopped, tiny(), resume=True, device="cpu", progress=False)
    other = replace(Usage(), near=replace(Usage().near, reach=3))
    with pytest.raises(ValueError, match=r"cannot be resumed; .*training\.usage\.near\.reach: 2 → 3"):
        run(stopped, tiny(usage=other), resume=True)


def test_a_stopped_training_is_not_overwritten_by_mistake(stopped):
    with pytest.raises(ValueError, match="left from a run that was stopped"):
        run(stopped)


def test_the_state_holds_weights_moments_and_progress_exactly(tmp_path):
    nets = [STDNN(NETWORK) for _ in range(2)]
    optimizers = [torch.optim.AdamW(net.parameters()) for net in nets]
    for parameter in nets[0].parameters():
        parameter.grad = torch.rand_like(parameter)
    optimizers[0].step()
    state = State(7, 0.1 + 0.2, 5, dict(nets[1].state_dict()), [{"step": 7, "loss": 1 / 3}])
    save_state(tmp_path / "state.safetensors", state, nets[0], optimizers[0], {"seed": 1})
    loaded = load_state(tmp_path / "state.safetensors", nets[1], optimizers[1], {"seed": 1})
    assert (loaded.step, loaded.best, loaded.best_step, loaded.records) == (7, 0.1 + 0.2, 5, state.records)
    for first, second in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert torch.equal(first, second)
        for moment, value in optimizers[0].state[first].items():
            assert torch.equal(optimizers[1].state[second][moment], value)


def test_training_separates_what_it_is_shown(tmp_path):
    config = tiny(steps=60, validate_every=20, mosaics=False, perturb=False)
    run(tmp_path / "model.safetensors", config)
    log = timeless_log(tmp_path / "model.safetensors")
    assert log[-1]["loss"] < 0.8 * log[0]["loss"]
    assert max(each["covering"] for each in log) > 0.7  # unrelated halves have 0.33


def test_the_papers_loss_trains_too(tmp_path):
    config = tiny(steps=60, validate_every=20, separation=False, mosaics=False, perturb=False)
    run(tmp_path / "model.safetensors", config)
    log = timeless_log(tmp_path / "model.safetensors")
    assert log[-1]["loss"] < log[0]["loss"] - 0.1


def test_the_best_network_is_kept_not_the_last(tmp_path, monkeypatch):
    measured = iter([(0.0, 0.3), (0.0, 0.9), (0.0, 0.5)])
    monkeypatch.setattr(training, "validate", lambda *_: next(measured))
    kept = run(tmp_path / "three.safetensors")
    assert load_model(tmp_path / "three.safetensors")[1]["validation"]["step"] == 4
    monkeypatch.setattr(training, "validate", lambda *_: (0.0, 0.5))
    first = run(tmp_path / "all_equal.safetensors")  # of equals the first
    assert load_model(tmp_path / "all_equal.safetensors")[1]["validation"]["step"] == 2
    assert not torch.equal(kept.layers[0].weight, first.layers[0].weight)


def test_a_diverging_training_stops_with_advice(tmp_path):
    with pytest.raises(ValueError, match=r"step \d+ failed, a lower learning_rate may help"):
        run(tmp_path / "model.safetensors", tiny(learning_rate=1e30))


def test_a_loss_that_is_no_number_stops_the_training(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "gradients", lambda *_: torch.tensor(float("nan")))
    with pytest.raises(ValueError, match="step 1 failed, a lower learning_rate may help: the loss is nan"):
        run(tmp_path / "model.safetensors")


def test_the_rate_rises_then_falls_to_nearly_zero():
    rates = [learning_rate(1.0, 400, step) for step in range(400)]
    assert rates[0] < 0.1
    assert isclose(max(rates), 1.0, abs_tol=0.01)
    assert np.argmax(rates) <= 20
    assert rates[-1] < 1e-4


def test_recipes_are_named_and_changed_by_name():
    assert recipe("texture", steps=5).steps == 5
    assert recipe("paper").network == STDNNConfig()
    with pytest.raises(ValueError, match="recipe must be one of texture, paper"):
        recipe("best")


@pytest.mark.parametrize(
    ("name", "value"), [("steps", 0), ("batch", 0), ("seed", -1), ("validation_share", 1.0), ("size", 0)]
)
def test_settings_out_of_range_are_named(name, value):
    with pytest.raises(ValueError, match=f"{name} must"):
        tiny(**{name: value})


def test_a_folder_that_cannot_be_written_is_reported_before_training(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(loop, "gradients", None)
    with pytest.raises(OSError, match=r"cannot write .* bytes to .*file"):
        run(tmp_path / "file" / "model.safetensors")
    with pytest.raises(ValueError, match=r"ends with \.safetensors"):
        run(tmp_path / "model.pt")


def test_a_model_that_is_there_is_not_trained_over(finished):
    before = finished.read_bytes()
    with pytest.raises(ValueError, match="is there already; choose another name, or remove it"):
        run(finished)
    assert finished.read_bytes() == before
