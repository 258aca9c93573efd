"""`shapetailor bench train`: one gradient of the paper's network, by implicit differentiation and by two other ways.

All compute the derivative of `eq:loss` in every weight for the same pictures, and differ only in the solves:

- ours: `shapetailor.smooth`, whose backward pass is another solve;
- explicit inverse, the paper's way (`eq:invPoisson`): a matrix A⁻¹ for each picture and α, then matrix products;
- unrolled: a loop of torch operations which autograd records and runs backward, either Chebyshev steps (as
  backend="torch" takes them) or conjugate gradients.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..datasets import FAMILIES, mosaic, texture
from ..loss import region_loss
from ..network.config import STDNNConfig
from ..network.region_grid import Domain
from ..network.stdnn import STDNN
from ..poisson import chebyshev
from ..poisson.operator import edges_of, laplacian
from ..poisson.torch_backend import operator_matrix, steps
from .measure import Outcome, best_times, chosen_sizes, machine, peak_memory, progress
from .report import NOTHING, Data, duration, megabytes, page, text_table, verdict

Smoother = Callable[[Domain, Tensor, Tensor], Tensor]

SIZES, QUICK_SIZES = (32, 64, 256), (32, 80)
#: Pictures in a batch; but one for the unrolled solvers, which would need 40 GB for four of 256².
IMAGES = 4
#: Sides up to this are compared with the explicit inverse, larger ones with the unrolled solvers.
LARGEST_EXPLICIT = 64
#: Relative difference of all gradients together that still counts as equal.
ACCURACY = 1e-2
OURS, READY, COMPUTED = "ours", "explicit, inverses ready", "explicit, inverses computed"
CHEBYSHEV, CONJUGATE = "unrolled Chebyshev", "unrolled conjugate gradients"


@dataclass(frozen=True)
class GradientTiming:
    """One way to the gradient at one size; no seconds where the gradient was wrong, no memory where not taken."""

    size: int
    method: str
    error: float
    seconds: float | None
    memory: int | None


class _Net(STDNN):
    """The network, with another smoother where `smoother` is set."""

    smoother: Smoother | None = None

    def domain(self, labels: Tensor, dtype: torch.dtype) -> Domain:
        domain = super().domain(labels, dtype)
        if self.smoother is not None:
            domain.smooth = partial(self.smoother, domain)  # type: ignore[method-assign]
        return domain


def run(sizes: Sequence[int] | None = None, quick: bool = False, accuracy: float = ACCURACY) -> Outcome:
    """Measure everything and report it; gradients that differ by more than `accuracy` are wrong and not timed."""
    chosen = chosen_sizes(sizes, QUICK_SIZES if quick else SIZES, 16)
    begin, where = time.perf_counter(), machine()
    gradient(*make_batch(16))  # compile, and start what starts once
    timings = [
        timing
        for size in chosen
        for timing in (explicit_timings if size <= LARGEST_EXPLICIT else unrolled_timings)(size, quick, accuracy)
    ]
    data: Data = {
        "benchmark": "train",
        "machine": where,
        "settings": {"sizes": chosen, "images": IMAGES, "accuracy": accuracy, "tol": STDNNConfig().tol},
        "rows": [asdict(each) for each in timings],
    }
    data["targets"] = judge(timings)
    data["seconds"] = time.perf_counter() - begin
    return Outcome(_report(data), data, all(each.error <= accuracy for each in timings))


def make_batch(size: int, seed: int = 0) -> tuple[_Net, Tensor, Tensor]:
    """Make the paper's network with its alphas for this size, and pictures of two textures, prepared."""
    rng = np.random.default_rng([seed, size])
    samples = []
    for _ in range(IMAGES if size <= LARGEST_EXPLICIT else 1):
        one, two = rng.choice(sorted(FAMILIES), 2, replace=False)
        samples.append(mosaic([texture(one, size, rng, colour=True), texture(two, size, rng, colour=True)], size, rng))
    torch.manual_seed(seed)
    config = STDNNConfig()
    net = _Net(config)
    if size != config.resolution:
        net = net.rescaled(size)  # type: ignore[assignment]
    images = torch.from_numpy(np.stack([sample.image for sample in samples])).movedim(3, 1) / 255
    labels = torch.from_numpy(np.stack([sample.truths[0] for sample in samples]))
    image = net.prepare(images)
    net.fit_statistics([(image, labels)])
    return net, image, labels


def gradient(net: _Net, image: Tensor, labels: Tensor, smoother: Smoother | None = None) -> Tensor:
    """Return the derivative of the loss in all weights, as one vector: one forward and one backward pass."""
    net.smoother = smoother
    loss = region_loss(net(image, labels), labels)
    parts = torch.autograd.grad(loss, list(net.parameters()))
    return torch.cat([part.flatten() for part in parts])


def invert(net: STDNN, labels: Tensor) -> dict[float, Tensor]:
    """Return A⁻¹ of every picture, (B, N, N) in float32, for each α of the network."""
    alphas = sorted({alpha for stage in net.stages for alpha in stage.fixed})
    edges = [edges_of(each[None]) for each in labels]
    return {a: torch.cat([torch.linalg.inv(operator_matrix(e, a, torch.float32)) for e in edges]) for a in alphas}


def explicit_smooth(inverses: dict[float, Tensor], domain: Domain, x: Tensor, alpha: Tensor) -> Tensor:
    """Multiply by ready inverses."""
    flat = x.flatten(2)
    if alpha.ndim == 2:
        return torch.stack([(flat @ inverses[a]).reshape(x.shape) for a in alpha[:, 0].tolist()], dim=1)
    (only,) = alpha.unique().tolist()
    return (flat @ inverses[only]).reshape(x.shape)


def chebyshev_smooth(domain: Domain, x: Tensor, alpha: Tensor) -> Tensor:
    """Take as many Chebyshev steps as the tolerance asks for; autograd records them."""
    kappa = chebyshev.condition(float(alpha.max()))
    gamma, omegas = chebyshev.step_weights(kappa, chebyshev.step_count(kappa, domain.tol))
    several = alpha if alpha.ndim == 2 else alpha[None]
    u = steps(x, domain.edges.across, domain.edges.down, several, gamma, omegas.tolist())
    return u if alpha.ndim == 2 else u.squeeze(1)


def conjugate_smooth(domain: Domain, x: Tensor, alpha: Tensor) -> Tensor:
    """Run conjugate gradients on all channels until each reaches the tolerance; autograd records them."""
    edges, a = domain.edges, _by_scale(alpha)
    tiny = torch.finfo(x.dtype).tiny

    def dot(one: Tensor, two: Tensor) -> Tensor:
        return (one * two).sum((-2, -1), keepdim=True)

    u = b = x[:, None].expand(-1, a.shape[1], -1, -1, -1)
    r = p = -a * laplacian(u, edges.across, edges.down)
    rr, goal = dot(r, r), domain.tol**2 * dot(b, b).detach()
    while bool((rr > goal).any()):
        q = p + a * laplacian(p, edges.across, edges.down)
        step = rr / dot(p, q).clamp_min(tiny)
        u, r = u + step * p, r - step * q
        rr, old = dot(r, r), rr
        p = r + rr / old.clamp_min(tiny) * p
    return u if alpha.ndim == 2 else u.squeeze(1)


def _by_scale(alpha: Tensor) -> Tensor:
    """Reshape (scales, channels) or (channels,) for images (B, scales, channels, H, W)."""
    return alpha.reshape(1, -1 if alpha.ndim == 2 else 1, alpha.shape[-1], 1, 1)


UNROLLED: dict[str, Smoother] = {CHEBYSHEV: chebyshev_smooth, CONJUGATE: conjugate_smooth}


def explicit_timings(size: int, quick: bool, accuracy: float = ACCURACY) -> list[GradientTiming]:
    """Compare with the explicit inverse; computing inverses is timed once and added."""
    progress(f"{size}²: explicit inverse")
    net, image, labels = make_batch(size)
    begin = time.perf_counter()
    inverses = invert(net, labels)
    inverting = time.perf_counter() - begin
    ways: dict[str, Smoother | None] = {OURS: None, READY: partial(explicit_smooth, inverses)}
    timings = compare(size, (net, image, labels), ways, {}, quick, accuracy)
    ready = timings[-1]
    seconds = None if ready.seconds is None else ready.seconds + inverting
    return [*timings, GradientTiming(size, COMPUTED, ready.error, seconds, None)]


def unrolled_timings(size: int, quick: bool, accuracy: float = ACCURACY) -> list[GradientTiming]:
    """Compare with the unrolled solvers, memory too."""
    ways: dict[str, Smoother | None] = {OURS: None, **UNROLLED}
    memory = {}
    for name in ways:
        progress(f"{size}²: memory of {name}")
        memory[name] = peak_memory(_prepare, size, name)
    progress(f"{size}²: times")
    return compare(size, make_batch(size), ways, memory, quick, accuracy)


def _prepare(size: int, name: str) -> Callable[[], object]:
    smoother = UNROLLED.get(name)
    gradient(*make_batch(16), smoother)
    return partial(gradient, *make_batch(size), smoother)


def compare(
    size: int, batch: tuple[_Net, Tensor, Tensor], ways: dict[str, Smoother | None], memory: dict[str, int | None],
    quick: bool, accuracy: float = ACCURACY,
) -> list[GradientTiming]:  # fmt: skip
    """Compare every way's gradient with a tight one, then time those that agree, in turns."""
    reference = tight_gradient(*batch)
    errors = {
        name: float((gradient(*batch, smoother) - reference).norm() / reference.norm())
        for name, smoother in ways.items()
    }
    calls = {name: partial(gradient, *batch, ways[name]) for name in ways if errors[name] <= accuracy}
    times = best_times(calls, 0.3 if quick else 3.0, 5 if quick else 30)
    return [GradientTiming(size, name, errors[name], times.get(name), memory.get(name)) for name in ways]


def tight_gradient(net: _Net, image: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient that all are compared with: ours in float64, to a relative residual of 1e-8."""
    exact = _Net(replace(net.config, tol=1e-8)).double()
    exact.load_state_dict(net.state_dict())
    return gradient(exact, image.double(), labels).float()


def judge(timings: Sequence[GradientTiming]) -> list[Data]:
    """Compare what was measured with the targets."""
    seconds = {(each.size, each.method): each.seconds for each in timings if each.seconds is not None}
    memory = {(each.size, each.method): each.memory for each in timings if each.memory}
    found = []
    for size, name, target in [(32, READY, 1.0), (32, COMPUTED, 10.0), (256, CHEBYSHEV, 5.0), (256, CONJUGATE, 5.0)]:
        if (size, name) in seconds and (size, OURS) in seconds:
            ratio = seconds[size, name] / seconds[size, OURS]
            found.append(verdict(f"times faster than {name} at {size}²", ratio, target, at_least=True))
    for name in UNROLLED:
        if (256, name) in memory and (256, OURS) in memory:
            share = memory[256, OURS] / memory[256, name]
            found.append(verdict(f"memory over that of {name} at 256²", share, 0.2, at_least=False))
    return found


def _report(data: Data) -> str:
    accuracy = data["settings"]["accuracy"]
    words = (
        "One forward and backward pass of the paper's network, float32, no optimiser. Pictures of two textures:"
        f"\n{IMAGES} up to {LARGEST_EXPLICIT}², 1 above. Error: relative difference of all gradients together from ours"
        f"\nin float64 to 1e-8; at most {accuracy:g}. Best time of several. Inverses computed: the step with inverses"
        "\nready, plus the time to invert, taken once. Memory: rise of the resident peak, in a process of its own."
        f"\n{NOTHING}: not taken, or wrong."
    )
    ours = {row["size"]: row["seconds"] for row in data["rows"] if row["method"] == OURS}
    lines = []
    for row in data["rows"]:
        base = ours[row["size"]]
        ratio = f"{row['seconds'] / base:.3g}×" if row["seconds"] and base else NOTHING
        time_and_memory = duration(row["seconds"]), ratio, megabytes(row["memory"])
        lines.append([f"{row['size']}²", row["method"], f"{row['error']:.0e}", *time_and_memory])
    table = text_table(["size", "method", "error", "time", "over ours", "memory"], lines)
    return page("Training benchmark", data["machine"], words, [table], data["targets"])
