"""Pictures to try the page with: mosaics of three textures that the model has never seen, and their truth.

``make serve`` makes them and opens the page; or ``python examples/page.py --out DIR``, then ``shapetailor serve DIR``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from shapetailor.classes import ClassName, write_classes
from shapetailor.datasets import mosaic, texture
from shapetailor.io.images import write_image, write_labels

#: Families and colours for their classes, which are told apart over these textures.
FAMILIES = {"pebbles": "#0072b2", "weave": "#f0e442", "wood": "#d55e00"}
SIZE, COUNT = 384, 6


def main() -> None:
    """Write the pictures, unless they are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/serve"))
    out = parser.parse_args().out
    if (out / "classes.json").exists():
        return
    for folder in ("pictures", "truth"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    textures = [texture(name, SIZE, np.random.default_rng(7 + k), colour=True) for k, name in enumerate(FAMILIES)]
    for number in range(1, COUNT + 1):
        sample = mosaic(textures, SIZE, np.random.default_rng(number))
        write_image(out / "pictures" / f"mosaic-{number}.png", sample.image)
        write_labels(out / "truth" / f"mosaic-{number}.png", sample.truths[0] + 1)
    classes = [ClassName(k, name, colour) for k, (name, colour) in enumerate(FAMILIES.items(), start=1)]
    write_classes(out / "classes.json", classes)


if __name__ == "__main__":
    main()
