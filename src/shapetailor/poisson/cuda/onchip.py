"""The half-steps of `onchip.cu`: which form of the kernel a plane takes, its compilation and its launches.

Compiled at run time by NVRTC, through `torch.cuda._compile_kernel`: torch brings it along, and nothing has to be built
when the package is installed. Triton cannot shift a tile by one pixel in shared memory, nor share it in a cluster.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

#: Columns of a colour that the kernel is compiled for; columns of pixels that a thread owns, and rows.
COLUMNS, OWNED, ROWS = (32, 64, 128, 256), 2, 16
#: Threads of a block: at most the first, where a cluster can take the rest of the plane, so that two blocks share an SM
#: and one computes while the other waits. Blocks of a cluster.
THREADS, CLUSTERS = (512, 1024), (1, 2, 4, 8)
#: Numbers after a row in shared memory, pixels of a colour that lie at a cut: at most, and as a share of the block's.
PAD, LONGEST_LIST, LISTED = 5, 2048, 4
#: Width of the frame of a tile: half-steps of a pass over tiles.
HALO = 24
#: Pixels of a plane that a block of `sums.cu` takes, and its threads.
PART, PART_THREADS = 8192, 256
#: Regions whose means are taken off, at most: a byte numbers them, and one of its values stands for none.
MOST_REGIONS = 64
OUTSIDE = 255
#: Clusters came with compute capability 9 (Hopper), the one that was tried; without them a plane has one block. Below 8
#: shared memory is too small.
CLUSTERS_FROM, OLDEST = 9, 8


class Regions(NamedTuple):
    """Regions of label maps (B, H, W): their numbers at the pixels as bytes, and their pixels (B, K)."""

    ranks: Tensor
    sizes: Tensor


class Form(NamedTuple):
    """How a plane lies in shared memory: columns of a colour, strips, rows of a strip, blocks of a cluster."""

    columns: int
    strips: int
    rows: int
    blocks: int

    @property
    def height(self) -> int:
        """Rows of pixels that fit."""
        return self.strips * self.rows * self.blocks

    @property
    def width(self) -> int:
        """Columns of pixels that fit."""
        return OWNED * self.columns

    @property
    def memory(self) -> int:
        """Bytes of shared memory of a block: both colours, with a row of the next block before and after, and lists."""
        numbers = (self.strips * self.rows + 2) * (self.columns + PAD)
        return 4 * OWNED * numbers + 8 * OWNED * self.listed + 4 * OWNED

    @property
    def listed(self) -> int:
        """Pixels of a colour that the list of pixels at cuts has room for."""
        return min(LONGEST_LIST, self.columns * self.strips * self.rows // LISTED)

    @property
    def options(self) -> list[str]:
        """What the compiler is told."""
        values = {**dict(zip("PGRC", self, strict=True)), "PAD": PAD, "LIST": self.listed}
        return [f"-D{key}={value}" for key, value in values.items()]


def form_for(height: int, width: int, clusters: bool, memory: int) -> Form | None:
    """Return the smallest form that a whole plane fits in, none if it is too large.

    >>> form_for(64, 64, True, 2**17), form_for(256, 256, True, 2**18)
    (Form(columns=32, strips=4, rows=16, blocks=1), Form(columns=128, strips=4, rows=16, blocks=4))
    >>> form_for(2048, 2048, True, 2**18)
    """
    for columns, most in product(COLUMNS, THREADS):
        if OWNED * columns < width:
            continue
        fewer = [(2**power, 1) for power in range((most // columns).bit_length() - 1)]
        for strips, blocks in [*fewer, *((most // columns, blocks) for blocks in (CLUSTERS if clusters else (1,)))]:
            form = Form(columns, strips, ROWS, blocks)
            if form.height >= height and form.memory <= memory:
                return form
    return None


def tile_form(clusters: bool, memory: int) -> Form:
    """Return the form of the tiles of a large plane: as large as the chip allows."""
    large, small = Form(128, 4, ROWS, 4), Form(64, 8, ROWS, 1)
    return large if clusters and large.memory <= memory else small


@cache
def available(device: torch.device) -> bool:
    """Whether the kernel can be compiled for a device and run on it; warns once if it should be but cannot."""
    major, _ = torch.cuda.get_device_capability(device)
    if major < OLDEST or torch.version.hip or not hasattr(torch.cuda, "_compile_kernel"):
        return False
    try:
        with torch.cuda.device(device):
            _kernel("cuts.cu", "cuts", device)
            _kernel("sums.cu", "sums", device)
            _kernel("onchip.cu", "onchip", device, Form(32, 1, ROWS, 1))
    except Exception as error:  # of NVRTC, the driver or a missing library: the fused steps do as well, but slower
        warnings.warn(f"GPU kernels cannot be compiled here, slower ones are used: {error}", stacklevel=2)
        return False
    return True


@cache
def _kernel(file: str, name: str, device: torch.device, form: Form | None = None) -> Any:
    """Compile a kernel for a device and a form."""
    source = files(__package__).joinpath(file).read_text()
    options = [f"-DPIXELS={PART}"] if form is None else form.options
    with torch.cuda.device(device):
        kernel = torch.cuda._compile_kernel(source, name, nvcc_options=["--std=c++17", *options])
        if form is not None:
            kernel.set_shared_memory_config(form.memory)
    return kernel


def cuts(labels: Tensor) -> Tensor:
    """Return a byte for each pixel of (B, H, W): bits 0 to 3 for the neighbours of its region, 4 if it is in one."""
    images, height, width = labels.shape
    labels = labels.long().contiguous()
    bits = torch.empty(labels.shape, dtype=torch.uint8, device=labels.device)
    kernel = _kernel("cuts.cu", "cuts", labels.device)
    with torch.cuda.device(labels.device):
        kernel(grid=(-(-bits.numel() // 256), 1, 1), block=(256, 1, 1), args=[labels, bits, images, height, width])
    return bits


def regions_of(labels: Tensor) -> Regions | None:
    """Number the regions of (B, H, W) label maps; None if there are too many. Waits for the GPU."""
    names, ranks = labels.unique(return_inverse=True)
    if len(names) > MOST_REGIONS:
        return None
    ranks = torch.where(labels >= 0, ranks, OUTSIDE)
    sizes = (ranks[..., None] == torch.arange(len(names), device=ranks.device)).sum(dim=(1, 2))
    return Regions(ranks.byte(), sizes)


def means(x: Tensor, regions: Regions) -> Tensor:
    """Return the mean of each channel of (B, C, H, W) in each region: (B, C, K)."""
    images, channels, height, width = x.shape
    count, parts = regions.sizes.shape[1], -(-height * width // PART)
    found = x.new_empty(images, channels, parts, count)
    kernel = _kernel("sums.cu", "sums", x.device)
    with torch.cuda.device(x.device):
        kernel(
            grid=(images * channels * parts, 1, 1),
            block=(PART_THREADS, 1, 1),
            args=[x.contiguous(), regions.ranks, found, height * width, channels, count, parts],
        )
    return found.sum(dim=2) / regions.sizes.clamp_min(1)[:, None]


def solve(x: Tensor, bits: Tensor, alpha: Tensor, tol: float, count: int, centred: Regions | None = None) -> Tensor:
    """Solve for x (B, C, H, W) with the cuts `bits` at alpha (A, C): (B, A, C, H, W).

    `count` half-steps are enough for the largest α; the kernel takes as many as each plane needs. With the regions in
    `centred` each one's mean is taken off first and put back at the end, since smoothing keeps what is constant in it.
    """
    images, channels, height, width = x.shape
    scales = len(alpha)
    x, alpha = x.contiguous(), alpha.contiguous()
    table = (bits, alpha, 0) if centred is None else (centred.ranks, means(x, centred), centred.sizes.shape[1])
    clusters, memory = _limits(x.device)
    form, halo = form_for(height, width, clusters, memory), 0
    if form is None:
        form, halo = tile_form(clusters, memory), HALO
    down, across = -(-height // (form.height - 2 * halo)), -(-width // (form.width - 2 * halo))
    kernel = _kernel("onchip.cu", "onchip", x.device, form)
    passes = range(0, count, halo) if halo else range(1)
    before, u = x, x.new_empty(images, scales, channels, height, width)  # x stands for no iterate yet
    with torch.cuda.device(x.device):
        for first in passes:
            last = not halo or first + halo >= count
            end = 2**30 if last else first + halo  # the kernel's bound may round up by one
            kernel(
                grid=(images * scales * channels * down * across * form.blocks, 1, 1),
                block=(form.columns * form.strips, 1, 1),
                args=[
                    x, before, bits, *table, alpha, u, images, height, width, channels, scales, across, down * across,
                    halo, first, end, int(last), float(tol),
                ],
                shared_mem=form.memory,
            )  # fmt: skip
            before, u = u, torch.empty_like(u) if before is x and len(passes) > 1 else before
    return before


@cache
def _limits(device: torch.device) -> tuple[bool, int]:
    """Whether a device has clusters, and the most shared memory of a block."""
    found: Any = torch.cuda.get_device_properties(device)
    return found.major >= CLUSTERS_FROM, found.shared_memory_per_block_optin
