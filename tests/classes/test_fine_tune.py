from copy import deepcopy
from itertools import count

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


@pytest.fixture
def ever_better(monkeypatch):
    figures = count()
    monkeypatch.setattr(module, "_measure", lambda *_: float(next(figures)))


@pytest.mark.usefixtures("ever_better")
def test_networks_and_head_learn(taught, samples):
    tuned = fine_tune(taught, samples, CONFIG)
    assert not torch.equal(tuned.head.out.weight, taught.head.out.weight)
    for before, after in ((taught.net, tuned.net), (taught.net.fine, tuned.net.fine)):
        assert not torch.equal(before.stages[0].weight, after.stages[0].weight)
    assert tuned.record["fine_tune"]["best_step"] == 2


@pytest.mark.usefixtures("ever_better")
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


def test_the_start_has_not_seen_what_is_held_out(taught, samples, monkeypatch):
    pictures, starts = [*samples, Taught("2", *picture(2))], []
    monkeypatch.setattr(module, "_measure", lambda joint, _: starts.append(deepcopy(joint.head)) or 0.0)
    (held,) = fine_tune(taught, pictures, CONFIG).record["fine_tune"]["held_out"]
    others = Classifier.teach([each for each in pictures if each.name != held], CLASSES)
    assert torch.equal(starts[0].hidden.weight, others.head.hidden.weight)


def test_a_part_of_each_of_two_pictures_is_held_out(taught, samples):
    marked = [module._marked(taught, each) for each in samples]
    learnt, judged, held = module._divided(marked, 0)
    assert held == [0, 1]
    for whole, first, second in zip(marked, learnt, judged, strict=True):
        assert not ((first.marks >= 0) & (second.marks >= 0)).any()
        assert (np.maximum(first.marks, second.marks) == whole.marks).all()
        assert 0.1 < (second.marks >= 0).sum() / (whole.marks >= 0).sum() < 0.3


@pytest.mark.parametrize("pictures", [1, 3])
def test_the_last_marks_of_a_class_are_not_held_out(taught, samples, pictures):
    marked = [module._marked(taught, samples[0])] * pictures
    columns = np.arange(marked[0].marks.shape[1])
    marked[0] = marked[0]._replace(marks=np.where(columns < columns.max(), 0, 1) + 0 * marked[0].marks)
    marked[1:] = [each._replace(marks=0 * each.marks) for each in marked[1:]]
    for seed in range(4):
        assert 0 not in module._divided(marked, seed).held


def test_crops_hold_marked_pixels_of_small_pictures_too(taught, samples):
    marked = [module._marked(taught, samples[0])]
    config = FineTuneConfig(batch=4, crop=256)
    pictures, targets = module._batch(marked, config, taught, np.random.default_rng(0))
    assert pictures.shape == (4, 3, 256, 256)
    assert ((targets >= 0).flatten(1).sum(dim=1) > 0).all()
    assert pictures.min() >= 0
    assert pictures.max() <= 1
