"""Draw the contact sheet of the procedural textures: a member of every family, then mosaics of them."""

from __future__ import annotations

import argparse

import numpy as np
from PIL import Image, ImageDraw

from shapetailor.datasets import FAMILIES, MosaicDataset, ProceduralTextures, texture
from shapetailor.io.files import atomic

TILE, CAPTION, GAP, COLUMNS, ROWS = 112, 14, 6, 10, 3


def captioned_tiles(seed: int) -> list[tuple[str, np.ndarray]]:
    """Paint the families, half of them in gray, and fill the sheet up with mosaics."""
    tiles = []
    for number, family in enumerate(FAMILIES):
        painted = texture(family, TILE, np.random.default_rng([seed, number]), colour=number % 2 == 1)
        tiles.append((family, np.rint(255 * painted).astype(np.uint8)))
    pool = ProceduralTextures(4 * len(FAMILIES), 2 * TILE, seed=seed, colour=True)
    mosaics = MosaicDataset(pool, COLUMNS * ROWS - len(tiles), regions=(2, 5), size=TILE, seed=seed)
    for index in range(len(mosaics)):
        tiles.append((f"mosaic of {len(mosaics.chosen(index))}", mosaics[index].image))
    return tiles


def sheet(tiles: list[tuple[str, np.ndarray]]) -> Image.Image:
    """Arrange the tiles in rows, with their captions, on white."""
    width, height = TILE + GAP, TILE + GAP + CAPTION
    page = Image.new("RGB", (COLUMNS * width - GAP, ROWS * height - GAP), "white")
    draw = ImageDraw.Draw(page)
    for number, (caption, tile) in enumerate(tiles):
        row, column = divmod(number, COLUMNS)
        page.paste(Image.fromarray(tile).convert("RGB"), (column * width, row * height))
        draw.text((column * width + 2, row * height + TILE + 1), caption, fill="black")
    return page


def main() -> None:
    """Write the sheet to the file named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, metavar="PNG")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with atomic(args.out) as temporary:
        page = sheet(captioned_tiles(args.seed))
        page.quantize(160, dither=Image.Dither.NONE).save(temporary, optimize=True)


if __name__ == "__main__":
    main()
