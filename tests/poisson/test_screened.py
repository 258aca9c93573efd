"""Smoothing with a screening that varies from pixel to pixel."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import torch

from shapetailor import smooth
from shapetailor.poisson import Edges, edges_of


def problem(height=7, width=9, channels=2, parts=True):
    rng, dtype = np.random.default_rng(0), torch.float64
    labels = torch.from_numpy(
        rng.integers(-1, 2, (1, height, width)) if parts else np.zeros((1, height, width), np.int64)
    )
    plain = edges_of(labels, dtype)
    edges = Edges(
        plain.across * torch.from_numpy(rng.uniform(0.1, 2, plain.across.shape)),
        plain.down * torch.from_numpy(rng.uniform(0.1, 2, plain.down.shape)),
        plain.inside,
    )
    x = torch.from_numpy(rng.standard_normal((1, channels, height, width))).to(dtype)
    screening = torch.from_numpy(rng.uniform(0.01, 5, (1, height, width))).to(dtype)
    return x, edges, screening


def by_scipy(x, edges, alpha, screening):
    height, width = x.shape
    pixel = np.arange(height * width).reshape(height, width)
    a = np.concatenate([pixel[:, :-1].ravel(), pixel[:-1].ravel()])
    b = np.concatenate([pixel[:, 1:].ravel(), pixel[1:].ravel()])
    c = alpha * np.concatenate([edges.across[0].numpy().ravel(), edges.down[0].numpy().ravel()])
    graph = scipy.sparse.coo_array((c, (a, b)), shape=(pixel.size, pixel.size)).tocsr()
    graph = graph + graph.T
    matrix = scipy.sparse.diags_array(screening.ravel() + graph.sum(axis=1)) - graph
    return scipy.sparse.linalg.spsolve(matrix.tocsc(), (screening * x).ravel()).reshape(height, width)


def test_the_solution_is_scipys_and_zero_outside():
    x, edges, screening = problem()
    alpha = torch.tensor([0.7, 30.0], dtype=torch.float64)
    u, stats = smooth(x, edges, alpha, tol=1e-10, screening=screening, return_stats=True)
    inside = edges.inside[0].numpy()
    for channel in range(2):
        expected = by_scipy(x[0, channel].numpy(), edges, float(alpha[channel]), screening[0].numpy())
        np.testing.assert_allclose(u[0, channel].numpy()[inside], expected[inside], rtol=1e-7, atol=1e-9)
    assert (u[0][:, ~inside] == 0).all()
    assert stats.backend == "screened"
    assert stats.converged


def test_a_screening_of_one_is_none():
    x, edges, _ = problem()
    plain = smooth(x, edges, 3.0, tol=1e-8)
    torch.testing.assert_close(smooth(x, edges, 3.0, tol=1e-8, screening=torch.ones(1, 7, 9)), plain, atol=1e-7, rtol=0)


def test_a_region_does_not_see_another_ones_data():
    labels = torch.zeros(1, 6, 8, dtype=torch.long)
    labels[:, :, 4:] = 1
    x, screening = torch.rand(1, 1, 6, 8), torch.rand(1, 6, 8) + 0.01
    before = smooth(x, labels, 9.0, screening=screening)
    x[..., 4:], screening[..., 4:] = 1e6 * torch.rand(1, 1, 6, 4), 7.0
    assert torch.equal(smooth(x, labels, 9.0, screening=screening)[..., :4], before[..., :4])


def test_gradients_are_those_of_differences_twice():
    x, edges, screening = problem(4, 5, 1, parts=False)
    alpha = torch.tensor([1.5], dtype=torch.float64)

    def solve(x, across, down, screening, alpha):
        return smooth(x, Edges(across, down, edges.inside), alpha, tol=1e-13, screening=screening)

    inputs = [each.clone().requires_grad_() for each in (x, edges.across, edges.down, screening, alpha)]
    assert torch.autograd.gradcheck(solve, inputs, atol=1e-6)
    assert torch.autograd.gradgradcheck(solve, inputs, atol=1e-5)


def test_a_good_guess_saves_steps():
    x, edges, screening = problem(30, 40)
    cold, first = smooth(x, edges, 50.0, screening=screening, return_stats=True)
    warm, again = smooth(x, edges, 50.0, screening=screening, guess=cold, return_stats=True)
    assert again.iterations < first.iterations / 4
    torch.testing.assert_close(warm, cold, atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("screening", "options", "words"),
    [
        (torch.ones(1, 7, 8), {}, r"shape \(1, 7, 9\), got \(1, 7, 8\)"),
        (1.0, {}, "got float"),
        (torch.zeros(1, 7, 9), {}, "finite and positive"),
        (torch.full((1, 7, 9), torch.nan), {}, "finite and positive"),
        (torch.ones(1, 7, 9), {"backend": "dense"}, "backend='auto'"),
    ],
)
def test_a_screening_that_makes_no_sense_is_refused(screening, options, words):
    x, edges, _ = problem()
    with pytest.raises(ValueError, match=words):
        smooth(x, edges, 1.0, screening=screening, **options)
