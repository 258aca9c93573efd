"""Two-region mosaics of Brodatz textures (`tab:results_texture_datasets` right)."""

from ..datasets import MosaicDataset, TextureFolder, split_textures
from .figures import add_bars, add_examples
from .results import PAPER_COLUMNS, Context, Results
from .suite import QUICK_TEST, QUICK_TRAIN, Split, compare, generated, given

SUMMARY = (
    "Mosaics of two Brodatz textures, 300 to train and 200 to test, 256×256 (tab:results_texture_datasets right). "
    "--data: a folder of textures. The mosaics are ours, as the paper's are not public; no texture is in both parts."
)
COLUMNS = (*PAPER_COLUMNS, "mean_iou", "adjusted_rand")
#: F, covering, Rand index, variation of information.
PAPER = {
    "ST-DNN (ours)": (0.49, 0.92, 0.92, 0.44),
    "Siamese": (0.45, 0.90, 0.89, 0.46),
    "STLD": (0.41, 0.87, 0.86, 0.53),
    "gPb": (0.40, 0.81, 0.82, 0.75),
    "CB": (0.30, 0.77, 0.79, 1.09),
    "non-STLD": (0.18, 0.84, 0.84, 0.65),
}
BESIDE = {"stdnn": "ST-DNN (ours)", "siamese": "Siamese", "stld": "STLD", "stld-whole": "non-STLD"}
TRAIN, TEST = 300, 200
#: Textures to make mosaics of two, for training and of others for tests.
FEWEST = 4


def run(context: Context) -> Results:
    """Compose the mosaics and measure all methods."""
    split = _mosaics(context)
    results = Results("Synthetic Brodatz texture dataset", "tab:results_texture_datasets", COLUMNS, split.words)
    shown = compare(context, results, split, given(context, 2), "split", beside=BESIDE)
    results.cite(PAPER)
    results.notes.append("Other mosaics than the paper's, whose images and split of the textures are not public.")
    add_bars(context, results, ("boundary_f", "covering", "rand_index"))
    add_examples(context, results, split.test, shown)
    return results


def _mosaics(context: Context) -> Split:
    if context.data is None:
        return generated(context, colour=False)
    folder = TextureFolder(context.data)
    if len(folder) < FEWEST:
        raise ValueError(f"data: {context.data} holds {len(folder)} textures; at least {FEWEST} are needed")
    counts = (QUICK_TRAIN, QUICK_TEST) if context.quick else (TRAIN, min(TEST, context.limit or TEST))
    parts = []
    for number, (chosen, count) in enumerate(zip(split_textures(len(folder), context.seed), counts, strict=True)):
        mosaics = MosaicDataset([folder[i] for i in chosen], count, seed=2 * context.seed + number)
        parts.append([mosaics[i] for i in range(count)])
    words = f"mosaics of {len(folder)} textures, {counts[0]} to train, {counts[1]} to test, seed {context.seed}"
    return Split(parts[0], parts[1], words)
