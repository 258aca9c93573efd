"""The ways to solve the Poisson benchmark: ours, and what a user would pick instead.

Every method starts from channels and label map: assembling, factoring and building hierarchies count. SuperLU and PyAMG
use one core.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from scipy.sparse.linalg import splu
from torch import Tensor

from ..arrays import Array
from ..poisson import smooth
from .poisson_problem import CASES, Problem


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
    options = {"SymmetricMode": True}
    return _by_scale(
        problem,
        lambda matrix: splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options).solve,
    )


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
