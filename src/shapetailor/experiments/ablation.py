"""Layers, and whether descriptors follow the regions (`tab:STLDvsST-DNN_supp`)."""

from dataclasses import replace

from ..baselines import FitSettings, Method
from ..baselines.method import DescriptorMethod, count_parameters
from ..evolution.config import EvolutionConfig
from ..training.train import recipe, train
from .figures import Curve, add_curves, add_examples
from .results import PAPER_COLUMNS, Context, Results, Source
from .rwtsd import two_regions
from .suite import Split, entries, fit, given, judge

SUMMARY = (
    "ST-DNN with 1 to 5 layers, and Siamese; each with descriptors of the whole image, and with descriptors updated as "
    "regions evolve (tab:STLDvsST-DNN_supp). --data: an RWTSD folder. Networks are of our recipe `texture`, trained "
    "here; all start from k-means. --model has no effect, --methods stdnn leaves Siamese out."
)
#: Layers → their widths; our recipe has 96–64–32.
WIDTHS = {1: (32,), 2: (96, 32), 3: (96, 64, 32), 4: (96, 64, 64, 32), 5: (96, 64, 64, 64, 32)}
UPDATED, WHOLE = "descriptors updated", "whole image"
#: F, covering, Rand index, variation of information.
PAPER = {
    f"ST-DNN (1), {WHOLE}": (0.22, 0.79, 0.80, 0.74),
    f"ST-DNN (2), {WHOLE}": (0.35, 0.81, 0.82, 0.72),
    f"ST-DNN (3), {WHOLE}": (0.47, 0.86, 0.86, 0.59),
    f"ST-DNN (4), {WHOLE}": (0.52, 0.90, 0.90, 0.45),
    f"ST-DNN (5), {WHOLE}": (0.51, 0.89, 0.89, 0.56),
    f"Siamese (4), {WHOLE}": (0.53, 0.89, 0.89, 0.47),
    f"ST-DNN (1), {UPDATED}": (0.23, 0.80, 0.80, 0.72),
    f"ST-DNN (2), {UPDATED}": (0.38, 0.84, 0.84, 0.68),
    f"ST-DNN (3), {UPDATED}": (0.51, 0.89, 0.90, 0.50),
    f"ST-DNN (4), {UPDATED}": (0.64, 0.94, 0.94, 0.35),
    f"ST-DNN (5), {UPDATED}": (0.63, 0.94, 0.94, 0.37),
    f"Siamese (4), {UPDATED}": (0.65, 0.92, 0.92, 0.43),
}
QUICK_SIDE = 64


def run(context: Context) -> Results:
    """Train the networks, segment with both kinds of descriptors."""
    split = two_regions(context)
    results = Results("Layers, and updated descriptors", "tab:STLDvsST-DNN_supp", PAPER_COLUMNS, split.words)
    methods = {f"ST-DNN ({layers})": _layered(context, split, layers) for layers in WIDTHS}
    for entry in entries(replace(context, methods=context.methods or ("siamese",)), results):
        if entry.baseline.name == "siamese":
            methods["Siamese (4)"] = fit(context, entry, "all", split.train).method
    shown = {}
    for tailored, words in ((False, WHOLE), (True, UPDATED)):
        for name, method in methods.items():
            assert isinstance(method, DescriptorMethod)
            title = f"{name}, {words}"
            shown[title] = f"{'updated' if tailored else 'whole'}/{name}"
            variant = replace(method, settings=replace(method.settings, evolution=EvolutionConfig(tailored=tailored)))
            images = judge(context, shown[title], variant, split.test, given(context, 2))
            results.add(title, images, f"{method.parameters:,} parameters", title)
    results.cite(PAPER)
    results.notes.append("The paper varies its own network (100, 40, 20, 5); ours has other channels and widths.")
    styles: dict[Source, dict[str, str]] = {"measured": {"marker": "o"}, "paper": {"marker": "s", "linestyle": ":"}}
    curves: dict[str, Curve] = {}
    for source, style in styles.items():
        for words, colour in ((WHOLE, "tab:orange"), (UPDATED, "tab:blue")):
            rows = {layers: f"ST-DNN ({layers}), {words}" for layers in WIDTHS}
            curves[f"{words}, {source}"] = rows, source, {"color": colour, **style}
    add_curves(context, results, ("covering", "boundary_f"), curves, "layers.png", xlabel="layers", xticks=list(WIDTHS))
    updated = {title: part for title, part in shown.items() if title.endswith(UPDATED)}
    add_examples(context, results, split.test, updated)
    return results


def _layered(context: Context, split: Split, layers: int) -> Method:
    """Train the network with so many layers, or read it where it is there."""
    config = recipe("texture", seed=context.seed)
    network = replace(config.network, widths=WIDTHS[layers])
    config = replace(config, network=network)
    if context.quick:
        small = network.at_resolution(QUICK_SIDE)
        config = replace(config, network=small, size=QUICK_SIDE, steps=10, batch=4, samples=16, validate_every=10)
    path = context.file(f"models/layers/{layers}.safetensors")
    net = train(split.train, path, config, resume=True, device=context.device, progress=context.progress)
    return DescriptorMethod("ST-DNN", count_parameters(net), lambda channels: net, FitSettings(device=context.device))
