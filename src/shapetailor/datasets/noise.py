"""Random fields, and the procedural textures made of them.

A painter takes a shape (H, W) and a generator and returns an H×W array of any range. Lengths are in pixels. Turbulence,
marble and wood: K. Perlin, "An image synthesizer", SIGGRAPH 1985. Gabor noise: A. Lagae, S. Lefebvre, G. Drettakis and
P. Dutré, "Procedural noise using sparse Gabor convolution", ACM TOG 28(3), 2009.
"""

# mypy: disable-error-code="no-any-return"
# NumPy types its ufuncs as returning Any; the tests look at what comes out.

from collections.abc import Callable

import numpy as np
import scipy.fft
from scipy import ndimage

from ..arrays import Floats

Field = Floats
Shape = tuple[int, int]


def spectral(shape: Shape, rng: np.random.Generator, weight: Callable[[Field, Field], Field]) -> Field:
    """White noise with its spectrum multiplied by `weight(fx, fy)`, in cycles a pixel; unit variance."""
    # A margin keeps the field from being periodic, which a mirrored or tiled crop would show.
    padded = tuple(scipy.fft.next_fast_len(n + n // 8 + 8, real=True) for n in shape)
    fy = scipy.fft.fftfreq(padded[0])[:, None]
    fx = scipy.fft.rfftfreq(padded[1])[None, :]
    spectrum = scipy.fft.rfft2(rng.standard_normal(padded)) * weight(fx, fy)
    spectrum[0, 0] = 0
    field: Field = scipy.fft.irfft2(spectrum, s=padded)[: shape[0], : shape[1]]
    return (field - field.mean()) / (field.std() + 1e-12)


def smooth_noise(shape: Shape, rng: np.random.Generator, scale: float) -> Field:
    """Gaussian-filtered noise whose blobs are about `scale` pixels wide."""
    return spectral(shape, rng, lambda fx, fy: np.exp(-2 * (np.pi * scale / 2) ** 2 * (fx**2 + fy**2)))


def fractal_noise(shape: Shape, rng: np.random.Generator, slope: float = 1.0) -> Field:
    """Noise with amplitudes falling as frequency to the power -`slope`."""
    floor = 1 / max(shape) ** 2
    return spectral(shape, rng, lambda fx, fy: (fx**2 + fy**2 + floor) ** (-slope / 2))


def coordinates(shape: Shape, rng: np.random.Generator, warp: float = 0.0, scale: float = 60.0) -> tuple[Field, Field]:
    """Pixel coordinates (x, y), turned by a random angle and displaced by about `warp` pixels."""
    y, x = np.mgrid[: shape[0], : shape[1]].astype(np.float64)
    angle, offset = rng.uniform(0, 2 * np.pi), rng.uniform(0, 1000, 2)
    cos, sin = np.cos(angle), np.sin(angle)
    x, y = cos * x - sin * y + offset[0], sin * x + cos * y + offset[1]
    if warp > 0:
        x += warp * smooth_noise(shape, rng, scale)
        y += warp * smooth_noise(shape, rng, scale)
    return x, y


def grain(shape: Shape, rng: np.random.Generator) -> Field:
    """Noise filtered by an elongated Gaussian: fibres at a chosen orientation and scale."""
    width = rng.uniform(1.2, 3)
    length = width * rng.uniform(4, 10)
    return _oriented(shape, rng, rng.uniform(0, np.pi), length, width)


def gabor(shape: Shape, rng: np.random.Generator) -> Field:
    """Gabor noise: the spectrum is a Gaussian around one frequency, so that waves come in packets."""
    angle, frequency = rng.uniform(0, np.pi), 1 / rng.uniform(6, 16)
    spread = frequency * rng.uniform(0.12, 0.3)
    kx, ky = frequency * np.cos(angle), frequency * np.sin(angle)

    def packet(fx: Field, fy: Field) -> Field:
        ahead = np.exp(-((fx - kx) ** 2 + (fy - ky) ** 2) / (2 * spread**2))
        return ahead + np.exp(-((fx + kx) ** 2 + (fy + ky) ** 2) / (2 * spread**2))

    return spectral(shape, rng, packet)


def fractal(shape: Shape, rng: np.random.Generator) -> Field:
    """Rough stone: fractal noise that keeps much of its finest detail, lit from one side."""
    height = fractal_noise(shape, rng, rng.uniform(1.5, 2.0))
    angle = rng.uniform(0, 2 * np.pi)
    dy, dx = np.gradient(ndimage.gaussian_filter(height, 0.7))
    return np.cos(angle) * dx + np.sin(angle) * dy


def leather(shape: Shape, rng: np.random.Generator) -> Field:
    """Creases without orientation: the absolute value of noise, at two scales."""
    scale = rng.uniform(7, 13)
    creases = np.sqrt(np.abs(smooth_noise(shape, rng, scale)))
    wrinkles = np.sqrt(np.abs(smooth_noise(shape, rng, 0.4 * scale)))
    return ndimage.gaussian_filter(creases + 0.6 * wrinkles, 0.5) + 0.05 * fractal_noise(shape, rng, 0.5)


def marble(shape: Shape, rng: np.random.Generator) -> Field:
    """Sharp veins where a wave, displaced by turbulence, passes zero (Perlin 1985)."""
    x, _ = coordinates(shape, rng)
    phase = 2 * np.pi * x / rng.uniform(50, 80) + rng.uniform(1.8, 2.6) * fractal_noise(shape, rng, 2.2)
    veins = 1 - np.abs(np.sin(phase)) ** rng.uniform(0.35, 0.6)
    return 0.06 * fractal_noise(shape, rng, 1.2) - ndimage.gaussian_filter(veins, 0.5)


def wood(shape: Shape, rng: np.random.Generator) -> Field:
    """Growth rings with a slow rise and a sharp edge, cut lengthwise, and fine fibres along them."""
    angle, period = rng.uniform(0, np.pi), rng.uniform(9, 18)
    y, x = np.mgrid[: shape[0], : shape[1]].astype(np.float64)
    across = -np.sin(angle) * x + np.cos(angle) * y
    rings = across / period + 0.9 * _oriented(shape, rng, angle, 110, 22)
    rise = np.mod(rings, 1.0)
    tone = np.minimum(rise / 0.75, (1 - rise) / 0.25) ** 1.5
    return ndimage.gaussian_filter(tone, 0.6) + 0.12 * _oriented(shape, rng, angle, 30, 1.2)


def bark(shape: Shape, rng: np.random.Generator) -> Field:
    """Ridges and dark furrows along the trunk: the absolute value of elongated noise, at two scales."""
    angle, width = rng.uniform(0, np.pi), rng.uniform(5, 9)
    furrows = np.abs(_oriented(shape, rng, angle, 6 * width, width))
    cracks = np.abs(_oriented(shape, rng, angle, 2.5 * width, 0.4 * width))
    return np.sqrt(furrows) + 0.35 * np.sqrt(cracks) + 0.06 * fractal_noise(shape, rng, 0.5)


def grass(shape: Shape, rng: np.random.Generator) -> Field:
    """Blades over blades: sparse strokes of a few near directions, the later ones above."""
    upright = rng.uniform(0, np.pi)
    picture = np.zeros(shape)
    for layer in range(7):
        angle = upright + rng.uniform(-0.5, 0.5)
        strokes = _oriented(shape, rng, angle, rng.uniform(12, 20), rng.uniform(1.4, 2.0))
        blade = strokes > 1.1
        shade = 0.3 + 0.1 * layer + 0.25 * (strokes - 1.1)
        picture = np.where(blade, shade, picture * 0.93)
    return ndimage.gaussian_filter(picture, 0.5)


def _oriented(shape: Shape, rng: np.random.Generator, angle: float, length: float, width: float) -> Field:
    """Noise whose blobs are `length` long in direction `angle` and `width` wide across it."""
    cos, sin = np.cos(angle), np.sin(angle)

    def gaussian(fx: Field, fy: Field) -> Field:
        along, across = cos * fx + sin * fy, -sin * fx + cos * fy
        return np.exp(-2 * (np.pi / 2) ** 2 * ((length * along) ** 2 + (width * across) ** 2))

    return spectral(shape, rng, gaussian)
