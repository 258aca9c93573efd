"""The report of a solve."""

from dataclasses import dataclass

#: Chebyshev in a precision eps leaves a residual of about FLOOR·eps·κ, and cannot reach smaller tolerances.
FLOOR = 2.0


class ConvergenceWarning(UserWarning):
    """A solve missed its tolerance."""


@dataclass(frozen=True)
class Stats:
    """How a solve went.

    Attributes
    ----------
    backend : str
        ``"chebyshev"``, ``"multigrid"`` (or both, joined by ``+``), ``"torch"``, ``"dense"``, on a GPU
        ``"on-chip"`` or ``"triton"``.
    iterations : int
        Most steps any channel took.
    residual : float
        Largest relative residual ``‖x − A u‖ / ‖x‖``, before the result is rounded to its precision.
    converged : bool
        Whether it is within the tolerance.
    """

    backend: str
    iterations: int
    residual: float
    converged: bool


def combine(parts: list[tuple[str, int, float]], tol: float) -> Stats:
    """Sum up the parts of a solve, each (backend, iterations, residual)."""
    names = "+".join(sorted({name for name, _, _ in parts}))
    worst = max(residual for _, _, residual in parts)
    return Stats(names, max(steps for _, steps, _ in parts), worst, worst <= tol)
