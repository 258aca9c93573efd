import numpy as np
import pytest
import torch
from class_pictures import CLASSES, SHAPE, picture, thinned

from shapetailor import Classifier
from shapetailor.classes import fine_tune as module
from shapetailor.classes.features import describe, features_from
from shapetailor.classes.fine_tune import FineTuneConfig, fine_tune
from shapetailor.classes.lesson import Taught

CONFIG = FineTuneConfig(steps=2, batch=1, crop=64, every=1)


@pytest.fixture(scope="module")
def samples():
    return [Taught(str(number), *picture(number)) for number in range(2)]


@pytest.fixture(scope="module")
def few(samples):
    """The same pictures with few marks, that a head is soon taught with."""
    return [each._replace(marks=thinned(each.marks)) for each in samples]


@pytest.fixture(scope="module")
def taught(few):
    return Classifier.teach(few, CLASSES)


@pytest.fixture
def helped(monkeypatch):
    monkeypatch.setattr(module, "_helped", lambda *_: True)


@pytest.fixture(scope="module")
def tuned(taught, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_helped", lambda *_: True)
        return fine_tune(taught, few, CONFIG)


@pytest.fixture
def one_copy(monkeypatch):
    monkeypatch.setattr(module, "COPIES", 1)


def file_of(classifier, path):
    classifier.save(path)
    return path.read_bytes()


def test_networks_head_and_context_learn(taught, tuned):
    assert not torch.equal(tuned.head.out.weight, taught.head.out.weight)
    assert tuned.head.context.out.weight.any()
    for before, after in ((taught.net, tuned.net), (taught.net.fine, tuned.net.fine)):
        assert not torch.equal(before.stages[0].weight, after.stages[0].weight)
    assert tuned.record["fine_tune"]["helped"]


@pytest.mark.usefixtures("helped")
@pytest.mark.parametrize("done", [1, 3], ids=["in the trial", "after it"])
def test_a_stopped_run_goes_on_to_the_same_file(taught, few, tuned, tmp_path, monkeypatch, done):
    whole = file_of(tuned, tmp_path / "whole.safetensors")
    batch, calls, state = module._batch, [], tmp_path / "m.safetensors"

    def counted(*arguments, most):
        if len(calls) == most:
            raise KeyboardInterrupt
        calls.append(1)
        return batch(*arguments)

    monkeypatch.setattr(module, "_batch", lambda *arguments: counted(*arguments, most=done))
    with pytest.raises(KeyboardInterrupt):
        fine_tune(taught, few, CONFIG, state=state)
    monkeypatch.setattr(module, "_batch", lambda *arguments: counted(*arguments, most=2 * CONFIG.steps))
    assert file_of(fine_tune(taught, few, CONFIG, state=state), tmp_path / "again.safetensors") == whole
    assert len(calls) == 2 * CONFIG.steps  # none was taken twice
    assert not list(tmp_path.glob("*resume*"))


@pytest.mark.parametrize("iou", [0.4, 0.5])
def test_the_classifier_stays_where_held_out_pictures_get_no_better(taught, few, monkeypatch, iou):
    figures = iter([{"mean_iou": 0.5, "accuracy": 0.9}, {"mean_iou": iou, "accuracy": 0.9}])
    monkeypatch.setattr(module, "_measure", lambda *_: next(figures))
    tuned = fine_tune(taught, few, CONFIG)
    assert tuned.net is taught.net
    assert tuned.head is taught.head
    assert not tuned.record["fine_tune"]["helped"]


def test_the_trial_has_not_seen_what_is_held_out(taught, few, monkeypatch):
    image, truth = picture(2)
    pictures, starts = [*few, Taught("2", image, thinned(truth))], []
    monkeypatch.setattr(module, "_measure", lambda _, head, *__: starts.append(head) or {"mean_iou": 0.0})
    (held,) = fine_tune(taught, pictures, CONFIG).record["fine_tune"]["held_out"]
    others = Classifier.teach([each for each in pictures if each.name != held], CLASSES)
    assert torch.equal(starts[0].hidden.weight, others.head.hidden.weight)


def test_a_fine_tuned_file_read_again_gives_the_same_probabilities(taught, tuned, samples, tmp_path):
    tuned.save(tmp_path / "a.safetensors")
    again = Classifier.load(tmp_path / "a.safetensors").apply(samples[0].image).probabilities
    assert np.array_equal(again, tuned.apply(samples[0].image).probabilities)
    assert not np.array_equal(again, taught.apply(samples[0].image).probabilities)


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


@pytest.mark.usefixtures("one_copy")
def test_a_crop_is_described_like_its_place_in_the_whole_picture(taught, samples):
    part = Taught("part", samples[0].image[:48, :64], samples[0].marks[:48, :64])
    copies = module._Copies(taught.net, taught.standard, [module._marked(taught, part)], 2, 0)
    inputs, targets = module._batch(copies, FineTuneConfig(batch=1, crop=32), 0)
    assert targets.shape == (1, 16, 16)
    whole, fixed = describe(taught.net, copies.marked[0].values, taught.standard), inputs.fixed[0]
    windows = whole[-len(fixed) :].unfold(1, 16, 1).unfold(2, 16, 1).movedim((1, 2), (0, 1))
    differences = (windows - fixed).abs().amax(dim=(2, 3, 4))
    assert differences.min() < 0.02  # half precision
    assert (differences < 0.02).sum() == 1


@pytest.mark.usefixtures("one_copy")
def test_a_crop_of_all_has_the_features_that_apply_computes(taught, samples):
    copy = module._Copies(taught.net, taught.standard, [module._marked(taught, samples[0])], 2, 0).made(0)
    found = features_from(taught.net, type(copy.inputs)(*(each[None].float() for each in copy.inputs)))[0]
    whole = describe(taught.net, module._marked(taught, samples[0]).values, taught.standard)
    apart = (found - whole).abs()
    assert apart.max() < 0.02


@pytest.mark.usefixtures("one_copy")
def test_every_second_crop_holds_a_class_that_is_drawn_first(taught, samples):
    marked = module._marked(taught, samples[0])
    rare = np.full_like(marked.marks, 0)
    rare[:4, :4] = 1
    copies = module._Copies(taught.net, taught.standard, [marked._replace(marks=rare)], 2, 0)
    held = [
        bool((module._batch(copies, FineTuneConfig(batch=2, crop=16), step)[1][1] == 1).any()) for step in range(40)
    ]
    assert 10 <= sum(held) <= 30  # half of these, where one of the places in the picture would give one of fifty


@pytest.mark.usefixtures("one_copy")
def test_crops_are_no_larger_than_the_smallest_copy(taught, samples):
    copies = module._Copies(taught.net, taught.standard, [module._marked(taught, samples[0])], 2, 0)
    inputs, targets = module._batch(copies, FineTuneConfig(batch=4, crop=256), 0)
    side = min(SHAPE)  # small pictures are enlarged: a cell is a pixel here
    assert targets.shape == (4, side, side)
    assert inputs.second.shape[2:] == (side, side)
    assert (targets >= 0).any()


def test_nothing_is_learnt_from_outside_the_picture(taught, samples):
    image, marks = samples[0].image.astype(np.float32) / 255, samples[0].marks.copy()
    image[:, :20] = np.nan
    marks[:, 20:40] = 0
    marked = module._guessed(
        taught.net, taught.head, taught.standard, module._marked(taught, Taught("x", image, marks))
    )
    copies = module._Copies(taught.net, taught.standard, [marked], 2, 0)
    assert (copies.made(0).targets[:, :20] == -1).all()
    assert (copies.made(0).targets[:, 20:40] >= 0).any()  # what the head is sure of
    outside = (marked.marks == module.LEFT_OUT).sum()
    for number in range(1, 5):
        assert 4 * (copies.made(number).targets == -1).sum() > outside / 2


def test_marks_turn_with_the_picture(samples):
    image = torch.from_numpy(samples[0].image)[None] / 255
    marks = torch.from_numpy(samples[0].marks // 7).long()
    for seed in range(4):
        for affine in (False, True):
            (values,), found = module._changed(image, marks, affine, np.random.default_rng(seed))
            assert values.shape == found.shape
            assert values.min() >= 0
            assert values.max() <= 1
            assert values[found == 1].std() > 2 * values[found == 0].std()  # the grainy half stays the grainy one


def test_a_batch_without_marks_teaches_nothing():
    logits = torch.randn(1, 2, 3, 3, requires_grad=True)
    module._loss(logits, torch.full((1, 3, 3), -1), torch.ones(2)).backward()
    assert not logits.grad.any()


def test_the_average_follows_the_weights(taught):
    joint = module._Joint(taught.net, taught.head, 0)
    with torch.no_grad():
        joint.learning[1].out.bias += 1
    for step in range(2000):
        joint.average_step(step)
    torch.testing.assert_close(joint.average[1].out.bias, joint.learning[1].out.bias)


def test_a_device_that_is_not_there_is_said_in_words(taught, samples):
    with pytest.raises(ValueError, match=r"device .*GPU"):
        Classifier.teach(samples, CLASSES, device="cuda:99")
    with pytest.raises(ValueError, match=r"device .*GPU"):
        fine_tune(taught, samples, CONFIG, device="cuda:99")
