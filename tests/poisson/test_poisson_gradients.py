"""Derivatives of a solve: against finite differences, against each other, through every transform."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import shapetailor as st
from gallery import label_map
from shapetailor.poisson import Edges, edges_of

MAPS = ["noise with outside", "disc"]
BACKENDS = ["auto", "chebyshev", "multigrid", "torch", "dense"]


def setup(name="noise with outside", channels=2, height=5, width=4):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1, channels, height, width, dtype=torch.float64, generator=generator)
    return x, label_map(name, height, width)[None]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MAPS)
def test_gradcheck_in_data_and_alpha(name, backend):
    x, labels = setup(name, height=4)
    alpha = torch.tensor([0.7, 8.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(
        lambda x, a: st.smooth(x, labels, a, tol=1e-13, backend=backend),
        (x.requires_grad_(), alpha),
        check_forward_ad=True,
    )


@pytest.mark.parametrize("name", MAPS)
def test_gradgradcheck_in_data_and_alpha(name):
    x, labels = setup(name, height=4)
    alpha = torch.tensor([0.7, 40.0], dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(
        lambda x, a: st.smooth(x, labels, a, tol=1e-13), (x.requires_grad_(), alpha), check_fwd_over_rev=True
    )


def test_gradcheck_in_the_conductances():
    x, labels = setup(height=4)
    # Conductances between 0 and 1 everywhere, as a boundary on the move has them: labels do not matter.
    generator = torch.Generator().manual_seed(2)
    across = torch.rand(1, 4, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    down = torch.rand(1, 3, 4, dtype=torch.float64, generator=generator, requires_grad=True)
    inside = torch.ones_like(labels, dtype=torch.bool)
    alpha = torch.tensor([2.0, 9.0], dtype=torch.float64, requires_grad=True)

    def function(x, across, down, alpha):
        return st.smooth(x, Edges(across, down, inside), alpha, tol=1e-13)

    inputs = (x.requires_grad_(), across, down, alpha)
    assert gradcheck(function, inputs, check_forward_ad=True)
    assert gradgradcheck(function, inputs)


def test_gradient_in_the_conductances_is_the_shape_derivative():
    # Opening a closed edge by ε changes the solution by ε times the derivative at the closed edge.
    x, labels = setup("halves", 1, 6, 6)
    closed = edges_of(labels, torch.float64)
    across = closed.across.clone().requires_grad_()
    weights = torch.randn(1, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(4))

    def energy(across):
        return (weights * st.smooth(x, Edges(across, closed.down, closed.inside), 8.0, tol=1e-13)).sum()

    (gradient,) = torch.autograd.grad(energy(across), across)
    step = 1e-6
    opened = closed.across.clone()
    opened[0, 3, 2] += step  # the edge across the boundary in row 3
    difference = (energy(opened) - energy(closed.across)) / step
    assert closed.across[0, 3, 2] == 0
    torch.testing.assert_close(gradient[0, 3, 2], difference, rtol=1e-4, atol=1e-6)


def test_several_scales_have_gradients():
    x, labels = setup()
    alpha = torch.tensor([[0.5, 3.0], [20.0, 300.0]], dtype=torch.float64, requires_grad=True)
    assert gradcheck(
        lambda x, a: st.smooth(x, labels, a, tol=1e-13), (x.requires_grad_(), alpha), check_forward_ad=True
    )


@pytest.mark.parametrize("alpha", [3.0, 4000.0])
def test_jvp_equals_the_solve_of_the_tangent(alpha):
    x, labels = setup(height=8, width=9)
    tangent = torch.randn_like(x)
    u, du = torch.func.jvp(lambda x: st.smooth(x, labels, alpha, tol=1e-12), (x,), (tangent,))
    torch.testing.assert_close(u, st.smooth(x, labels, alpha, tol=1e-12))
    torch.testing.assert_close(du, st.smooth(tangent, labels, alpha, tol=1e-12))


def test_vmap_over_jvp():
    x, labels = setup(height=6, width=7)
    tangents = torch.randn(4, *x.shape, dtype=torch.float64)

    def push(tangent):
        return torch.func.jvp(lambda x: st.smooth(x, labels, 6.0, tol=1e-12), (x,), (tangent,))[1]

    together = torch.func.vmap(push)(tangents)
    for row, tangent in zip(together, tangents, strict=True):
        torch.testing.assert_close(row, push(tangent))


def test_vmap_over_data_alpha_and_labels():
    _, labels = setup(height=6, width=7)
    x = torch.randn(3, 1, 2, 6, 7, dtype=torch.float64)
    alpha = torch.tensor([[1.0, 2.0], [30.0, 4.0], [5.0, 600.0]], dtype=torch.float64)
    maps = torch.stack([label_map(name, 6, 7)[None] for name in ("disc", "noise", "halves")])

    def solve(x, labels, alpha):
        return st.smooth(x, labels, alpha, tol=1e-12)

    for dims, arguments in (
        ((0, None, None), (x, labels, alpha[0])),
        ((0, None, 0), (x, labels, alpha)),
        ((None, 0, None), (x[0], maps, alpha[0])),
        ((0, 0, 0), (x, maps, alpha)),
    ):
        mapped = torch.func.vmap(solve, dims)(*arguments)
        for k in range(3):
            one = [a if d is None else a[k] for a, d in zip(arguments, dims, strict=True)]
            torch.testing.assert_close(mapped[k], solve(*one))


def test_jacobian_is_symmetric_and_has_unit_column_sums():
    x, labels = setup("one region", 1, 4, 4)
    jacobian = torch.func.jacrev(lambda x: st.smooth(x, labels, 5.0, tol=1e-12))(x).reshape(16, 16)
    torch.testing.assert_close(jacobian, jacobian.T)
    torch.testing.assert_close(jacobian.sum(0), torch.ones(16, dtype=torch.float64))


def test_float32_gradients_are_within_tolerance_of_float64():
    x, labels = setup("disc", 2, 12, 11)
    gradients = []
    for dtype in (torch.float32, torch.float64):
        data = x.to(dtype).requires_grad_()
        alpha = torch.tensor([5.0, 800.0], dtype=dtype, requires_grad=True)
        (st.smooth(data, labels, alpha, tol=1e-5) ** 2).sum().backward()
        gradients.append((data.grad.double(), alpha.grad.double()))
    torch.testing.assert_close(gradients[0][0], gradients[1][0], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(gradients[0][1], gradients[1][1], rtol=1e-3, atol=1e-4)


def test_backward_keeps_no_more_than_the_solution():
    x, labels = setup("disc", 4, 64, 64)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        st.smooth(x.requires_grad_(), labels, 25.0)
    assert sum(saved) <= 3 * x.numel()
