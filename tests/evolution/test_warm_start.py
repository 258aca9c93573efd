from __future__ import annotations

import numpy as np
import torch

from shapetailor import STDNN
from shapetailor.evolution.region_costs import Solved, Tailor
from shapetailor.evolution.region_shape import boxes_of, shape_of, widened
from shapetailor.network import region_grid as domain
from shapetailor.network.checkpoint import load_model
from shapetailor.network.describer import Descriptors
from shapetailor.network.stdnn import STDNNConfig
from shapetailor.poisson import smooth

REACH = 2


def disc(radius, size=40, centre=(20, 18)):
    y, x = np.mgrid[:size, :size]
    return ((y - centre[0]) ** 2 + (x - centre[1]) ** 2 <= radius**2).astype(np.int64)


def shapes_of(labels):
    return {i: shape_of(labels, i, widened(box, REACH, labels.shape), REACH) for i, box in boxes_of(labels).items()}


def field(shape):
    """A solution that says where it is from: row and column of the picture."""
    rows, columns = np.mgrid[shape.box]
    return torch.from_numpy(np.stack([rows, columns])[None].astype(np.float32))


def test_pixels_keep_what_they_had_and_new_ones_have_what_their_nearest_had():
    before, after = shapes_of(disc(10))[1], shapes_of(disc(10.1))[1]
    solved = Solved()
    solved.keep(1, before, [field(before)])
    (guess,) = solved.guesses(1, after)
    here = field(after)[0].numpy()
    had, earlier = np.zeros((40, 40), bool), np.zeros((40, 40), bool)
    had[after.box], earlier[before.box] = after.dilated, before.dilated
    kept, new = (had & earlier)[after.box], (had & ~earlier)[after.box]
    assert new.any()
    np.testing.assert_array_equal(guess[0].numpy()[:, kept], here[:, kept])
    gap = np.abs(guess[0].numpy()[:, new] - here[:, new])
    assert gap.max() == 1.0


def test_a_box_that_grew_or_shrank_finds_its_pixels_again():
    small = shapes_of(disc(40, 120, (60, 58)))[1]
    for centre in ((60, 58.4), (60.4, 58), (59.7, 57.7)):
        other = shapes_of(disc(40.1, 120, centre))[1]
        for before, after in ((small, other), (other, small)):
            solved = Solved()
            solved.keep(1, before, [field(before), field(before)[:, None]])
            first, second = solved.guesses(1, after)
            assert torch.equal(first, second[:, 0])
            apart = np.abs(first[0].numpy() - field(after)[0].numpy())[:, after.dilated]
            assert apart.max() <= 2
            assert np.mean(apart.max(axis=0) == 0) > 0.9


def test_nothing_is_guessed_of_what_is_new_or_has_changed_much_or_was_asked_for_already():
    small, large = shapes_of(disc(6))[1], shapes_of(disc(12))[1]
    solved = Solved()
    assert solved.guesses(1, small) == []
    solved.keep(1, small, [field(small)])
    assert solved.guesses(2, small) == []
    assert solved.guesses(1, large) == []
    solved.keep(1, small, [])
    assert solved.guesses(1, small) == []
    solved.keep(1, small, [field(small)])
    assert len(solved.guesses(1, small)) == 1
    assert solved.guesses(1, small) == []


def network(**options):
    torch.manual_seed(0)
    return STDNN(STDNNConfig(image_channels=1, widths=(8, 5), scales=(20.0, 90.0), alpha=40.0, **options)).eval()


def picture(size=64):
    rng = np.random.default_rng(0)
    truth = disc(20, size, (32, 30))
    return torch.from_numpy((truth + 0.3 * rng.standard_normal((size, size))).astype(np.float32))[None, None], truth


def test_first_guesses_change_descriptors_by_no_more_than_the_tolerance_and_save_steps(monkeypatch):
    net = network(tol=1e-2)
    image, truth = picture()
    steps = []

    def counted(x, edges, alpha, tol, guess, backend):
        u, stats = smooth(x, edges, alpha, tol, guess=guess, backend=backend, return_stats=True)
        steps.append(stats.iterations)
        return u

    monkeypatch.setattr(domain, "smooth_trusted", counted)
    with torch.no_grad():
        image = net.prepare(image)
        other = image + 0.02 * torch.randn_like(image)
        labels = torch.from_numpy(truth)[None]
        expected = net(image, labels)
        cold = steps[:]
        _, solutions = net.warm(other, labels)
        steps.clear()
        found, again = net.warm(image, labels, solutions)
    assert len(solutions) == len(again) == len(cold) == len(steps)
    assert sum(steps) < 0.8 * sum(cold)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-2)


def test_solvers_that_take_no_guess_leave_no_solutions():
    net = network(tol=1e-4)
    net.backend = "torch"
    image, truth = picture(32)
    with torch.no_grad():
        found, solutions = net.warm(net.prepare(image), torch.from_numpy(truth)[None])
    assert solutions == []
    assert found.shape == (1, 5, 32, 32)


def test_regions_that_moved_are_described_from_their_last_solutions():
    net, _ = load_model("paper")
    image, _ = picture(96)
    given = []

    def warm(image, labels, guesses=()):
        given.append(len(guesses))
        return net.warm(image, labels, guesses)

    with torch.no_grad():
        image = net.prepare(image.expand(-1, 3, -1, -1))
    before, after = disc(30, 96, (48, 48)), disc(30, 96, (48, 49))
    found = []
    for descriptors in (Descriptors(net, warm=warm), Descriptors(net)):
        tailor = Tailor(image, descriptors, 2, largest_canvas=0)
        found.append(tailor.update(after, before, tailor.start(before)))
    assert given == [0, 0, 4, 0]  # of the disc, which is smaller, too much has changed
    for number, cold in found[1].items():
        np.testing.assert_allclose(found[0][number].cost, cold.cost, atol=0.05 * cold.cost.max())
