"""What a solution must satisfy, whichever backend found it."""

import pytest
import torch
from hypothesis import given, strategies

import shapetailor as st
from gallery import BACKENDS, NAMES, by_scipy, label_map, problems
from shapetailor.poisson import edges_of, laplacian
from shapetailor.poisson.cpu import checkerboard


def data(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype) + 1.5


@given(problems())
def test_agrees_with_scipys_direct_solver(problem):
    x, labels, alpha = problem
    u = st.smooth(x, labels, torch.tensor(alpha, dtype=torch.float64), tol=1e-10)
    torch.testing.assert_close(u, by_scipy(x, labels, alpha), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("alpha", [0.3, 20.0, 3000.0, 1e5])
@pytest.mark.parametrize("name", NAMES)
def test_every_backend_agrees_with_scipy(name, alpha):
    labels = label_map(name)[None]
    x = data(1, 2, 17, 13)
    expected = by_scipy(x, labels, [alpha] * 2)
    for backend in BACKENDS:
        if backend == "torch" and alpha > 1e4:
            continue  # takes 10⁴ steps; the next test does it, to float32's precision
        u = st.smooth(x, labels, alpha, tol=1e-9, backend=backend)
        torch.testing.assert_close(u, expected, rtol=1e-7, atol=1e-7, msg=lambda text, name=backend: f"{name}: {text}")


@pytest.mark.parametrize("alpha", [0.3, 20.0, 3000.0, 1e5])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["disc", "noise with outside"])
def test_float32_reaches_its_tolerance_at_every_alpha(name, backend, alpha):
    labels = label_map(name)[None]
    x = data(1, 2, 17, 13, dtype=torch.float32)
    u, stats = st.smooth(x, labels, alpha, tol=1e-4, backend=backend, return_stats=True)
    assert u.dtype == torch.float32
    assert stats.converged
    torch.testing.assert_close(u.double(), by_scipy(x, labels, [alpha] * 2), rtol=1e-4, atol=3e-4)


@pytest.mark.parametrize("backend", ["auto", "multigrid", "torch", "dense"])
def test_several_scales_in_one_call_equal_one_call_each(backend):
    labels, x = label_map("disc")[None], data(1, 2, 17, 13)
    alphas = torch.tensor([[0.0, 1.0], [5.0, 30.0], [300.0, 9000.0]], dtype=torch.float64)
    together = st.smooth(x, labels, alphas, tol=1e-10, backend=backend)
    assert together.shape == (1, 3, 2, 17, 13)
    for row, alpha in zip(together[0], alphas, strict=True):
        torch.testing.assert_close(row[None], st.smooth(x, labels, alpha, tol=1e-10), rtol=1e-8, atol=1e-8)


@given(strategies.integers(1, 3000), strategies.integers(1, 3000))
def test_planes_hold_the_picture_and_lie_apart_in_the_cache(height, width):
    pitch, rows, size = checkerboard.layout(height, width)
    assert 2 * pitch >= width
    assert 2 * rows >= height
    assert size >= (rows + 2) * pitch
    for itemsize in (4, 8):
        assert size * itemsize % 64 == 0
        assert size * itemsize % 4096 != 0


def test_images_of_a_batch_have_their_own_label_maps():
    labels = torch.stack([label_map("disc"), label_map("noise")])
    x = data(2, 1, 17, 13)
    u = st.smooth(x, labels, 50.0, tol=1e-10)
    for image in range(2):
        alone = st.smooth(x[image : image + 1], labels[image : image + 1], 50.0, tol=1e-10)
        assert torch.equal(u[image], alone[0])


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 2)])
@pytest.mark.parametrize("alpha", [3.0, 1e4])
def test_thin_images(shape, alpha):
    x, labels = data(1, 1, *shape), torch.zeros(1, *shape, dtype=torch.int32)
    u = st.smooth(x, labels, alpha, tol=1e-10)
    torch.testing.assert_close(u, by_scipy(x, labels, [alpha]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("alpha", [0.0, 5.0, 1e5])
@pytest.mark.parametrize("name", NAMES)
def test_constants_are_preserved(name, alpha):
    labels = label_map(name)[None]
    x = torch.full((1, 1, 17, 13), 3.25)
    u = st.smooth(x, labels, alpha)
    torch.testing.assert_close(u[0, 0], torch.where(labels[0] >= 0, 3.25, 0.0), rtol=1e-6, atol=0)


@given(problems())
def test_each_regions_sum_is_preserved(problem):
    x, labels, alpha = problem
    u = st.smooth(x, labels, torch.tensor(alpha, dtype=torch.float64), tol=1e-6)
    for label in labels.unique():
        inside = (labels == label)[:, None]
        expected = (x * inside).sum(dim=(2, 3)) if label >= 0 else torch.zeros(x.shape[:2], dtype=x.dtype)
        torch.testing.assert_close((u * inside).sum(dim=(2, 3)), expected, rtol=1e-4, atol=1e-4)


@given(problems())
def test_maximum_principle(problem):
    x, labels, alpha = problem
    u = st.smooth(x, labels, torch.tensor(alpha, dtype=torch.float64), tol=1e-10)
    for image, lab in enumerate(labels):
        for label in lab.unique():
            if label >= 0:
                region = lab == label
                assert u[image, :, region].amax() <= x[image, :, region].amax() + 1e-8
                assert u[image, :, region].amin() >= x[image, :, region].amin() - 1e-8


@given(problems())
def test_the_solve_is_symmetric(problem):
    x, labels, alpha = problem
    a = torch.tensor(alpha, dtype=torch.float64)
    y = data(*x.shape, seed=3) * (labels >= 0)[:, None]
    x = x * (labels >= 0)[:, None]
    left, right = st.smooth(x, labels, a, tol=1e-11), st.smooth(y, labels, a, tol=1e-11)
    torch.testing.assert_close((left * y).sum(), (x * right).sum(), rtol=1e-8, atol=1e-8)


def test_the_operator_is_the_contracts_own():
    labels = label_map("noise with outside")[None]
    edges = edges_of(labels, torch.float64)
    u = data(1, 1, 17, 13)
    from gallery import matrix

    expected = matrix(labels[0].numpy()) @ u.numpy().ravel()
    torch.testing.assert_close(laplacian(u, edges.across, edges.down).ravel(), torch.from_numpy(expected))


@pytest.mark.parametrize("guess", [False, True])
@pytest.mark.parametrize("alpha", [4.0, 60.0, 5e3])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["disc", "noise", "with outside"])
def test_no_leak_changing_one_region_leaves_the_others_bit_identical(name, backend, alpha, guess):
    labels = label_map(name)[None]
    x = data(1, 3, 17, 13, dtype=torch.float32)
    start = x.roll(1, 3) if guess else None
    before = st.smooth(x, labels, alpha, tol=1e-3, backend=backend, guess=start)
    changed = torch.where(labels[:, None] == 1, x * 1e4 - 17.0, x)
    after = st.smooth(changed, labels, alpha, tol=1e-3, backend=backend, guess=start)
    others = (labels != 1)[0]
    assert torch.equal(before[:, :, others], after[:, :, others])
    assert not torch.equal(before, after)


def test_nothing_outside_the_regions_matters_not_even_nan():
    labels, x = label_map("with outside")[None], data(1, 1, 17, 13)
    spoiled = torch.where(labels[:, None] < 0, torch.nan, x)
    for alpha in (5.0, 1e4):
        assert torch.equal(st.smooth(spoiled, labels, alpha), st.smooth(x, labels, alpha))


def rotations():
    return [lambda t, k=k, f=f: (t.flip(-1) if f else t).rot90(k, (-2, -1)) for k in range(4) for f in (False, True)]


@pytest.mark.parametrize("turn", rotations())
def test_flips_and_rotations_are_followed_to_the_bit(turn):
    labels = label_map("disc", 19, 14)[None]
    x = torch.randint(-9, 9, (1, 2, 19, 14)).float()  # integers: the regions' means are the same in any order
    u = st.smooth(x, labels, 7.0, backend="torch")
    assert torch.equal(st.smooth(turn(x), turn(labels), 7.0, backend="torch"), turn(u))


@pytest.mark.parametrize("alpha", [7.0, 2000.0])
@pytest.mark.parametrize("turn", rotations())
def test_flips_and_rotations_are_followed_by_every_backend(turn, alpha):
    labels, x = label_map("disc", 19, 14)[None], data(1, 2, 19, 14)
    u = st.smooth(x, labels, alpha, tol=1e-11)
    torch.testing.assert_close(st.smooth(turn(x), turn(labels), alpha, tol=1e-11), turn(u), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("backend", ["chebyshev", "torch"])
def test_shifts_are_followed_to_the_bit(backend):
    labels = torch.full((1, 24, 30), -1)
    labels[:, 4:12, 3:14] = label_map("noise", 8, 11)
    x = torch.where(labels[:, None] >= 0, torch.randint(-9, 9, (1, 1, 24, 30)).float(), 0.0)
    u = st.smooth(x, labels, 12.0, backend=backend)
    for shift in ((6, 0), (0, 10), (8, 12)):  # even: the compiled one works on a checkerboard
        moved = st.smooth(x.roll(shift, (2, 3)), labels.roll(shift, (1, 2)), 12.0, backend=backend)
        assert torch.equal(moved, u.roll(shift, (2, 3)))
    for shift in ((5, 0), (0, 9), (7, 11)):
        moved = st.smooth(x.roll(shift, (2, 3)), labels.roll(shift, (1, 2)), 12.0, backend=backend)
        torch.testing.assert_close(moved, u.roll(shift, (2, 3)), rtol=0, atol=0 if backend == "torch" else 1e-3)


def test_solving_in_a_bounding_box_gives_the_same_bits():
    labels = torch.full((1, 24, 30), -1)
    labels[:, 6:14, 4:15] = label_map("noise", 8, 11)
    x = torch.randint(-9, 9, (1, 1, 24, 30)).float()
    whole = st.smooth(x, labels, 12.0)
    box = st.smooth(x[:, :, 6:14, 4:15], labels[:, 6:14, 4:15], 12.0)
    assert torch.equal(whole[:, :, 6:14, 4:15], box)


@pytest.mark.parametrize("alpha", [12.0, 2000.0])
def test_a_good_first_guess_saves_steps_and_the_solution_saves_them_all(alpha):
    labels, x = label_map("disc", 40, 33)[None], data(1, 2, 40, 33)
    u, cold = st.smooth(x, labels, alpha, return_stats=True)
    near, warm = st.smooth(x, labels, alpha, guess=st.smooth(x, labels, 1.02 * alpha), return_stats=True)
    assert warm.iterations < cold.iterations
    torch.testing.assert_close(near, u, rtol=1e-3, atol=1e-3)
    exact = st.smooth(x, labels, alpha, tol=1e-12)
    assert st.smooth(x, labels, alpha, guess=exact, return_stats=True)[1].iterations == 0


def test_statistics_say_what_was_done():
    labels, x = label_map("disc")[None], data(1, 1, 17, 13)
    for backend in ("chebyshev", "multigrid", "torch", "dense"):
        stats = st.smooth(x, labels, 30.0, backend=backend, return_stats=True)[1]
        assert stats.backend == backend
        assert stats.converged
        assert 0 < stats.residual <= 1e-4 or backend == "dense"
        assert stats.iterations >= 1


@pytest.mark.parametrize(("alpha", "backend"), [(50.0, "chebyshev"), (1e4, "multigrid"), (50.0, "torch")])
def test_a_miss_is_reported_with_what_to_try(alpha, backend):
    labels, x = label_map("disc")[None], data(1, 1, 17, 13)
    with pytest.warns(st.poisson.ConvergenceWarning, match=r"residual of .* above tol=1\.0e-09.*Try"):
        _, stats = st.smooth(x, labels, alpha, tol=1e-9, max_steps=2, backend=backend, return_stats=True)
    assert not stats.converged
    assert stats.residual > 1e-9


@pytest.mark.parametrize("backend", ["chebyshev", "multigrid"])
@pytest.mark.parametrize("size", [1e-40, 1e-42, 1e-44])
def test_data_of_fewer_digits_than_the_tolerance_are_no_miss(backend, size):
    """Warnings are errors here. Probabilities of an absent class are as small."""
    labels, x = label_map("disc")[None], data(1, 2, 17, 13, dtype=torch.float32)
    u = st.smooth(size * x, labels, 1.0, backend=backend)
    torch.testing.assert_close(u, size * st.smooth(x, labels, 1.0), rtol=1e-3, atol=3e-44)


def test_multigrid_takes_few_steps_whatever_alpha():
    labels, x = label_map("disc", 96, 81)[None], data(1, 1, 96, 81)
    steps = [
        st.smooth(x, labels, alpha, tol=1e-6, backend="multigrid", return_stats=True)[1].iterations
        for alpha in (10.0, 1e3, 1e5)
    ]
    assert max(steps) <= 16


def test_threads_do_not_change_the_result():
    labels, x = label_map("disc")[None], data(1, 5, 17, 13)
    alpha = torch.tensor([1.0, 20.0, 3000.0, 3000.0, 9000.0], dtype=torch.float64)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = st.smooth(x, labels, alpha)
        torch.set_num_threads(2)
        assert torch.equal(st.smooth(x, labels, alpha), alone)
    finally:
        torch.set_num_threads(threads)
