"""The Berkeley Segmentation Data Set 500: photographs, each segmented by several people.

References
----------
P. Arbeláez, M. Maire, C. Fowlkes, J. Malik. Contour Detection and Hierarchical Image Segmentation. IEEE
TPAMI 33(5), 2011.
"""

from __future__ import annotations

import os
from pathlib import Path

import scipy.io
from torch.utils.data import Dataset

from ..arrays import Labels
from ..io.files import image_files
from ..io.images import read_image
from .sample import Sample, consecutive, require

LAYOUT = "images/SPLIT/ID.jpg and groundTruth/SPLIT/ID.mat, SPLIT being train, val or test"
SOURCE = (
    "BSR_bsds500.tgz (its folder BSDS500/data) of "
    "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/resources.html"
)


class BSDS500(Dataset[Sample]):
    """Colour images of 481×321 or 321×481 with four to nine truths each.

    Parameters
    ----------
    root : path
        The folder that holds `images/` and `groundTruth/`.
    split : {"train", "val", "test"}
        200, 100 and 200 images.
    """

    def __init__(self, root: str | os.PathLike[str], split: str = "train") -> None:
        if split not in ("train", "val", "test"):
            raise ValueError(f"split must be 'train', 'val' or 'test', got {split!r}")
        self.images, self.truths = (Path(root) / kind / split for kind in ("images", "groundTruth"))
        require([self.images, self.truths], "BSDS500", LAYOUT, SOURCE)
        images = {path.stem for path in image_files(self.images)}
        self.names = sorted(images | {path.stem for path in self.truths.glob("*.mat")})
        needed = [path for name in self.names for path in self._paths(name)]
        require(needed or [self.images / "ID.jpg"], "BSDS500", LAYOUT, SOURCE)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Sample:
        name = self.names[index]
        image, truth = self._paths(name)
        return Sample(read_image(image), read_segmentations(truth), name)

    def _paths(self, name: str) -> tuple[Path, Path]:
        return self.images / f"{name}.jpg", self.truths / f"{name}.mat"


def read_segmentations(path: str | os.PathLike[str]) -> tuple[Labels, ...]:
    """Read the annotators' label maps from a BSDS500 `groundTruth` file."""
    try:
        annotations = scipy.io.loadmat(path)["groundTruth"].ravel()
        return tuple(consecutive(each["Segmentation"][0, 0]) for each in annotations)
    except FileNotFoundError:
        raise
    except Exception as error:  # loadmat raises nearly anything on a broken file
        raise ValueError(f"{path}: not a BSDS500 ground truth: {error or type(error).__name__}") from error
