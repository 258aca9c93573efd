"""The data of the Poisson benchmark, and the ways to solve it: ours, and what a user would pick instead.

The task is the paper's first layer: 8 channels at 5 scales, 40 solves in all. In the case "shared", 8 channels are
each solved for at all scales; in the case "distinct", there are 40, 8 for each scale. An answer is (5, 8, H, W). Every
method starts from channels and label map: assembling, factoring and building hierarchies count. SuperLU and PyAMG use
one core.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from scipy.sparse.linalg import splu
from torch import Tensor

from ..arrays import Array
from ..datasets.noise import fractal_noise, smooth_noise
from ..poisson import smooth

SCALES = (5.0, 10.0, 15.0, 20.0, 25.0)
CHANNELS = 8
CASES = ("shared", "distinct")


@dataclass(frozen=True)
class Problem:
    """One image to smooth."""

    channels: Array  # float32, (1, 8, H, W) if shared, (5, 8, H, W) if distinct
    labels: Array  # int64, (H, W)
    alphas: tuple[float, ...]  # five scales

    @property
    def shared(self) -> bool:
        """Whether each channel is solved for at every scale."""
        return len(self.channels) == 1

    def at_scale(self, index: int) -> Array:
        """Return the channels (8, H, W) of one of the scales."""
        channels: Array = self.channels[index % len(self.channels)]
        return channels

    def first(self, channels: int) -> Problem:
        """Return the same problem with only the first channels of each scale."""
        return replace(self, channels=self.channels[:, :channels])


def make_problem(size: int, factor: float, case: str, seed: int = 0) -> Problem:
    """Make channels like a picture's (a mean, 1/f noise, fine noise) and two large regions."""
    rng = np.random.default_rng([seed, size])
    shape = (size, size)
    blob = smooth_noise(shape, rng, size / 3)
    scene = fractal_noise(shape, rng).astype(np.float32)
    channels = np.empty((1 if case == "shared" else len(SCALES), CHANNELS, *shape), np.float32)
    for channel in channels.reshape(-1, *shape):
        # One scene, displaced, serves all channels: one for each would take longer than the benchmark.
        scenery = np.roll(scene, tuple(rng.integers(0, size, 2)), axis=(0, 1))
        channel[:] = 0.5 + 0.2 * scenery + 0.05 * rng.standard_normal(shape, np.float32)
    return Problem(channels, (blob > np.median(blob)).astype(np.int64), tuple(factor * scale for scale in SCALES))


def relative_error(answer: Array, reference: Array) -> float:
    """Return the largest ``‖u − u*‖ / ‖u*‖`` of a channel; infinite where the answer is not finite."""
    if answer.shape != reference.shape:
        raise ValueError(f"answer must have the shape {reference.shape}, got {answer.shape}")
    worst = 0.0
    for u, exact in zip(answer.reshape(-1, answer[0, 0].size), reference.reshape(-1, answer[0, 0].size), strict=True):
        error = float(np.linalg.norm(u - exact) / np.linalg.norm(exact))
        worst = max(worst, error if np.isfinite(error) else np.inf)
    return worst


def ours(problem: Problem, tol: float, backend: Any = "auto", dtype: torch.dtype = torch.float32) -> Array:
    """Call `shapetailor.smooth` once for everything."""
    x = torch.from_numpy(problem.channels).flatten(0, 1)[None].to(dtype)
    labels, alphas = torch.from_numpy(problem.labels)[None], torch.tensor(problem.alphas, dtype=torch.float64)
    per_scale = problem.channels.shape[1]
    alpha = alphas[:, None] if problem.shared else alphas.repeat_interleave(per_scale)
    u = smooth(x, labels, alpha, tol, backend=backend)[0]
    answer: Array = (u if problem.shared else u.unflatten(0, (len(alphas), per_scale))).numpy()
    return answer


def graph_laplacian(labels: Array) -> sparse.csr_matrix:
    """Assemble L of a label map, pixels in raster order."""
    index = np.arange(labels.size).reshape(labels.shape)
    across = labels[:, :-1] == labels[:, 1:]
    down = labels[:-1] == labels[1:]
    one = np.concatenate([index[:, :-1][across], index[:-1][down]])
    other = np.concatenate([index[:, 1:][across], index[1:][down]])
    edges = sparse.coo_matrix((np.ones(one.size), (one, other)), (labels.size, labels.size))
    neighbours = (edges + edges.T).tocsr()
    return sparse.diags(np.asarray(neighbours.sum(axis=1)).ravel()) - neighbours


def _by_scale(problem: Problem, solver: Callable[[Any], Callable[[Array], Array]]) -> Array:
    """Prepare ``I + αL`` once for each scale and solve for its channels."""
    laplacian = graph_laplacian(problem.labels)
    unit = sparse.identity(problem.labels.size)
    answer = np.empty((len(problem.alphas), *problem.channels.shape[1:]), np.float32)
    for index, alpha in enumerate(problem.alphas):
        solve = solver((unit + alpha * laplacian).tocsc())
        rhs = problem.at_scale(index)
        answer[index] = solve(rhs.reshape(len(rhs), -1).T.astype(np.float64)).T.reshape(rhs.shape)
    return answer


def sparse_lu(problem: Problem, tol: float) -> Array:
    """SciPy's `splu` with its defaults: factor once for each scale, solve for all channels at once."""
    return _by_scale(problem, lambda matrix: splu(matrix).solve)


def symmetric_lu(problem: Problem, tol: float) -> Array:
    """`splu` with the options for symmetric, diagonally dominant matrices (SuperLU users' guide)."""
    settings = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    return _by_scale(problem, lambda matrix: splu(matrix, **settings).solve)


def algebraic_multigrid(problem: Problem, tol: float) -> Array:
    """PyAMG: a Ruge–Stüben hierarchy for each scale, conjugate gradients for each channel."""
    import pyamg

    def prepare(matrix: Any) -> Callable[[Array], Array]:
        hierarchy = pyamg.ruge_stuben_solver(matrix.tocsr())
        return lambda rhs: np.stack([hierarchy.solve(b, tol=tol, accel="cg") for b in rhs.T], axis=1)

    return _by_scale(problem, prepare)


def torch_loop(problem: Problem, tol: float) -> Array:
    """Conjugate gradients for all channels at once, in plain torch operations."""
    labels = torch.from_numpy(problem.labels)
    across = (labels[:, 1:] == labels[:, :-1]).float()
    down = (labels[1:] == labels[:-1]).float()
    alpha = torch.tensor(problem.alphas)[:, None, None, None]

    def matvec(u: Tensor) -> Tensor:
        flow_x, flow_y = across * (u[..., 1:] - u[..., :-1]), down * (u[..., 1:, :] - u[..., :-1, :])
        out = u.clone()
        out[..., :-1] -= alpha * flow_x
        out[..., 1:] += alpha * flow_x
        out[..., :-1, :] -= alpha * flow_y
        out[..., 1:, :] += alpha * flow_y
        return out

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum((-2, -1), keepdim=True)

    b = torch.from_numpy(problem.channels).expand(len(alpha), -1, -1, -1)
    x = b.clone()
    r = b - matvec(x)
    p, rr, goal = r, dot(r, r), tol**2 * dot(b, b)
    while bool((rr > goal).any()):
        q = matvec(p)
        step = rr / dot(p, q)
        x = x + step * p
        r = r - step * q
        rr, old = dot(r, r), rr
        p = r + (rr / old) * p
    answer: Array = x.numpy()
    return answer


@dataclass(frozen=True)
class Method:
    """A way to solve. The alternatives do the same work in both cases, so that one is enough."""

    solve: Callable[[Problem, float], Array]  # of problem and tolerance
    iterative: bool  # whether the tolerance matters
    largest: dict[str, int]  # the largest side it is run at, in each case; 0 is never


def _limits(shared: int, distinct: int) -> dict[str, int]:
    return dict(zip(CASES, (shared, distinct), strict=True))


METHODS = {
    "ours": Method(ours, True, _limits(4096, 4096)),
    "splu": Method(sparse_lu, False, _limits(512, 256)),
    "splu, symmetric mode": Method(symmetric_lu, False, _limits(512, 256)),
    "PyAMG": Method(algebraic_multigrid, True, _limits(512, 0) if find_spec("pyamg") else _limits(0, 0)),
    "dense inverse": Method(partial(ours, backend="dense"), False, _limits(64, 0)),  # `eq:invPoisson`
    "torch loop": Method(torch_loop, True, _limits(512, 0)),
}
