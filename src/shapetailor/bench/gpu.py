"""`shapetailor bench poisson|segment|train --device cuda`: a GPU, each figure beside the way it is done without it.

Times are medians by the GPU's own clock where only it works, and wall-clock times of whole calls else. The least time
that a solve could take is stated by two counts: bytes that must move through the GPU's memory (the channels in, the
result out), and bytes that half-steps move through shared memory, each over the bandwidth measured in the same run.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import Tensor

from ..datasets import MosaicDataset, ProceduralTextures, Sample
from ..loss import separation_loss
from ..network.stdnn import STDNN, STDNNConfig
from ..poisson import chebyshev, edges_of, smooth
from ..poisson.solve import Backend, smooth_trusted
from ..segmentation.segmenter import Segmenter
from ..training.sharpen import SharpenConfig, sharpen
from ..training.train import recipe
from ..training.train import train as trained
from .measure import Outcome, machine, progress
from .report import Data, duration, page, text_table, verdict

#: Images, channels and sides of the solves; the first is that of the targets.
SOLVES = ((16, 40, 256), (1, 40, 256), (16, 96, 64), (16, 48, 128), (4, 10, 512), (1, 8, 1024))
SCALES, FACTORS, TOL, ACCURACY = (5.0, 10.0, 15.0, 20.0, 25.0), (1, 8, 64), 1e-3, 1e-3
#: Seconds at most, by the factor on the alphas, for the first of `SOLVES`.
SOLVE_TARGETS = {1: 4e-3, 64: 12e-3}
#: Bytes of shared memory that a half-step moves for each pixel it updates: three loads, one store.
SHARED_BYTES = 16
#: Pictures whose latency is measured, pictures in a batch; seconds at most for each; share of pixels as on the CPU.
LATENCY_OF, BATCH, LATENCY_TARGET, BATCH_TARGET, EQUAL_TARGET = 24, 32, 0.080, 0.020, 0.999
#: The recipe's networks with their images in a step; images of a training; seconds at most for a default one.
NETWORKS = (("first network", recipe("texture").network, 16), ("second network", SharpenConfig().network, 16))
TRAIN_IMAGES, TRAIN_TARGET = 64, 120.0

#: Each thread loads 8 numbers of shared memory in a turn and stores as many.
SHARED_KERNEL = """
extern "C" __global__ void turns(float* out, int turns) {
    __shared__ float values[8192];
    for (int i = threadIdx.x; i < 8192; i += blockDim.x) values[i] = i;
    __syncthreads();
    volatile float* mine = values + threadIdx.x;
    float sum = 0;
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int k = 0; k < 8; ++k) sum += mine[1024 * k];
#pragma unroll
        for (int k = 0; k < 8; ++k) mine[1024 * k] = sum;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


def poisson(device: torch.device, sizes: Sequence[int] | None = None, quick: bool = False) -> Outcome:
    """Time `smooth` on the chip beside fused steps (backend="triton")."""
    memory, shared = bandwidths(device)
    rows, verdicts, sound = [], [], True
    for images, channels, size in SOLVES[:2] if quick else SOLVES:
        if sizes and size not in sizes:
            continue
        for factor in FACTORS:
            progress(f"{images} × {channels} × {size}², alphas ×{factor}")
            row = _solve(device, images, channels, size, factor, memory, shared)
            sound &= row["error"] <= ACCURACY
            rows.append(row)
            if (images, channels, size) == SOLVES[0] and factor in SOLVE_TARGETS:
                what = f"milliseconds for {images} × {channels} × {size}², alphas ×{factor}"
                verdicts.append(verdict(what, 1e3 * row["seconds"], 1e3 * SOLVE_TARGETS[factor], at_least=False))
    words = (
        f"Memory {memory / 1e9:.0f} GB/s (copy), shared memory {shared / 1e12:.1f} TB/s, both measured. Relative\n"
        f"error at most {ACCURACY:g} against float64. Bounds: what must move over these; the larger one counts."
    )
    head = [
        "channels",
        "alphas",
        "on chip",
        "fused steps",
        "faster",
        "error",
        "bound, memory",
        "bound, shared",
        "reached",
    ]
    lines = [
        [
            f"{row['images']} × {row['channels']} × {row['size']}²", f"×{row['factor']}", duration(row["seconds"]),
            duration(row["fused"]), f"{row['fused'] / row['seconds']:.3g}×", f"{row['error']:.0e}",
            duration(row["memory_bound"]), duration(row["shared_bound"]),
            f"{max(row['memory_bound'], row['shared_bound']) / row['seconds']:.0%}",
        ]
        for row in rows
    ]  # fmt: skip
    where = machine(str(device))
    data: Data = {"benchmark": "poisson", "machine": where, "rows": rows, "memory": memory, "shared": shared}
    data["targets"] = verdicts
    return Outcome(page("Solves on a GPU", where, words, [text_table(head, lines)], verdicts), data, sound)


def _solve(
    device: torch.device, images: int, channels: int, size: int, factor: int, memory: float, shared: float
) -> Data:
    generator = torch.Generator().manual_seed(size)
    x = torch.rand(images, channels, size, size, generator=generator).to(device)
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    blob = ((columns - 0.5 * size) ** 2 + (rows - 0.4 * size) ** 2 < (0.3 * size) ** 2).long().to(device)
    edges = edges_of(blob[None].expand(images, -1, -1).contiguous())
    alphas = factor * torch.tensor(SCALES).repeat_interleave(-(-channels // len(SCALES)))[:channels]

    def run(backend: Backend) -> Tensor:
        with torch.no_grad():
            return smooth_trusted(x, edges, alphas, TOL, None, backend)

    few = slice(0, channels, -(-channels // len(SCALES)))
    exact = smooth(x[:1, few].double(), blob[None], alphas[few], 1e-9, backend="torch")
    error = float(((run("auto")[:1, few] - exact).flatten(2).norm(dim=2) / exact.flatten(2).norm(dim=2)).max())
    steps = sum(len(chebyshev.half_steps(alpha, 1.0, 1.0, TOL).omegas) + 1 for alpha in alphas.tolist())
    return {
        "images": images, "channels": channels, "size": size, "factor": factor, "error": error,
        "seconds": on_device(lambda: run("auto")), "fused": on_device(lambda: run("triton"), turns=5),
        "memory_bound": 2 * x.numel() * x.element_size() / memory,
        "shared_bound": images * steps * (size * size / 2) * SHARED_BYTES / shared,
    }  # fmt: skip


def on_device(call: Callable[[], object], turns: int = 15) -> float:
    """Return the median time of a call by the GPU's clock, after two calls that do not count."""
    for _ in range(2):
        call()
    times = []
    for _ in range(turns):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return float(median(times))


def bandwidths(device: torch.device) -> tuple[float, float]:
    """Measure bytes a second: of a copy through the GPU's memory, read and written; of its shared memory."""
    source = torch.ones(2**28, device=device)
    target = torch.empty_like(source)
    memory = 2 * source.numel() * source.element_size() / on_device(lambda: target.copy_(source))
    blocks = 2 * torch.cuda.get_device_properties(device).multi_processor_count
    kernel, out, turns = torch.cuda._compile_kernel(SHARED_KERNEL, "turns"), target[: 1024 * blocks], 2000
    seconds = on_device(lambda: kernel((blocks, 1, 1), (1024, 1, 1), [out, turns]))
    return memory, 4 * 16 * turns * 1024 * blocks / seconds


def segment(device: torch.device, sizes: Sequence[int] | None = None, quick: bool = False) -> Outcome:
    """Time whole calls of the shipped model with two regions: one picture, and batches side by side."""
    rows, verdicts = list[Data](), list[Data]()
    for size in sizes or (256,):
        pictures = [each.image for each in _mosaics(LATENCY_OF // (3 if quick else 1), size)]
        segmenter = Segmenter.from_pretrained("texture", device)
        before = Segmenter.from_pretrained("texture", device)
        before._planes = False
        for net in (before.net, before.net.fine):
            if isinstance(net, STDNN):
                net.backend = "triton"
        progress(f"{size}²: one at a time")
        one = wall_clock(lambda picture: segmenter.segment(picture, 2), pictures)  # noqa: B023
        old = wall_clock(lambda picture: before.segment(picture, 2), pictures)  # noqa: B023
        progress(f"{size}²: batches of {BATCH}")
        many = (pictures * (-(-2 * BATCH // len(pictures))))[: 2 * BATCH]
        list(segmenter.segment_many(many[:BATCH], 2, batch_size=BATCH))
        begin = time.perf_counter()
        found = list(segmenter.segment_many(many, 2, batch_size=BATCH))
        batch = (time.perf_counter() - begin) / len(many)
        progress(f"{size}²: on the CPU")
        cpu = Segmenter.from_pretrained("texture")
        equal = [
            float(np.mean(mine.labels == cpu.segment(picture, 2).labels))
            for mine, picture in zip(found[: len(pictures)], pictures, strict=False)
        ]
        rows.append(
            {"size": size, "one": one, "before": old, "batch": batch, "equal": min(equal), "mean": np.mean(equal)}
        )
        if size == 256:
            verdicts = [
                verdict("milliseconds for one picture of 256²", 1e3 * one, 1e3 * LATENCY_TARGET, at_least=False),
                verdict(
                    f"milliseconds a picture in batches of {BATCH}", 1e3 * batch, 1e3 * BATCH_TARGET, at_least=False
                ),
                verdict("least share of pixels labelled as on the CPU", min(equal), EQUAL_TARGET, at_least=True),
            ]
    words = "Generated mosaics of two textures, model texture. Medians of whole calls; all with the picture in memory."
    head = [
        "size",
        "one picture",
        "region by region, fused steps",
        f"batches of {BATCH}, each",
        "as on the CPU, least",
        "mean",
    ]
    lines = [
        [
            f"{row['size']}²", duration(row["one"]), duration(row["before"]), duration(row["batch"]),
            f"{row['equal']:.2%}", f"{row['mean']:.3%}",
        ]
        for row in rows
    ]  # fmt: skip
    where = machine(str(device))
    data: Data = {"benchmark": "segment", "machine": where, "rows": rows, "targets": verdicts}
    return Outcome(page("Segmentation on a GPU", where, words, [text_table(head, lines)], verdicts), data, True)


def wall_clock(call: Callable[[object], object], items: Sequence[object]) -> float:
    """Return the median time of a call, after two that do not count."""
    times = []
    for item in [*items[:2], *items]:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call(item)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return median(times[2:])


def _mosaics(count: int, size: int) -> list[Sample]:
    made = MosaicDataset(ProceduralTextures(24, size + size // 2, seed=0), count, (2, 2), size, seed=0)
    return [replace(made[number], name=f"mosaic{number}") for number in range(count)]


def train(device: torch.device, sizes: Sequence[int] | None = None, quick: bool = False) -> Outcome:
    """Time a gradient of the recipe's networks with both solvers, and a whole default training of both networks."""
    samples = _mosaics(TRAIN_IMAGES, 256)
    rows = [_gradient(device, name, config, batch) for name, config, batch in NETWORKS]
    lines = [
        [row["network"], duration(row["seconds"]), duration(row["fused"]), f"{row['fused'] / row['seconds']:.3g}×"]
        for row in rows
    ]
    parts = [text_table(["a step of", "on chip", "fused steps", "faster"], lines)]
    data: Data = {"benchmark": "train", "machine": machine(str(device)), "rows": rows, "targets": []}
    if not quick:
        progress(f"default training of both networks on {len(samples)} images")
        with tempfile.TemporaryDirectory() as folder:
            first, both = Path(folder) / "first.safetensors", Path(folder) / "both.safetensors"
            begin = time.perf_counter()
            trained(samples, first, recipe("texture"), device=str(device), progress=False)
            middle = time.perf_counter()
            sharpen(first, samples, both, SharpenConfig(), device=str(device), progress=False)
            data["first"], data["second"] = middle - begin, time.perf_counter() - middle
        parts.append(f"Default training: {duration(data['first'])} and {duration(data['second'])} (second network)")
        total = data["first"] + data["second"]
        data["targets"] = [verdict("seconds for a default training", total, TRAIN_TARGET, at_least=False)]
    words = "A step is the loss of a batch of samples and its gradient, by the GPU's clock."
    return Outcome(page("Training on a GPU", data["machine"], words, parts, data["targets"]), data, True)


def _gradient(device: torch.device, name: str, config: STDNNConfig, batch: int) -> Data:
    progress(f"a step of the {name}")
    side = -(-256 // config.stride)
    generator = torch.Generator().manual_seed(0)
    channels = torch.randn(batch, config.channels, side, side, generator=generator).to(device)
    regions = (torch.arange(side) >= side // 2).long().expand(batch, side, side).contiguous().to(device)
    net = STDNN(config).to(device)

    def step(backend: Backend) -> None:
        net.backend = backend
        net.zero_grad()
        separation_loss(net.embed(channels, regions), regions).backward()

    times = {"seconds": on_device(partial(step, "auto")), "fused": on_device(partial(step, "triton"))}
    return {"network": name, "batch": batch, **times}
