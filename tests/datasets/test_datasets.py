"""Loaders: the publishers' layouts, read from generated folders and, where it is there, from real data."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest
import scipy.io
from PIL import Image
from torch.utils.data import DataLoader

from shapetailor.datasets import BSDS500, RWTSD, FolderDataset, OutexUS, SyntheticMultiRegion, TextureFolder
from shapetailor.datasets.sample import consecutive
from shapetailor.io.images import write_image, write_labels

RNG = np.random.default_rng(0)
LABELS = np.repeat(np.arange(3), 4)[:, None] + np.zeros(10, int)
NOISE = RNG.integers(0, 256, (12, 10, 3), dtype=np.uint8)


def save(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


def save_sun_raster(path, gray):
    """Write the format of the Outex suites (Pillow only reads it): big-endian header, rows of even length."""
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = gray.shape
    padded = np.pad(gray, ((0, 0), (0, width % 2)))
    header = struct.pack(">8I", 0x59A66A95, width, height, 8, padded.size, 1, 0, 0)
    path.write_bytes(header + padded.tobytes())


def test_consecutive_numbers_labels_in_order_and_ignores():
    labels = np.array([[900, 0, 7], [7, 255, -3]])
    np.testing.assert_array_equal(consecutive(labels), [[4, 1, 2], [2, 3, 0]])
    np.testing.assert_array_equal(consecutive(labels, ignore=0), [[3, -1, 1], [1, 2, 0]])
    np.testing.assert_array_equal(consecutive(np.full((2, 2), 5), ignore=5), np.full((2, 2), -1))


class TestRWTSD:
    def test_reads_pairs(self, tmp_path):
        for name in ("7", "12"):
            save(tmp_path / f"images/{name}.jpg", NOISE)
            save(tmp_path / f"masks/{name}.png", np.uint8(255 * (LABELS > 0)))
        dataset = RWTSD(tmp_path)
        assert dataset.names == ["12", "7"]
        assert dataset[1].image.shape == (12, 10, 3)
        np.testing.assert_array_equal(dataset[1].truths[0], LABELS > 0)

    def test_names_every_missing_partner(self, tmp_path):
        save(tmp_path / "images/1.jpg", NOISE)
        save(tmp_path / "masks/2.png", np.uint8(LABELS))
        with pytest.raises(FileNotFoundError, match=r"(?s)masks/1\.png.*images/2\.jpg.*TextureSAM") as caught:
            RWTSD(tmp_path)
        assert "images/1.jpg" not in str(caught.value)

    def test_real(self, data_dir):
        dataset = RWTSD(data_dir("rwtsd"))
        assert len(dataset) == 128
        for sample in (dataset[index] for index in range(0, 128, 16)):
            assert sample.image.shape == (256, 256, 3)
            assert [np.unique(truth).tolist() for truth in sample.truths] == [[0, 1]]


class TestBSDS500:
    def test_reads_every_annotator(self, tmp_path):
        save(tmp_path / "images/val/42.jpg", NOISE)
        truths = np.empty((1, 2), object)
        for number, labels in enumerate((LABELS + 1, (LABELS > 0) + 1)):
            truths[0, number] = {"Segmentation": labels.astype(np.uint16), "Boundaries": np.zeros((12, 10))}
        (tmp_path / "groundTruth/val").mkdir(parents=True)
        scipy.io.savemat(tmp_path / "groundTruth/val/42.mat", {"groundTruth": truths})
        sample = BSDS500(tmp_path, "val")[0]
        assert sample.name == "42"
        assert len(sample.truths) == 2
        np.testing.assert_array_equal(sample.truths[0], LABELS)
        np.testing.assert_array_equal(sample.truths[1], LABELS > 0)

    def test_names_the_missing_split(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"(?s)images/test.*groundTruth/test.*berkeley"):
            BSDS500(tmp_path, "test")

    def test_names_a_broken_truth(self, tmp_path):
        save(tmp_path / "images/train/1.jpg", NOISE)
        (tmp_path / "groundTruth/train").mkdir(parents=True)
        (tmp_path / "groundTruth/train/1.mat").write_bytes(b"nothing of the kind")
        with pytest.raises(ValueError, match=r"1\.mat"):
            BSDS500(tmp_path)[0]

    def test_refuses_unknown_splits(self, tmp_path):
        with pytest.raises(ValueError, match="'validation'"):
            BSDS500(tmp_path, "validation")

    @pytest.mark.parametrize(("split", "count"), [("train", 200), ("val", 100)])
    def test_real(self, data_dir, split, count):
        dataset = BSDS500(data_dir("bsds500"), split)
        assert len(dataset) == count
        for sample in (dataset[index] for index in range(0, count, 25)):
            assert sorted(sample.image.shape) == [3, 321, 481]
            assert len(sample.truths) >= 4
            assert all(truth.shape == sample.image.shape[:2] and truth.min() == 0 for truth in sample.truths)


class TestSyntheticMultiRegion:
    def test_reads_the_ids_of_the_split_in_their_order(self, tmp_path):
        for name in ("3", "1", "2"):
            save(tmp_path / f"images/{name}.jpg", NOISE[..., 0])
            save(tmp_path / f"groundtruth/{name}.png", np.array([0, 122, 248], np.uint8)[LABELS])
        (tmp_path / "train.txt").write_text("3\n1\n")
        dataset = SyntheticMultiRegion(tmp_path, "train")
        assert [sample.name for sample in (dataset[0], dataset[1])] == ["3", "1"]
        assert len(dataset) == 2
        np.testing.assert_array_equal(dataset[0].truths[0], LABELS)

    def test_names_missing_files_and_counts_the_rest(self, tmp_path):
        (tmp_path / "images").mkdir()
        (tmp_path / "groundtruth").mkdir()
        (tmp_path / "val.txt").write_text("\n".join(map(str, range(30))))
        with pytest.raises(FileNotFoundError, match=r"(?s)images/0\.jpg.*and 40 more.*MMFa666"):
            SyntheticMultiRegion(tmp_path, "val")

    def test_names_the_missing_list(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"test\.txt"):
            SyntheticMultiRegion(tmp_path, "test")

    def test_real(self, data_dir):
        root = data_dir("stmd")
        assert len(SyntheticMultiRegion(root, "train")) == 1000
        validation = SyntheticMultiRegion(root, "val")
        assert len(validation) == 200
        regions = [int(validation[index].truths[0].max()) + 1 for index in range(40)]
        assert set(regions) == {3, 4, 5}


class TestOutex:
    @pytest.mark.parametrize("converted", [False, True])
    def test_all_problems_share_the_truth(self, tmp_path, converted):
        write, suffix = (save, "png") if converted else (save_sun_raster, "ras")
        gray = NOISE[..., 0]
        write(tmp_path / f"ground_truth.{suffix}", np.uint8(LABELS + 1))
        for number in range(3):
            write(tmp_path / f"{number:03d}/problem.{suffix}", gray + np.uint8(number))
        dataset = OutexUS(tmp_path)
        assert len(dataset) == 3
        for number in range(3):
            sample = dataset[number]
            assert sample.name == f"{number:03d}"
            np.testing.assert_array_equal(sample.image, gray + np.uint8(number))
            np.testing.assert_array_equal(sample.truths[0], LABELS)

    def test_odd_widths_and_names_a_problem_of_another_size(self, tmp_path):
        save_sun_raster(tmp_path / "ground_truth.ras", np.uint8(LABELS[:, :9]))
        save_sun_raster(tmp_path / "000/problem.ras", NOISE[:, :9, 0])
        save_sun_raster(tmp_path / "001/problem.ras", NOISE[..., 0])
        dataset = OutexUS(tmp_path)
        np.testing.assert_array_equal(dataset[0].image, NOISE[:, :9, 0])
        with pytest.raises(ValueError, match=r"001/problem\.ras"):
            dataset[1]

    def test_names_what_is_missing(self, tmp_path):
        (tmp_path / "004").mkdir()
        with pytest.raises(FileNotFoundError, match=r"(?s)ground_truth\.ras.*004/problem\.ras.*outex"):
            OutexUS(tmp_path)
        save_sun_raster(tmp_path / "empty/ground_truth.ras", np.uint8(LABELS))
        with pytest.raises(FileNotFoundError, match="empty/000"):
            OutexUS(tmp_path / "empty")


class TestTextureFolder:
    def test_yields_images_without_truths(self, tmp_path):
        save(tmp_path / "D2.png", NOISE)
        (tmp_path / "README").write_text("no texture")
        (sample,) = (TextureFolder(tmp_path)[0],)
        assert (sample.name, sample.truths) == ("D2", ())
        np.testing.assert_array_equal(sample.image, NOISE)

    @pytest.mark.parametrize("name", ["nowhere", ""])
    def test_says_where_textures_are_to_be_had(self, tmp_path, name):
        with pytest.raises(FileNotFoundError, match=r"(?s)missing.*brodatz"):
            TextureFolder(tmp_path / name)

    def test_real(self, data_dir):
        dataset = TextureFolder(data_dir("brodatz"))
        assert len(dataset) == 76
        assert dataset[0].name == "D1"
        assert dataset[0].image.shape == (640, 640)


class TestFolder:
    @pytest.fixture
    def root(self, tmp_path):
        for folder in ("images", "masks"):
            (tmp_path / folder).mkdir()
        write_image(tmp_path / "images/a.tif", RNG.integers(0, 65536, (12, 10, 7), dtype=np.uint16))
        write_labels(tmp_path / "masks/a.png", np.array([0, 300, 255])[LABELS])
        return tmp_path

    def test_zero_is_a_region_like_any_other(self, root):
        sample = FolderDataset(root)[0]
        assert (sample.name, sample.image.dtype, sample.image.shape) == ("a", np.uint16, (12, 10, 7))
        np.testing.assert_array_equal(sample.truths[0], np.array([0, 2, 1])[LABELS])

    def test_ignored_pixels_are_minus_one(self, root):
        truth = FolderDataset(root, ignore=255)[0].truths[0]
        np.testing.assert_array_equal(truth, np.array([0, 1, -1])[LABELS])

    def test_a_sound_folder_has_no_problems(self, root):
        assert FolderDataset(root).problems(min_regions=2) == []

    def test_problems_names_every_bad_file_at_once(self, root):
        write_image(root / "images/alone.png", NOISE)
        write_labels(root / "masks/orphan.png", LABELS)
        write_image(root / "images/broken.png", NOISE)
        (root / "masks/broken.png").write_bytes(b"no image")
        (root / "images/corrupt.jpg").write_bytes(b"\xff\xd8\xff rubbish")
        write_labels(root / "masks/corrupt.png", LABELS)
        write_image(root / "images/small.png", NOISE)
        write_labels(root / "masks/small.png", LABELS[:5])
        write_image(root / "images/flat.png", NOISE)
        write_labels(root / "masks/flat.png", np.full((12, 10), 9))
        write_image(root / "images/twice.png", NOISE)
        write_image(root / "images/twice.bmp", NOISE)
        write_labels(root / "masks/twice.png", LABELS)
        (root / "images/notes.txt").write_text("not a problem")
        expected = {
            "images/alone.png": "no partner in masks",
            "masks/orphan.png": "no partner in images",
            "masks/broken.png": "no image of a known format",
            "images/corrupt.jpg": "",
            "masks/small.png": "5×10.*12×10",
            "masks/flat.png": "1 region.*2",
            "images/twice.bmp": "shares its name",
            "images/twice.png": "shares its name",
        }
        found = FolderDataset(root).problems(min_regions=2)
        for path, reason in expected.items():
            matches = [line for line in found if line.startswith(f"{root / path}: ")]
            assert len(matches) == 1, path
            assert re.search(reason, matches[0]), matches
        assert len(found) == len(expected)

    def test_one_region_is_no_problem_unless_asked(self, root):
        write_labels(root / "masks/a.png", np.full((12, 10), 9))
        assert FolderDataset(root).problems() == []
        (everything_ignored,) = FolderDataset(root, ignore=9).problems()
        assert "0 region" in everything_ignored

    def test_a_folder_without_pairs_is_a_problem(self, tmp_path):
        (tmp_path / "images").mkdir()
        (tmp_path / "masks").mkdir()
        assert "no pair" in FolderDataset(tmp_path).problems()[0]

    def test_names_the_missing_folder(self, tmp_path):
        (tmp_path / "images").mkdir()
        with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "masks"))):
            FolderDataset(tmp_path)

    def test_works_in_a_data_loader(self, root):
        (sample,) = DataLoader(FolderDataset(root), batch_size=None, collate_fn=lambda sample: sample)
        assert sample.name == "a"

    def test_real(self, data_dir):
        folder, official = FolderDataset(data_dir("rwtsd")), RWTSD(data_dir("rwtsd"))
        assert folder.names == official.names
        np.testing.assert_array_equal(folder[5].truths[0], official[5].truths[0])
