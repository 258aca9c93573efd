"""Solves on a GPU against those on the CPU."""

import warnings

import pytest
import torch

from shapetailor.poisson import Edges, edges_of, smooth
from shapetailor.poisson.solve import smooth_trusted

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SIZES = [(1, 1), (5, 3), (64, 64), (65, 64), (131, 97), (256, 256), (300, 511), (512, 512), (700, 600)]


def maps(images, height, width, seed=0):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randint(-1, 3, (images, -(-height // 9), -(-width // 7)), generator=generator)
    return coarse.repeat_interleave(9, 1).repeat_interleave(7, 2)[:, :height, :width].contiguous()


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_the_chip_s_solution_is_the_cpu_s(height, width):
    x, labels = torch.randn(2, 3, height, width), maps(2, height, width)
    for alpha in (torch.tensor([[0.0], [3.0], [25.0]]), torch.tensor([1.0, 40.0, 200.0]), 7.0):
        found, stats = smooth(x.cuda(), labels.cuda(), alpha, 1e-3, return_stats=True)
        exact = smooth(x.double(), labels, alpha, 1e-9)
        assert stats.backend == "on-chip"
        assert stats.converged
        assert float((found.cpu() - exact).norm() / exact.norm()) <= 1e-3


def test_large_scales_are_solved_on_the_chip_with_regions_of_any_mean():
    x, labels = torch.rand(1, 2, 256, 256), maps(1, 256, 256)
    found, stats = smooth((x + 5 * labels[:, None]).cuda(), labels.cuda(), 1600.0, 1e-3, return_stats=True)
    exact = smooth((x + 5 * labels[:, None]).double(), labels, 1600.0, 1e-9)
    assert stats.backend == "on-chip"
    assert float((found.cpu() - exact).norm() / exact.norm()) < 1e-3


def test_gradients_are_the_cpu_s():
    x, labels, alpha, weight = (
        torch.randn(2, 3, 40, 50),
        maps(2, 40, 50),
        torch.tensor([1.0, 5.0, 20.0]),
        torch.randn(50),
    )
    grads = []
    for device, dtype, tol in (("cuda", torch.float32, 1e-4), ("cpu", torch.float64, 1e-10)):
        data, scale = (each.to(device, dtype, copy=True).requires_grad_() for each in (x, alpha))
        (smooth(data, labels.to(device), scale, tol) * weight.to(device, dtype)).sum().backward()
        grads.append((data.grad.cpu().double(), scale.grad.cpu().double()))
    for mine, exact in zip(*grads, strict=True):
        assert float((mine - exact).norm() / exact.norm()) < 1e-3


def test_conductances_and_double_precision_go_the_other_way():
    x, labels = torch.rand(1, 2, 30, 40).cuda(), maps(1, 30, 40).cuda()
    closed = edges_of(labels)
    open_edges = Edges(0.5 * closed.across, 0.5 * closed.down, closed.inside)
    for data, edges in ((x, open_edges), (x.double(), labels)):
        found, stats = smooth(data, edges, 5.0, 1e-4, return_stats=True)
        assert stats.backend in ("triton", "torch")
        assert stats.converged
        assert bool(found.isfinite().all())


def test_a_solve_of_our_own_data_waits_for_nothing():
    x, edges = torch.rand(2, 4, 64, 64).cuda(), edges_of(maps(2, 64, 64).cuda())
    alpha = torch.tensor([0.5, 2.0, 8.0, 20.0])
    smooth_trusted(x, edges, alpha, 1e-3, None, "auto")  # compiles
    torch.cuda.synchronize()
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that it may overlook some waiting
        torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.no_grad():
            smooth_trusted(x, edges, alpha, 1e-3, None, "auto")
    finally:
        torch.cuda.set_sync_debug_mode(mode)


def test_values_that_are_not_finite_are_refused_at_the_door():
    x = torch.full((1, 1, 8, 8), torch.nan).cuda()
    with pytest.raises(ValueError, match="finite"):
        smooth(x, torch.zeros(1, 8, 8, dtype=torch.long).cuda(), 1.0)
