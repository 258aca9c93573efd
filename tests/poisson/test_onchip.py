"""The kernel that keeps solves on a GPU's chip: its arithmetic, run on the CPU thread after thread."""

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from shapetailor.poisson import chebyshev, smooth
from shapetailor.poisson.cuda import onchip
from shapetailor.poisson.cuda.onchip import Form

COMPILER = shutil.which("g++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs g++, to run the kernel on the CPU")

SMALL, TWO_BLOCKS, WIDE = Form(32, 2, 16, 1), Form(32, 2, 16, 2), Form(64, 2, 16, 2)


@pytest.fixture(scope="session")
def kernels(tmp_path_factory):
    """Form → the compiled emulator."""
    folder = tmp_path_factory.mktemp("kernels")
    source = Path(__file__).with_name("onchip_emulator.cpp")
    include = Path(onchip.__file__).parent

    @cache
    def compiled(form, *options):
        library = folder / f"{'-'.join(map(str, [*form, *options]))}.so"
        given = [*form.options, *options]
        command = [COMPILER, "-O1", "-w", "-shared", "-fPIC", *given, f"-I{include}", source, "-o", library]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(library)).emulate

    return compiled


def maps(images, height, width, seed):
    """Blocky labels with pixels outside, single pixels and straight cuts."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randint(-1, 3, (images, -(-height // 9), -(-width // 7)), generator=generator)
    labels = coarse.repeat_interleave(9, 1).repeat_interleave(7, 2)[:, :height, :width].clone()
    labels[:, ::11, ::13] = 7
    return labels


def bits_of(labels):
    """What `cuts.cu` computes, by another way."""
    bits = np.where(labels >= 0, 16, 0).astype(np.uint8)
    for bit, (down, right) in enumerate([(0, -1), (0, 1), (-1, 0), (1, 0)]):
        for image, y, x in np.ndindex(*labels.shape):
            row, column = y + down, x + right
            near = 0 <= row < labels.shape[1] and 0 <= column < labels.shape[2]
            if near and labels[image, y, x] >= 0 and labels[image, y, x] == labels[image, row, column]:
                bits[image, y, x] |= 1 << bit
    return bits


def solved(emulate, form, x, labels, alphas, tol, halo=0, centred=False):
    """Launch as `onchip.solve` does."""
    images, channels, height, width = x.shape
    scales, size = len(alphas), (images, len(alphas), channels, height, width)
    regions = onchip.regions_of(labels)
    member = regions.ranks[..., None] == torch.arange(regions.sizes.shape[1])
    sums = torch.einsum("bchw,bhwk->bck", x.nan_to_num(), member.float())
    means = sums / regions.sizes.clamp_min(1)[:, None]
    inputs = (x.numpy(), bits_of(labels.numpy()), regions.ranks.numpy(), means.numpy(), alphas.numpy())
    pointers = [np.ascontiguousarray(each) for each in inputs]
    values, bits, ranks, levels, scale = (ctypes.c_void_p(each.ctypes.data) for each in pointers)
    down, across = -(-height // (form.height - 2 * halo)), -(-width // (form.width - 2 * halo))
    assert halo or down == across == 1
    count = len(chebyshev.half_steps(float(alphas.max()), 1.0, 1.0, tol).omegas) + 1
    before, u = None, np.full(size, np.nan, np.float32)
    for first in range(0, count, halo) if halo else [0]:
        last = not halo or first + halo >= count
        end = 2**30 if last else first + halo
        iterate = None if before is None else ctypes.c_void_p(before.ctypes.data)
        emulate(
            values, iterate, bits, ranks, levels, means.shape[2] if centred else 0, scale,
            ctypes.c_void_p(u.ctypes.data), images, height, width, channels, scales, across, down * across, halo, first,
            end, int(last), ctypes.c_double(tol),
        )  # fmt: skip
        before, u = u, np.full(size, np.nan, np.float32)
    return torch.from_numpy(before)


@pytest.mark.parametrize(
    ("form", "height", "width", "halo"),
    [
        (SMALL, 32, 64, 0), (SMALL, 31, 63, 0), (SMALL, 5, 3, 0), (TWO_BLOCKS, 61, 50, 0), (WIDE, 50, 101, 0),
        (SMALL, 70, 75, 6), (TWO_BLOCKS, 100, 90, 8),
    ],
)  # fmt: skip
def test_the_kernel_solves_the_equation_whole_and_in_tiles(kernels, form, height, width, halo):
    x = torch.randn(2, 2, height, width, generator=torch.Generator().manual_seed(1))
    labels, alphas = maps(2, height, width, seed=height), torch.tensor([[0.0, 3.0], [25.0, 200.0]])
    x = torch.where((labels >= 0)[:, None], x, torch.nan)  # what lies outside is not looked at
    found = solved(kernels(form), form, x, labels, alphas, 1e-3, halo)
    exact = smooth(x.double(), labels, alphas.double(), 1e-9)
    size = exact.flatten(3).norm(dim=3)
    assert bool(((found - exact).flatten(3).norm(dim=3) <= 1e-3 * size).all())
    assert bool((found.movedim(0, 2)[:, :, labels < 0] == 0).all())


@pytest.mark.parametrize(("form", "halo"), [(TWO_BLOCKS, 0), (SMALL, 6)])
def test_means_of_regions_are_taken_off_and_put_back_once(kernels, form, halo):
    labels, alphas = maps(2, 60, 50, seed=4), torch.tensor([[3.0, 20.0], [100.0, 0.0]])
    x = torch.randn(2, 2, 60, 50, generator=torch.Generator().manual_seed(2)) + 1e4 * (1 + labels[:, None])
    x = torch.where((labels >= 0)[:, None], x, torch.nan)
    found = solved(kernels(form), form, x, labels, alphas, 1e-3, halo, centred=True)
    exact = smooth(x.double(), labels, alphas.double(), 1e-9)
    assert bool(((found - exact).abs() < 0.02).all())  # a rounding error of float32 at 1e4 is .001
    assert bool((found.movedim(0, 2)[:, :, labels < 0] == 0).all())
    if not halo:  # without them a thousandth of 1e4 may be wrong
        plain = solved(kernels(form), form, x, labels, alphas, 1e-3, halo)
        assert float((plain - exact).abs().max()) > 0.1


@pytest.mark.parametrize(("form", "halo"), [(TWO_BLOCKS, 0), (SMALL, 6)])
def test_where_the_list_of_pixels_at_cuts_is_too_short_the_solution_is_the_same(kernels, form, halo):
    x, labels, alphas = torch.randn(1, 2, 60, 50), maps(1, 60, 50, seed=5), torch.tensor([[3.0, 20.0]])
    long, short = (
        solved(kernels(form, *options), form, x, labels, alphas, 1e-3, halo) for options in ([], ["-ULIST", "-DLIST=9"])
    )
    torch.testing.assert_close(short, long, rtol=1e-5, atol=1e-6)


def test_a_pixel_without_neighbours_keeps_its_value_whatever_the_scale(kernels):
    x = torch.rand(1, 1, 8, 8)
    labels = torch.arange(64).reshape(1, 8, 8)
    found = solved(kernels(SMALL), SMALL, x, labels, torch.tensor([[1e4]]), 1e-3)
    torch.testing.assert_close(found[0], x, rtol=1e-6, atol=0)


def test_nothing_leaks_between_regions(kernels):
    x, labels = torch.rand(1, 1, 40, 60), maps(1, 40, 60, seed=3)
    other = torch.where(labels[:, None] == 1, x, torch.rand(1, 1, 40, 60))
    alphas = torch.tensor([[30.0]])
    first, second = (solved(kernels(TWO_BLOCKS), TWO_BLOCKS, each, labels, alphas, 1e-3) for each in (x, other))
    assert torch.equal(first[0, 0, 0][labels[0] == 1], second[0, 0, 0][labels[0] == 1])


def test_forms_hold_the_plane_within_the_limits_of_the_chip():
    for height in (1, 16, 17, 64, 65, 130, 256, 300, 512):
        for width in (1, 64, 65, 129, 256, 512):
            form = onchip.form_for(height, width, clusters=True, memory=227 * 1024)
            assert form is not None
            assert form.height >= height
            assert form.width >= width
            assert form.columns * form.strips <= 1024
            assert form.memory <= 227 * 1024
            alone = onchip.form_for(height, width, clusters=False, memory=227 * 1024)
            assert alone is None or alone.blocks == 1
    assert onchip.form_for(64, 513, clusters=True, memory=227 * 1024) is None
