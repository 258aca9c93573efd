"""Reading training data: sizes, channels, the held-out part, and naming everything that is wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shapetailor.datasets import Sample
from shapetailor.io.images import write_image, write_labels
from shapetailor.training.corpus import Corpus, read_corpus


def halves(size=24):
    return (np.arange(size) >= size // 2).astype(np.int64) * np.ones((size, 1), np.int64)


def write_pair(folder, name, image, mask):
    for kind in ("images", "masks"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    write_image(folder / "images" / f"{name}.png", image)
    write_labels(folder / "masks" / f"{name}.png", mask)


def test_images_of_any_size_depth_and_colour_become_one_tensor(tmp_path):
    rng = np.random.default_rng(0)
    write_pair(tmp_path, "colour", rng.integers(0, 256, (24, 24, 3), np.uint8), halves())
    write_pair(
        tmp_path, "gray16", rng.integers(0, 2**16, (40, 24), np.uint16), np.kron(halves(8), np.ones((5, 3), int))
    )
    corpus = read_corpus(tmp_path, 24)
    assert corpus.images.shape == (2, 3, 24, 24)
    assert corpus.images.min() >= 0
    assert 0.9 < corpus.images.max() <= 1
    assert torch.equal(corpus.images[1, 0], corpus.images[1, 2])  # gray, three times
    assert torch.equal(corpus.truths[0], torch.from_numpy(halves()))


def test_everything_wrong_is_named_at_once(tmp_path):
    image = np.zeros((24, 24, 3), np.uint8)
    write_pair(tmp_path, "good", image, halves())
    write_pair(tmp_path, "one_region", image, np.zeros((24, 24), int))
    write_pair(tmp_path, "other_size", image, halves(16))
    write_pair(tmp_path, "corrupt", image, halves())
    (tmp_path / "images" / "corrupt.png").write_bytes(b"no picture")
    write_image(tmp_path / "images" / "alone.png", image)
    with pytest.raises(ValueError, match="cannot be used") as error:
        read_corpus(tmp_path, 24)
    for name in ("one_region", "other_size", "corrupt", "alone"):
        assert name in str(error.value)
    assert "good" not in str(error.value)


def test_ignored_pixels_belong_to_no_region(tmp_path):
    mask = halves()
    mask[:6] = 9
    for name in "ab":
        write_pair(tmp_path, name, np.zeros((24, 24), np.uint8), mask)
    corpus = read_corpus(tmp_path, 24, ignore=9)
    assert (corpus.truths[:, :6] == -1).all()
    assert sorted(corpus.truths.unique().tolist()) == [-1, 0, 1]


def test_unlike_channels_and_vanished_regions_are_named():
    dot = np.zeros((64, 64), np.int64)
    dot[0, 0] = 1
    samples = [
        Sample(np.zeros((24, 24, 5)), (halves(),), "five"),
        Sample(np.zeros((24, 24, 3)), (halves(),), "three"),
        Sample(np.zeros((64, 64, 5)), (dot,), "dot"),
    ]
    with pytest.raises(ValueError, match="three: has 3 channels") as error:
        read_corpus(samples, 24)
    assert "dot: fewer than 2 regions" in str(error.value)


def test_a_float_image_beyond_unit_range_is_brought_into_it():
    values = np.linspace(-5.0, 300.0, 24 * 24).reshape(24, 24)
    corpus = read_corpus([Sample(values, (halves(),), name) for name in "ab"], 24)
    assert corpus.images.min() == 0
    assert corpus.images.max() == 1


@given(st.integers(2, 40), st.integers(0, 5))
def test_the_split_is_a_partition_with_at_least_one_image_each(count, seed):
    names = tuple(str(each) for each in range(count))
    corpus = Corpus(torch.arange(count).float().view(-1, 1, 1, 1), torch.zeros(count, 1, 1, dtype=torch.long), names)
    training, validation = corpus.split(0.15, seed)
    assert sorted(training.names + validation.names) == sorted(names)
    assert min(len(training.names), len(validation.names)) >= 1
    assert training.images.flatten().int().tolist() == [int(name) for name in training.names]


def test_the_fingerprint_sees_names_pixels_and_labels():
    images, truths = torch.zeros(2, 1, 4, 4), torch.zeros(2, 4, 4, dtype=torch.long)
    marked_image, marked_truth = images.clone(), truths.clone()
    marked_image[1, 0, 3, 3] = 1e-6
    marked_truth[0, 0, 0] = 1
    seen = [
        Corpus(images, truths, ("a", "b")),
        Corpus(images, truths, ("a", "c")),
        Corpus(marked_image, truths, ("a", "b")),
        Corpus(images, marked_truth, ("a", "b")),
    ]
    assert len({each.fingerprint() for each in seen}) == 4
    assert Corpus(images.clone(), truths, ("a", "b")).fingerprint() == seen[0].fingerprint()


def test_textures_lie_inside_their_regions():
    truth = torch.from_numpy(halves(64))
    corpus = Corpus(torch.zeros(1, 1, 64, 64), truth[None], ("a",))
    found = corpus.textures()
    assert found.tolist() == [[0, 0, 0, 64, 32], [0, 0, 32, 64, 32]]
