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
from ..metrics.benchmark import RegionCurve
from .context import Context
from .results import Results, TableRow

#: Thresholds of regions, and of boundaries: fewer, as their matching is slow.
REGIONS, BOUNDARIES, QUICK = 99, 19, 5


def add_gpb(context: Context, results: Results, samples: Sequence[Sample]) -> None:
    """Add the row of gPb-owt-ucm: ID.mat files with `ucm2`, or ID.png of boundary strengths (contour F only)."""
    assert context.gpb is not None
    files = {}
    for sample in samples:
        found = [path for path in (context.gpb / f"{sample.name}{end}" for end in (".mat", ".png")) if path.exists()]
        if not found:
            raise FileNotFoundError(f"gpb: {context.gpb} has neither {sample.name}.mat nor {sample.name}.png")
        files[sample.name] = found[0]
    regions, boundaries = (metrics.benchmark_thresholds(QUICK if context.quick else n) for n in (REGIONS, BOUNDARIES))
    records = []
    for sample in context.watch(samples, "gpb"):
        scores = partial(_scores, sample, files[sample.name], regions, boundaries)
        records.append(context.remember(f"gpb/{sample.name}", scores))
    counts = [np.array(each["boundary"]) for each in records]
    values = {"boundary_f": metrics.boundary_benchmark(counts, boundaries).ods.f}
    if all(each["region"] for each in records):
        fields: list[dict[str, Any]] = [{key: np.array(x) for key, x in each["region"].items()} for each in records]
        benchmark = metrics.region_benchmark([RegionCurve(**each) for each in fields], regions)
        for name in ("covering", "rand_index", "variation_of_information"):
            optimum = getattr(benchmark, name)
            values |= {name: float(optimum.ods), f"{name}_ois": float(optimum.ois)}
    note = f"{len(regions)} thresholds for regions, {len(boundaries)} for contours"
    results.rows.append(TableRow("gPb-owt-ucm, published maps", values, "measured", note))


def _scores(sample: Sample, path: Path, regions: Array, boundaries: Array) -> dict[str, Any]:
    """Return the fields of the `RegionCurve` (None for boundary strengths) and the counts of boundary pixels."""
    region: dict[str, Any] | None = None
    if path.suffix == ".mat":
        ucm = np.asarray(scipy.io.loadmat(path)["ucm2"], dtype=np.float64)
        curve = metrics.region_curve(metrics.ucm_segmentations(ucm, regions), list(sample.truths))
        region = {key: np.asarray(x).tolist() for key, x in curve._asdict().items()}
        strength = metrics.ucm_strength(ucm)
    else:
        image = read_image(path).astype(np.float64)
        strength = (image if image.ndim == 2 else image.mean(axis=2)) / 255.0
    true = [metrics.label_boundaries(truth) for truth in sample.truths]
    counts = metrics.boundary_curve(metrics.strength_boundaries(strength, boundaries), true)
    return {"region": region, "boundary": counts.tolist()}
