"""Compiled kernels on the padded grid: the stencil, sums over regions, connected components.

An image is a flat array of (H+2, W+2) with a frame of zeros; `pitch` is W+2. ``cx[p]`` is the edge between p−1 and p,
``cy[p]`` the one between p−pitch and p. The frame has no edges, so whole rows are one long vector loop.

Fused multiply-adds are allowed: with conductances 0 and 1 the products are exact, so that sums are the same whichever
operand comes first.
"""

from typing import Any

import numpy as np

from ...arrays import Array
from ...parallel import compiled


@compiled(fastmath={"contract"})
def residual_at(
    b: Any, here: Any, left: Any, right: Any, up: Any, under: Any,
    c_left: Any, c_right: Any, c_up: Any, c_under: Any, alpha: Any,
) -> Any:  # fmt: skip
    """The stencil: b − (A u) at one pixel, from its value, its neighbours and their edges."""
    vertical = c_up * (up - here) + c_under * (under - here)
    horizontal = c_left * (left - here) + c_right * (right - here)
    return (b - here) + alpha * (vertical + horizontal)


@compiled(fastmath={"contract"})
def step(
    u: Array, old: Array, rhs: Array, cx: Array, cy: Array, pitch: int, lo: int, hi: int,
    alpha: Any, gamma: Any, omega: Any,
) -> None:  # fmt: skip
    """u_{k+1} = u_{k−1} + ω (γ r_k + u_k − u_{k−1}) for pixels lo..hi, written over `old` = u_{k−1}."""
    here, left, right = u[lo:hi], u[lo - 1 : hi - 1], u[lo + 1 : hi + 1]
    up, under = u[lo - pitch : hi - pitch], u[lo + pitch : hi + pitch]
    c_left, c_right, c_up, c_under = cx[lo:hi], cx[lo + 1 : hi + 1], cy[lo:hi], cy[lo + pitch : hi + pitch]
    b, out = rhs[lo:hi], old[lo:hi]
    for i in range(len(here)):
        r = residual_at(
            b[i], here[i], left[i], right[i], up[i], under[i], c_left[i], c_right[i], c_up[i], c_under[i], alpha
        )
        out[i] = out[i] + omega * (gamma * r + (here[i] - out[i]))


@compiled(fastmath={"contract"})
def residual(u: Array, rhs: Array, cx: Array, cy: Array, pitch: int, lo: int, hi: int, alpha: Any, out: Array) -> None:
    """out[lo:hi] = rhs − A u there, summed in u's precision."""
    here, left, right = u[lo:hi], u[lo - 1 : hi - 1], u[lo + 1 : hi + 1]
    up, under = u[lo - pitch : hi - pitch], u[lo + pitch : hi + pitch]
    c_left, c_right, c_up, c_under = cx[lo:hi], cx[lo + 1 : hi + 1], cy[lo:hi], cy[lo + pitch : hi + pitch]
    b, r = rhs[lo:hi], out[lo:hi]
    for i in range(len(here)):
        r[i] = residual_at(
            b[i], here[i], left[i], right[i], up[i], under[i], c_left[i], c_right[i], c_up[i], c_under[i], alpha
        )


@compiled()
def smallest(dtype: Any) -> Any:
    """Return the smallest normal number: what is smaller has fewer digits, so that no tolerance could be kept."""
    return np.finfo(dtype).tiny


@compiled(fastmath={"reassoc", "contract"})
def dot(a: Array, b: Array) -> float:
    """Inner product in float64."""
    total = 0.0
    for i in range(len(a)):
        total += np.float64(a[i]) * np.float64(b[i])
    return total


@compiled()
def runs_of(component: Array) -> Array:
    """Runs of one component along the rows: (first, end, component), as positions on the padded grid."""
    height, width = component.shape
    runs = np.empty((component.size, 3), np.int64)
    n = 0
    for y in range(height):
        base = (y + 1) * (width + 2) + 1
        begin = 0
        for x in range(1, width + 1):
            if x == width or component[y, x] != component[y, begin]:
                runs[n, 0], runs[n, 1], runs[n, 2] = base + begin, base + x, component[y, begin]
                n += 1
                begin = x
    return runs[:n].copy()


@compiled()
def region_dot(runs: Array, count: int, a: Array, b: Array) -> Array:
    """Inner products of each component of one channel."""
    total = np.zeros(count)
    for k in range(runs.shape[0]):
        lo, hi, c = runs[k]
        total[c] += dot(a[lo:hi], b[lo:hi])
    return total


@compiled(fastmath={"reassoc"})
def _sum(x: Array) -> float:
    total = 0.0
    for i in range(len(x)):
        total += np.float64(x[i])
    return total


@compiled()
def region_mean(runs: Array, count: int, x: Array, out: Array) -> None:
    """Write each component's mean to its pixels."""
    total, pixels = np.zeros(count), np.zeros(count)
    for k in range(runs.shape[0]):
        lo, hi, c = runs[k]
        pixels[c] += hi - lo
        total[c] += _sum(x[lo:hi])
    for k in range(runs.shape[0]):
        lo, hi, c = runs[k]
        out[lo:hi] = total[c] / pixels[c]


@compiled()
def find_root(parent: Array, i: int) -> int:
    """Root of i in a union-find forest, with path halving."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@compiled()
def join(parent: Array, i: int, j: int) -> None:
    """Unite two trees; the smaller index becomes the root."""
    i, j = find_root(parent, i), find_root(parent, j)
    if i < j:
        parent[j] = i
    else:
        parent[i] = j


@compiled()
def number_roots(parent: Array) -> tuple[Array, int]:
    """Number the trees in order of first appearance; return each element's number and their count."""
    number = np.empty(parent.size, np.int32)
    count = 0
    for i in range(parent.size):
        root = find_root(parent, i)
        if root == i:
            number[i] = count
            count += 1
        else:
            number[i] = number[root]
    return number, count


@compiled()
def components(cx: Array, cy: Array) -> tuple[Array, int]:
    """Number the connected components of the edges, given as (H+2, W+2): (H, W) numbers and their count."""
    height, width = cx.shape[0] - 2, cx.shape[1] - 2
    parent = np.arange(height * width)
    for y in range(height):
        for x in range(width):
            if cx[y + 1, x + 1] > 0:
                join(parent, y * width + x - 1, y * width + x)
            if cy[y + 1, x + 1] > 0:
                join(parent, (y - 1) * width + x, y * width + x)
    number, count = number_roots(parent)
    return number.reshape(height, width), count
