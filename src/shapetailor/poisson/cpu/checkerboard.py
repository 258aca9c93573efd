"""Chebyshev steps on the two colours of a checkerboard: half of the work of steps on all pixels.

The four neighbours of a red pixel are black. Write ``A u = x`` as ``u = B u + D⁻¹x``, with D the diagonal of A: B maps
red to black and black to red, so that only the red half of every second iterate is ever needed, and the black half of
the others. A half-step updates one colour in place from the other (the cyclic Chebyshev method, Golub & Varga 1961).
The last one has ω = 1 and leaves no residual in its colour.

A channel lies in four planes, by the parities of row and column (plane ``2·(row odd) + (column odd)``): the neighbours
of what a plane holds at some place are at the same place of two other planes, and one place or one row further. There
is no frame: an edge that does not exist has the weight 0. Channels of the same α go through the steps in fours, for
which every weight is read once; half-steps run in wavefronts, as in `kernels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from threading import local
from typing import Any

import numpy as np
from numba import njit

from ...arrays import Array

#: Channels that go together; half-steps in a wavefront; places of a plane in its block.
LANES, DEPTH, BLOCK = 4, 16, 2048
#: Rows begin with a cache line, which holds so many numbers.
LINE = 16
#: Lines by which planes are apart, beside a multiple of 64.
APART = 37
#: Numbers of half-steps from first guesses are multiples of this, so that few regions differ in them.
EVEN = 4
#: Bytes that a thread keeps for its next solve, at most.
KEPT = 2**26

_kept = local()


def layout(height: int, width: int) -> tuple[int, int, int]:
    """Return a plane's pitch, its rows and its size, with a row of zeros before the rows and one after them.

    Planes that follow each other never lie a multiple of 4096 bytes apart: the same place of all of them would go to
    the same few lines of the cache, and nothing would stay there.
    """
    pitch, rows = -(-((width + 1) // 2) // LINE) * LINE, (height + 1) // 2
    lines = (rows + 2) * pitch // LINE
    return pitch, rows, (lines + (APART - lines) % 64) * LINE


def groups(channels: Array) -> list[Array]:
    """Cut channels of one α into groups of 4, and of 3 or 1, which go together."""
    whole = len(channels) // LANES * LANES
    parts = [channels[first : first + LANES] for first in range(0, whole, LANES)]
    rest = channels[whole:]
    return parts + ([rest] if len(rest) == LANES - 1 else [rest[k : k + 1] for k in range(len(rest))])


def scratch(shapes: Sequence[tuple[int, ...]], dtype: Any) -> list[Array]:
    """Return arrays with anything in them, each beginning with a cache line; the thread's next call reuses them."""
    item = np.dtype(dtype).itemsize
    sizes = [-(-prod(shape) * item // 64) * 64 for shape in shapes]
    raw: Array | None = getattr(_kept, "raw", None)
    if raw is None or len(raw) < sum(sizes) + 64:
        raw = np.empty(sum(sizes) + 64, np.uint8)
        if len(raw) <= KEPT:  # the system gives and takes large ones page by page, which takes its time
            _kept.raw = raw
    first, found = -raw.ctypes.data % 64, []
    for shape, size in zip(shapes, sizes, strict=True):
        found.append(raw[first : first + prod(shape) * item].view(dtype).reshape(shape))
        first += size
    return found


@njit(nogil=True, fastmath={"contract"}, cache=True)
def _one(u: Array, side: Array, ends: Array, b: Array, w: Array, lo: int, hi: int, s: int, t: int, omega: Any) -> None:
    """Do ``u += ω (B u + D⁻¹x − u)`` for one channel at the places lo..hi of a plane.

    `side` and `ends` are the planes of the left and right, and of the upper and lower neighbours: one of them is at the
    same place, the other is `s` or `t` further.
    """
    u0, b0, w0, w1, w2, w3 = u[0, lo:hi], b[0, lo:hi], w[0, lo:hi], w[1, lo:hi], w[2, lo:hi], w[3, lo:hi]
    h0, i0, v0, j0 = side[0, lo:hi], side[0, lo + s : hi + s], ends[0, lo:hi], ends[0, lo + t : hi + t]
    for i in range(len(u0)):
        u0[i] += omega * ((b0[i] - u0[i]) + ((w0[i] * h0[i] + w1[i] * i0[i]) + (w2[i] * v0[i] + w3[i] * j0[i])))


@njit(nogil=True, fastmath={"contract"}, cache=True)
def _four(u: Array, side: Array, ends: Array, b: Array, w: Array, lo: int, hi: int, s: int, t: int, omega: Any) -> None:
    """Do as `_one` for four channels."""
    u0, u1, u2, u3 = u[0, lo:hi], u[1, lo:hi], u[2, lo:hi], u[3, lo:hi]
    b0, b1, b2, b3 = b[0, lo:hi], b[1, lo:hi], b[2, lo:hi], b[3, lo:hi]
    w0, w1, w2, w3 = w[0, lo:hi], w[1, lo:hi], w[2, lo:hi], w[3, lo:hi]
    h0, h1, h2, h3 = side[0, lo:hi], side[1, lo:hi], side[2, lo:hi], side[3, lo:hi]
    v0, v1, v2, v3 = ends[0, lo:hi], ends[1, lo:hi], ends[2, lo:hi], ends[3, lo:hi]
    i0, i1, i2, i3 = (
        side[0, lo + s : hi + s], side[1, lo + s : hi + s], side[2, lo + s : hi + s], side[3, lo + s : hi + s],
    )  # fmt: skip
    j0, j1, j2, j3 = (
        ends[0, lo + t : hi + t], ends[1, lo + t : hi + t], ends[2, lo + t : hi + t], ends[3, lo + t : hi + t],
    )  # fmt: skip
    for i in range(len(u0)):
        p, q, r, z = w0[i], w1[i], w2[i], w3[i]
        u0[i] += omega * ((b0[i] - u0[i]) + ((p * h0[i] + q * i0[i]) + (r * v0[i] + z * j0[i])))
        u1[i] += omega * ((b1[i] - u1[i]) + ((p * h1[i] + q * i1[i]) + (r * v1[i] + z * j1[i])))
        u2[i] += omega * ((b2[i] - u2[i]) + ((p * h2[i] + q * i2[i]) + (r * v2[i] + z * j2[i])))
        u3[i] += omega * ((b3[i] - u3[i]) + ((p * h3[i] + q * i3[i]) + (r * v3[i] + z * j3[i])))


@njit(nogil=True, cache=True)
def _half_step(u: Array, b: Array, w: Array, black: int, lo: int, hi: int, pitch: int, omega: Any) -> None:
    """Update one colour: the planes 0 and 3, or 1 and 2."""
    for plane in (black, 3 - black):
        s, t = 1 if plane & 1 else -1, pitch if plane & 2 else -pitch
        if u.shape[1] == 1:
            _one(u[plane], u[plane ^ 1], u[plane ^ 2], b[plane], w[plane], lo, hi, s, t, omega)
        else:
            _four(u[plane], u[plane ^ 1], u[plane ^ 2], b[plane], w[plane], lo, hi, s, t, omega)


@njit(nogil=True, cache=True)
def _half_steps(u: Array, b: Array, w: Array, pitch: int, rows: int, omegas: Array, colour: int) -> None:
    """Run half-steps, the first on this colour; a block's needs the one before of the blocks on both sides."""
    thick = max(1, BLOCK // pitch)
    blocks = (rows + thick - 1) // thick
    for first in range(0, len(omegas), DEPTH):
        depth = min(DEPTH, len(omegas) - first)
        for front in range(blocks + depth - 1):
            for k in range(max(0, front - blocks + 1), min(depth, front + 1)):
                top = (front - k) * thick
                lo, hi = (top + 1) * pitch, (min(top + thick, rows) + 1) * pitch
                _half_step(u, b, w, (first + k + colour) % 2, lo, hi, pitch, omegas[first + k])


@njit(nogil=True, fastmath={"contract"}, error_model="numpy", cache=True)
def _weigh(cx: Array, cy: Array, pitch: int, alpha: Any, w: Array) -> None:
    """Write, for each plane, the weights of B (same place and further, in the row and in the column), and D⁻¹."""
    height, width = cx.shape[0] - 2, cx.shape[1] - 2
    one = w.dtype.type(1)
    for y in range(height):
        rows = (cy[y + 1], cy[y + 2]) if y % 2 else (cy[y + 2], cy[y + 1])
        for odd in range(2):
            first = (y // 2 + 1) * pitch
            out = w[2 * (y % 2) + odd, :, first : first + (width + 1 - odd) // 2]
            same, further = cx[y + 1, 2:], cx[y + 1, 1 + 2 * odd :]
            near, far = rows[0][1 + odd :], rows[1][1 + odd :]
            w0, w1, w2, w3, inverse = out[0], out[1], out[2], out[3], out[4]
            for j in range(len(w0)):
                a, b, c, d = same[2 * j], further[2 * j], near[2 * j], far[2 * j]
                diagonal = one / (one + alpha * ((a + b) + (c + d)))
                scale = alpha * diagonal
                w0[j], w1[j], w2[j], w3[j], inverse[j] = scale * a, scale * b, scale * c, scale * d, diagonal


@njit(nogil=True, cache=True)
def _deal(x: Array, pitch: int, w: Array, lane: int, b: Array) -> None:
    """Write D⁻¹x to the planes of a lane."""
    height, width = x.shape
    for y in range(height):
        for odd in range(2):
            plane, first, count = 2 * (y % 2) + odd, (y // 2 + 1) * pitch, (width + 1 - odd) // 2
            row, inverse, out = x[y, odd:], w[plane, 4, first : first + count], b[plane, lane, first : first + count]
            for j in range(count):
                out[j] = inverse[j] * row[2 * j]


@njit(nogil=True, cache=True)
def _collect(u: Array, lane: int, pitch: int, out: Array) -> None:
    """Write a lane's planes to a channel."""
    height, width = out.shape
    for y in range(height):
        first = (y // 2 + 1) * pitch
        even, odd = u[2 * (y % 2), lane, first:], u[2 * (y % 2) + 1, lane, first:]
        row = out[y]
        for j in range(width // 2):
            row[2 * j] = even[j]
            row[2 * j + 1] = odd[j]
        if width % 2:
            row[width - 1] = even[width // 2]


@njit(nogil=True, fastmath={"contract"}, cache=True)
def _residual(x: Array, u: Array, cx: Array, cy: Array, alpha: Any, out: Array) -> None:
    """Write x − Au of (H, W); what is outside every region means nothing."""
    height, width = x.shape
    for y in range(height):
        # Where there is no such row the edge is 0, and any row will do.
        above, below = u[max(y - 1, 0)], u[min(y + 1, height - 1)]
        b, here, r = x[y], u[y], out[y]
        c_left, c_right, c_up, c_under = cx[y + 1, 1:], cx[y + 1, 2:], cy[y + 1, 1:], cy[y + 2, 1:]
        left, right = here[0 : width - 2], here[2:width]
        for i in range(1, width - 1):
            v = here[i]
            vertical = c_up[i] * (above[i] - v) + c_under[i] * (below[i] - v)
            horizontal = c_left[i] * (left[i - 1] - v) + c_right[i] * (right[i - 1] - v)
            r[i] = (b[i] - v) + alpha * (vertical + horizontal)
        for i in (0, width - 1):
            v = here[i]
            vertical = c_up[i] * (above[i] - v) + c_under[i] * (below[i] - v)
            horizontal = c_left[i] * (here[max(i - 1, 0)] - v) + c_right[i] * (here[min(i + 1, width - 1)] - v)
            r[i] = (b[i] - v) + alpha * (vertical + horizontal)


@njit(nogil=True, fastmath={"reassoc"}, cache=True)
def _moments_of(x: Array) -> tuple[float, float]:
    total, squares = 0.0, 0.0
    for i in range(len(x)):
        value = np.float64(x[i])
        total += value
        squares += value * value
    return total, squares


@njit(nogil=True, cache=True)
def _moments(x: Array, spans: Array, totals: Array, squares: Array) -> None:
    """Sum each region, and its squares."""
    totals[:] = 0
    squares[:] = 0
    for k in range(spans.shape[0]):
        lo, hi, c = spans[k]
        total, square = _moments_of(x[lo:hi])
        totals[c] += total
        squares[c] += square


@njit(nogil=True, cache=True)
def _centre(x: Array, other: Array, use: Array, spans: Array, means: Array, out: Array) -> None:
    """Write x, or `other` in regions to `use` it in, without the region's mean."""
    for k in range(spans.shape[0]):
        lo, hi, c = spans[k]
        source, target, mean = other[lo:hi] if use[c] else x[lo:hi], out[lo:hi], out.dtype.type(means[c])
        for i in range(len(target)):
            target[i] = source[i] - mean


@njit(nogil=True, cache=True)
def _need(
    squares: Array, totals: Array, rest_squares: Array, rest_totals: Array, sizes: Array, tol: float,
    rate: float, margin: float, most: int, use: Array, limit: Array,
) -> None:  # fmt: skip
    """Raise each region's `limit` to what a channel needs; say whether to `use` the guess that the rest is left of."""
    for c in range(sizes.size):
        plain = squares[c] - totals[c] ** 2 / sizes[c]
        left = rest_squares[c] - rest_totals[c] ** 2 / sizes[c]
        use[c] = left < plain
        left, wanted = np.sqrt(max(min(left, plain), 0.0)), tol * np.sqrt(squares[c])
        if left > wanted:
            need = 1 + np.int64(np.ceil(np.arccosh(margin * left / wanted) / rate))
            limit[c] = max(limit[c], min((need + EVEN - 1) // EVEN * EVEN, most))


@njit(nogil=True, cache=True)
def _finish(
    rest: Array, guess: Array, use: Array, spans: Array, sizes: Array, totals: Array,
    limit: Array, when: int, out: Array,
) -> None:  # fmt: skip
    """Write the solution in regions of this limit: `rest` shifted to the sums in `totals`, plus the guess if used."""
    shift = totals.copy()
    for k in range(spans.shape[0]):
        lo, hi, c = spans[k]
        if limit[c] == when:
            shift[c] -= _moments_of(rest[lo:hi])[0]
    shift /= sizes
    for k in range(spans.shape[0]):
        lo, hi, c = spans[k]
        if limit[c] == when:
            source, target, by = rest[lo:hi], out[lo:hi], out.dtype.type(shift[c])
            for i in range(len(target)):
                target[i] = source[i] + by
            if use[c]:
                target += guess[lo:hi]


@njit(nogil=True, cache=True)
def _run(
    u: Array, b: Array, w: Array, pitch: int, rows: int, omegas: Array, first: int, last: int, kept: Array, keep: bool
) -> None:
    """Run half-steps `first` to `last`, and one with ω = 1; with `keep`, what the latter overwrites is in `kept`."""
    _half_steps(u, b, w, pitch, rows, omegas[first:last], first % 2)
    if keep:
        kept[0], kept[1] = u[last % 2], u[3 - last % 2]
    _half_steps(u, b, w, pitch, rows, np.ones(1, omegas.dtype), last % 2)


@njit(nogil=True, cache=True)
def solve(
    x: Array, guess: Array, cx: Array, cy: Array, spans: Array, sizes: Array, tol: float,
    chosen: Array, bounds: Array, alphas: Array, rates: Array, margins: Array, omegas: Array, counts: Array,
    pitch: int, rows: int, w: Array, four: Array, one: Array, out: Array,
) -> tuple[int, float]:  # fmt: skip
    """Solve channels of x (C, H, W) into those of `out`; return the most half-steps and the worst relative residual.

    A region's mean is solved for by itself, and the rest from 0. Half-steps keep its sum, as smoothing does, to the
    tolerance only; so the mean is put back in such a way that the sum is kept to rounding.

    From a `guess` (C, H, W), which may be empty, what is solved for is its residual, in regions where that is smaller
    than x without its mean. A region takes as many half-steps as its own residuals ask for, and is read after those,
    whether others need more or not.

    Group g, channels that go together, is ``chosen[bounds[g] : bounds[g + 1]]``; it has one α, and what
    `chebyshev.half_steps` says of it: at most ``counts[g]`` half-steps with ``omegas[g]``. `spans` are the regions'
    stretches of pixels (first, end, region), `sizes` their areas. `w`, `four` and `one` are for planes of `layout`: the
    weights, and twice those of 4 lanes and of 1, three times where there is a guess.
    """
    most, worst, weighed = 0, 0.0, -1.0
    if not sizes.size:
        for c in chosen:
            out[c] = 0
        return most, worst
    raw, rest = np.zeros(x.shape[1:], x.dtype), np.zeros(x.shape[1:], x.dtype)
    totals, squares = np.empty((LANES, sizes.size)), np.empty((LANES, sizes.size))
    rest_totals, rest_squares = np.empty(sizes.size), np.empty(sizes.size)
    use, limit = np.zeros((LANES, sizes.size), np.bool_), np.empty(sizes.size, np.int64)
    w[:, :4], w[:, 4] = 0, 1
    four[1], one[1] = 0, 0
    for g in range(len(bounds) - 1):
        members = chosen[bounds[g] : bounds[g + 1]]
        u, b, kept = (four[0], four[1], four[-1]) if len(members) > 1 else (one[0], one[1], one[-1])
        if alphas[g] != weighed:
            _weigh(cx, cy, pitch, alphas[g], w)
            weighed = alphas[g]
        u[:] = 0
        limit[:] = 0 if guess.size else counts[g]
        for lane in range(len(members)):
            channel = x[members[lane]]
            _moments(channel.reshape(-1), spans, totals[lane], squares[lane])
            if guess.size:
                _residual(channel, guess[members[lane]], cx, cy, alphas[g], raw)
                _moments(raw.reshape(-1), spans, rest_totals, rest_squares)
                _need(
                    squares[lane], totals[lane], rest_squares, rest_totals, sizes, tol,
                    rates[g], margins[g], counts[g], use[lane], limit,
                )  # fmt: skip
                totals[lane] = np.where(use[lane], rest_totals, totals[lane])
            means = totals[lane] / sizes
            _centre(channel.reshape(-1), raw.reshape(-1), use[lane], spans, means, rest.reshape(-1))
            _deal(rest, pitch, w, lane, b)
            out[members[lane]] = 0
        done, reached = 0, -1
        while reached < limit.max():
            reached = limit[limit > reached].min()
            if reached:
                _run(u, b, w, pitch, rows, omegas[g], done, reached - 1, kept, reached < limit.max())
                done = reached - 1
            for lane in range(len(members)):
                _collect(u, lane, pitch, rest)
                first = guess[members[lane]] if guess.size else rest
                _finish(
                    rest.reshape(-1), first.reshape(-1), use[lane], spans, sizes, totals[lane], limit, reached,
                    out[members[lane]].reshape(-1),
                )  # fmt: skip
            if 0 < reached < limit.max():
                u[done % 2], u[3 - done % 2] = kept[0], kept[1]
        most = max(most, reached)
        for lane in range(len(members)):
            whole = np.sum(squares[lane])
            if whole > 0:
                _residual(x[members[lane]], out[members[lane]], cx, cy, alphas[g], raw)
                _moments(raw.reshape(-1), spans, rest_totals, rest_squares)
                worst = max(worst, np.sqrt(np.sum(rest_squares) / whole))
        rest[:] = 0
    return most, worst
