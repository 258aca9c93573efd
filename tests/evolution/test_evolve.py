from __future__ import annotations

import numpy as np
import pytest
import torch

from gallery import TURNS
from shapetailor.evolution.config import EvolutionConfig
from shapetailor.evolution.evolve import evolve, shape_gradient
from shapetailor.evolution.region_costs import Tailor
from shapetailor.labels import boundary_length, boxes
from shapetailor.network.describer import Descriptors
from shapetailor.network.stdnn import STDNN, STDNNConfig
from shapetailor.poisson import Edges, edges_of


def gray_values(image, labels):
    """The simplest descriptors: gray values inside the regions."""
    return torch.where(labels[:, None] >= 0, image, 0)


class Counted:
    """Descriptors that remember what they were asked for."""

    def __init__(self, descriptors=gray_values):
        self.descriptors, self.asked = descriptors, []

    def __call__(self, image, labels):
        self.asked.append(labels.numpy().copy())
        return self.descriptors(image, labels)


def tensor(gray):
    return torch.from_numpy(np.ascontiguousarray(gray, dtype=np.float32))[None, None]


def strips(width, *ends, height=24):
    """Vertical strips 0, 1, ... that end before the given columns; the last ends with the picture."""
    return np.tile(np.searchsorted(ends, np.arange(width), side="right"), (height, 1)).astype(np.int64)


def noisy(labels, levels, noise=0.1, seed=0):
    gray = np.asarray(levels, float)[np.maximum(labels, 0)]
    return gray + noise * np.random.default_rng(seed).standard_normal(labels.shape)


def blob(size=40):
    y, x = np.mgrid[:size, :size]
    return ((x - 17.3) ** 2 + 1.7 * (y - 22.1) ** 2 < 90).astype(np.int64)


def tiny_network(dtype=torch.float64, **options):
    torch.manual_seed(0)
    small = {"image_channels": 1, "widths": (6, 4), "scales": (1.0, 4.0), "alpha": 2.0, "tol": 1e-10}
    net = STDNN(STDNNConfig(**{**small, **options})).to(dtype)
    net.backend = "dense"
    return net


def run(gray, start, config=None, descriptors=gray_values, **options):
    return evolve(tensor(gray), start, descriptors, config, **options)


@pytest.mark.parametrize(("move", "step"), [(1.0, 1), (2.0, 2)])
def test_a_straight_boundary_moves_by_the_displacement_asked_for_and_arrives(move, step):
    truth, start, edges = strips(40, 24), strips(40, 8), []
    result = run(
        truth,
        start,
        EvolutionConfig(move=move, reach=4),
        callback=lambda _, labels, __: edges.append(np.unique(labels.argmax(axis=1)).tolist()),
    )
    assert edges == [[x] for x in range(8, 25, step)]
    np.testing.assert_array_equal(result.labels, truth)
    assert result.converged
    assert result.iterations == 16 // step


def test_blocks_of_pixels_are_the_unit_of_displacement():
    truth, edges = strips(48, 32), []
    run(truth, strips(48, 8), align=4, callback=lambda _, labels, __: edges.append(int(labels[0].argmax())))
    assert edges[:4] == [8, 12, 16, 20]
    assert edges[-1] == 32


@pytest.mark.parametrize("regions", [2, 3, 5])
def test_the_energy_never_rises_and_there_is_one_for_each_iteration(regions):
    truth = strips(48, *np.linspace(0, 48, regions, endpoint=False)[1:].astype(int), height=48)
    result = run(noisy(truth, np.linspace(0, 1, regions), 0.05), boxes((48, 48), regions))
    assert len(result.energy) == result.iterations + 1 > 5
    assert (np.diff(result.energy) <= 0).all()
    assert result.energy[-1] < 0.5 * result.energy[0]


def test_a_blob_is_found_from_boxes():
    truth = blob()
    result = run(noisy(truth, (0.2, 0.8)), boxes(truth.shape, 2))
    wrong = np.mean(result.labels != truth)
    assert min(wrong, 1 - wrong) < 0.01
    assert result.converged


def test_the_reported_energy_is_that_of_the_paper():
    start = boxes((24, 24), 2)
    gray = noisy(start, (0.3, 0.6), 0.2).astype(np.float32)
    result = run(gray, start, EvolutionConfig(iterations=0, beta=0.3))
    within = [np.square(gray[start == i] - gray[start == i].mean(dtype=np.float64)) for i in (0, 1)]
    length = 0.3 * np.median(np.concatenate(within)) * boundary_length(start)
    assert result.energy == pytest.approx([sum(part.sum() for part in within) + length], rel=1e-5)


def test_regions_that_are_right_stay_and_have_converged_without_a_step():
    truth = strips(32, 16)
    result = run(noisy(truth, (0, 1), 0.01), truth)
    np.testing.assert_array_equal(result.labels, truth)
    assert result.converged
    assert result.iterations == 0


def test_iterations_that_run_out_are_no_convergence():
    result = run(strips(40, 24), strips(40, 8), EvolutionConfig(iterations=3))
    assert result.iterations == 3
    assert not result.converged


def test_a_longer_boundary_costs_more_with_a_larger_beta():
    truth = blob()
    gray = noisy(truth, (0.4, 0.6), 0.15)
    lengths = [boundary_length(run(gray, truth, EvolutionConfig(beta=beta)).labels) for beta in (0.0, 1.0)]
    assert lengths[1] < lengths[0]


def test_curvature_straightens_a_boundary_that_the_descriptors_leave_free():
    gray = noisy(strips(64, 24, 40, height=32), (0.0, 0.5, 1.0), 0.01)
    start = strips(64, 32, height=32)
    start[4:12, 32:36], start[20:28, 28:32] = 0, 1  # bumps where both regions fit equally
    result = run(gray, start, EvolutionConfig(beta=0.5))
    assert boundary_length(result.labels) == boundary_length(strips(64, 32, height=32))


def test_the_callback_sees_every_iteration_with_its_labels_and_energy():
    seen = []
    result = run(strips(40, 12), strips(40, 8), callback=lambda *what: seen.append(what))
    assert [iteration for iteration, _, _ in seen] == [0, 1, 2, 3, 4]
    assert [energy for _, _, energy in seen] == result.energy
    for column, (_, labels, _) in zip(range(8, 13), seen, strict=True):
        np.testing.assert_array_equal(labels, strips(40, column))


@pytest.mark.parametrize("last", [0, 1, 5])
def test_the_callback_stops_the_run_by_returning_true(last):
    result = run(strips(40, 24), strips(40, 8), callback=lambda iteration, _, __: iteration == last)
    np.testing.assert_array_equal(result.labels, strips(40, 8 + last))
    assert not result.converged


def test_the_start_is_left_as_it_was():
    start = strips(40, 8)
    run(strips(40, 24), start)
    np.testing.assert_array_equal(start, strips(40, 8))


def test_marked_pixels_never_change():
    truth, start = strips(40, 24), strips(40, 8)
    marks = np.full(truth.shape, -1)
    marks[5:8, 10:14], marks[15:18, 30:33] = 1, 0  # both against the gray values
    seen = []
    result = run(truth, start, fixed=marks, callback=lambda _, labels, __: seen.append(labels.copy()))
    for labels in [*seen, result.labels]:
        np.testing.assert_array_equal(labels[marks >= 0], marks[marks >= 0])
    np.testing.assert_array_equal(result.labels[20:], truth[20:])


def test_marks_hold_from_the_start_on_even_where_they_raise_the_energy():
    truth = strips(32, 16)
    marks = np.full(truth.shape, -1)
    marks[3, 3] = 1
    result = run(truth, truth, EvolutionConfig(iterations=0), fixed=marks)
    assert result.labels[3, 3] == 1


def test_marks_may_name_a_region_that_the_start_has_not():
    truth = strips(40, 24)
    marks = np.full(truth.shape, -1)
    marks[:, 36:] = 1
    result = run(truth, np.zeros_like(truth), fixed=marks)
    np.testing.assert_array_equal(result.labels, truth)


@pytest.mark.parametrize("weak", [0.1, 0.3, 0.5])
def test_a_boundary_of_little_contrast_moves_beside_one_of_much(weak):
    truth = strips(60, 20, 40)
    result = run(noisy(truth, (0.0, weak, 1.0), 0.01), strips(60, 12, 40))
    np.testing.assert_array_equal(result.labels, truth)
    assert (np.diff(result.energy) <= 0).all()


def test_a_vanished_region_is_named_and_the_others_keep_their_numbers():
    truth = strips(40, 24)
    result = run(noisy(truth, (0.2, 0.8), 0.02), strips(40, 22, 26))  # the middle one is half of each
    assert result.vanished == (1,)
    np.testing.assert_array_equal(result.labels, 2 * truth)


def test_negative_labels_stay_outside_and_do_not_matter():
    truth, start = strips(40, 24), strips(40, 8)
    gray = noisy(truth, (0.2, 0.8), 0.02)
    hole = np.zeros(truth.shape, bool)
    hole[8:14, 4:36] = True
    outcomes = [
        run(np.where(hole, filling, gray), np.where(hole, -1, start), EvolutionConfig(beta=0.0))
        for filling in (0.0, 50.0)
    ]
    for result in outcomes:
        np.testing.assert_array_equal(result.labels, np.where(hole, -1, truth))
        assert result.vanished == ()
    assert outcomes[0].energy == outcomes[1].energy


def test_one_region_has_nothing_to_do():
    result = run(np.random.default_rng(0).random((12, 10)), np.zeros((12, 10), np.int64))
    assert result.converged
    assert (result.labels == 0).all()


def test_boxes_change_nothing_for_descriptors_that_do_not_leak():
    net, truth = tiny_network(), strips(32, 20, height=11)
    image = net.prepare(tensor(noisy(truth, (0.2, 0.8))).double())
    config = EvolutionConfig(iterations=4)
    whole, boxed = (evolve(image, strips(32, 11, height=11), net, config, align=align) for align in (0, 1))
    np.testing.assert_array_equal(whole.labels, boxed.labels)
    np.testing.assert_allclose(whole.energy, boxed.energy, rtol=1e-5)
    assert whole.iterations == 4


def test_descriptors_are_asked_for_in_the_dilated_regions_side_by_side():
    counted, start = Counted(), strips(40, 10)
    run(start, start, EvolutionConfig(iterations=0, reach=3), counted)
    (asked,) = counted.asked
    assert [np.count_nonzero(asked == i) for i in (0, 1)] == [24 * 33, 24 * 13]


def test_large_regions_are_asked_for_alone_in_their_boxes():
    counted, start = Counted(), strips(40, 5, 10)
    Tailor(tensor(start), Descriptors(counted), 3, largest_canvas=24 * 12).start(start)
    assert sorted(each.shape for each in counted.asked) == [(1, 24, 8), (1, 24, 11), (1, 24, 33)]


def test_a_region_that_did_not_change_is_not_computed_again():
    counted = Counted()
    truth, start = strips(60, 20, 40), strips(60, 12, 40)
    result = run(0.5 * truth, start, descriptors=counted)
    np.testing.assert_array_equal(result.labels, truth)
    asked = [len(np.unique(each[each >= 0])) for each in counted.asked]
    assert asked == [3] + [2] * result.iterations


def test_descriptors_that_are_not_tailored_are_computed_once_from_the_whole_image():
    counted = Counted()
    truth = strips(40, 24)
    result = run(truth, strips(40, 8), EvolutionConfig(tailored=False), counted)
    assert len(counted.asked) == 1
    assert counted.asked[0].shape == (1, *truth.shape)
    assert (counted.asked[0] == 0).all()
    np.testing.assert_array_equal(result.labels, truth)


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_turn_the_image_and_the_regions_move_with_it(turn):
    truth = blob()
    gray, start = noisy(truth, (0.3, 0.7)), boxes((40, 40), 2)
    straight, turned = run(gray, start), run(turn(gray), np.ascontiguousarray(turn(start)))
    np.testing.assert_array_equal(turned.labels, turn(straight.labels))


def test_shift_the_image_and_the_regions_move_with_it():
    truth, start = blob(), np.fliplr(blob())
    gray = noisy(truth, (0.3, 0.7), 0.05)
    # The same content at two places of a wider picture.
    frames = (((8, 2), (5, 9)), ((2, 8), (9, 5)))
    outcomes = [
        run(np.pad(gray, frame, constant_values=0.3), np.pad(start, frame), EvolutionConfig(iterations=20)).labels
        for frame in frames
    ]
    np.testing.assert_array_equal(outcomes[0][8:48, 5:45], outcomes[1][2:42, 9:49])
    assert np.mean(outcomes[0][8:48, 5:45] != truth) < 0.02


def test_the_shape_gradient_is_the_derivative_in_an_edges_conductance():
    net = tiny_network()
    truth = strips(10, 6, height=10)
    image = net.prepare(tensor(noisy(truth, (0.3, 0.7))).double())
    labels = strips(10, 4, height=10)
    found = shape_gradient(image, labels, net)
    maps = torch.from_numpy(labels)[None]
    closed = edges_of(maps, torch.float64)

    def energy(axis, y, x, change):
        across, down = closed.across.clone(), closed.down.clone()
        (across, down)[axis][0, y, x] += change
        with torch.no_grad():
            features = net(image, maps, edges=Edges(across, down, closed.inside))[0]
        parts = [features[:, maps[0] == i] for i in (0, 1)]
        return sum(float((part - part.mean(1, keepdim=True)).square().sum()) for part in parts)

    scale = np.abs(found).max()
    assert scale > 1e-6
    # Two closed edges of the boundary, from above only, and three open ones.
    for axis, y, x in ((0, 2, 3), (0, 7, 3), (0, 4, 2), (0, 4, 4), (1, 5, 4)):
        h = 1e-4
        e0, e1, e2 = (energy(axis, y, x, step * h) for step in (0, 1, 2))
        assert found[axis, y, x] == pytest.approx((4 * e1 - e2 - 3 * e0) / (2 * h), abs=1e-5 * scale, rel=1e-4)


def test_the_exact_gradient_finds_the_regions_too_with_a_falling_energy():
    net = tiny_network()
    truth = strips(20, 12, height=16)
    image = net.prepare(tensor(noisy(truth, (0.2, 0.8), 0.05)).double())
    result = evolve(image, strips(20, 7, height=16), net, EvolutionConfig(gradient="exact", iterations=12))
    assert result.iterations >= 3
    assert (np.diff(result.energy) <= 0).all()
    assert np.mean(result.labels != truth) < 0.1


def test_the_exact_gradient_leads_another_way_than_the_papers():
    net, truth = tiny_network(), strips(20, 12, height=16)
    image = net.prepare(tensor(noisy(truth, (0.3, 0.7), 0.2)).double())
    outcomes = [
        evolve(image, strips(20, 7, height=16), net, EvolutionConfig(gradient=gradient, iterations=4))
        for gradient in ("paper", "exact")
    ]
    assert outcomes[0].energy[0] == outcomes[1].energy[0]
    assert outcomes[0].energy != outcomes[1].energy


def test_the_exact_gradient_of_a_network_with_a_stride_is_refused():
    net = tiny_network(stride=2)
    image = net.prepare(torch.rand(1, 1, 16, 16, dtype=torch.float64))
    with pytest.raises(ValueError, match="edges are for networks of stride 1, this one's is 2"):
        evolve(image, boxes((16, 16), 2), net, EvolutionConfig(gradient="exact"), align=2)


@pytest.mark.parametrize("beta", [1.0, 4.0, 16.0])
def test_a_large_beta_does_not_stall(beta):
    truth = blob()
    gray, start = noisy(truth, (0.4, 0.6), 0.15), boxes(truth.shape, 2)
    result = run(gray, start, EvolutionConfig(beta=beta))
    assert result.iterations >= 5
    assert (np.diff(result.energy) <= 0).all()
    assert result.energy[-1] < 0.7 * result.energy[0]


def test_a_strong_beta_finds_in_noise_what_a_weak_one_does_not():
    truth = blob()
    gray, start = noisy(truth, (0.4, 0.6), 0.15), boxes(truth.shape, 2)
    wrong = [np.mean(run(gray, start, EvolutionConfig(beta=beta)).labels != truth) for beta in (0.1, 8.0)]
    assert min(wrong[0], 1 - wrong[0]) > 0.3
    assert min(wrong[1], 1 - wrong[1]) < 0.03


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"move": 2.0}, "move must be more than 0 and less than reach, 2; got 2.0"),
        ({"move": 0.0}, "move must be more than 0"),
        ({"reach": 0}, "reach must be a whole number from 1 on, got 0"),
        ({"reach": 2.5}, "reach must be a whole number from 1 on, got 2.5"),
        ({"beta": -1.0}, "beta must be finite and not negative, got -1.0"),
        ({"beta": float("nan")}, "beta must be finite"),
        ({"iterations": -1}, "iterations must be a whole number from 0 on, got -1"),
        ({"gradient": "none"}, "gradient must be one of .* got 'none'"),
    ],
)
def test_settings_that_make_no_sense_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        EvolutionConfig(**options)


@pytest.mark.parametrize("stride", [1, 2])
def test_regions_on_one_canvas_are_described_as_if_alone(stride):
    net, start = tiny_network(features="rich", stride=stride), boxes((14, 17), 5, per_side=5)
    image = net.prepare(torch.rand(1, 1, 14, 17, generator=torch.Generator().manual_seed(0)).double())
    found = [Tailor(image, net.descriptors, 2 * stride, largest_canvas=largest).start(start) for largest in (2**20, 0)]
    for i, alone in found[1].items():
        np.testing.assert_array_equal(found[0][i].band, alone.band)
        np.testing.assert_allclose(found[0][i].cost, alone.cost, rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(found[0][i].own, alone.own, rtol=1e-4, atol=1e-7)


def test_descriptors_of_blocks_are_compared_like_those_of_pixels():
    net, start = tiny_network(features="rich", stride=3), boxes((14, 17), 3, per_side=4)
    image = net.prepare(torch.rand(1, 1, 14, 17, generator=torch.Generator().manual_seed(0)).double())
    blocks, pixels = (Tailor(image, each, 6).start(start) for each in (net.descriptors, Descriptors(net, 3)))
    for i, region in pixels.items():
        np.testing.assert_allclose(blocks[i].cost, region.cost, rtol=1e-5, atol=1e-9)
        assert blocks[i].within == pytest.approx(region.within, rel=1e-6)
