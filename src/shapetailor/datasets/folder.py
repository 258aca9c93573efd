"""Your own data: a folder with `images/` and `masks/` whose files pair up by their stems."""

import os
from collections import Counter
from pathlib import Path

from torch.utils.data import Dataset

from ..io.files import image_files
from ..io.images import read_image, read_labels
from .sample import Sample, consecutive, require

LAYOUT = "images/NAME.(jpg, png, tif, …) and masks/NAME.(png, tif, …), a label map with equal name"
SOURCE = "your annotations; `shapetailor data mosaics --out DIR` makes an example of the layout"


class FolderDataset(Dataset[Sample]):
    """Images with one label map each.

    Files without a partner, and names that several files share, are left out; `problems` lists them.

    Parameters
    ----------
    root : path
        The folder that holds `images/` and `masks/`.
    ignore : int, optional
        The stored mask value of pixels that belong to no region; they get the label -1. All other values, 0 too,
        are regions.
    """

    def __init__(self, root: str | os.PathLike[str], ignore: int | None = None) -> None:
        self.root = Path(root)
        self.ignore = ignore
        folders = [self.root / "images", self.root / "masks"]
        require(folders, f"The dataset {self.root}", LAYOUT, SOURCE)
        images, masks = (image_files(folder) for folder in folders)
        self._images, self._masks = ({path.stem: path for path in paths} for paths in (images, masks))
        self._unusable: list[tuple[Path, str]] = []
        for paths, partners, where in ((images, self._masks, "masks"), (masks, self._images, "images")):
            self._unusable += [(path, f"has no partner in {where}/") for path in paths if path.stem not in partners]
        for paths in (images, masks):
            count = Counter(path.stem for path in paths)
            repeated = (path for path in paths if count[path.stem] > 1)
            self._unusable += [(path, "shares its name with another file") for path in repeated]
        excluded = {path.stem for path, _ in self._unusable}
        self.names = sorted((self._images.keys() & self._masks.keys()) - excluded)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Sample:
        name = self.names[index]
        image_path, mask_path = self._images[name], self._masks[name]
        image = read_image(image_path)
        mask = consecutive(read_labels(mask_path), self.ignore)
        if mask.shape != image.shape[:2]:
            sizes = f"{mask.shape[0]}×{mask.shape[1]}, its image {image.shape[0]}×{image.shape[1]}"
            raise ValueError(f"{mask_path}: the mask is {sizes} (height × width)")
        return Sample(image, (mask,), name)

    def problems(self, min_regions: int = 1) -> list[str]:
        """Read everything and return one line for each file or pair that cannot be used.

        A mask with fewer than `min_regions` regions is a problem; training on regions needs 2.
        """
        found = [f"{path}: {why}" for path, why in self._unusable]
        if not self.names:
            found.append(f"{self.root}: no pair of an image and a mask with equal names")
        for index, name in enumerate(self.names):
            try:
                regions = int(self[index].truths[0].max()) + 1
            except (ValueError, OSError) as error:
                found.append(str(error))
                continue
            if regions < min_regions:
                found.append(f"{self._masks[name]}: has {regions} region(s), at least {min_regions} are needed")
        return found
