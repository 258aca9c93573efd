"""Layers, and whether descriptors follow the regions (`tab:STLDvsST-DNN_supp`)."""

from __future__ import annotations

from dataclasses import replace

from ..baselines import FitSettings, Method
from ..baselines.method import DescriptorMethod, count_parameters
from ..evolution.config import EvolutionConfig
from ..training.train import TrainConfig, recipe, train
from .context import Context
from .figures import add_examples, blank, save
from .results import COLUMNS, PAPER_COLUMNS, Results
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
            methods["Siamese (4)"] = fit(context, entry, "all", split.train)
    shown = {}
    for tailored, words in ((False, WHOLE), (True, UPDATED)):
        for name, method in methods.items():
            title = f"{name}, {words}"
            shown[title] = f"{'updated' if tailored else 'whole'}/{name}"
            variant = _with_evolution(method, tailored)
            images = judge(context, shown[title], variant, split.test, given(context, 2))
            results.add(title, images, f"{method.parameters:,} parameters", title)
    results.cite(PAPER)
    results.notes.append("The paper varies its own network (100, 40, 20, 5); ours has other channels and widths.")
    _curves(context, results)
    updated = {title: part for title, part in shown.items() if title.endswith(UPDATED)}
    add_examples(context, results, split.test, updated)
    return results


def _layered(context: Context, split: Split, layers: int) -> Method:
    """Train the network with so many layers, or read it where it is there."""
    config = _config(context, layers)
    path = context.folder("models/layers") / f"{layers}.safetensors"
    net = train(split.train, path, config, resume=True, device=context.device, progress=context.progress)
    return DescriptorMethod("ST-DNN", count_parameters(net), lambda channels: net, FitSettings(device=context.device))


def _config(context: Context, layers: int) -> TrainConfig:
    config = recipe("texture", seed=context.seed)
    network = replace(config.network, widths=WIDTHS[layers])
    if not context.quick:
        return replace(config, network=network)
    small = network.at_resolution(QUICK_SIDE)
    return replace(config, network=small, size=QUICK_SIDE, steps=10, batch=4, samples=16, validate_every=10)


def _with_evolution(method: Method, tailored: bool) -> Method:
    assert isinstance(method, DescriptorMethod)
    return replace(method, settings=replace(method.settings, evolution=EvolutionConfig(tailored=tailored)))


def _curves(context: Context, results: Results) -> None:
    """Draw covering and F over the number of layers, ours and the paper's."""
    drawn = blank(results, 8.0, 3.5)
    if drawn is None:
        return
    panels = drawn.subplots(1, 2)
    for axes, column in zip(panels, ("covering", "boundary_f"), strict=True):
        for source, style in (("measured", "-o"), ("paper", ":s")):
            for words, colour in ((WHOLE, "tab:orange"), (UPDATED, "tab:blue")):
                rows = {row.method: row.values[column] for row in results.rows if row.source == source}
                values = [rows[f"ST-DNN ({layers}), {words}"] for layers in WIDTHS]
                axes.plot(list(WIDTHS), values, style, color=colour, label=f"{words}, {source}", alpha=0.8)
        axes.set_xlabel("layers")
        axes.set_ylabel(COLUMNS[column])
        axes.set_xticks(list(WIDTHS))
        axes.grid(alpha=0.3)
    drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    save(context, results, drawn, "layers.png")
