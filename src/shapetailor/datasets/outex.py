"""Outex_US_00000: one hundred gray mosaics of five textures, all with the same truth.

References
----------
T. Ojala, T. Mäenpää, M. Pietikäinen, J. Viertola, J. Kyllönen, S. Huovinen. Outex: New Framework for
Empirical Evaluation of Texture Analysis Algorithms. ICPR 2002.
"""

from __future__ import annotations

import os
from pathlib import Path

from torch.utils.data import Dataset

from ..io.files import image_files
from ..io.images import read_image, read_labels
from .sample import Sample, consecutive, require

LAYOUT = "ground_truth.ras and 000/problem.ras to 099/problem.ras (or converted, e.g. to .png)"
SOURCE = "the test suite Outex_US_00000 of http://www.outex.oulu.fi"


class OutexUS(Dataset[Sample]):
    """Gray mosaics of 512×512, five regions, with one truth for all.

    Parameters
    ----------
    root : path
        The unpacked suite: `ground_truth.ras` and a numbered folder a problem. Image formats other
        than Sun raster are read under the same names.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        require([self.root], "Outex_US_00000", LAYOUT, SOURCE)
        folders = sorted(path for path in self.root.iterdir() if path.is_dir() and path.name.isdecimal())
        truth = _image_named(self.root, "ground_truth")
        self.problems = [_image_named(folder, "problem") for folder in folders]
        require([truth, *self.problems], "Outex_US_00000", LAYOUT, SOURCE)
        require([] if folders else [self.root / "000"], "Outex_US_00000", LAYOUT, SOURCE)
        self.truth = consecutive(read_labels(truth))

    def __len__(self) -> int:
        return len(self.problems)

    def __getitem__(self, index: int) -> Sample:
        path = self.problems[index]
        image = read_image(path)
        if image.shape[:2] != self.truth.shape:
            raise ValueError(f"{path}: is {image.shape[:2]}, but the suite's truth is {self.truth.shape}")
        return Sample(image, (self.truth,), path.parent.name)


def _image_named(folder: Path, stem: str) -> Path:
    """Return the image file with this stem, or the publishers' name where there is none."""
    matches = [path for path in image_files(folder) if path.stem == stem]
    return matches[0] if matches else folder / f"{stem}.ras"
