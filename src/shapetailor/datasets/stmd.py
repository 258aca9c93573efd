"""The synthetic multi-region texture set: 50,000 gray mosaics of three to five textures.

The paper calls it the Synthetic Texture dataset; its textures come from the Brodatz album.
"""

from __future__ import annotations

import os
from pathlib import Path

from torch.utils.data import Dataset

from ..io.images import read_image, read_labels
from .sample import Sample, consecutive, require

LAYOUT = "images/ID.jpg, groundtruth/ID.png (a gray value a region) and SPLIT.txt (an ID a line)"
SOURCE = "https://github.com/MMFa666/Segmentation_dataset"


class SyntheticMultiRegion(Dataset[Sample]):
    """Gray mosaics of 256×256 with one truth each.

    Parameters
    ----------
    root : path
        The folder that holds `images/`, `groundtruth/` and the lists of the splits.
    split : {"train", "val", "test"}
        42,000, 3,000 and 5,000 images in the full set.
    """

    def __init__(self, root: str | os.PathLike[str], split: str = "train") -> None:
        if split not in ("train", "val", "test"):
            raise ValueError(f"split must be 'train', 'val' or 'test', got {split!r}")
        self.root = Path(root)
        folders = [self.root / "images", self.root / "groundtruth"]
        listing = self.root / f"{split}.txt"
        require([*folders, listing], "The synthetic multi-region set", LAYOUT, SOURCE)
        self.names = listing.read_text().split()
        needed = [path for name in self.names for path in self._paths(name)]
        require(needed, "The synthetic multi-region set", LAYOUT, SOURCE)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Sample:
        name = self.names[index]
        image, truth = self._paths(name)
        return Sample(read_image(image), (consecutive(read_labels(truth)),), name)

    def _paths(self, name: str) -> tuple[Path, Path]:
        return self.root / "images" / f"{name}.jpg", self.root / "groundtruth" / f"{name}.png"
