"""Procedural textures: nineteen families; each call of `texture` draws a family's parameters anew.

Those of random fields are in `noise`, those with elements (cells, tiles, threads, dots) here. Cells: S. Worley, "A
cellular texture basis function", SIGGRAPH 1996. Reaction and diffusion: A. M. Turing, "The chemical basis of
morphogenesis", Phil. Trans. R. Soc. B 237, 1952.
"""

# mypy: disable-error-code="no-any-return"
# NumPy types its ufuncs as returning Any; the tests look at what comes out.

import numpy as np
import numpy.typing as npt
import scipy.fft
from scipy import ndimage
from scipy.spatial import cKDTree
from torch.utils.data import Dataset

from ..arrays import Floats32
from . import noise
from .noise import Field, Shape, coordinates, fractal_noise, smooth_noise
from .sample import Sample


def cells(shape: Shape, rng: np.random.Generator) -> Field:
    """Dried mud: dark cracks between the cells of scattered points (F2 - F1 of Worley 1996)."""
    nearest, second, which = _worley(shape, rng, rng.uniform(14, 26))
    crack = np.clip((second - nearest) / 5, 0, 1)
    return crack * (0.75 + 0.12 * rng.standard_normal(which.max() + 1)[which]) + _speckle(shape, rng, 0.05)


def pebbles(shape: Shape, rng: np.random.Generator) -> Field:
    """Round stones, lit from one side, in dark gaps."""
    spacing = rng.uniform(10, 18)
    nearest, second, which = _worley(shape, rng, spacing)
    height = np.sqrt(np.clip(second - nearest, 0, None) / spacing)
    angle = rng.uniform(0, 2 * np.pi)
    dy, dx = np.gradient(ndimage.gaussian_filter(height, 1.2))
    light = np.cos(angle) * dx + np.sin(angle) * dy
    tone = rng.uniform(0.5, 1.0, which.max() + 1)[which]
    return tone * np.clip(1.6 * height, 0, 1) + 2.0 * light


def reaction(shape: Shape, rng: np.random.Generator) -> Field:
    """Turing patterns, spots to labyrinths, of the FitzHugh–Nagumo reaction–diffusion equations.

    u' = D_u Δu + u - u³ - v + k,  v' = (D_v Δv + u - v) / τ, stepped implicitly in the diffusion
    (by FFT) and explicitly in the reaction, on a grid of half the resolution.
    """
    coarse = tuple(scipy.fft.next_fast_len(n // 2 + 16, real=True) for n in shape)
    wavelength = rng.uniform(4.5, 8)
    diffusion = (wavelength / (2 * np.pi)) ** 2 * 0.45
    bias, step = rng.uniform(-0.12, 0.12), 0.7
    fy, fx = scipy.fft.fftfreq(coarse[0])[:, None], scipy.fft.rfftfreq(coarse[1])[None, :]
    laplacian = -((2 * np.pi) ** 2) * (fx**2 + fy**2)
    damp_u, damp_v = 1 - step * diffusion * laplacian, 1 + step * (1 - 20 * diffusion * laplacian)
    u = 0.3 * rng.standard_normal(coarse)
    v = np.zeros(coarse)
    for _ in range(60):
        u = scipy.fft.irfft2(scipy.fft.rfft2(u + step * (u - u**3 - v + bias)) / damp_u, s=coarse)
        v = scipy.fft.irfft2(scipy.fft.rfft2(v + step * u) / damp_v, s=coarse)
    fine = ndimage.zoom(u, 2, order=3, mode="grid-wrap", grid_mode=True)
    return np.tanh(3 * fine[: shape[0], : shape[1]])


def weave(shape: Shape, rng: np.random.Generator) -> Field:
    """Plain weave or twill: round threads that pass over and under each other."""
    x, y = coordinates(shape, rng, warp=rng.uniform(0.5, 2.0))
    pitch, shift = rng.uniform(7, 13), int(rng.integers(1, 3))
    column, row = np.floor(x / pitch), np.floor(y / pitch)
    warp_above = np.mod(column + shift * row, shift + 1) < 1
    across = np.where(warp_above, np.mod(x / pitch, 1), np.mod(y / pitch, 1)) - 0.5
    along = np.where(warp_above, np.mod(y / pitch, 1), np.mod(x / pitch, 1)) - 0.5
    thread = np.sqrt(np.clip(1 - (2.1 * across) ** 2, 0, 1)) * (1 - 1.2 * along**2)
    tone = np.where(warp_above, 1.0, rng.uniform(0.55, 0.8))
    return ndimage.gaussian_filter(thread * tone, 0.6) + _speckle(shape, rng, 0.04)


def bricks(shape: Shape, rng: np.random.Generator) -> Field:
    """Courses of bricks of their own tones, in light or dark mortar."""
    x, y = coordinates(shape, rng, warp=rng.uniform(0.3, 1.0))
    height = rng.uniform(11, 20)
    width, joint = height * rng.uniform(1.8, 2.8), rng.uniform(0.10, 0.18) * height
    row = np.floor(y / height)
    shifted = x / width + 0.5 * np.mod(row, 2)
    brick = np.floor(shifted)
    edge = np.minimum(_to_edge(shifted) * width, _to_edge(y / height) * height)
    inside = np.clip(edge - joint / 2 + 0.5, 0, 1)
    tone = 0.5 + 0.3 * _hash(brick, row, rng) + 0.10 * fractal_noise(shape, rng, 0.6)
    return np.where(rng.random() < 0.7, 1.25, -0.1) * (1 - inside) + tone * inside


def hexagons(shape: Shape, rng: np.random.Generator) -> Field:
    """Honeycomb: walls between hexagonal cells that darken towards their middle."""
    x, y = coordinates(shape, rng, warp=rng.uniform(0.5, 2.0))
    pitch = rng.uniform(13, 24)
    # The nearer of two interleaved rectangular lattices is the nearest point of the hexagonal one.
    sizes = np.array([1.0, np.sqrt(3)]) * pitch
    first = [np.mod(value, size) - size / 2 for value, size in zip((x, y), sizes, strict=True)]
    other = [np.mod(v + s / 2, s) - s / 2 for v, s in zip((x, y), sizes, strict=True)]
    nearer = first[0] ** 2 + first[1] ** 2 < other[0] ** 2 + other[1] ** 2
    dx, dy = (np.abs(np.where(nearer, a, b)) for a, b in zip(first, other, strict=True))
    to_wall = pitch / 2 - np.maximum(dx, dx / 2 + dy * np.sqrt(3) / 2)
    return np.exp(-to_wall / (0.09 * pitch)) - 0.25 * to_wall / pitch + _speckle(shape, rng, 0.03)


def dots(shape: Shape, rng: np.random.Generator) -> Field:
    """Discs on a jittered lattice, some larger, some smaller."""
    x, y = coordinates(shape, rng)
    pitch = rng.uniform(11, 20)
    column, row = np.floor(x / pitch), np.floor(y / pitch)
    jitter = rng.uniform(0.05, 0.3)
    dx = np.mod(x / pitch, 1) - 0.5 - jitter * (_hash(column, row, rng) - 0.5)
    dy = np.mod(y / pitch, 1) - 0.5 - jitter * (_hash(row, column, rng) - 0.5)
    radius = rng.uniform(0.22, 0.32) * (0.8 + 0.35 * _hash(column + 7, row, rng))
    return np.clip((radius - np.hypot(dx, dy)) * pitch + 0.5, 0, 1) + _speckle(shape, rng, 0.04)


def stripes(shape: Shape, rng: np.random.Generator) -> Field:
    """Zebra: stripes bent by a slow displacement."""
    period = rng.uniform(9, 20)
    x, _ = coordinates(shape, rng, warp=rng.uniform(0.35, 0.6) * period, scale=4 * period)
    return np.tanh(rng.uniform(2, 5) * (np.sin(2 * np.pi * x / period) + rng.uniform(-0.4, 0.4)))


def scales(shape: Shape, rng: np.random.Generator) -> Field:
    """Fish scales: rows of round tips, each row over the next, with a dark rim and a light keel."""
    x, y = coordinates(shape, rng, warp=rng.uniform(0.3, 1.0))
    pitch = rng.uniform(14, 24)
    across, down = x / pitch, 2 * y / pitch
    picture = np.zeros(shape)
    for lag in (0, 1):  # the row behind fills the pixel, the one before it hangs over
        row = np.floor(down) - lag
        centre = across + 0.5 * np.mod(row, 2)
        dx, dy = np.mod(centre, 1) - 0.5, (down - row) / 2
        depth = np.hypot(dx, dy) / np.sqrt(0.5)
        tone = 0.25 + 0.75 * depth**2 - 0.5 * np.abs(dx) + 0.2 * _hash(np.floor(centre), row, rng)
        picture = np.where(depth < 1, np.where(depth > 0.9, 0.0, tone), picture)
    return ndimage.gaussian_filter(picture, 0.6)


def herringbone(shape: Shape, rng: np.random.Generator) -> Field:
    """Zigzag rows of slanted threads."""
    x, y = coordinates(shape, rng, warp=rng.uniform(0.3, 1.2))
    column, period = rng.uniform(14, 26), rng.uniform(5, 8)
    zigzag = np.abs(np.mod(x / column, 2) - 1) * column
    seam = np.clip(_to_edge(x / column) * column / 1.5, 0, 1)
    return (np.sin(2 * np.pi * (y + zigzag) / period) + 1) * (0.4 + 0.6 * seam) + _speckle(shape, rng, 0.1)


def plaid(shape: Shape, rng: np.random.Generator) -> Field:
    """Tartan: the same sett of bands in warp and weft, over a fine twill."""
    x, y = coordinates(shape, rng, warp=0.6)
    repeat = rng.uniform(28, 48)
    bands = rng.permutation(np.linspace(0, 1, 7))
    edges = np.cumsum(rng.dirichlet(np.full(7, 3.0)))[:-1]
    sett = [bands[np.searchsorted(edges, np.mod(value / repeat, 1).ravel())].reshape(shape) for value in (x, y)]
    return sett[0] + sett[1] + 0.35 * (np.mod((x + y) / 2.4, 2) < 1)


def _worley(shape: Shape, rng: np.random.Generator, spacing: float) -> tuple[Field, Field, npt.NDArray[np.intp]]:
    """Distances to the nearest and second nearest point of a jittered lattice; the nearest's number."""
    axes = [np.arange(-spacing, n + spacing, spacing) for n in shape]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    points += rng.uniform(-0.5, 0.5, points.shape) * spacing
    pixels = np.moveaxis(np.indices(shape), 0, -1).reshape(-1, 2)
    distance, which = cKDTree(points).query(pixels, k=2)
    first, second = distance.T.reshape(2, *shape)
    return first, second, which[:, 0].reshape(shape)


def _hash(i: Field, j: Field, rng: np.random.Generator) -> Field:
    """Return a number in [0, 1) for each lattice cell (i, j), the same all over the cell."""
    table = rng.random((64, 64))
    return table[np.mod(i, 64).astype(int), np.mod(j, 64).astype(int)]


def _to_edge(t: Field) -> Field:
    """Distance to the nearest integer."""
    return np.abs(t - np.rint(t))


def _speckle(shape: Shape, rng: np.random.Generator, amount: float) -> Field:
    return amount * smooth_noise(shape, rng, 1.5)


_PAINTERS = {
    painter.__name__: painter
    for painter in (
        *(noise.grain, noise.gabor, noise.fractal, noise.leather, noise.marble, noise.wood, noise.bark, noise.grass),
        *(cells, pebbles, reaction, weave, bricks, hexagons, dots, stripes, scales, herringbone, plaid),
    )
}

#: The names that `texture` takes.
FAMILIES: tuple[str, ...] = tuple(_PAINTERS)


def texture(family: str, size: int | Shape, rng: np.random.Generator, colour: bool = False) -> Floats32:
    """Paint a random member of a family of textures.

    Parameters
    ----------
    family : str
        One of `FAMILIES`.
    size : int or (int, int)
        Side, or height and width, in pixels; at least 8.
    rng : numpy.random.Generator
    colour : bool
        Map the grays to a random ramp of colours.

    Returns
    -------
    ndarray
        float32 in [0, 1], H×W or H×W×3. The mean gray is near one half in every family, so that
        brightness alone tells no two textures apart.
    """
    if family not in _PAINTERS:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}, got {family!r}")
    shape = (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
    if min(shape) < 8:
        raise ValueError(f"size must be at least 8 pixels, got {size}")
    field = _PAINTERS[family](shape, rng)
    mean, deviation = rng.uniform(0.44, 0.56), rng.uniform(0.16, 0.22)
    gray = np.clip(mean + deviation * ((field - field.mean()) / (field.std() + 1e-12)), 0, 1)
    return (_coloured(gray, rng) if colour else gray).astype(np.float32)


class ProceduralTextures(Dataset[Sample]):
    """A fixed collection of procedural textures, families in turn, painted on access.

    Parameters
    ----------
    count : int
        How many; number i belongs to family i modulo their number.
    size, colour
        As of `texture`.
    seed : int
    """

    def __init__(self, count: int, size: int | Shape, seed: int = 0, colour: bool = False) -> None:
        if count < 1:
            raise ValueError(f"count must be positive, got {count}")
        self.size, self.seed, self.colour = size, seed, colour
        rounds = -(-count // len(FAMILIES))
        self.names = [f"{family}-{turn:03d}" for turn in range(rounds) for family in FAMILIES][:count]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"texture {index} of {len(self)}")
        family = FAMILIES[index % len(FAMILIES)]
        painted = texture(family, self.size, np.random.default_rng([self.seed, index]), self.colour)
        return Sample(np.rint(255 * painted).astype(np.uint8), (), self.names[index])


def _coloured(gray: Field, rng: np.random.Generator) -> Field:
    """Map grays to a ramp from a dark to a light colour of neighbouring hues."""
    hue, turn = rng.uniform(0, 1), rng.uniform(-0.12, 0.12)
    saturation = rng.uniform(0.25, 0.65)
    ramp_hue = hue + turn * (gray - 0.5)
    strength = saturation * (1.1 - 0.6 * gray)
    # HSV to RGB: each channel is a trapezoid of the hue, 0, 1/3 and 2/3 of a turn apart.
    offsets = np.array([5, 3, 1])
    k = np.mod(offsets + 6 * ramp_hue[..., None], 6)
    trapezoid = np.clip(np.minimum(k, 4 - k), 0, 1)
    return gray[..., None] * (1 - strength[..., None] * trapezoid)
