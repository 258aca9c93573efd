"""Chebyshev steps on the two colours of a checkerboard: half of the work of steps on all pixels.

The four neighbours of a red pixel are black. Write ``A u = x`` as ``u = B u + D⁻¹x``, with D the diagonal of A. B maps
red to black and black to red, so a half-step updates one colour in place from the other (the cyclic Chebyshev method,
Golub & Varga 1961). The last half-step has ω = 1 and leaves no residual in its colour.

A channel lies in four planes, by the parities of row and column (plane ``2·(row odd) + (column odd)``). The neighbours
of a pixel are in two other planes: at the same place, and one place or one row further. Missing edges have weight 0, so
there is no frame. Channels of the same α are solved in groups of four, which share the weights. Half-steps run in
wavefronts: `DEPTH` of them pass over a block of rows while it is in the cache.

A group is solved by `prepare`, `run` and `read`.
"""

from collections.abc import Sequence
from math import prod
from threading import local
from typing import Any, NamedTuple

import numpy as np

from ...arrays import Array
from ...parallel import compiled
from .. import chebyshev
from .grid_kernels import residual_at, smallest

#: Channels in a group; half-steps in a wavefront; places of a plane in a block.
LANES, DEPTH, BLOCK = 4, 16, 2048
#: Numbers in a cache line; rows begin with one.
LINE = 16
#: Distance of planes in cache lines, modulo 64.
APART = 37
#: With first guesses, numbers of half-steps are rounded up to a multiple of this: fewer different ones.
EVEN = 4
#: Most bytes that a thread keeps for its next solve.
KEPT = 2**26

_kept = local()


# numba's cache files name these three classes: after renaming one, delete __pycache__.
class Problem(NamedTuple):
    """Channels of one image, with its edges and regions."""

    x: Array  # (C, H, W)
    guess: Array  # (C, H, W), or (0, H, W) for none
    out: Array  # (C, H, W)
    cx: Array  # (H+2, W+2), as in `grid_kernels`
    cy: Array
    spans: Array  # (n, 3): runs of pixels inside regions, as first, end, region
    sizes: Array  # pixels of each region
    tol: float


class Groups(NamedTuple):
    """Groups of channels of one α each; group g has ``channels[bounds[g] : bounds[g + 1]]``."""

    channels: Array
    bounds: Array
    alphas: Array  # from here on, one for each group
    rates: Array  # rates, margins and omegas as in `chebyshev.HalfSteps`
    margins: Array
    omegas: Array
    counts: Array  # most half-steps


class State(NamedTuple):
    """A group on its way through `prepare`, `run` and `read`. Planes are (4, lanes, size)."""

    channels: Array
    alpha: float
    rate: float
    margin: float
    omegas: Array
    most: int
    pitch: int
    rows: int
    w: Array  # (4, 5, size), the weights of B, and D⁻¹
    u: Array  # planes of the iterate
    b: Array  # planes of D⁻¹ times the right-hand side
    kept: Array  # planes that the last half-step overwrote
    raw: Array  # (H, W), a residual
    rest: Array  # (H, W), what goes into the planes and comes out of them
    totals: Array  # (lanes, regions), sums of the right-hand side
    squares: Array  # (lanes, regions), sums of x²
    use: Array  # (lanes, regions), whether to start from the guess
    limit: Array  # (regions,), half-steps to do


def layout(height: int, width: int) -> tuple[int, int, int]:
    """Return a plane's pitch, its rows and its size, with a row of zeros before and after the rows.

    Planes never lie a multiple of 4096 bytes apart: they would compete for the same few lines of the cache.
    """
    pitch, rows = -(-((width + 1) // 2) // LINE) * LINE, (height + 1) // 2
    lines = (rows + 2) * pitch // LINE
    return pitch, rows, (lines + (APART - lines) % 64) * LINE


def split(channels: Array) -> list[Array]:
    """Cut channels of one α into groups of 4, 3 or 1."""
    whole = len(channels) // LANES * LANES
    parts = [channels[first : first + LANES] for first in range(0, whole, LANES)]
    rest = channels[whole:]
    return parts + ([rest] if len(rest) == LANES - 1 else [rest[k : k + 1] for k in range(len(rest))])


def plan(
    groups: Sequence[tuple[float, Array]], conductances: tuple[float, float], tol: float, max_steps: int, dtype: Any
) -> Groups:
    """Plan the half-steps of groups, each (α, channels)."""
    plans = [chebyshev.half_steps(alpha, *conductances, tol) for alpha, _ in groups]
    counts = np.array([min(len(each.omegas) + 1, 2 * max_steps) for each in plans])
    omegas = np.zeros((len(plans), counts.max()), dtype)
    for row, each, count in zip(omegas, plans, counts, strict=True):
        row[: count - 1] = each.omegas[: count - 1]
    return Groups(
        np.concatenate([channels for _, channels in groups]),
        np.cumsum([0, *(len(channels) for _, channels in groups)]),
        np.array([alpha for alpha, _ in groups], dtype),
        np.array([each.rate for each in plans]),
        np.array([each.margin for each in plans]),
        omegas,
        counts,
    )


def solve(problem: Problem, groups: Groups) -> tuple[int, float]:
    """Solve for the groups' channels; return the most half-steps and the worst relative residual."""
    if not problem.sizes.size:
        problem.out[groups.channels] = 0
        return 0, 0.0
    pitch, rows, size = layout(*problem.x.shape[1:])
    times = 3 if problem.guess.size else 2  # u, b and, where regions stop at different times, kept
    lanes = LANES if len(groups.channels) > len(groups.alphas) else 0
    w, four, one = _scratch([(4, 5, size), (times, 4, lanes, size), (times, 4, 1, size)], problem.x.dtype)
    return _solve(problem, groups, pitch, rows, w, four, one)


def _scratch(shapes: Sequence[tuple[int, ...]], dtype: Any) -> list[Array]:
    """Return uninitialised arrays that begin with a cache line; the thread's next call reuses the memory."""
    item = np.dtype(dtype).itemsize
    sizes = [-(-prod(shape) * item // 64) * 64 for shape in shapes]
    raw: Array | None = getattr(_kept, "raw", None)
    if raw is None or len(raw) < sum(sizes) + 64:
        raw = np.empty(sum(sizes) + 64, np.uint8)
        if len(raw) <= KEPT:  # large blocks would be fetched from the system again and again
            _kept.raw = raw
    first, found = -raw.ctypes.data % 64, []
    for shape, size in zip(shapes, sizes, strict=True):
        found.append(raw[first : first + prod(shape) * item].view(dtype).reshape(shape))
        first += size
    return found


@compiled(fastmath={"contract"})
def _one(u: Array, side: Array, ends: Array, b: Array, w: Array, lo: int, hi: int, s: int, t: int, omega: Any) -> None:
    """Do ``u += ω (B u + D⁻¹x − u)`` for one channel at the places lo..hi of a plane.

    `side` and `ends` are the planes of the horizontal and of the vertical neighbours: one at the same place, the other
    `s` or `t` further.
    """
    u0, b0, w0, w1, w2, w3 = u[0, lo:hi], b[0, lo:hi], w[0, lo:hi], w[1, lo:hi], w[2, lo:hi], w[3, lo:hi]
    h0, i0, v0, j0 = side[0, lo:hi], side[0, lo + s : hi + s], ends[0, lo:hi], ends[0, lo + t : hi + t]
    for i in range(len(u0)):
        u0[i] += omega * ((b0[i] - u0[i]) + ((w0[i] * h0[i] + w1[i] * i0[i]) + (w2[i] * v0[i] + w3[i] * j0[i])))


@compiled(fastmath={"contract"})
def _four(u: Array, side: Array, ends: Array, b: Array, w: Array, lo: int, hi: int, s: int, t: int, omega: Any) -> None:
    """Do the same for four channels."""
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


@compiled()
def _half_step(u: Array, b: Array, w: Array, black: int, lo: int, hi: int, pitch: int, omega: Any) -> None:
    """Update one colour: the planes 0 and 3, or 1 and 2."""
    for plane in (black, 3 - black):
        s, t = 1 if plane & 1 else -1, pitch if plane & 2 else -pitch
        if u.shape[1] == 1:
            _one(u[plane], u[plane ^ 1], u[plane ^ 2], b[plane], w[plane], lo, hi, s, t, omega)
        else:
            _four(u[plane], u[plane ^ 1], u[plane ^ 2], b[plane], w[plane], lo, hi, s, t, omega)


@compiled()
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


@compiled(fastmath={"contract"}, error_model="numpy")
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


@compiled()
def _deal(x: Array, pitch: int, w: Array, lane: int, b: Array) -> None:
    """Write D⁻¹x to the planes of a lane."""
    height, width = x.shape
    for y in range(height):
        for odd in range(2):
            plane, first, count = 2 * (y % 2) + odd, (y // 2 + 1) * pitch, (width + 1 - odd) // 2
            row, inverse, out = x[y, odd:], w[plane, 4, first : first + count], b[plane, lane, first : first + count]
            for j in range(count):
                out[j] = inverse[j] * row[2 * j]


@compiled()
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


@compiled(fastmath={"contract"})
def _residual(x: Array, u: Array, cx: Array, cy: Array, alpha: Any, out: Array) -> None:
    """Write x − Au of (H, W); pixels outside every region mean nothing."""
    height, width = x.shape
    for y in range(height):
        # Neighbours that do not exist have the weight 0: any other pixel stands in.
        above, below = u[max(y - 1, 0)], u[min(y + 1, height - 1)]
        b, here, r = x[y], u[y], out[y]
        c_left, c_right, c_up, c_under = cx[y + 1, 1:], cx[y + 1, 2:], cy[y + 1, 1:], cy[y + 2, 1:]
        left, right = here[0 : width - 2], here[2:width]
        for i in range(1, width - 1):
            r[i] = residual_at(
                b[i], here[i], left[i - 1], right[i - 1], above[i], below[i],
                c_left[i], c_right[i], c_up[i], c_under[i], alpha,
            )  # fmt: skip
        for i in (0, width - 1):
            r[i] = residual_at(
                b[i], here[i], here[max(i - 1, 0)], here[min(i + 1, width - 1)], above[i], below[i],
                c_left[i], c_right[i], c_up[i], c_under[i], alpha,
            )  # fmt: skip


@compiled(fastmath={"reassoc"})
def _moments_of(x: Array) -> tuple[float, float]:
    total, squares = 0.0, 0.0
    for i in range(len(x)):
        value = np.float64(x[i])
        total += value
        squares += value * value
    return total, squares


@compiled()
def _moments(x: Array, spans: Array, totals: Array, squares: Array) -> None:
    """Sum each region, and its squares."""
    totals[:] = 0
    squares[:] = 0
    for k in range(spans.shape[0]):
        lo, hi, c = spans[k]
        total, square = _moments_of(x[lo:hi])
        totals[c] += total
        squares[c] += square


@compiled()
def _centre(x: Array, other: Array, use: Array, spans: Array, means: Array, out: Array) -> None:
    """Write x, or `other` in regions to `use` it in, without the region's mean."""
    for k in range(spans.shape[0]):
        lo, hi, c = spans[k]
        source, target, mean = other[lo:hi] if use[c] else x[lo:hi], out[lo:hi], out.dtype.type(means[c])
        for i in range(len(target)):
            target[i] = source[i] - mean


@compiled()
def _limit(
    totals: Array, squares: Array, rest_totals: Array, rest_squares: Array, sizes: Array, tol: float,
    rate: float, margin: float, most: int, use: Array, limit: Array,
) -> None:  # fmt: skip
    """From the moments of x and of a guess's residual: `use` the guess or not, and raise each region's `limit`."""
    for c in range(sizes.size):
        plain = squares[c] - totals[c] ** 2 / sizes[c]
        left = rest_squares[c] - rest_totals[c] ** 2 / sizes[c]
        use[c] = left < plain
        left, wanted = np.sqrt(max(min(left, plain), 0.0)), tol * np.sqrt(squares[c])
        if left > wanted:
            need = 1 + np.int64(np.ceil(np.arccosh(margin * left / wanted) / rate))
            limit[c] = max(limit[c], min((need + EVEN - 1) // EVEN * EVEN, most))


@compiled()
def prepare(problem: Problem, state: State) -> None:
    """Write the right-hand side to the planes, and to `limit` how many half-steps each region takes.

    It is x without the regions' means. Regions whose guess has a smaller residual than that take this residual, again
    without its mean, and only as many half-steps as it needs.
    """
    rest_totals, rest_squares = np.empty(problem.sizes.size), np.empty(problem.sizes.size)
    state.u[:] = 0
    state.rest[:] = 0
    state.limit[:] = 0 if problem.guess.size else state.most
    for lane in range(len(state.channels)):
        channel = state.channels[lane]
        x, totals, use = problem.x[channel], state.totals[lane], state.use[lane]
        _moments(x.reshape(-1), problem.spans, totals, state.squares[lane])
        if problem.guess.size:
            _residual(x, problem.guess[channel], problem.cx, problem.cy, state.alpha, state.raw)
            _moments(state.raw.reshape(-1), problem.spans, rest_totals, rest_squares)
            _limit(
                totals, state.squares[lane], rest_totals, rest_squares, problem.sizes, problem.tol,
                state.rate, state.margin, state.most, use, state.limit,
            )  # fmt: skip
            totals[:] = np.where(use, rest_totals, totals)
        means = totals / problem.sizes
        _centre(x.reshape(-1), state.raw.reshape(-1), use, problem.spans, means, state.rest.reshape(-1))
        _deal(state.rest, state.pitch, state.w, lane, state.b)
        problem.out[channel] = 0


@compiled()
def run(state: State, done: int, wanted: int) -> int:
    """Go from `done` half-steps to `wanted`, the last with ω = 1; return how many the next call may go on from."""
    if wanted == 0:
        return 0
    u, kept, last = state.u, state.kept, wanted - 1
    if done:
        u[done % 2], u[3 - done % 2] = kept[0], kept[1]
    _half_steps(u, state.b, state.w, state.pitch, state.rows, state.omegas[done:last], done % 2)
    if wanted < state.limit.max():
        kept[0], kept[1] = u[last % 2], u[3 - last % 2]
    _half_steps(u, state.b, state.w, state.pitch, state.rows, np.ones(1, state.omegas.dtype), last % 2)
    return last


@compiled()
def read(problem: Problem, state: State, wanted: int) -> None:
    """Write the solution in regions of this limit: the iterate, the mean, and the guess where it was used.

    Smoothing keeps a region's sum, half-steps only to the tolerance. So the mean is put back such that the sum is exact
    to rounding.
    """
    for lane in range(len(state.channels)):
        channel = state.channels[lane]
        _collect(state.u, lane, state.pitch, state.rest)
        rest, out = state.rest.reshape(-1), problem.out[channel].reshape(-1)
        guess = problem.guess[channel].reshape(-1) if problem.guess.size else rest
        shift = state.totals[lane].copy()
        for k in range(problem.spans.shape[0]):
            lo, hi, c = problem.spans[k]
            if state.limit[c] == wanted:
                shift[c] -= _moments_of(rest[lo:hi])[0]
        shift /= problem.sizes
        for k in range(problem.spans.shape[0]):
            lo, hi, c = problem.spans[k]
            if state.limit[c] == wanted:
                source, target, by = rest[lo:hi], out[lo:hi], out.dtype.type(shift[c])
                for i in range(len(target)):
                    target[i] = source[i] + by
                if state.use[lane, c]:
                    target += guess[lo:hi]


@compiled()
def _worst_residual(problem: Problem, state: State) -> float:
    """The largest relative residual of the group's solutions; data below `smallest` count as such."""
    worst, totals, squares = 0.0, np.empty(problem.sizes.size), np.empty(problem.sizes.size)
    least = np.sqrt(np.sum(problem.sizes)) * smallest(problem.x.dtype)
    for lane in range(len(state.channels)):
        channel, size = state.channels[lane], max(np.sqrt(np.sum(state.squares[lane])), least)
        if size > 0:
            _residual(problem.x[channel], problem.out[channel], problem.cx, problem.cy, state.alpha, state.raw)
            _moments(state.raw.reshape(-1), problem.spans, totals, squares)
            worst = max(worst, np.sqrt(np.sum(squares)) / size)
    return worst


@compiled()
def _solve(
    problem: Problem, groups: Groups, pitch: int, rows: int, w: Array, four: Array, one: Array
) -> tuple[int, float]:
    """Solve group after group; `four` and `one` are memory for u, b and kept of four channels and of one."""
    shape, regions = problem.x.shape[1:], problem.sizes.size
    raw, rest = np.zeros(shape, problem.x.dtype), np.zeros(shape, problem.x.dtype)
    totals, squares = np.empty((LANES, regions)), np.empty((LANES, regions))
    use, limit = np.zeros((LANES, regions), np.bool_), np.empty(regions, np.int64)
    w[:, :4], w[:, 4] = 0, 1
    four[1], one[1] = 0, 0
    most, worst, weighed = 0, 0.0, -1.0
    for g in range(len(groups.alphas)):
        channels = groups.channels[groups.bounds[g] : groups.bounds[g + 1]]
        u, b, kept = (four[0], four[1], four[-1]) if len(channels) > 1 else (one[0], one[1], one[-1])
        state = State(
            channels, groups.alphas[g], groups.rates[g], groups.margins[g], groups.omegas[g], groups.counts[g],
            pitch, rows, w, u, b, kept, raw, rest, totals, squares, use, limit,
        )  # fmt: skip
        if state.alpha != weighed:
            _weigh(problem.cx, problem.cy, pitch, state.alpha, w)
            weighed = state.alpha
        prepare(problem, state)
        done, wanted = int(np.int64(0)), -1  # a plain 0 would have `run` compiled once more
        while wanted < limit.max():  # a region is read after its own number of half-steps, whatever others need
            wanted = limit[limit > wanted].min()
            done = run(state, done, wanted)
            read(problem, state, wanted)
        most = max(most, wanted)
        worst = max(worst, _worst_residual(problem, state))
    return most, worst
