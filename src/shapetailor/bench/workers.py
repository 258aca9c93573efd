"""Pictures per second by one and two workers, and by Ray against processes: a part of `shapetailor bench scale`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import torch

from ..datasets import mosaic, texture
from ..io.images import write_image
from ..segmentation.segmenter import Segmenter
from ..workers import Outcome, each_done
from .measure import progress
from .report import Data, text_table

#: Pictures and their side.
PICTURES, SIDE = 24, 256
FAMILIES = ("cells", "grass", "dots")
WORKERS = (1, 2)
#: Seconds that a picture took, and of them seconds of a core.
Times = tuple[float, float]
WORDS = (
    "Each worker has one thread: it reads a picture, segments it and writes the label map. Started: seconds until\n"
    "every worker has done two pictures; the rest is of later ones. CPU: seconds of a core for a picture, which other\n"
    "load changes little. Busy: the share of the workers' time that is spent on pictures; the rest is overhead."
)


def measure(pictures: int = PICTURES, side: int = SIDE, workers: Sequence[int] = WORKERS) -> list[Data]:
    """Return a row for each way to work and number of workers: seconds to start, then rate, CPU time and busy share."""
    segmenter, rows = Segmenter.from_pretrained("texture"), []
    ways = ["--jobs", *(["--ray"] if find_spec("ray") else [])]
    with TemporaryDirectory(prefix="shapetailor.") as folder:
        files = [_written(Path(folder), number, side) for number in range(pictures)]
        for way in ways:
            for count in workers:
                progress(f"{way}, {count} workers")
                rows.append({"way": way, "workers": count, **_timed(partial(_segment, segmenter), files, way, count)})
    return rows


def table(rows: Sequence[Data]) -> str:
    """Set the rows."""
    lines = [
        [
            row["way"],
            str(row["workers"]),
            f"{row['started']:.1f} s",
            f"{row['rate']:.2f}",
            f"{row['cpu']:.2f} s",
            f"{row['busy']:.1%}",
        ]
        for row in rows
    ]
    return text_table(["way", "workers", "started", "pictures per second", "CPU", "busy"], lines)


def _timed(work: Callable[[Path], Times], files: list[Path], way: str, count: int) -> Data:
    begin, ends, times = time.perf_counter(), [], []
    for outcome in _outcomes(work, files, way, count):
        if outcome.result is None:
            raise RuntimeError(f"{outcome.item}: {outcome.reason}")
        ends.append(time.perf_counter())
        times.append(outcome.result)
    warm = 2 * count
    elapsed = ends[-1] - ends[warm - 1]
    later = times[warm:]
    return {
        "started": ends[warm - 1] - begin,
        "rate": len(later) / elapsed,
        "cpu": median(cpu for _, cpu in later),
        "busy": sum(seconds for seconds, _ in later) / (count * elapsed),
    }


def _outcomes(work: Callable[[Path], Times], files: list[Path], way: str, count: int) -> Iterator[Outcome[Path, Times]]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if way == "--jobs":
            yield from each_done(work, files, count)
            return
        import ray

        ray.init(address="local", num_cpus=count, include_dashboard=False, log_to_driver=False, logging_level=30)
        yield from each_done(work, files, ray="local")
        ray.shutdown()
    finally:
        torch.set_num_threads(threads)


def _segment(segmenter: Segmenter, path: Path) -> Times:
    torch.set_num_threads(1)
    begin, cpu = time.perf_counter(), time.process_time()
    segmenter.segment(path, regions=len(FAMILIES)).save(path.with_suffix(".labels.png"))
    return time.perf_counter() - begin, time.process_time() - cpu


def _written(folder: Path, number: int, side: int) -> Path:
    rng = np.random.default_rng(number)
    sample = mosaic([texture(family, side, rng, colour=True) for family in FAMILIES], side, rng)
    write_image(folder / f"{number}.png", sample.image)
    return folder / f"{number}.png"
