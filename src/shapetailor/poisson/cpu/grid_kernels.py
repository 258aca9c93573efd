"""Compiled kernels on the padded grid: the stencil, sums over regions, connected components, the Chebyshev series.

An image is a flat array of (H+2, W+2) with a frame of zeros; `pitch` is W+2. ``cx[p]`` is the edge between p−1 and p,
``cy[p]`` the one between p−pitch and p. The frame has no edges, so whole rows are one long vector loop.

The series runs in wavefronts: `DEPTH` of its terms pass over a block of rows while it is in the cache.

Fused multiply-adds are allowed: with conductances 0 and 1 the products are exact, so that sums are the same whichever
operand comes first.
"""

from typing import Any

import numpy as np

from ...arrays import Array
from ...parallel import compiled

DEPTH = 8
#: Pixels in a wavefront's block.
BLOCK = 2048


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


@compiled(fastmath={"contract"})
def _term(t: Array, old: Array, cx: Array, cy: Array, pitch: int, lo: int, hi: int, scale: Any) -> None:
    """t_{k+1} = 2 S t_k − t_{k−1} with 2 S = scale·L − 2I, written over `old` = t_{k−1}."""
    here, left, right = t[lo:hi], t[lo - 1 : hi - 1], t[lo + 1 : hi + 1]
    up, under = t[lo - pitch : hi - pitch], t[lo + pitch : hi + pitch]
    c_left, c_right, c_up, c_under = cx[lo:hi], cx[lo + 1 : hi + 1], cy[lo:hi], cy[lo + pitch : hi + pitch]
    out = old[lo:hi]
    for i in range(len(here)):
        v = here[i]
        vertical = c_up[i] * (v - up[i]) + c_under[i] * (v - under[i])
        horizontal = c_left[i] * (v - left[i]) + c_right[i] * (v - right[i])
        out[i] = (scale * (vertical + horizontal) - (v + v)) - out[i]


@compiled(fastmath={"contract"})
def _add_pair(out: Array, t0: Array, t1: Array, lo: int, hi: int, a0: Any, a1: Any) -> None:
    """Add two terms of the series at once: `out` is read and written half as often."""
    total, x0, x1 = out[lo:hi], t0[lo:hi], t1[lo:hi]
    for i in range(len(total)):
        total[i] += a0 * x0[i] + a1 * x1[i]


@compiled()
def chebyshev_scales(
    t: Array, other: Array, cx: Array, cy: Array, pitch: int,
    scale: Any, coefficients: Array, lengths: Array, out: Array,
) -> None:  # fmt: skip
    """Add ``Σ_k coefficients[a, k] T_k(S) rhs`` to out[a] for several scales a; t holds rhs, `other` zeros.

    The number of terms is even: they come in pairs (t_{2j}, t_{2j+1}), which are what the two buffers hold. A
    block's pair is summed when its second term is done, before the wavefront overwrites the first.
    """
    end = t.size - pitch
    scales, terms = coefficients.shape
    rows = max(1, BLOCK // pitch) * pitch
    blocks = (end - pitch + rows - 1) // rows
    _term(t, other, cx, cy, pitch, pitch, end, scale / 2)
    for i in range(pitch, end):  # t_1 = S t_0
        other[i] += t[i]
    for a in range(scales):
        _add_pair(out[a], t, other, pitch, end, coefficients[a, 0], coefficients[a, 1])
    for first in range(2, terms, DEPTH):
        depth = min(DEPTH, terms - first)
        for front in range(blocks + depth - 1):
            for k in range(max(0, front - blocks + 1), min(depth, front + 1)):
                lo = pitch + (front - k) * rows
                hi = min(lo + rows, end)
                n = first + k
                if n % 2 == 0:
                    _term(other, t, cx, cy, pitch, lo, hi, scale)
                    continue
                _term(t, other, cx, cy, pitch, lo, hi, scale)
                for a in range(scales):
                    if n - 1 < lengths[a]:
                        _add_pair(out[a], t, other, lo, hi, coefficients[a, n - 1], coefficients[a, n])


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
def pad_channel(x: Array, inside: Array, out: Array) -> None:
    """Copy a channel (H, W) into a flat frame of zeros, without what lies outside every region."""
    height, width = x.shape
    for y in range(height):
        row = out[(y + 1) * (width + 2) + 1 :]
        for i in range(width):
            row[i] = x[y, i] if inside[y, i] else 0


@compiled()
def unpad_channel(flat: Array, out: Array) -> None:
    """Copy a channel out of its frame."""
    height, width = out.shape
    for y in range(height):
        first = (y + 1) * (width + 2) + 1
        out[y] = flat[first : first + width]


@compiled()
def residual_norm(u: Array, rhs: Array, cx: Array, cy: Array, pitch: int, alpha: Any, scratch: Array) -> float:
    """Relative residual of one channel; 0 where the right-hand side is."""
    end = u.size - pitch
    size = dot(rhs, rhs)
    if size == 0:
        return 0.0
    residual(u, rhs, cx, cy, pitch, pitch, end, alpha, scratch)
    relative: float = np.sqrt(dot(scratch[pitch:end], scratch[pitch:end]) / size)
    return relative


@compiled()
def scales_channels(
    x: Array, inside: Array, cx: Array, cy: Array, pitch: int, runs: Array, count: int,
    alphas: Array, scale: Any, coefficients: Array, lengths: Array, out: Array,
) -> float:  # fmt: skip
    """Solve channels (n, H, W) at several α each, into out (α, n, H, W); return the worst residual."""
    rhs, t, other = np.zeros(cx.size, x.dtype), np.empty(cx.size, x.dtype), np.empty(cx.size, x.dtype)
    mean = np.zeros(cx.size, x.dtype)
    total = np.empty((alphas.size, cx.size), x.dtype)
    worst = 0.0
    for c in range(x.shape[0]):
        pad_channel(x[c], inside, rhs)
        region_mean(runs, count, rhs, mean)
        t[:] = rhs - mean
        other[:] = 0
        total[:] = mean
        chebyshev_scales(t, other, cx, cy, pitch, scale, coefficients, lengths, total)
        for a in range(alphas.size):
            unpad_channel(total[a], out[a, c])
            worst = max(worst, residual_norm(total[a], rhs, cx, cy, pitch, alphas[a], other))
    return worst


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
