from __future__ import annotations

from math import pi, sqrt

import pytest
import torch

from shapetailor.network.region_grid import DIRECTIONS, HEAT_STEPS, Domain, Memory
from shapetailor.poisson.torch_backend import operator_matrix


def ramp(angle, height=7, width=6):
    """Height of a plane that rises by 1 for each pixel's side along an angle (x right, y up)."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    theta = torch.tensor(angle * pi / 4, dtype=torch.float64)
    return (x * theta.cos() - y * theta.sin())[None, None]


def has_neighbour(labels, step):
    """Pixel by pixel: is there one of the same label a step before or behind?"""
    height, width = labels.shape
    answer = torch.zeros(height, width, dtype=torch.bool)
    for y in range(height):
        for x in range(width):
            for sign in (-1, 1):
                v, u = y + sign * step[0], x + sign * step[1]
                answer[y, x] |= 0 <= v < height and 0 <= u < width and bool(labels[v, u] == labels[y, x])
    return answer


@pytest.mark.parametrize("angle", range(4))
@pytest.mark.parametrize("along", range(4))
def test_derivative_of_a_plane_is_its_slope_wherever_a_neighbour_is_there(along, angle):
    labels = torch.zeros(1, 7, 6, dtype=torch.long)
    labels[:, 2:5, 1:4] = 1
    slope = Domain(labels, torch.float64).derivative(ramp(along), angle)[0, 0]
    expected = torch.tensor((along - angle) * pi / 4, dtype=torch.float64).cos()
    torch.testing.assert_close(slope, torch.where(has_neighbour(labels[0], DIRECTIONS[angle]), expected, 0))


def test_differences_are_central_inside_one_sided_at_edges_zero_alone():
    x = torch.tensor([[[[1.0, 4.0, 9.0, 100.0, 7.0]]]])
    labels = torch.tensor([[[2, 2, 2, 0, -1]]])
    assert Domain(labels).derivative(x, 0).flatten().tolist() == [3.0, 4.0, 5.0, 0.0, 0.0]
    assert Domain(labels).derivative(x, 2).flatten().tolist() == [0.0] * 5


def test_a_diagonal_neighbour_of_equal_label_counts_even_where_the_sides_are_closed():
    labels = torch.tensor([[[0, 1], [1, 0]]])
    x = torch.tensor([[[[0.0, 5.0], [9.0, 2.0]]]])
    down_right = Domain(labels).derivative(x, 3).abs().flatten()
    torch.testing.assert_close(down_right, torch.tensor([2 / sqrt(2), 0, 0, 2 / sqrt(2)]))


def test_derivative_reads_nothing_from_other_regions_not_even_nan():
    labels = torch.tensor([[[0, 0, 0], [0, 1, 1], [-1, 1, 1]]])
    x = torch.rand(1, 2, 3, 3)
    spoilt = torch.where(labels[:, None] == 0, x, float("nan"))
    for angle in range(len(DIRECTIONS)):
        clean, dirty = (Domain(labels).derivative(image, angle)[:, :, labels[0] == 0] for image in (x, spoilt))
        assert torch.equal(clean, dirty)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2, 3, 9, 11), (1, 2, 4, 1, 7), (1, 5, 7, 1), (1, 1, 1, 1), (2, 2, 3, 2, 2)])
@pytest.mark.parametrize("angle", range(4))
def test_the_compiled_derivative_is_the_recorded_one_bit_for_bit(dtype, shape, angle):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator, dtype=dtype)
    labels = torch.randint(-1, 2, (shape[0], *shape[-2:]), generator=generator)
    recorded = Domain(labels, dtype).derivative(x, angle)
    with torch.no_grad():
        assert torch.equal(Domain(labels, dtype).derivative(x, angle), recorded)
        wide = x.expand(shape[0], *shape[1:]) if len(shape) == 4 else x.transpose(1, 2)  # other strides
        strided = Domain(labels, dtype).derivative(wide, angle)
    assert torch.equal(strided, recorded if len(shape) == 4 else recorded.transpose(1, 2))


def test_without_gradients_forward_derivatives_still_pass_through():
    labels = torch.zeros(1, 4, 5, dtype=torch.long)
    x, direction = torch.rand(1, 2, 4, 5), torch.rand(1, 2, 4, 5)
    domain = Domain(labels)
    with torch.no_grad():
        _, tangent = torch.func.jvp(lambda u: domain.derivative(u, 0), (x,), (direction,))
        torch.testing.assert_close(tangent, domain.derivative(direction, 0))


def test_heat_is_repeated_implicit_euler_steps_near_the_matrix_exponential():
    torch.manual_seed(0)
    labels = torch.tensor([[[0, 0, 1], [0, 1, 1], [0, 0, -1]]])
    x = torch.rand(1, 2, 3, 3, dtype=torch.float64)
    domain = Domain(labels, torch.float64, tol=1e-12, pde="heat")
    alphas = torch.tensor([0.1, 0.7], dtype=torch.float64)
    several = domain.smooth(x, alphas[:, None])
    for u, alpha in zip(several.unbind(1), alphas, strict=True):
        torch.testing.assert_close(u, domain.smooth(x, alpha))
        step = operator_matrix(domain.edges, float(alpha) / HEAT_STEPS)[0]
        inside = torch.where(labels >= 0, x, 0).flatten(2)
        euler = inside @ torch.linalg.matrix_power(torch.linalg.inv(step), HEAT_STEPS)
        torch.testing.assert_close(u.flatten(2), euler, rtol=1e-9, atol=1e-9)
    exact = inside @ torch.matrix_exp(-(operator_matrix(domain.edges, 0.1)[0] - torch.eye(9).double()))
    assert (several[:, 0].flatten(2) - exact).abs().max() < 0.01


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("remembered", [False, True])
def test_compiled_sums_of_values_and_derivatives_are_the_recorded_ones(images, remembered):
    torch.manual_seed(0)
    labels = torch.randint(-1, 2, (images, 9, 7))
    domain = Domain(labels, memory=Memory() if remembered else None)
    x, u = torch.randn(images, 6, 9, 7), torch.randn(images, 2, 4, 9, 7)
    expected, stacked = domain.divergence(x), domain.gradient(u)
    with torch.no_grad():
        given = x.clone()
        torch.testing.assert_close(domain.divergence(given), expected)
        assert torch.equal(given, x) == remembered
        assert torch.equal(domain.gradient(u), stacked)
