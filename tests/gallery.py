"""What tests share: label maps with known difficulties, an independent answer, and ways to turn a picture."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
import torch
from hypothesis import strategies as st

#: Ways to turn and mirror an H×W array.
TURNS = {
    "right": lambda a: np.rot90(a, -1),
    "left": np.rot90,
    "half": lambda a: np.rot90(a, 2),
    "upside down": np.flipud,
    "mirrored": np.fliplr,
    "transposed": np.transpose,
}
BACKENDS = ("auto", "chebyshev", "multigrid", "torch", "dense")


def label_map(name: str, height: int = 17, width: int = 13) -> torch.Tensor:
    """A label map (H, W) by name."""
    rng = np.random.default_rng(7)
    y, x = np.mgrid[:height, :width]
    maps = {
        "one region": np.zeros((height, width)),
        "halves": x * 2 >= width,
        "disc": (y - height / 2) ** 2 + (x - width / 2) ** 2 < (min(height, width) / 3) ** 2,
        "noise": rng.integers(0, 3, (height, width)),
        "every pixel its own": np.arange(height * width).reshape(height, width),
        "stripes one pixel wide": y,
        "checkerboard": (x + y) % 2,
        "with outside": np.where((x - 4) ** 2 + (y - 5) ** 2 < 9, -1, x > y),
        "noise with outside": rng.integers(-2, 3, (height, width)),
        "nothing inside": -np.ones((height, width)),
        "huge labels": np.where(x > y, 10**12, 5),
    }
    return torch.from_numpy(maps[name].astype(np.int64))


NAMES = (
    "one region",
    "halves",
    "disc",
    "noise",
    "every pixel its own",
    "stripes one pixel wide",
    "checkerboard",
    "with outside",
    "noise with outside",
    "nothing inside",
    "huge labels",
)


def matrix(labels: np.ndarray) -> sp.csr_matrix:
    """The graph Laplacian of one label map, assembled edge by edge from the contract's words."""
    height, width = labels.shape
    laplacian = sp.lil_matrix((height * width, height * width))
    for y in range(height):
        for x in range(width):
            for v, w in ((y, x + 1), (y + 1, x)):
                if v < height and w < width and labels[y, x] == labels[v, w] >= 0:
                    i, j = y * width + x, v * width + w
                    laplacian[i, i] += 1
                    laplacian[j, j] += 1
                    laplacian[i, j] -= 1
                    laplacian[j, i] -= 1
    return laplacian.tocsr()


def by_scipy(x: torch.Tensor, labels: torch.Tensor, alpha: list[float]) -> torch.Tensor:
    """SciPy's sparse direct answer for x (B, C, H, W), channel by channel."""
    out = np.zeros(x.shape)
    for image in range(x.shape[0]):
        lab = labels[image].numpy()
        laplacian = matrix(lab)
        for channel, value in enumerate(alpha):
            rhs = np.where(lab >= 0, x[image, channel].double().numpy(), 0.0).ravel()
            system = (sp.identity(lab.size) + value * laplacian).tocsc()
            out[image, channel] = scipy.sparse.linalg.spsolve(system, rhs).reshape(lab.shape)
    return torch.from_numpy(out)


@st.composite
def problems(draw, most_side: int = 12):
    """Random data (B, C, H, W), labels with outside pixels, and α for each channel from 0 to 1e5."""
    images, channels = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    height, width = draw(st.integers(1, most_side)), draw(st.integers(1, most_side))
    regions = draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    labels = rng.integers(-1, regions, (images, height, width))
    if draw(st.booleans()):  # larger patches than noise gives
        labels = np.repeat(np.repeat(labels, 3, axis=1), 3, axis=2)[:, :height, :width]
    x = rng.standard_normal((images, channels, height, width)) + rng.uniform(-3, 3)
    alpha = [draw(st.sampled_from([0.0, 0.3, 5.0, 25.0, 400.0, 1e5])) for _ in range(channels)]
    return torch.from_numpy(x), torch.from_numpy(np.ascontiguousarray(labels)), alpha


def same_partition(a, b):
    """Tell whether two label maps divide the image alike, whatever the numbers."""
    pairs = np.unique(np.stack([a.ravel(), b.ravel()]), axis=1)
    return a.shape == b.shape and pairs.shape[1] == len(np.unique(a)) == len(np.unique(b))


def squared_sobolev_norm(displacement):
    """Return ‖v‖² = |a₀|² + Σ |k|² |a_k|² of a displacement (2, H, W) by the fast Fourier transform."""
    height, width = displacement.shape[1:]
    coefficients = np.fft.fft2(displacement) / (height * width)
    squares = np.fft.fftfreq(height, 1 / height)[:, None] ** 2 + np.fft.fftfreq(width, 1 / width) ** 2
    return float((np.where(squares == 0, 1, squares) * np.abs(coefficients) ** 2).sum())
