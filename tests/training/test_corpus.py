"""Reading training data: sizes, channels, the held-out part, and naming everything that is wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from shapetailor import STDNN, Segmenter, STDNNConfig
from shapetailor.datasets import Sample
from shapetailor.io.images import write_image, write_labels
from shapetailor.io.intensity import Intensity
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


class Fed(Exception):  # noqa: N818
    """Carries what a network is fed."""


class Stopping(STDNN):
    """A network that stops where a picture reaches it."""

    def prepare(self, image, inside=None):
        raise Fed(image)


def fed(image, channels):
    """Return the values (1, C, H, W) with which a picture reaches the network of a `Segmenter`."""
    with pytest.raises(Fed) as found:
        Segmenter(Stopping(STDNNConfig(image_channels=channels))).segment(image, 2)
    return found.value.args[0]


def ramp(low, high, dtype, channels=1):
    """A picture that lies as a segmenter turns all: brightest on the right and, less so, at the bottom."""
    y, x = np.indices((24, 24)) / 23
    noise = np.random.default_rng(0).random((24, 24, channels))
    values = low + (high - low) * (0.7 * x + 0.2 * y)[:, :, None] + 0.1 * (high - low) * noise
    return values.squeeze().astype(dtype)


STORED = {
    "uint8": ramp(10, 240, np.uint8),
    "uint8 colour": ramp(10, 240, np.uint8, 3),
    "uint16": ramp(0, 65535, np.uint16),
    "12 bits in uint16": ramp(0, 4095, np.uint16),
    "12 bits in uint16, colour": ramp(0, 4095, np.uint16, 3),
    "int16": ramp(-900, 3000, np.int16),
    "int32": ramp(0, 2e6, np.int32),
    "uint32": ramp(0, 2e9, np.uint32),
    "float32 in 0..1": ramp(0.1, 0.7, np.float32, 3),
    "float64 beyond": ramp(-5.0, 300.0, np.float64),
    "float64 beyond, colour": ramp(0.0, 2.0, np.float64, 3),
    "bool": ramp(0, 1, np.float64) > 0.5,
    "one value": np.full((24, 24), 7, np.uint16),
}


def trained_on(data):
    corpus = read_corpus(data, 24)
    return corpus.images[:1]


@pytest.mark.parametrize("name", STORED)
def test_arrays_reach_the_network_with_the_same_values_in_training_and_in_use(name):
    image = STORED[name]
    values = trained_on([Sample(image, (halves(),), each) for each in "ab"])
    assert values.min() >= 0
    assert values.max() <= 1
    assert name == "one value" or values.max() - values.min() > 0.5
    assert torch.equal(values, fed(image, values.shape[1]))


@pytest.mark.parametrize("kind", ["turned.jpg", "alpha.png", "gray alpha.png", "gray16.png", "deep.tif", "float.tif"])
def test_files_reach_the_network_with_the_same_values_in_training_and_in_use(kind, tmp_path):
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    for name in "ab":
        file = tmp_path / "images" / f"{name}{kind[-4:]}"
        colour, gray = ramp(10, 240, np.uint8, 3), ramp(10, 240, np.uint8)
        if kind == "turned.jpg":
            exif = Image.Exif()
            exif[0x0112] = 6  # to be turned to the right by a quarter
            Image.fromarray(np.rot90(colour)).save(file, exif=exif, quality=95)
        elif "alpha" in kind:
            planes = (colour if kind == "alpha.png" else gray[:, :, None], np.full((24, 24, 1), 90, np.uint8))
            Image.fromarray(np.concatenate(planes, axis=2)).save(file)
        else:
            stored = {"gray16.png": ramp(0, 4095, np.uint16), "deep.tif": ramp(0, 4095, np.uint16, 3)}
            write_image(file, stored.get(kind, ramp(-2.0, 9.0, np.float32)))
        write_labels(tmp_path / "masks" / f"{name}.png", halves())
    values = trained_on(tmp_path)
    assert values.max() - values.min() > 0.5
    assert torch.equal(values, fed(tmp_path / "images" / f"a{kind[-4:]}", values.shape[1]))


def test_the_models_rule_for_intensities_is_used():
    image = STORED["12 bits in uint16"]
    data = [Sample(image, (halves(),), name) for name in "ab"]
    rule = Intensity(black=5, white=90)
    corpus = read_corpus(data, 24, intensity=rule)
    assert np.array_equal(corpus.images[0, 0], rule(image))
    assert not torch.equal(corpus.images[:1], trained_on(data))


def test_values_that_are_not_finite_are_named():
    image = STORED["float64 beyond"].copy()
    image[3, 4] = np.nan
    data = [Sample(STORED["float64 beyond"], (halves(),), "good"), Sample(image, (halves(),), "holed")]
    with pytest.raises(ValueError, match="holed: image must be finite and opaque; 1 of 576 pixels"):
        read_corpus(data, 24)


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
