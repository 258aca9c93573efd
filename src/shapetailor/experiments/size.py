"""How large the methods are, and how much they are trained on (`fig:motivation`)."""

from dataclasses import replace

from .figures import add_bars
from .results import Context, Results, TableRow
from .rwtsd import two_regions
from .suite import entries, fit, generated

SUMMARY = (
    "Learned parameters and training images of each method (fig:motivation). Nothing is measured on images: the "
    "methods are built as a quick run builds them. --data: an RWTSD folder, whose split says how many images "
    "they train on."
)
COLUMNS = ("parameters", "training images")
#: As the text says; the figure's further bars have no figures in it. The 50,000 come with augmentation.
PAPER = {"ST-DNN (ours)": (8900, 128), "FCN-ResNet101-all-ours": (45_000_000, 50_000)}
BESIDE = {"stdnn": "ST-DNN (ours)", "fcn-loss": "FCN-ResNet101-all-ours"}


def run(context: Context) -> Results:
    """Count."""
    split = two_regions(context)
    results = Results("Parameters and training images", "fig:motivation", COLUMNS, split.words)
    quick = replace(context, quick=True)
    few = generated(quick).train
    for entry in entries(context, results):
        who = fit(quick, entry, "counted", few)
        images = len(split.train) if entry.baseline.learns else 0
        values: dict[str, float] = {"parameters": who.method.parameters, "training images": images}
        results.rows.append(TableRow(who.title, values, "measured", "", BESIDE.get(who.name, "")))
    results.cite(PAPER, COLUMNS)
    results.notes += [
        "Parameters count biases; the paper's 8,900 are weights without biases. Training images are counted before "
        "augmentation.",
        "Methods that learn nothing from other images have 0 of both, which the logarithmic axes leave out.",
    ]
    add_bars(context, results, COLUMNS, "size.png", log=True)
    return results
