"""Folders of textures, the Brodatz album first among them.

References
----------
P. Brodatz. Textures: A Photographic Album for Artists and Designers. Dover, 1966.
"""

from __future__ import annotations

import os
from pathlib import Path

from torch.utils.data import Dataset

from ..io.files import image_files
from ..io.images import read_image
from .sample import Sample, require

LAYOUT = "one image file a texture, D1.jpg to D112.jpg for the Brodatz album"
SOURCE = "https://github.com/siilas/brodatz-matlab (the Brodatz album); any folder of textures will do"


class TextureFolder(Dataset[Sample]):
    """The images of one folder, each a texture, without truths: the Brodatz album or any other.

    Parameters
    ----------
    root : path
        The folder; files that are no images are left out.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        root = Path(root)
        require([root], "The folder of textures", LAYOUT, SOURCE)
        self.paths = image_files(root)
        self.names = [path.stem for path in self.paths]
        require([] if self.paths else [root / "D1.jpg"], "The folder of textures", LAYOUT, SOURCE)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        return Sample(read_image(self.paths[index]), (), self.names[index])
