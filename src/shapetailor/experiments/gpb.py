"""gPb's published contour maps, scored by our metrics with the benchmark's ODS and OIS."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io

from .. import metrics
from ..arrays import Array
from ..datasets import Sample
from ..io.images import read_image
from ..metrics.region_benchmark import RegionCurve
from .context import Context
from .results import Results, TableRow

#: Thresholds of regions, and of boundaries: fewer, as their matching is slow.
REGIONS, BOUNDARIES, QUICK = 99, 19, 5


def add_gpb(context: Context, results: Results, samples: Sequence[Sample]) -> None:
    """Add the row of gPb-owt-ucm: ID.mat files with `ucm2`, or ID.png of boundary strengths (contour F only)."""
    assert context.gpb is not None
    files = {sample.name: _file(context.gpb, sample.name) for sample in samples}
    levels = [metrics.benchmark_thresholds(QUICK if context.quick else count) for count in (REGIONS, BOUNDARIES)]
    records = []
    for sample in context.watch(samples, "gpb"):
        path = files[sample.name]
        records.append(context.remember(f"gpb/{sample.name}", partial(_scores, sample, path, *levels)))
    boundary = metrics.boundary_benchmark([np.array(each["boundary"]) for each in records], levels[1])
    values = {"boundary_f": boundary.ods.f}
    if all(each["region"] for each in records):
        values |= _region_values(records, levels[0])
    note = f"{len(levels[0])} thresholds for regions, {len(levels[1])} for contours"
    results.rows.append(TableRow("gPb-owt-ucm, published maps", values, "measured", note))


def _region_values(records: Sequence[dict[str, Any]], levels: Array) -> dict[str, float]:
    curves = [_curve(each["region"]) for each in records]
    found = metrics.region_benchmark(curves, levels)
    return {
        f"{name}{scale}": getattr(getattr(found, name), "ois" if scale else "ods")
        for name in ("covering", "rand_index", "variation_of_information")
        for scale in ("", "_ois")
    }


def _curve(record: dict[str, Any]) -> RegionCurve:
    fields: dict[str, Any] = {key: np.array(x) if isinstance(x, list) else x for key, x in record.items()}
    return RegionCurve(**fields)


def _file(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.mat", folder / f"{name}.png"):
        if path.exists():
            return path
    raise FileNotFoundError(f"gpb: {folder} has neither {name}.mat nor {name}.png")


def _scores(sample: Sample, path: Path, regions: Array, boundaries: Array) -> dict[str, Any]:
    region: dict[str, Any] | None = None
    if path.suffix == ".mat":
        ucm = np.asarray(scipy.io.loadmat(path)["ucm2"], dtype=np.float64)
        curve = metrics.region_curve(metrics.ucm_segmentations(ucm, regions), list(sample.truths))
        region = {key: x.tolist() if isinstance(x, np.ndarray) else x for key, x in curve._asdict().items()}
        strength = metrics.ucm_strength(ucm)
    else:
        image = read_image(path).astype(np.float64)
        strength = (image if image.ndim == 2 else image.mean(axis=2)) / 255.0
    true = [metrics.label_boundaries(truth) for truth in sample.truths]
    counts = metrics.boundary_curve(metrics.strength_boundaries(strength, boundaries), true)
    return {"region": region, "boundary": counts.tolist()}
