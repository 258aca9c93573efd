"""`smooth`: checks its arguments, chooses a backend and reports convergence."""

from functools import lru_cache, partial
from typing import Literal, get_args, overload

import torch
from torch import Tensor

from . import torch_backend
from .autograd import Settings, Solve, Solver, check_values
from .operator import Edges, edges_of
from .stats import Stats

Backend = Literal["auto", "chebyshev", "multigrid", "triton", "torch", "dense"]


@overload
def smooth(
    x: Tensor, labels: Tensor | Edges, alpha: float | Tensor, tol: float = ..., *, screening: Tensor | None = ...,
    guess: Tensor | None = ..., backend: Backend = ..., max_steps: int | None = ..., return_stats: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip
@overload
def smooth(
    x: Tensor, labels: Tensor | Edges, alpha: float | Tensor, tol: float = ..., *, screening: Tensor | None = ...,
    guess: Tensor | None = ..., backend: Backend = ..., max_steps: int | None = ..., return_stats: Literal[True],
) -> tuple[Tensor, Stats]: ...  # fmt: skip
def smooth(
    x: Tensor,
    labels: Tensor | Edges,
    alpha: float | Tensor,
    tol: float = 1e-4,
    *,
    screening: Tensor | None = None,
    guess: Tensor | None = None,
    backend: Backend = "auto",
    max_steps: int | None = None,
    return_stats: bool = False,
) -> Tensor | tuple[Tensor, Stats]:
    """Smooth each channel inside each region: solve ``u − αΔu = x`` with no flux across boundaries (`eq:poisson`).

    Differentiable in `x`, in `alpha` and, when `Edges` are given, in their conductances: backward, double backward,
    forward mode and `torch.func.vmap`. With a screening s it solves ``s u − αΔu = s x``, differentiable in s too
    (backward and double backward).

    Parameters
    ----------
    x : Tensor, (B, C, H, W), float32 or float64
        Data. What lies outside every region is ignored and may be anything, NaN too.
    labels : integer Tensor, (B, H, W), or Edges
        Two 4-neighbours exchange data iff their labels are equal and >= 0; a pixel with a negative label is outside
        every region and comes back 0. `Edges` (see `edges_of`) are the conductances themselves; solvers keep there
        what they derive from them, so one object for several calls saves work.
    alpha : number or Tensor
        Scale, in pixels², from 0 (identity): one number, one for each channel (C,), or several scales of the same
        channels as (A, C) or (A, 1).
    tol : float
        Relative residual to reach, in every region.
    screening : Tensor, (B, H, W), optional
        How strongly each pixel holds on to its data, above 0; 1 everywhere is the equation without it. For one α a
        channel, with backend "auto".
    guess : Tensor, optional
        First guess, of the result's shape; saves time with the compiled backends. It carries no gradient.
    backend : {"auto", "chebyshev", "multigrid", "triton", "torch", "dense"}
        "chebyshev" and "multigrid" are compiled for the CPU; "triton" takes fused steps on a GPU (without Triton as
        "torch"); "torch" runs on any device; "dense" inverts A. "auto" takes the fastest for each channel; on a GPU,
        half-steps that stay on the chip. An `alpha` on the CPU saves waiting for the GPU.
    max_steps : int, optional
        Limit on iterations.
    return_stats : bool
        Return ``(u, Stats)``.

    Returns
    -------
    Tensor, (B, C, H, W), or (B, A, C, H, W) for several scales.

    Warns
    -----
    ConvergenceWarning
        When `tol` is missed, with what to try.

    Examples
    --------
    A step between two regions stays, inside a region it is blurred:

    >>> x = torch.tensor([[[[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]]]])
    >>> smooth(x, torch.tensor([[[0, 0, 0, 1, 1, 1]]]), 10.0)
    tensor([[[[0., 0., 0., 1., 1., 1.]]]])
    >>> smooth(x, torch.tensor([[[0, 0, 0, 0, 0, 0]]]), 10.0, tol=1e-6).round(decimals=2)
    tensor([[[[0.3400, 0.3700, 0.4400, 0.5600, 0.6300, 0.6600]]]])
    """
    _check_data(x)
    _check_labels(x, labels)
    scales = _check_alpha(x, alpha)
    if not 0.0 < tol < 1.0:
        raise ValueError(f"tol must be between 0 and 1, got {tol}")
    if max_steps is not None and max_steps < 1:
        raise ValueError(f"max_steps must be at least 1, got {max_steps}")
    edges = labels if isinstance(labels, Edges) else edges_of(labels, x.dtype)
    shape = (x.shape[0], *scales.shape, *x.shape[2:])
    several = isinstance(alpha, Tensor) and alpha.ndim == 2
    if guess is not None:
        guess = _check_guess(guess, x, shape, several)
    if screening is not None:
        found = _screened(x, edges, alpha, scales, screening, tol, max_steps, guess, backend)
        return found if return_stats else found[0]
    measured = return_stats or max_steps is not None  # else the number of steps keeps the tolerance
    settings = Settings(_choose(x, backend, alpha, measured), tol, max_steps, guess, edges.derived)
    u = _solved(x, edges, scales, settings, several)
    if not return_stats:
        return u
    if settings.stats is None:  # under vmap the settings are copied on the way
        raise ValueError("return_stats is not available under torch.func.vmap")
    return u, settings.stats


def smooth_trusted(
    x: Tensor, edges: Edges, alpha: float | Tensor, tol: float, guess: Tensor | None, backend: Backend
) -> Tensor:
    """`smooth` for data of our own: nothing is looked at on a GPU, so that nothing has to wait for it."""
    scales, several = _check_alpha(x, alpha), isinstance(alpha, Tensor) and alpha.ndim == 2
    if guess is not None:
        guess = guess.detach().reshape(x.shape[0], *scales.shape, *x.shape[2:])
    solver = _choose(x, backend, alpha, measured=False)
    settings = Settings(solver, tol, None, guess, edges.derived, trusted=x.device.type != "cpu")
    return _solved(x, edges, scales, settings, several)


def _solved(x: Tensor, edges: Edges, scales: Tensor, settings: Settings, several: bool) -> Tensor:
    if settings.trusted and not torch.is_grad_enabled():  # nothing to remember for a gradient
        u, _ = settings.solver(x, edges, scales, settings.tol, settings.guess, settings.max_steps)
    else:
        u = Solve.apply(x, edges.across.to(x.dtype), edges.down.to(x.dtype), edges.inside, scales, settings)
    return u if several else u.squeeze(1)


def _screened(
    x: Tensor, edges: Edges, alpha: float | Tensor, scales: Tensor, screening: Tensor, tol: float,
    max_steps: int | None, guess: Tensor | None, backend: str,
) -> tuple[Tensor, Stats]:  # fmt: skip
    from .screened import smooth_screened  # here, since it is compiled

    images, _, height, width = x.shape
    if not isinstance(screening, Tensor) or tuple(screening.shape) != (images, height, width):
        got = tuple(screening.shape) if isinstance(screening, Tensor) else type(screening).__name__
        raise ValueError(f"screening must be a tensor of the shape {(images, height, width)}, got {got}")
    if backend != "auto" or (isinstance(alpha, Tensor) and alpha.ndim == 2):
        raise ValueError("screening goes with backend='auto' and one alpha for each channel")
    held = screening[edges.inside]
    if not bool((torch.isfinite(held) & (held > 0)).all()):
        raise ValueError("screening must be finite and positive inside the regions")
    check_values(x, edges.across, edges.down, edges.inside, scales)
    first = None if guess is None else guess[:, 0]
    return smooth_screened(x, edges, scales[0], screening.to(x.dtype), tol, max_steps, first)


def _check_data(x: Tensor) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a torch.Tensor, got {type(x).__name__}")
    if x.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"x must be float32 or float64, got {x.dtype}")
    if x.ndim != 4:
        raise ValueError(f"x must have the shape (B, C, H, W), got {tuple(x.shape)}")
    if x.numel() == 0:
        raise ValueError(f"x must not be empty, got shape {tuple(x.shape)}")


def _check_labels(x: Tensor, labels: Tensor | Edges) -> None:
    images, _, height, width = x.shape
    if isinstance(labels, Edges):
        parts = [
            ("labels.across", labels.across, (images, height, width - 1)),
            ("labels.down", labels.down, (images, height - 1, width)),
            ("labels.inside", labels.inside, (images, height, width)),
        ]
    elif isinstance(labels, Tensor):
        if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
            hint = "; for a mask, give mask.long() - 1" if labels.dtype == torch.bool else ""
            raise TypeError(f"labels must be integers, got {labels.dtype}{hint}")
        parts = [("labels", labels, (images, height, width))]
    else:
        raise TypeError(f"labels must be an integer torch.Tensor or Edges, got {type(labels).__name__}")
    for name, part, shape in parts:
        if tuple(part.shape) != shape:
            raise ValueError(f"{name} must have the shape {shape} to fit x {tuple(x.shape)}, got {tuple(part.shape)}")
        if part.device != x.device:
            raise ValueError(f"{name} must be on the device of x, {x.device}; it is on {part.device}")


def _check_alpha(x: Tensor, alpha: float | Tensor) -> Tensor:
    """Return alpha as (A, C)."""
    channels = x.shape[1]
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float, Tensor)):
        raise TypeError(f"alpha must be a number or a torch.Tensor, got {type(alpha).__name__}")
    if not isinstance(alpha, Tensor):
        alpha = torch.tensor(float(alpha))
    if alpha.is_complex() or alpha.dtype == torch.bool:
        raise TypeError(f"alpha must be real numbers, got {alpha.dtype}")
    if alpha.ndim > 2 or alpha.numel() == 0 or (alpha.ndim > 0 and alpha.shape[-1] not in (1, channels)):
        raise ValueError(
            f"alpha must be a number, ({channels},) one for each channel, or (A, {channels}) or (A, 1) several scales; "
            f"got shape {tuple(alpha.shape)}"
        )
    shape = (-1 if alpha.ndim == 2 else 1, alpha.shape[-1] if alpha.ndim else 1)
    if _on_host(alpha) and x.device.type != "cpu" and not alpha.requires_grad:
        alpha = _copied(tuple(alpha.flatten().tolist()), x.device, x.dtype)
    return alpha.to(x.device, x.dtype).reshape(shape).expand(-1, channels)


def _on_host(alpha: float | Tensor) -> bool:
    """Whether alpha's values can be read without waiting for a device, and are not mapped by `torch.func.vmap`."""
    plain = not isinstance(alpha, Tensor) or not torch._C._functorch.is_functorch_wrapped_tensor(alpha)
    return plain and (not isinstance(alpha, Tensor) or alpha.device.type == "cpu")


@lru_cache(maxsize=256)
def _copied(values: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Values on a device; kept, since a copy would wait for all that the device has to do."""
    with torch.inference_mode(False):  # it may be for a gradient the next time
        return torch.tensor(values, device=device, dtype=dtype)


def _check_guess(guess: Tensor, x: Tensor, shape: tuple[int, ...], several: bool) -> Tensor:
    wanted = shape if several else (shape[0], *shape[2:])
    if not isinstance(guess, Tensor) or tuple(guess.shape) != wanted:
        got = tuple(guess.shape) if isinstance(guess, Tensor) else type(guess).__name__
        raise ValueError(f"guess must be a tensor of the result's shape {wanted}, got {got}")
    if guess.device != x.device:
        raise ValueError(f"guess must be on the device of x, {x.device}; it is on {guess.device}")
    # Look at every value only where the sum is not finite.
    if not bool(torch.isfinite(guess.sum())) and not bool(torch.isfinite(guess).all()):
        raise ValueError("guess must be finite")
    return guess.detach().reshape(shape)


def _choose(x: Tensor, backend: str, alpha: float | Tensor, measured: bool) -> Solver:
    """Return the solver for a backend's name; see `cuda.solve` for `measured`."""
    if backend not in get_args(Backend):
        raise ValueError(f"backend must be one of {', '.join(map(repr, get_args(Backend)))}, got {backend!r}")
    if backend == "dense":
        return torch_backend.solve_dense
    if backend == "torch":
        return torch_backend.solve
    if backend == "triton" and x.device.type == "cpu":
        raise ValueError("backend='triton' runs on a GPU; x is on the CPU. Use backend='auto'.")
    if backend == "triton":
        return partial(torch_backend.solve, fused=True)
    if x.device.type == "cpu":
        from .cpu import dispatch  # here, since a GPU does without numba

        return partial(dispatch.solve, method=None if backend == "auto" else backend)
    if backend != "auto":
        raise ValueError(f"backend={backend!r} runs on the CPU; x is on {x.device}. Use backend='auto'.")
    if x.device.type != "cuda":
        return torch_backend.solve
    from . import cuda

    largest = (float(alpha.max()) if isinstance(alpha, Tensor) else float(alpha)) if _on_host(alpha) else None
    return partial(cuda.solve, largest=largest, measured=measured)
