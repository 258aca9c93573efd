"""`shapetailor data mosaics`: write texture mosaics with their truth as a dataset folder."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from torch.utils.data import Subset
from tqdm import tqdm

from .._version import __version__
from ..datasets import FAMILIES, MosaicDataset, ProceduralTextures, TextureFolder, split_classes
from ..io.files import atomic, read_json
from ..io.images import write_image, write_labels

PARTS = ("all", "train", "test")
#: Procedural textures a family; enough that a training set does not repeat itself.
MEMBERS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `shapetailor data`."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    summary = "write mosaics of textures as a folder with images/ and masks/"
    mosaics = kinds.add_parser("mosaics", help=summary, description=summary[0].upper() + summary[1:] + ".")
    mosaics.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write")
    mosaics.add_argument(
        "--textures", type=Path, metavar="DIR", help="a folder of texture images (default: procedural ones)"
    )
    mosaics.add_argument("--count", type=int, default=300, metavar="N", help="how many (default: 300)")
    mosaics.add_argument("--seed", type=int, default=0, metavar="S", help="of all randomness (default: 0)")
    mosaics.add_argument(
        "--regions", type=_range, default=(2, 2), metavar="K", help="number, or range as 3-5 (default: 2)"
    )
    mosaics.add_argument("--size", type=int, default=256, metavar="PIXELS", help="of a side (default: 256)")
    mosaics.add_argument(
        "--part",
        choices=PARTS,
        default="all",
        help="which of the textures to use: with the same seed, train and test share no class (60 %% and 40 %%)",
    )
    mosaics.add_argument("--colour", action="store_true", help="procedural textures in colour")


def run(args: argparse.Namespace) -> int:
    """Write the mosaics that are not there yet; return 0."""
    if args.count < 1:
        raise ValueError(f"--count must be positive, got {args.count}")
    if args.seed < 0:
        raise ValueError(f"--seed must not be negative, got {args.seed}")
    if args.textures is not None and args.colour:
        raise ValueError("--colour is for procedural textures; those of --textures keep their own colours")
    mosaics, names = _mosaics(args)
    _claim(args, mosaics, names)
    for index in tqdm(range(len(mosaics)), desc="mosaics", unit="image", disable=None):
        image, mask = (args.out / kind / f"{index:05d}.png" for kind in ("images", "masks"))
        if not (image.exists() and mask.exists()):
            sample = mosaics[index]
            write_image(image, sample.image)
            write_labels(mask, sample.truths[0])
    print(f"{len(mosaics)} mosaics of {len(names)} textures in {args.out}")
    return 0


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    try:
        return int(low), int(high or low)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected a number, or a range such as 3-5, got {text!r}") from error


def _mosaics(args: argparse.Namespace) -> tuple[MosaicDataset, list[str]]:
    """Return the mosaics, and the names of the textures that they draw from."""
    textures: TextureFolder | ProceduralTextures
    if args.textures is not None:
        textures = TextureFolder(args.textures)
    else:
        side = 3 * args.size // 2
        textures = ProceduralTextures(MEMBERS * len(FAMILIES), side, seed=args.seed, colour=args.colour)
    names = textures.names
    classes = textures.classes if isinstance(textures, TextureFolder) else names
    kept = list(range(len(names)))
    if args.part != "all":
        kept = split_classes(classes, args.seed)[args.part == "test"]
    # Each part has its own sequence, or the two would share their regions.
    seed = int(np.random.SeedSequence([args.seed, PARTS.index(args.part)]).generate_state(1)[0])
    mosaics = MosaicDataset(
        Subset(textures, kept), args.count, args.regions, args.size, seed, [classes[index] for index in kept]
    )
    return mosaics, [names[index] for index in kept]


def _claim(args: argparse.Namespace, mosaics: MosaicDataset, names: list[str]) -> None:
    """Make the folder and its record; a second run goes on only with the same options."""
    record = {
        "version": __version__,
        "seed": args.seed,
        "regions": list(args.regions),
        "size": args.size,
        "part": args.part,
        "colour": args.colour,
        "source": "procedural" if args.textures is None else args.textures.resolve().name,
        "textures": names,
        "mosaics": {f"{index:05d}": [names[each] for each in mosaics.chosen(index)] for index in range(len(mosaics))},
    }
    out, path = args.out, args.out / "mosaics.json"
    if path.exists():
        if read_json(path) != record:
            raise ValueError(f"{out} holds mosaics made with other options ({path}); choose another --out")
        return
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty and holds no mosaics.json; choose another --out")
    for kind in ("images", "masks"):
        (out / kind).mkdir(parents=True, exist_ok=True)
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n")
