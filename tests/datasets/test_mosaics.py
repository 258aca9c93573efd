"""Mosaics: the truth is exact, the regions are large enough, the parts share nothing, the command resumes."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from shapetailor.cli import data, main
from shapetailor.datasets import (
    FolderDataset,
    MosaicDataset,
    ProceduralTextures,
    Sample,
    TextureFolder,
    mosaic,
    random_regions,
    split_classes,
    split_textures,
)
from shapetailor.datasets.mosaics import MIN_SHARE, _patch
from shapetailor.io.images import read_image, write_image


def flat(value, side=40):
    return np.full((side, side), value, np.uint8)


@given(st.integers(2, 12), st.integers(0, 10_000), st.sampled_from([40, (48, 90), 128]))
def test_every_region_is_there_and_none_is_small(regions, seed, size):
    labels = random_regions(regions, size, np.random.default_rng(seed))
    shape = size if isinstance(size, tuple) else (size, size)
    assert labels.shape == shape
    shares = np.bincount(labels.ravel()) / labels.size
    assert len(shares) == regions
    assert shares.min() >= MIN_SHARE[regions]


@given(st.integers(2, 12), st.integers(0, 10_000))
def test_no_region_has_stray_pieces(regions, seed):
    labels = random_regions(regions, 96, np.random.default_rng(seed))
    for region in range(regions):
        pieces, _ = ndimage.label(labels == region)
        assert np.bincount(pieces.ravel())[1:].min() >= 0.01 * labels.size


def test_two_regions_leave_at_least_18_percent_to_each():
    shares = [np.mean(random_regions(2, 64, np.random.default_rng(seed)) == 1) for seed in range(50)]
    assert min(shares) >= 0.18
    assert max(shares) <= 0.82
    assert max(shares) - min(shares) > 0.2


@pytest.mark.parametrize(("regions", "size"), [(1, 64), (13, 64), (2, 8)])
def test_impossible_regions_are_refused(regions, size):
    with pytest.raises(ValueError, match=r"regions|size"):
        random_regions(regions, size, np.random.default_rng(0))


@pytest.mark.parametrize("regions", [2, 3, 4, 5, 6])
def test_label_k_is_where_texture_k_shows(regions):
    values = 40 * np.arange(regions) + 10
    sample = mosaic([flat(value) for value in values], (50, 70), np.random.default_rng(0), "m")
    assert (sample.name, sample.image.dtype) == ("m", np.uint8)
    np.testing.assert_array_equal(sample.image, values[sample.truths[0]])


def test_gray_and_colour_mix_to_colour():
    red = np.zeros((40, 40, 3), np.uint8)
    red[..., 0] = 200
    sample = mosaic([flat(90), red], 32, np.random.default_rng(0))
    colours = np.array([[90, 90, 90], [200, 0, 0]])
    np.testing.assert_array_equal(sample.image, colours[sample.truths[0]])


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (np.full((40, 40), 0.5), 128),
        (np.full((40, 40), 0.5, np.float32), 128),
        (np.full((40, 40), 32768, np.uint16), 0),  # of one value the type does not say how bright it is
    ],
)
def test_other_types_of_textures_are_brought_to_bytes(image, expected):
    sample = mosaic([image, flat(0)], 32, np.random.default_rng(0))
    assert set(np.unique(sample.image)) == {0, expected}


def test_multichannel_textures_are_refused():
    with pytest.raises(ValueError, match=r"\(40, 40, 5\)"):
        mosaic([flat(0), np.zeros((40, 40, 5))], 32, np.random.default_rng(0))


@given(st.integers(0, 10_000), st.sampled_from([(30, 200), (200, 200), (400, 180)]))
def test_patches_are_turned_and_scaled_pieces(seed, shape):
    """A ramp of slope 1 stays a ramp, of a slope between 1/1.35 and 1/0.75, and stays inside the image."""
    ramp = np.uint8(20 + np.arange(shape[1])[None, :] + np.zeros(shape))
    patch = _patch(ramp, (24, 24), np.random.default_rng(seed)).astype(float)
    y, x = np.indices(patch.shape)
    plane = np.stack([x.ravel(), y.ravel(), np.ones(x.size)], 1)
    slopes, residuals, _, _ = np.linalg.lstsq(plane, patch.ravel(), rcond=None)
    assert 1 / 1.36 < np.hypot(slopes[0], slopes[1]) < 1 / 0.74
    assert np.sqrt(residuals[0] / x.size) < 0.5  # rounding to bytes


def test_mosaics_depend_on_seed_and_index_alone():
    textures = ProceduralTextures(6, 48)
    first, again, other = (MosaicDataset(textures, 4, (2, 3), 32, seed) for seed in (1, 1, 2))
    for index in (3, 0):  # in another order than the second one is asked
        np.testing.assert_array_equal(first[index].image, again[index].image)
    assert (first[0].image != first[1].image).any()
    assert (first[0].image != other[0].image).any()
    assert [first[index].name for index in range(4)] == ["00000", "00001", "00002", "00003"]
    with pytest.raises(IndexError):
        first[4]


def test_a_mosaic_shows_the_textures_it_says():
    textures = [Sample(flat(20 * index), (), str(index)) for index in range(10)]
    mosaics = MosaicDataset(textures, 20, (2, 5), 32)
    counts = set()
    for index in range(20):
        chosen, sample = mosaics.chosen(index), mosaics[index]
        assert len(set(chosen)) == len(chosen)
        np.testing.assert_array_equal(sample.image, 20 * np.array(chosen)[sample.truths[0]])
        counts.add(len(chosen))
    assert counts == {2, 3, 4, 5}


@pytest.mark.parametrize(("regions", "match"), [((3, 2), "regions"), ((2, 6), "regions"), ((2, 5), "textures")])
def test_bad_collections_are_refused(regions, match):
    with pytest.raises(ValueError, match=match):
        MosaicDataset(ProceduralTextures(4, 32), 1, regions)


@given(st.integers(1, 200), st.integers(0, 100))
def test_the_split_shares_no_texture_and_loses_none(count, seed):
    train, test = split_textures(count, seed)
    assert sorted(train + test) == list(range(count))
    assert abs(len(test) - 0.4 * count) <= 0.5


def run(*words):
    parser = argparse.ArgumentParser()
    data.add_arguments(parser)
    return data.run(parser.parse_args(["mosaics", *map(str, words)]))


class TestCommand:
    OPTIONS = ("--count", 4, "--size", 32)

    def test_a_range_that_is_none_is_refused_in_words(self, tmp_path, capsys):
        with pytest.raises(SystemExit):
            run("--out", tmp_path / "d", "--regions", "3-x")
        assert "expected a number, or a range such as 3-5, got '3-x'" in capsys.readouterr().err

    def test_writes_a_folder_that_training_can_read(self, tmp_path):
        assert run("--out", tmp_path / "d", "--regions", "3-4", *self.OPTIONS) == 0
        dataset = FolderDataset(tmp_path / "d")
        assert dataset.problems(min_regions=3) == []
        assert len(dataset) == 4
        record = json.loads((tmp_path / "d/mosaics.json").read_text())
        for index, name in enumerate(dataset.names):
            assert dataset[index].image.shape == (32, 32)
            assert len(record["mosaics"][name]) == dataset[index].truths[0].max() + 1
            assert set(record["mosaics"][name]) <= set(record["textures"])
        assert (record["seed"], record["regions"]) == (0, [3, 4])

    def test_the_seed_decides(self, tmp_path):
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            run("--out", tmp_path / name, "--seed", seed, *self.OPTIONS)
        first, again, other = (read_image(tmp_path / name / "images/00003.png") for name in "abc")
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()

    def test_parts_share_neither_textures_nor_regions(self, tmp_path):
        for part in ("train", "test"):
            run("--out", tmp_path / part, "--part", part, *self.OPTIONS)
        records = [tmp_path / part / "mosaics.json" for part in ("train", "test")]
        train, test = (json.loads(record.read_text()) for record in records)
        assert not set(train["textures"]) & set(test["textures"])
        masks = [read_image(tmp_path / part / "masks/00000.png") for part in ("train", "test")]
        assert (masks[0] != masks[1]).any()

    def test_uses_the_textures_of_a_folder(self, tmp_path):
        for value in (50, 100, 150):
            (tmp_path / "textures").mkdir(exist_ok=True)
            write_image(tmp_path / f"textures/t{value}.png", flat(value))
        run("--out", tmp_path / "d", "--textures", tmp_path / "textures", *self.OPTIONS)
        record = json.loads((tmp_path / "d/mosaics.json").read_text())
        assert record["textures"] == ["t100", "t150", "t50"]
        shown = {int(name[1:]) for name in record["mosaics"]["00000"]}
        assert set(np.unique(read_image(tmp_path / "d/images/00000.png"))) == shown

    def test_continues_where_it_was_stopped(self, tmp_path):
        run("--out", tmp_path, *self.OPTIONS)
        kept, lost = tmp_path / "images/00000.png", tmp_path / "images/00002.png"
        before, content = kept.stat().st_mtime_ns, lost.read_bytes()
        lost.unlink()
        run("--out", tmp_path, *self.OPTIONS)
        assert kept.stat().st_mtime_ns == before
        assert lost.read_bytes() == content

    def test_refuses_a_folder_with_other_content(self, tmp_path):
        run("--out", tmp_path / "d", *self.OPTIONS)
        with pytest.raises(ValueError, match="other options"):
            run("--out", tmp_path / "d", "--seed", 9, *self.OPTIONS)
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine/thesis.txt").write_text("")
        with pytest.raises(ValueError, match="not empty"):
            run("--out", tmp_path / "mine", *self.OPTIONS)

    @pytest.mark.parametrize("words", [("--count", 0), ("--seed", -1), ("--colour", "--textures", "x")])
    def test_bad_options_are_named(self, tmp_path, words):
        with pytest.raises(ValueError, match=words[0]):
            run("--out", tmp_path / "d", *words)
        assert not (tmp_path / "d").exists()

    def test_real_textures(self, data_dir, tmp_path):
        brodatz = data_dir("brodatz")
        run("--out", tmp_path / "d", "--textures", brodatz, "--count", 2, "--part", "test")
        assert FolderDataset(tmp_path / "d").problems(min_regions=2) == []
        record = json.loads((tmp_path / "d/mosaics.json").read_text())
        assert len(record["textures"]) == round(0.4 * len(TextureFolder(brodatz)))


def test_a_mosaic_shows_no_two_textures_of_one_class():
    textures = [Sample(flat(10 * number), (), str(number)) for number in range(9)]
    classes = ["bark", "wool", "cork"] * 3
    drawn = [MosaicDataset(textures, 40, (2, 3), 32, classes=classes).chosen(index) for index in range(40)]
    assert all(len({classes[each] for each in chosen}) == len(chosen) for chosen in drawn)
    assert {each for chosen in drawn for each in chosen} == set(range(9))


def test_more_regions_than_classes_are_refused():
    textures = [Sample(flat(10 * number), (), str(number)) for number in range(4)]
    with pytest.raises(ValueError, match="at least 3 classes for 3 regions, got 2"):
        MosaicDataset(textures, 1, (3, 3), 32, classes=["bark", "wool"] * 2)


@given(st.lists(st.sampled_from("abcdefgh"), min_size=2), st.integers(0, 20))
def test_parts_share_no_class(classes, seed):
    train, test = split_classes(classes, seed)
    assert sorted(train + test) == list(range(len(classes)))
    assert not {classes[each] for each in train} & {classes[each] for each in test}


def test_a_table_beside_the_textures_says_their_classes(tmp_path):
    for name in ("a.png", "b.png", "c.png"):
        write_image(tmp_path / name, flat(90))
    assert TextureFolder(tmp_path).classes == ["a.png", "b.png", "c.png"]
    (tmp_path / "sources.csv").write_text("file,class\na.png,bark\nc.png,bark\n")
    assert TextureFolder(tmp_path).classes == ["bark", "b.png", "bark"]
    (tmp_path / "sources.csv").write_text("name,kind\na.png,bark\n")
    with pytest.raises(ValueError, match="columns file and class"):
        TextureFolder(tmp_path)


def test_a_refused_size_leaves_no_folder_behind(tmp_path, capsys):
    assert main(["data", "mosaics", "--out", str(tmp_path / "out"), "--size", "0"]) == 2
    assert "size must be at least 8 pixels a side, got 0" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_record_that_cannot_be_read_is_named(tmp_path, capsys):
    (tmp_path / "mosaics.json").write_text("{")
    assert main(["data", "mosaics", "--out", str(tmp_path), "--size", "32", "--count", "1"]) == 2
    assert "mosaics.json: no JSON" in capsys.readouterr().err
