"""Loaders of published datasets, each in its publishers' layout.

RWTSD: N. Khan, M. Algarni, A. Yezzi, G. Sundaramoorthi. Shape-Tailored Local Descriptors and their Application to
Segmentation and Tracking. CVPR 2015. BSDS500: P. Arbeláez, M. Maire, C. Fowlkes, J. Malik. Contour Detection and
Hierarchical Image Segmentation. IEEE TPAMI 33(5), 2011. Outex: T. Ojala, T. Mäenpää, M. Pietikäinen, J. Viertola,
J. Kyllönen, S. Huovinen. Outex: New Framework for Empirical Evaluation of Texture Analysis Algorithms. ICPR 2002.
Brodatz album: P. Brodatz. Textures: A Photographic Album for Artists and Designers. Dover, 1966.
"""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from torch.utils.data import Dataset

from ..arrays import Array
from ..io.files import image_files
from ..io.images import read_image, read_labels
from .matlab import read_mat
from .sample import Sample, consecutive, require

SPLITS = ("train", "val", "test")


class _Pairs(Dataset[Sample]):
    """Images with a truth file each; subclasses say where they lie."""

    title: ClassVar[str]
    layout: ClassVar[str]
    source: ClassVar[str]

    def __init__(self, images: Path, truths: Path, names: Sequence[str] | None = None) -> None:
        self.images, self.truths = images, truths
        self._require([images, truths])
        if names is None:
            names = sorted({path.stem for path in [*image_files(images), *image_files(truths), *truths.glob("*.mat")]})
        self.names = list(names)
        needed = [path for name in self.names for path in self._paths(name)]
        self._require(needed or self._paths("ID"))

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Sample:
        name = self.names[index]
        image, truth = self._paths(name)
        truths = read_bsds_truths(truth) if truth.suffix == ".mat" else [read_labels(truth)]
        return Sample(read_image(image), tuple(map(consecutive, truths)), name)

    def _paths(self, name: str) -> tuple[Path, Path]:
        return self.images / f"{name}.jpg", self.truths / f"{name}.png"

    def _require(self, paths: Sequence[Path]) -> None:
        require(paths, self.title, self.layout, self.source)


class RWTSD(_Pairs):
    """The Real-World Texture Segmentation Dataset: 256 photographs of 256×256, two textures each.

    `root` is the folder that holds `images/` and `masks/`: the whole set or any part of it.
    """

    title = "RWTSD"
    layout = "images/ID.jpg and masks/ID.png (0 and 255)"
    source = "the folder Kaust256 of https://github.com/Scientific-Computing-Lab/TextureSAM"

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(Path(root) / "images", Path(root) / "masks")


class SyntheticMultiRegion(_Pairs):
    """The synthetic multi-region set ("Synthetic Texture dataset" in the paper): gray Brodatz mosaics of 256×256.

    `root` is the folder that holds `images/`, `groundtruth/` and the lists of the splits. The splits "train", "val" and
    "test" have 42,000, 3,000 and 5,000 images in the full set, with three to five regions.
    """

    title = "The synthetic multi-region set"
    layout = "images/ID.jpg, groundtruth/ID.png (a gray value a region) and SPLIT.txt (an ID a line)"
    source = "https://github.com/MMFa666/Segmentation_dataset"

    def __init__(self, root: str | os.PathLike[str], split: str = "train") -> None:
        listing = Path(root) / f"{_checked(split)}.txt"
        self._require([listing])
        super().__init__(Path(root) / "images", Path(root) / "groundtruth", listing.read_text().split())


class BSDS500(_Pairs):
    """The Berkeley Segmentation Data Set 500: photographs of 481×321 or 321×481 with four to nine annotators.

    `root` is the folder that holds `images/` and `groundTruth/`. The splits "train", "val" and "test" have 200, 100 and
    200 images.
    """

    title = "BSDS500"
    layout = "images/SPLIT/ID.jpg and groundTruth/SPLIT/ID.mat, SPLIT being train, val or test"
    source = (
        "BSR_bsds500.tgz (its folder BSDS500/data) of "
        "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/resources.html"
    )

    def __init__(self, root: str | os.PathLike[str], split: str = "train") -> None:
        super().__init__(Path(root) / "images" / _checked(split), Path(root) / "groundTruth" / split)

    def _paths(self, name: str) -> tuple[Path, Path]:
        return self.images / f"{name}.jpg", self.truths / f"{name}.mat"


class OutexUS(Dataset[Sample]):
    """Outex_US_00000: 100 gray mosaics of 512×512, five textures each, with one truth for all.

    `root` is the unpacked suite: `ground_truth.ras` and a numbered folder a problem. Image formats other than Sun
    raster are read under the same names.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        root = Path(root)
        layout = "ground_truth.ras and 000/problem.ras to 099/problem.ras (or converted, e.g. to .png)"
        words = "Outex_US_00000", layout, "the test suite Outex_US_00000 of http://www.outex.oulu.fi"
        require([root], *words)
        folders = sorted(path for path in root.iterdir() if path.is_dir() and path.name.isdecimal())
        truth = _image_named(root, "ground_truth")
        self.problems = [_image_named(folder, "problem") for folder in folders]
        require([truth, *self.problems] if folders else [truth, root / "000"], *words)
        self.truth = consecutive(read_labels(truth))

    def __len__(self) -> int:
        return len(self.problems)

    def __getitem__(self, index: int) -> Sample:
        path = self.problems[index]
        image = read_image(path)
        if image.shape[:2] != self.truth.shape:
            raise ValueError(f"{path}: is {image.shape[:2]}, but the suite's truth is {self.truth.shape}")
        return Sample(image, (self.truth,), path.parent.name)


class TextureFolder(Dataset[Sample]):
    """The images of one folder, each a texture without truth: the Brodatz album or any other.

    Files in `root` that are no images are left out. `classes` has the class of each: a table ``sources.csv`` beside
    them, with the columns file and class, says it; else every texture is a class of its own.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        root = Path(root)
        layout = "one image file a texture, D1.jpg to D112.jpg for the Brodatz album"
        source = "https://github.com/siilas/brodatz-matlab (the Brodatz album); any folder of textures will do"
        self.paths = image_files(root) if root.is_dir() else []
        require(self.paths or [root / "D1.jpg"], "The folder of textures", layout, source)
        self.names = [path.stem for path in self.paths]
        known = _classes(root / "sources.csv")
        self.classes = [known.get(path.name, path.name) for path in self.paths]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        return Sample(read_image(self.paths[index]), (), self.names[index])


def _classes(table: Path) -> dict[str, str]:
    """Read file → class, nothing where there is no such table."""
    if not table.is_file():
        return {}
    with table.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if not {"file", "class"} <= set(rows.fieldnames or ()):
            raise ValueError(f"{table}: a table of textures has the columns file and class, got {rows.fieldnames}")
        return {row["file"]: row["class"] for row in rows}


def read_bsds_truths(path: str | os.PathLike[str]) -> list[Array]:
    """Read the annotators' label maps, as stored, from a BSDS500 `groundTruth` file."""
    try:
        truths = [np.asarray(each["Segmentation"]) for each in read_mat(Path(path).read_bytes())["groundTruth"]]
        if any(each.ndim != 2 or each.dtype.kind not in "iuf" or not each.size for each in truths):
            raise ValueError("an annotation is no label map")
        return truths
    except FileNotFoundError:
        raise
    except Exception as error:  # a broken file can be wrong in any way
        raise ValueError(f"{path}: not a BSDS500 ground truth: {error or type(error).__name__}") from error


def _checked(split: str) -> str:
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    return split


def _image_named(folder: Path, stem: str) -> Path:
    """Return the image file with this stem, or the publishers' name where there is none."""
    matches = [path for path in image_files(folder) if path.stem == stem]
    return matches[0] if matches else folder / f"{stem}.ras"
