"""`shapetailor bench memory`: what a segmentation by the shipped model takes for each pixel, by the picture's size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..segmentation.segmenter import Segmenter
from .measure import Outcome, chosen_sizes, machine, peak_memory, progress
from .report import NOTHING, Data, megabytes, page, text_table
from .segment import picture

SIZES, QUICK_SIZES = (512, 1024, 2048), (256,)
MODEL = "texture"


def run(sizes: Sequence[int] | None = None, quick: bool = False) -> Outcome:
    """Measure every size in a process of its own."""
    chosen = chosen_sizes(sizes, QUICK_SIZES if quick else SIZES)
    rows: list[Data] = []
    for size in chosen:
        progress(f"memory at {size}²")
        rows.append({"size": size, "bytes": peak_memory(prepare, size)})
    data: Data = {"benchmark": "memory", "machine": machine(), "model": MODEL, "rows": rows}
    words = f"Peak memory above the picture's of Segmenter.segment by {MODEL}: two regions, three channels, own start."
    lines = [[f"{row['size']}²", *_figures(row)] for row in rows]
    text = page("Memory benchmark", data["machine"], words, [text_table(["size", "peak", "per pixel"], lines)], [])
    return Outcome(text, data, True)


def prepare(size: int) -> Callable[[], object]:
    """Make a picture and return its segmentation as a call."""
    image = picture(size).image
    segmenter = Segmenter.from_pretrained(MODEL, max_pixels=size**2)
    segmenter.segment(image[:64, :64], 2)
    return partial(segmenter.segment, image, 2)


def _figures(row: Data) -> list[str]:
    if row["bytes"] is None:  # not on Linux
        return [NOTHING, NOTHING]
    return [megabytes(row["bytes"]), f"{row['bytes'] / row['size'] ** 2:.0f} bytes"]
