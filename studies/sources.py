"""The data of `cross_validate.py`: training samples in parts that share no texture, and images to measure on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.data import Subset
from variants import FOLDED, FOLDS

from shapetailor import STDNN
from shapetailor.datasets import BSDS500, MosaicDataset, SyntheticMultiRegion, TextureFolder, split_classes
from shapetailor.training import augmentation as augment
from shapetailor.training.augmentation import Batches
from shapetailor.training.corpus import Corpus, Data, read_corpus
from shapetailor.training.sample_bank import Blocks, corpus_blocks, fill_bank

#: Share of the photographs that are turned by any angle, in the parts "q".
TURNED_SHARE = 0.5
BATCH = 16


@dataclass(frozen=True)
class Folders:
    """Where the data lies, the last two perhaps nowhere; and how many mosaics are made of each folder of textures."""

    rwtsd: Path
    multi_region: Path
    brodatz: Path
    bsds: Path | None = None
    textures: Path | None = None
    mosaics: int = 240


def training_corpus(source: str, folders: Folders, size: int, seed: int) -> Corpus:
    """Read the images of one source: all folds of RWTSD for "r" and "q", else the training part of a set."""
    if source in FOLDED:
        return _read(folders.rwtsd, size)
    if source == "s":
        return _read(SyntheticMultiRegion(folders.multi_region, "train"), size)
    if source == "b":
        return _read(_mosaics(folders.brodatz, False, folders.mosaics, (2, 5), size, 10 + seed), size)
    if source == "t":
        if folders.textures is None:
            raise ValueError("--textures must be given for variants with the source t")
        return _read(_mosaics(folders.textures, False, folders.mosaics, (2, 8), size, 20 + seed), size)
    if folders.bsds is None:
        raise ValueError("--bsds must be given for the variant RSBN")
    return _read(_several_regions(BSDS500(folders.bsds, "train")), size)


def measured_corpora(folders: Folders, size: int) -> dict[str, Corpus]:
    """Read the images to measure on. Image i of RWTSD is in fold ``i % FOLDS``."""
    corpora = {
        "rwtsd": _read(folders.rwtsd, size),
        "multi-region": _read(SyntheticMultiRegion(folders.multi_region, "val"), size),
        "brodatz": _read(_mosaics(folders.brodatz, True, min(100, folders.mosaics), (2, 2), size, 1), size),
    }
    if folders.textures is not None:
        for regions in (2, 5):
            unseen = _mosaics(folders.textures, True, min(100, folders.mosaics), (regions, regions), size, regions)
            corpora[f"textures, {regions}"] = _read(unseen, size)
    if folders.bsds is not None:
        corpora["bsds"] = _read(_several_regions(BSDS500(folders.bsds, "val")), size)
    return corpora


def fill_parts(
    net: STDNN, sources: Iterable[str], folders: Folders, size: int, samples: int, seed: int
) -> Iterator[tuple[str, Blocks]]:
    """Make `samples` augmented samples of each part: of each fold of "r" and "q", and of the other sources whole.

    A mosaic takes its textures from its own part, so that no fold sees another's.
    """
    for source in sources:
        corpus = training_corpus(source, folders, size, seed).to(net.mean.device)
        parts = {source: corpus}
        if source in FOLDED:
            numbers = range(len(corpus.names))
            parts = {f"{source}{fold}": corpus.take(list(numbers[fold::FOLDS])) for fold in range(FOLDS)}
        with _turned(TURNED_SHARE if source == "q" else 0.0):
            for part, images in parts.items():
                yield part, fill_bank(net, Batches(images, seed), samples, BATCH)


def whole_blocks(net: STDNN, corpus: Corpus) -> Blocks:
    """Return the channels of images, each taken as one region."""
    parts = corpus_blocks(net, corpus.to(net.mean.device), BATCH, whole=True)
    return Blocks(*(torch.cat(each) for each in zip(*parts, strict=True)))


def statistics(bank: dict[str, Blocks], parts: Iterable[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and standard deviation of the channels in some parts of the bank: of a few hundred samples."""
    values = [
        bank[part].channels[:200].double().movedim(1, 0)[:, bank[part].regions[:200] >= 0][:, ::7] for part in parts
    ]
    joined = torch.cat(values, dim=1)
    return joined.mean(dim=1), joined.std(dim=1)


@contextmanager
def _turned(share: float) -> Iterator[None]:
    before, augment.TURNED_SHARE = augment.TURNED_SHARE, share
    try:
        yield
    finally:
        augment.TURNED_SHARE = before


def _mosaics(folder: Path, unseen: bool, count: int, regions: tuple[int, int], size: int, seed: int) -> Data:
    """Mosaics of 60 % of a folder's textures, or of the others; no class is in both parts."""
    textures = TextureFolder(folder)
    kept = split_classes(textures.classes)[unseen]
    classes = [textures.classes[each] for each in kept]
    return MosaicDataset(Subset(textures, kept), count, regions, size, seed, classes)


def _several_regions(dataset: BSDS500) -> Data:
    """Leave out photographs in which the first annotator saw one region only."""
    return Subset(dataset, [i for i in range(len(dataset)) if dataset[i].truths[0].max() > 0])


def _read(data: Data, size: int) -> Corpus:
    """Read a corpus as the networks here want it: in colour."""
    corpus = read_corpus(data, size)
    return Corpus(corpus.images.expand(-1, 3, -1, -1).contiguous(), corpus.truths, corpus.names)
