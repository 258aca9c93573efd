"""The evolution as an animated GIF."""

import os
from io import BytesIO

import numpy as np
from PIL import Image

from ..arrays import Array, Ints, Mask
from ..io.files import atomic
from ..labels import resize_labels
from .overlay import as_rgb8, overlay

#: Longest side of the animation; larger images are reduced.
LARGEST_SIDE = 512
#: Milliseconds for which an iteration is shown, and the result.
STEP, REST = 120, 2000
#: Frames at most, evenly spaced.
MOST_FRAMES = 60


class Recorder:
    """A callback of the evolution that records the regions, to be saved as an animated GIF."""

    def __init__(self, image: Array, inside: Mask | None = None) -> None:
        height, width = image.shape[:2]
        scale = max(1.0, max(height, width) / LARGEST_SIDE)
        self.shape = max(1, round(height / scale)), max(1, round(width / scale))
        reduced = Image.fromarray(as_rgb8(image, inside)).resize(self.shape[::-1], Image.Resampling.BOX)
        self.image = np.asarray(reduced)
        self.frames: list[Ints] = []

    def __call__(self, iteration: int, labels: Ints, energy: float) -> None:
        """Record the regions after an iteration."""
        self.frames.append(resize_labels(labels, self.shape))

    def save(self, path: str | os.PathLike[str], result: Ints) -> None:
        """Write the animation, with `result` as its last frame."""
        shown = self.frames[:: max(1, -(-len(self.frames) // MOST_FRAMES))]
        pictures = [overlay(self.image, labels) for labels in (*shown, resize_labels(result, self.shape))]
        # One palette for all frames, or unchanged parts would flicker.
        common = Image.fromarray(np.concatenate([pictures[0], pictures[-1]])).quantize(256)
        images = [Image.fromarray(each).quantize(palette=common) for each in pictures]
        times = [STEP] * (len(images) - 1) + [REST]
        content = BytesIO()  # Pillow may take no notice of a full disk
        images[0].save(content, "GIF", save_all=True, append_images=images[1:], duration=times, loop=0, optimize=False)
        with atomic(path) as temporary:
            temporary.write_bytes(content.getbuffer())
