"""The paper's two theorems on small problems: covariance (`thrm:covariance`) and robustness (`thrm:robustness`).

What holds, and of what: the Poisson solve and pointwise maps are covariant to rotations in the continuum, and so are
descriptors of colour and gray. The oriented gradients of the first layer are so only for turns that permute their
four directions (multiples of 45°) and for weights that treat the directions alike.
"""

from itertools import pairwise

import numpy as np
import pytest
import torch

from gallery import squared_sobolev_norm
from shapetailor import smooth
from shapetailor.experiments.warps import Warp, random_deformation
from shapetailor.network.stdnn import STDNN, STDNNConfig

SYMMETRIES = [
    pytest.param(lambda x, k=k, f=f: (x.flip(-1) if f else x).rot90(k, (-2, -1)), id=f"{90 * k}{' mirrored' * f}")
    for k in range(4)
    for f in (False, True)
]
GRADIENTS = slice(4, 8)  # of the paper's channels: three colours, gray, four directions


def network(gradients, resolution=32, **config):
    """A network with random weights that reads its oriented gradients "alike", "not" at all, or "each" for itself.

    Whatever the resolution it does the same in units of the picture's side: alphas go with the square, and gradients,
    which count a pixel's side, are divided by what they shrink with.
    """
    torch.manual_seed(0)
    base = STDNNConfig(tol=1e-8, alpha_rule="square", resolution=32, **config)
    net = STDNN(base).double()
    weight = net.layers[0].weight.data.unflatten(1, (len(base.scales), base.channels))
    if gradients == "alike":
        weight[..., GRADIENTS] = weight[..., GRADIENTS].mean(dim=2, keepdim=True)
    elif gradients == "not":
        weight[..., GRADIENTS] = 0
    gradient_scale = 8 / resolution
    net.set_statistics(torch.zeros(8), torch.tensor([1.0] * 4 + [gradient_scale] * 4))
    return net.rescaled(resolution)


def describe(net, image, labels):
    with torch.no_grad():
        return net(torch.as_tensor(image)[None], torch.as_tensor(labels)[None])[0].numpy()


def two_regions(side):
    row, column = np.indices((side, side))
    return ((row - 0.4 * side) ** 2 + 2 * (column - 0.55 * side) ** 2 < (0.3 * side) ** 2).astype(np.int64)


@pytest.mark.parametrize("turn", SYMMETRIES)
def test_descriptors_follow_the_symmetries_of_the_grid(turn):
    image = torch.from_numpy(np.random.default_rng(0).standard_normal((3, 20, 20)))
    labels = torch.from_numpy(two_regions(20))
    net = network("alike")
    expected = turn(torch.from_numpy(describe(net, image, labels))).numpy()
    assert expected.std() > 0.01
    np.testing.assert_allclose(describe(net, turn(image), turn(labels)), expected, atol=1e-9)


def test_descriptors_follow_a_region_that_is_moved():
    rng = np.random.default_rng(1)
    patch = rng.standard_normal((3, 12, 10))
    found = []
    for top, left in ((0, 0), (7, 13)):
        image, labels = rng.standard_normal((3, 24, 28)), np.full((24, 28), -1)
        place = np.s_[..., top : top + 12, left : left + 10]
        image[place], labels[place] = patch, 0
        found.append(describe(network("each"), image, labels)[place])
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)


def scene(y, x):
    """Colours of a smooth scene, at points in units of the picture's side from its centre."""
    waves = [np.sin(9 * x + 4 * y), np.cos(7 * y - 5 * x + 1), np.sin(11 * x) * np.cos(6 * y)]
    return np.stack(waves)


def shape_of(y, x):
    """An ellipse off the centre: -1 outside."""
    return np.where((y - 0.05) ** 2 / 0.3**2 + (x + 0.03) ** 2 / 0.2**2 < 1, 0, -1)


def covariance_error(gradients, angle, side):
    """Root mean square of F[I∘w] − F[I]∘w in the turned region, against that of F[I] about its mean."""
    net = network(gradients, side)
    y, x = (np.indices((side, side)) - (side - 1) / 2) / side
    c, s = np.cos(angle), np.sin(angle)
    turned_y, turned_x = c * y + s * x, -s * y + c * x
    still = describe(net, scene(y, x), shape_of(y, x))
    turned = describe(net, scene(turned_y, turned_x), shape_of(turned_y, turned_x))
    w = Warp(np.stack([turned_y, turned_x]) * side + (side - 1) / 2, (side, side))
    # Points whose four neighbours all lie in the region: elsewhere interpolation itself would take from outside.
    inside = (shape_of(turned_y, turned_x) == 0) & (w.image((shape_of(y, x) == 0).astype(float)) > 1 - 1e-9)
    error = (turned - w.image(np.moveaxis(still, 0, 2)).transpose(2, 0, 1))[:, inside]
    region = still[:, shape_of(y, x) == 0]
    return np.sqrt(np.mean(error**2) / np.mean((region - region.mean(axis=1, keepdims=True)) ** 2))


@pytest.mark.parametrize(("gradients", "degrees"), [("not", 30), ("alike", 45)])
def test_the_error_of_a_turn_falls_as_resolution_grows(gradients, degrees):
    errors = [covariance_error(gradients, np.radians(degrees), side) for side in (24, 48, 96)]
    assert all(fine < 0.75 * coarse for coarse, fine in pairwise(errors)), errors
    assert errors[-1] < 0.02, errors


def test_four_directions_of_gradients_leave_an_error_under_30_degrees_that_does_not_fall():
    errors = [covariance_error("each", np.radians(30), side) for side in (24, 48, 96)]
    assert min(errors) > 0.2, errors


def deformed(texture, warp, amount):
    """A texture, given at every point, seen through the warp whose displacement is `amount` times the given one."""
    grid = np.indices(warp.shape)
    return texture(*(grid + amount * warp.displacement))


def texture_of(seed, wavelength):
    """A rough texture of values in −1..1: forty waves of about this wavelength, in pixels."""
    rng = np.random.default_rng(seed)
    angle, phase = rng.uniform(0, 2 * np.pi, (2, 40))
    frequency = 2 * np.pi / wavelength * rng.uniform(0.7, 1.3, 40)

    def texture(y, x):
        waves = np.cos(
            (frequency * np.sin(angle))[:, None, None] * y
            + (frequency * np.cos(angle))[:, None, None] * x
            + phase[:, None, None]
        )
        return np.tanh(waves.sum(axis=0) / 3)

    return texture


def rms(x):
    return float(np.sqrt(np.mean(np.square(x))))


@pytest.mark.parametrize("alpha", [5.0, 25.0, 100.0])
@pytest.mark.parametrize("wavelength", [3.0, 6.0, 20.0])
def test_smoothing_changes_by_at_most_the_theorems_constant_times_the_norm(alpha, wavelength):
    """The proof of `lem:layer_lipschitz_deform_supp` with its constant worked out for L² and the kernel of the PDE.

    By change of variables the change is ∫ [G(x−y) − G(x−w(y)) det ∇w(y)] I(w(y)) dy, to first order at most
    |∇G| ∗ |v| + G ∗ |div v| for |I| ≤ 1. In the plane G = K₀(r/√α)/2πα, so ‖∇G‖₁ = π/(2√α) and ‖G‖₁ = 1. With the
    coefficients of the series, rms |v| ≤ ‖v‖ and rms |div v| ≤ (2π/n)‖v‖.
    """
    side = 96
    constant = np.pi / (2 * np.sqrt(alpha)) + 2 * np.pi / side
    labels = torch.zeros(1, side, side, dtype=torch.long)
    for seed in range(4):
        texture = texture_of(seed, wavelength)
        warp = random_deformation((side, side), 1.0, np.random.default_rng(seed), terms=(2, 10)[seed % 2])
        for norm in (0.1, 0.5, 2.0):
            pair = np.stack([deformed(texture, warp, 0.0), deformed(texture, warp, norm)])[None]
            still, moved = smooth(torch.from_numpy(pair), labels, alpha, 1e-8)[0].numpy()
            assert rms(moved - still) <= constant * norm


def test_change_of_descriptors_grows_no_faster_than_the_norm():
    side, steps = 64, 2.0 ** np.arange(-6, 3)
    net, labels = network("each", 32), np.zeros((side, side), np.int64)
    ratios = []
    for seed in range(3):
        textures = [texture_of(10 * seed + channel, 8.0) for channel in range(3)]
        warp = random_deformation((side, side), 1.0, np.random.default_rng(seed))
        assert squared_sobolev_norm(warp.displacement) == pytest.approx(1)
        frames = [describe(net, np.stack([deformed(t, warp, a) for t in textures]), labels) for a in (0.0, *steps)]
        changes = np.array([rms(frame - frames[0]) for frame in frames[1:]])
        assert (changes[1:] <= 2.1 * changes[:-1]).all(), changes  # twice the deformation, at most twice the change
        ratios.append(changes / steps)
    # One constant for all: what the smallest deformations of one picture show bounds those of the others.
    assert np.max(ratios) < 1.5 * ratios[0][0], ratios
    assert np.max(ratios) > 1e-4  # and something does change
