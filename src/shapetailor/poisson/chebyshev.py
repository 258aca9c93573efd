"""Chebyshev polynomials: how many steps, and with which coefficients.

The spectrum of `A = I + αL` lies in [1, κ], κ = 1 + 8αc with c the largest conductance. The number of steps follows
from κ and the tolerance, not from the data: no region's answer depends on another's.
"""

from functools import lru_cache
from math import acosh, ceil, sqrt
from typing import NamedTuple

import numpy as np

from ..arrays import Floats


def condition(alpha: float, conductance: float = 1.0) -> float:
    """Return κ, the upper end of the spectrum of `I + αL` (the lower end is 1)."""
    return 1.0 + 8.0 * alpha * conductance


def step_count(kappa: float, reduction: float) -> int:
    """Return the least k with ``1 / T_k(σ) <= reduction`` on [1, κ]: k steps shrink any residual so far.

    >>> step_count(condition(25.0), 1e-3), step_count(condition(400.0), 1e-3), step_count(1.0, 1e-3)
    (54, 215, 1)
    """
    if reduction >= 1.0:
        return 0
    if kappa <= 1.0 + 1e-12:
        return 1
    return max(1, ceil(acosh(1.0 / reduction) / acosh((kappa + 1.0) / (kappa - 1.0))))


@lru_cache(maxsize=256)  # a network's many channels have few alphas
def step_weights(kappa: float, steps: int) -> tuple[float, Floats]:
    """Return γ and ω_1..ω_k of ``u_{k+1} = u_{k−1} + ω_{k+1} (γ r_k + u_k − u_{k−1})`` (Golub & Varga 1961)."""
    theta, delta = (kappa + 1.0) / 2.0, (kappa - 1.0) / 2.0
    ratio = (delta / theta) ** 2
    weights = np.ones(steps)
    for k in range(1, steps):
        weights[k] = 1.0 / (1.0 - weights[k - 1] * ratio / (2.0 if k == 1 else 4.0))
    weights.setflags(write=False)
    return 1.0 / theta, weights


class HalfSteps(NamedTuple):
    """Half-steps on a checkerboard.

    To shrink a residual by r takes ``arccosh(margin / r) / rate`` half-steps with these ω, and a last one with ω = 1.
    """

    rate: float
    margin: float
    omegas: Floats


@lru_cache(maxsize=256)
def half_steps(alpha: float, low: float, high: float, tol: float) -> HalfSteps:
    """Return the half-steps of `checkerboard` for an α, as many as `tol` takes.

    The spectrum of B lies in [−ρ, ρ], ρ = 4αc/(1 + 4αc) with c the largest conductance, `high`. After k half-steps and
    the last one, the residual in the norm of D^(−1/2) has shrunk to √2/T_k(1/ρ) at most. D lies between 1 + α·`low`
    (`low` is the smallest conductance of an edge) and 1 + 4αc: this bounds the residual in the usual norm.

    >>> len(half_steps(25.0, 1.0, 1.0, 1e-3).omegas), half_steps(0.0, 1.0, 1.0, 1e-3).omegas
    (62, array([1.]))
    """
    rho = max(4.0 * alpha * high / (1.0 + 4.0 * alpha * high), 1e-12)
    rate, margin = acosh(1.0 / rho), sqrt(2.0 * (1.0 + 4.0 * alpha * high) / (1.0 + alpha * low))
    omegas = np.ones(max(1, ceil(acosh(margin / tol) / rate)))
    for k in range(1, len(omegas)):
        omegas[k] = 1.0 / (1.0 - omegas[k - 1] * rho * rho / (2.0 if k == 1 else 4.0))
    omegas.setflags(write=False)
    return HalfSteps(rate, margin, omegas)
