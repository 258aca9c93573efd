"""GPU kernel (Triton): one Chebyshev step in one pass over memory."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

BLOCK = 1024


@triton.jit
def _step_kernel(  # type: ignore[no-untyped-def]
    u, old, rhs, across, down, alpha, gamma, omega, height, width, channels, scales, BLOCK: tl.constexpr
):
    """Write u_{k+1} = u_{k−1} + ω (γ r_k + u_k − u_{k−1}) over u_{k−1}, for one block of one channel."""
    plane = tl.program_id(0)  # channels are the fastest index, so that they share the cached edges
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    size = height * width
    inside = pixel < size
    y, x = pixel // width, pixel % width
    image, channel = plane // (scales * channels), plane % channels
    base = plane.to(tl.int64) * size
    here = tl.load(u + base + pixel, mask=inside, other=0.0)
    up = tl.load(u + base + pixel - width, mask=inside & (y > 0), other=0.0)
    under = tl.load(u + base + pixel + width, mask=inside & (y < height - 1), other=0.0)
    left = tl.load(u + base + pixel - 1, mask=inside & (x > 0), other=0.0)
    right = tl.load(u + base + pixel + 1, mask=inside & (x < width - 1), other=0.0)
    c_left = tl.load(across + image * height * (width + 1) + y * (width + 1) + x, mask=inside, other=0.0)
    c_right = tl.load(across + image * height * (width + 1) + y * (width + 1) + x + 1, mask=inside, other=0.0)
    c_up = tl.load(down + image * (height + 1) * width + pixel, mask=inside, other=0.0)
    c_under = tl.load(down + image * (height + 1) * width + pixel + width, mask=inside, other=0.0)
    b = tl.load(rhs + (image * channels + channel).to(tl.int64) * size + pixel, mask=inside, other=0.0)
    before = tl.load(old + base + pixel, mask=inside, other=0.0)
    a = tl.load(alpha + plane % (scales * channels))
    vertical = c_up * (up - here) + c_under * (under - here)
    horizontal = c_left * (left - here) + c_right * (right - here)
    residual = (b - here) + a * (vertical + horizontal)
    tl.store(old + base + pixel, before + omega * (gamma * residual + (here - before)), mask=inside)


class Stepper:
    """Runs Chebyshev steps for x (B, C, H, W) at alpha (A, C) on the GPU."""

    def __init__(self, rhs: Tensor, across: Tensor, down: Tensor, alpha: Tensor) -> None:
        self.rhs, self.alpha = rhs.contiguous(), alpha.contiguous()
        self.across, self.down = pad(across, (1, 1)).contiguous(), pad(down, (0, 0, 1, 1)).contiguous()
        images, channels, height, width = rhs.shape
        self.scales, self.channels, self.height, self.width = alpha.shape[0], channels, height, width
        self.grid: tuple[Any, ...] = (images * self.scales * channels, triton.cdiv(height * width, BLOCK))

    def run(self, gamma: float, omegas: list[float]) -> Tensor:
        """Return the iterate after all steps, from zero: (B, A, C, H, W)."""
        images = self.rhs.shape[0]
        shape = (images, self.scales, self.channels, self.height, self.width)
        u, other = self.rhs.new_zeros(shape), self.rhs.new_zeros(shape)
        with torch.cuda.device(self.rhs.device) if self.rhs.is_cuda else nullcontext():  # the CPU: Triton's interpreter
            for omega in omegas:
                _step_kernel[self.grid](
                    u, other, self.rhs, self.across, self.down, self.alpha, gamma, omega,
                    self.height, self.width, self.channels, self.scales, BLOCK=BLOCK,
                )  # fmt: skip
                u, other = other, u
        return u
