"""The Real-World Texture Segmentation Dataset: 256 photographs of two textures each.

References
----------
N. Khan, M. Algarni, A. Yezzi, G. Sundaramoorthi. Shape-Tailored Local Descriptors and their Application to
Segmentation and Tracking. CVPR 2015.
"""

from __future__ import annotations

import os
from pathlib import Path

from torch.utils.data import Dataset

from ..io.files import image_files
from ..io.images import read_image, read_labels
from .sample import Sample, consecutive, require

LAYOUT = "images/ID.jpg and masks/ID.png (0 and 255)"
SOURCE = "the folder Kaust256 of https://github.com/Scientific-Computing-Lab/TextureSAM"


class RWTSD(Dataset[Sample]):
    """Colour images of 256×256 with one two-region truth each.

    Parameters
    ----------
    root : path
        The folder that holds `images/` and `masks/`: the whole set or any part of it.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        images, masks = self.root / "images", self.root / "masks"
        require([images, masks], "RWTSD", LAYOUT, SOURCE)
        self.names = sorted({path.stem for folder in (images, masks) for path in image_files(folder)})
        needed = [path for name in self.names for path in self._paths(name)]
        require(needed or [images / "1.jpg"], "RWTSD", LAYOUT, SOURCE)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Sample:
        name = self.names[index]
        image, mask = self._paths(name)
        return Sample(read_image(image), (consecutive(read_labels(mask)),), name)

    def _paths(self, name: str) -> tuple[Path, Path]:
        return self.root / "images" / f"{name}.jpg", self.root / "masks" / f"{name}.png"
