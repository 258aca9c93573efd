import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from class_pictures import CLASSES, SHAPE, picture, thinned

from shapetailor import Classification, Classifier
from shapetailor.classes.features import feature_count
from shapetailor.classes.lesson import cell_classes, choose_cells, class_numbers
from shapetailor.classes.names import as_classes
from shapetailor.classes.second_order import second_order_sources
from shapetailor.network.checkpoint import read_tensors, write_tensors


@pytest.fixture(scope="module")
def classifier(taught):
    return Classifier.load(taught / "model.safetensors")


@pytest.fixture
def sample():
    return picture(11, 56)


def test_a_picture_it_was_not_taught_with_gets_the_values_of_its_classes(classifier, sample):
    image, truth = sample
    found = classifier.apply(image)
    assert isinstance(found, Classification)
    assert found.labels.shape == SHAPE
    assert set(np.unique(found.labels)) <= {3, 7}
    assert np.mean(found.labels == truth) > 0.95


def test_a_classifier_and_what_it_finds_say_in_a_line_what_they_are(classifier, sample):
    found = classifier.apply(sample[0])
    assert repr(classifier) == f"<Classifier of smooth, grainy, at {classifier.resolution} pixels>"
    height, width = found.labels.shape
    share = (found.labels == classifier.classes[0].value).mean()
    assert repr(found).startswith(f"<Classification of {height}×{width} pixels: smooth: {share:.1%}, grainy: ")
    assert found._repr_png_().startswith(b"\x89PNG")


def test_probabilities_sum_to_one_and_labels_are_the_most_probable(classifier, sample):
    found = classifier.apply(sample[0])
    np.testing.assert_allclose(found.probabilities.sum(axis=0), 1, atol=1e-5)
    assert np.array_equal(found.labels, np.array([3, 7])[found.probabilities.argmax(axis=0)])


def test_uncertainty_is_0_to_1_and_largest_at_the_boundary(classifier, sample):
    uncertainty = classifier.apply(sample[0]).uncertainty
    assert uncertainty.min() >= 0
    assert uncertainty.max() <= 1 + 1e-6
    assert uncertainty[:, 52:60].mean() > 2 * uncertainty[:, :20].mean()


def test_a_file_read_again_gives_the_same_probabilities_bit_for_bit(classifier, sample, tmp_path):
    classifier.save(tmp_path / "a.safetensors")
    again = Classifier.load(tmp_path / "a.safetensors")
    assert np.array_equal(again.apply(sample[0]).probabilities, classifier.apply(sample[0]).probabilities)
    assert again.classes == classifier.classes
    assert again.record == classifier.record


def test_a_file_of_format_1_is_read_and_its_head_reads_what_it_has_learnt_from(classifier, sample, tmp_path):
    former = feature_count(classifier.net) - len(second_order_sources(4))
    tensors = {f"net.{name}": each for name, each in classifier.net.state_dict().items()}
    for name, each in classifier.head.state_dict().items():
        read = name in ("mean", "scale", "hidden.weight")
        tensors[f"head.{name}"] = each[..., :former].contiguous() if read else each
    header = {
        "config": classifier.net.config.to_dict(),
        "classes": [each.to_dict() for each in classifier.classes],
        "resolution": classifier.resolution,
        "intensity": classifier.intensity.to_dict(),
        "record": classifier.record,
    }
    write_tensors(tmp_path / "old.safetensors", tensors, "classifier", 1, header)
    loaded = Classifier.load(tmp_path / "old.safetensors")
    features = torch.randn(5, feature_count(classifier.net))
    known = features.clone()
    known[:, former:] = classifier.head.mean[former:]
    torch.testing.assert_close(loaded.head(features), classifier.head(known))


@pytest.mark.parametrize("version", [2, 3, 4])
def test_files_of_former_formats_give_the_same_labels(classifier, sample, tmp_path, version):
    classifier.save(tmp_path / "new.safetensors")
    tensors, header = read_tensors(tmp_path / "new.safetensors", "classifier", 5)
    tensors = {name: each for name, each in tensors.items() if not name.startswith("standard.")}
    if version == 2:
        del header["colours_tell"]
    written = {name: each for name, each in header.items() if name not in ("format", "format_version", "sha256")}
    write_tensors(tmp_path / "old.safetensors", tensors, "classifier", version, written)
    loaded = Classifier.load(tmp_path / "old.safetensors")
    same = replace(classifier, standard=None, colours_tell=version > 2 and classifier.colours_tell)
    assert np.array_equal(loaded.apply(sample[0]).labels, same.apply(sample[0]).labels)


@pytest.mark.parametrize(
    ("name", "spoilt", "message"),
    [
        ("light", lambda each: each[:-1], "not one of 23 channels"),
        ("first.mean", lambda each: each[:-1], "not one of 23 channels"),
        ("light", lambda each: each + 1, "shares of light beyond 0 to 1"),
        ("second.scale", lambda each: -each, "scales that are not positive"),
    ],
)
def test_a_file_whose_standard_does_not_fit_is_refused(classifier, tmp_path, name, spoilt, message):
    classifier.save(tmp_path / "new.safetensors")
    tensors, header = read_tensors(tmp_path / "new.safetensors", "classifier", 5)
    tensors[f"standard.{name}"] = spoilt(tensors[f"standard.{name}"])
    written = {name: each for name, each in header.items() if name not in ("format", "format_version", "sha256")}
    write_tensors(tmp_path / "spoilt.safetensors", tensors, "classifier", 5, written)
    with pytest.raises(ValueError, match=rf"spoilt\.safetensors: what it holds does not fit .* {message}"):
        Classifier.load(tmp_path / "spoilt.safetensors")


def test_equal_marks_give_an_equal_file_and_other_marks_another(tmp_path):
    image, truth = picture(0)
    some = thinned(truth)
    other = some.copy()
    other[:8] = 0
    for name, marks in (("a", some), ("b", some), ("c", other)):
        Classifier.teach([(image, marks)], CLASSES).save(tmp_path / f"{name}.safetensors")
    a, b, c = ((tmp_path / f"{name}.safetensors").read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_a_turned_picture_gets_the_turned_map(classifier, sample):
    image = sample[0]
    upright = classifier.apply(image).labels
    turned = classifier.apply(np.ascontiguousarray(image.T)).labels
    assert np.mean(upright == turned.T) > 0.99


def test_a_class_without_marks_is_never_found(sample):
    image, truth = sample
    taught = Classifier.teach([(image, thinned(truth))], [*CLASSES, {"value": 9, "name": "never"}])
    assert 9 not in taught.apply(image).labels
    assert taught.apply(image).table[2].pixels == 0


def test_ignored_pixels_teach_nothing(sample):
    marks = sample[1].copy()
    marks[:, :20] = 255
    cells = cell_classes(class_numbers(marks, as_classes(CLASSES), SHAPE, "x"), 2, 2)
    kept = choose_cells(torch.zeros(1, *cells.shape), cells, [0])
    assert len(kept.targets) == SHAPE[0] * (SHAPE[1] - 20) / 4
    assert len(kept.others) == 0


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        (np.full(SHAPE, 4), "unknown class 4; classes are 3 smooth, 7 grainy"),
        (np.full((5, 6), 3), r"the picture's size \(72, 96\), got \(5, 6\)"),
        (np.full(SHAPE, 0), "no pixel is marked"),
        (np.full(SHAPE, 255), "no pixel is marked"),
        (np.full(SHAPE, 3), "at least two classes, got smooth only"),
    ],
)
def test_marks_that_teach_nothing_are_refused_in_words(marks, message):
    with pytest.raises(ValueError, match=message):
        Classifier.teach([(picture(0)[0], marks)], CLASSES)


@pytest.mark.parametrize(
    ("outside", "message"),
    [(7, "two classes, got smooth only"), (3, "two classes, got grainy only"), (0, "no pixel inside")],
)
def test_marks_outside_the_picture_teach_nothing(outside, message):
    image, truth = picture(0)
    values = np.where(truth == outside if outside else truth > 0, np.nan, image / 255)
    values[0, 0], truth[0, 0] = 0.5, 3 if outside == 7 else 0
    with pytest.raises(ValueError, match=message):
        Classifier.teach([(values, truth)], CLASSES)


def test_no_samples_and_fractional_marks_are_refused():
    with pytest.raises(ValueError, match="at least one marked picture"):
        Classifier.teach([], CLASSES)
    with pytest.raises(TypeError, match="marks must hold integers"):
        Classifier.teach([(picture(0)[0], np.ones(SHAPE))], CLASSES)
    with pytest.raises(ValueError, match="seed must be a whole number from 0 on, got -1"):
        Classifier.teach([], CLASSES, seed=-1)


@pytest.mark.parametrize("size", ["0.5um", (0.5,), (-1, "m"), ("1", "m"), 0.5, (float("inf"), "m"), (1, 2)])
def test_a_size_that_is_no_side_and_unit_is_refused(classifier, sample, size):
    with pytest.raises(ValueError, match="pixel_size must be a side and its unit"):
        classifier.apply(sample[0], pixel_size=size)


def test_a_model_of_one_network_is_refused():
    with pytest.raises(ValueError, match="two networks"):
        Classifier.teach([picture(0)], CLASSES, model="paper")


def test_a_segmentation_model_is_no_classifier(tmp_path):
    from shapetailor import STDNN
    from shapetailor.network.checkpoint import save_model

    save_model(tmp_path / "net.safetensors", STDNN())
    with pytest.raises(ValueError, match="not a classifier"):
        Classifier.load(tmp_path / "net.safetensors")


def test_cells_have_the_class_of_most_of_their_marked_pixels():
    marks = np.array([[0, 1, -1, -1], [1, 1, -1, 0], [-1, -1, -1, -2], [-1, -1, 1, 1], [0, -1, -1, -2]])
    assert cell_classes(marks, 2, 2).tolist() == [[1, 0], [-1, 1], [0, -2]]


def test_values_of_marks_become_places_of_classes():
    marks = np.array([[0, 3, 7], [255, -1, 3]])
    assert class_numbers(marks, as_classes(CLASSES), (2, 3), "x").tolist() == [[-1, 0, 1], [-2, -1, 0]]


def test_pixels_outside_the_picture_have_no_class_and_do_not_count(classifier, sample):
    image = sample[0].astype(np.float32) / 255
    image[:, :10] = np.nan
    found = classifier.apply(image)
    assert (found.labels[:, :10] == 255).all()
    assert set(np.unique(found.labels[:, 10:])) <= {3, 7}
    assert sum(row.fraction for row in found.table) == pytest.approx(1)


def test_three_pictures_are_judged_in_turn_by_heads_that_have_not_seen_them():
    pictures = [picture(number) for number in range(3)]
    samples = [(image, thinned(truth)) for image, truth in pictures]
    right = Classifier.teach(samples, CLASSES).record["held_out"]
    assert right["mean_iou"] > 0.9
    assert right["accuracy"] > 0.95
    image, truth = pictures[2]
    lying = [*samples[:2], (image, thinned(10 - truth))]
    wrong = Classifier.teach(lying, CLASSES).record["held_out"]
    assert wrong["accuracy"] < 0.7  # a head that had seen the lie would know it
    assert Classifier.teach(samples[:2], CLASSES).record["held_out"] is None


def test_one_picture_is_in_memory_at_a_time():
    alive = weakref.WeakValueDictionary()

    def samples():
        for number in range(3):
            assert not alive
            image, truth = picture(number)
            alive[number] = image
            yield image, thinned(truth)
            del image

    Classifier.teach(samples(), CLASSES)
