"""The explicit inverse of A (`eq:invPoisson`), as in the paper: for small images."""

import torch
from torch import Tensor

from .operator import Edges, laplacian
from .stats import Stats, combine

#: An N×N matrix in float64 for each image; 96² pixels are 680 MB.
MOST_PIXELS = 96 * 96


def operator_matrix(edges: Edges, alpha: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return A = I + αL as (B, N, N), N = H·W in raster order."""
    images, height, width = edges.inside.shape
    n = height * width
    unit = torch.eye(n, dtype=dtype, device=edges.inside.device).reshape(1, n, height, width).expand(images, -1, -1, -1)
    columns = unit + alpha * laplacian(unit, edges.across.detach().to(dtype), edges.down.detach().to(dtype))
    return columns.reshape(images, n, n)


def inverse_matrix(edges: Edges, alpha: float) -> Tensor:
    """Return A⁻¹ as (B, N, N) in float64; kept with the edges."""
    key = ("inverse", alpha)
    if key not in edges.derived:
        edges.derived[key] = torch.linalg.inv(operator_matrix(edges, alpha))
    inverse: Tensor = edges.derived[key]
    return inverse


def solve(
    x: Tensor, edges: Edges, alpha: Tensor, tol: float, guess: Tensor | None = None, max_steps: int | None = None
) -> tuple[Tensor, Stats]:
    """Solve for x (B, C, H, W) at alpha (A, C): (B, A, C, H, W), and how it went."""
    images, channels, height, width = x.shape
    if height * width > MOST_PIXELS:
        raise ValueError(
            f"backend='dense' inverts an N×N matrix and takes images of at most {MOST_PIXELS} pixels; "
            f"got {height}×{width}. Use backend='auto'."
        )
    rhs = torch.where(edges.inside[:, None], x.detach().double(), 0).reshape(images, channels, -1)
    out = torch.empty((images, *alpha.shape, height, width), dtype=torch.float64, device=x.device)
    for value in alpha.detach().double().unique().tolist():
        solved = (rhs @ inverse_matrix(edges, value)).reshape(images, 1, channels, height, width)
        out = torch.where((alpha.detach().double() == value)[None, :, :, None, None], solved, out)
    a = alpha.detach().double()[None, :, :, None, None]
    left = rhs.reshape(images, 1, channels, height, width) - out
    left = left - a * laplacian(out, edges.across.detach().double(), edges.down.detach().double())
    size = rhs.norm(dim=2)[:, None].clamp_min(torch.finfo(torch.float64).tiny)
    return out.to(x.dtype), combine([("dense", 1, float((left.flatten(3).norm(dim=3) / size).max()))], tol)
