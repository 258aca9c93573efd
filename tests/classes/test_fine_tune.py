import numpy as np
import pytest
import torch
from class_pictures import CLASSES, picture

from shapetailor import Classifier
from shapetailor.classes import fine_tune as module
from shapetailor.classes.fine_tune import FineTuneConfig, fine_tune
from shapetailor.classes.lesson import Taught

CONFIG = FineTuneConfig(steps=2, batch=1, crop=64, every=1)


@pytest.fixture(scope="module")
def samples():
    return [Taught(str(number), *picture(number)) for number in range(2)]


@pytest.fixture(scope="module")
def taught(samples):
    return Classifier.teach(samples, CLASSES)


def test_networks_and_head_learn(taught, samples):
    tuned = fine_tune(taught, samples, CONFIG)
    assert not torch.equal(tuned.head.out.weight, taught.head.out.weight)
    for before, after in ((taught.net, tuned.net), (taught.net.fine, tuned.net.fine)):
        assert not torch.equal(before.stages[0].weight, after.stages[0].weight)
    assert tuned.record["fine_tune"]["held_out"] == []


def test_a_stopped_run_goes_on_to_the_same_weights(taught, samples, tmp_path, monkeypatch):
    whole = fine_tune(taught, samples, CONFIG)
    batch, calls = module._batch, []

    def stopped(*arguments):
        if len(calls) == 1:
            raise KeyboardInterrupt
        calls.append(1)
        return batch(*arguments)

    monkeypatch.setattr(module, "_batch", stopped)
    with pytest.raises(KeyboardInterrupt):
        fine_tune(taught, samples, CONFIG, state=tmp_path / "m.safetensors")
    assert (tmp_path / "m.resume.safetensors").exists()
    monkeypatch.setattr(module, "_batch", batch)
    resumed = fine_tune(taught, samples, CONFIG, state=tmp_path / "m.safetensors")
    assert torch.equal(resumed.head.hidden.weight, whole.head.hidden.weight)
    assert not (tmp_path / "m.resume.safetensors").exists()


def test_weights_of_the_start_stay_where_held_out_pictures_get_no_better(taught, samples, monkeypatch):
    figures = iter([0.9, 0.5, 0.5])
    monkeypatch.setattr(module, "_measure", lambda *_: next(figures))
    tuned = fine_tune(taught, [*samples, Taught("2", *picture(2))], CONFIG)
    assert torch.equal(tuned.head.hidden.weight, taught.head.hidden.weight)
    assert tuned.record["fine_tune"]["best_step"] == 0


def test_crops_hold_marked_pixels_of_small_pictures_too(taught, samples):
    marked = [module._marked(taught, samples[0])]
    config = FineTuneConfig(batch=4, crop=256)
    pictures, targets = module._batch(marked, config, taught, np.random.default_rng(0))
    assert pictures.shape == (4, 3, 256, 256)
    assert ((targets >= 0).flatten(1).sum(dim=1) > 0).all()
    assert pictures.min() >= 0
    assert pictures.max() <= 1
