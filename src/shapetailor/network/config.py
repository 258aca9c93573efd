"""The architecture of an ST-DNN: one dataclass, saved beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from typing import Any, Literal

from .features import channel_count, prepared_count

MOST_LAYERS, MOST_CHANNELS, MOST_STRIDE, MOST_SCALES = 5, 16, 16, 64
#: Larger networks are refused before anything is allocated; the shipped ones have less than a hundredth.
MOST_WEIGHTS = 2**24

CHOICES: dict[str, tuple[str, ...]] = {
    "features": ("paper", "rich"),
    "head": ("softmax", "unit"),
    "pde": ("poisson", "heat"),
    "alpha_rule": ("factor", "square"),
}


@dataclass(frozen=True)
class STDNNConfig:
    """Architecture of an `STDNN`; the defaults are the paper's.

    Attributes
    ----------
    image_channels : int
        Channels of the picture, 1 to 16.
    features : {"paper", "rich"}
        The channels of the feature layer f0 and their preprocessing, see `shapetailor.network.features`.
    energy_scales : tuple of float
        Scales of the rich channels' oriented energies, at the picture's own resolution.
    premix : int or None
        Number of learned pointwise channels, with ReLU, before the first smoothing.
    scales : tuple of float
        Scales (α, in pixels²) at which f0 smooths every channel.
    widths : tuple of int
        Outputs of the 1 to 5 linear maps; the last is the descriptor's dimension.
    alpha : float or tuple of float
        Scale of the solve between two linear maps; several are for equal parts of a map's outputs.
    derivatives : bool
        Whether linear maps read the first derivatives of the smoothed channels too (the general T of a layer).
    learnable_alphas : bool
        Learn `scales` and `alpha`, through their logarithms.
    head : {"softmax", "unit"}
        Last step of a descriptor: softmax, or division by its norm.
    pde : {"poisson", "heat"}
        The smoothing equation; α is the time of the heat equation.
    stride : int
        Layers work on blocks of stride × stride pixels inside regions; α is in blocks².
    resolution : int
        Longest side, in pixels, of the pictures that the alphas are meant for.
    alpha_rule : {"factor", "square"}
        How alphas follow the resolution: by the factor (the paper), or by its square (equal physical smoothing).
    tol : float
        Relative residual of every solve.
    fine : STDNNConfig, optional
        A second network on smaller blocks, for where boundaries lie (`shapetailor.network.two_level`).
    """

    image_channels: int = 3
    features: Literal["paper", "rich"] = "paper"
    energy_scales: tuple[float, ...] = (0.0, 1.0, 4.0)
    premix: int | None = None
    scales: tuple[float, ...] = (5.0, 10.0, 15.0, 20.0, 25.0)
    widths: tuple[int, ...] = (100, 40, 20, 5)
    alpha: float | tuple[float, ...] = 5.0
    derivatives: bool = False
    learnable_alphas: bool = False
    head: Literal["softmax", "unit"] = "softmax"
    pde: Literal["poisson", "heat"] = "poisson"
    stride: int = 1
    resolution: int = 32
    alpha_rule: Literal["factor", "square"] = "factor"
    tol: float = 1e-4
    fine: STDNNConfig | None = None

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, got {getattr(self, name)!r}")
        for name in ("derivatives", "learnable_alphas"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be true or false, got {getattr(self, name)!r}")
        _check_integer("image_channels", self.image_channels, 1, MOST_CHANNELS)
        _check_integer("stride", self.stride, 1, MOST_STRIDE)
        _check_integer("resolution", self.resolution, 1, 2**20)
        if self.premix is not None:
            _check_integer("premix", self.premix, 1)
        lowest = 0.0 if not self.learnable_alphas else 1e-12
        self._set("energy_scales", _numbers("energy_scales", self.energy_scales, 0.0))
        self._set("scales", _numbers("scales", self.scales, lowest))
        several = isinstance(self.alpha, (list, tuple))
        alphas = _numbers("alpha", self.alpha if several else (self.alpha,), lowest)
        self._set("alpha", alphas if several else alphas[0])
        self._check_widths()
        if not (_is_number(self.tol) and 0 < self.tol < 1):
            raise ValueError(f"tol must be a number between 0 and 1, got {self.tol!r}")
        if self.fine is not None:
            self._check_fine()

    def _check_fine(self) -> None:
        if isinstance(self.fine, Mapping):
            self._set("fine", STDNNConfig.from_dict(self.fine))
        if not isinstance(self.fine, STDNNConfig) or self.fine.fine is not None:
            raise TypeError(f"fine must be a network's config without a further fine one, got {self.fine!r}")
        for name in ("image_channels", "resolution"):
            if getattr(self.fine, name) != getattr(self, name):
                raise ValueError(f"fine must have {name} {getattr(self, name)}, got {getattr(self.fine, name)}")
        if self.stride % (2 * self.fine.stride):
            raise ValueError(f"the stride must be a multiple of twice fine's, got {self.stride}, {self.fine.stride}")

    def _check_widths(self) -> None:
        if not isinstance(self.widths, (list, tuple)) or not 1 <= len(self.widths) <= MOST_LAYERS:
            raise ValueError(f"widths must be a list of 1 to {MOST_LAYERS} integers, got {self.widths!r}")
        for width in self.widths:
            _check_integer("widths", width, 1)
        self._set("widths", tuple(self.widths))
        if min(self.widths[1:], default=len(self.alphas)) < len(self.alphas):
            raise ValueError(
                f"alpha has {len(self.alphas)} groups, more than the outputs of a map in widths {self.widths}"
            )
        weights = self._weights()
        if weights > MOST_WEIGHTS:
            raise ValueError(f"widths and premix make {weights} weights; at most {MOST_WEIGHTS} are supported")

    def _weights(self) -> int:
        """About how many weights there are."""
        first = self.premix or self.channels
        inputs = (first * len(self.scales), *self.widths)
        maps = sum(a * b for a, b in zip(inputs, self.widths, strict=False))
        return (3 if self.derivatives else 1) * maps + (self.channels * self.premix if self.premix else 0)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def alphas(self) -> tuple[float, ...]:
        """`alpha` as a tuple."""
        return self.alpha if isinstance(self.alpha, tuple) else (self.alpha,)

    @property
    def channels(self) -> int:
        """Number of channels of f0 before smoothing."""
        return channel_count(self.image_channels, self.features, len(self.energy_scales))

    @property
    def prepared_channels(self) -> int:
        """Number of channels that `STDNN.prepare` makes."""
        return prepared_count(self.image_channels, self.features, len(self.energy_scales))

    @property
    def dimension(self) -> int:
        """Dimension of a descriptor."""
        return self.widths[-1]

    def alpha_factor(self, resolution: int) -> float:
        """Return the factor on all alphas for pictures of another resolution (`alpha_rule`)."""
        _check_integer("resolution", resolution, 1)
        factor = resolution / self.resolution
        return factor if self.alpha_rule == "factor" else factor**2

    def at_resolution(self, resolution: int) -> STDNNConfig:
        """Return the same architecture with its alphas rescaled to pictures of another longest side.

        Examples
        --------
        >>> STDNNConfig(resolution=32).at_resolution(256).alpha
        40.0
        >>> STDNNConfig(resolution=32, alpha_rule="square").at_resolution(256).alpha
        320.0
        """
        factor = self.alpha_factor(resolution)
        alphas = tuple(factor * alpha for alpha in self.alphas)
        return replace(
            self,
            energy_scales=tuple(factor * scale for scale in self.energy_scales),
            scales=tuple(factor * scale for scale in self.scales),
            alpha=alphas if isinstance(self.alpha, tuple) else alphas[0],
            resolution=resolution,
            fine=None if self.fine is None else self.fine.at_resolution(resolution),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return plain | ({} if self.fine is None else {"fine": self.fine.to_dict()})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> STDNNConfig:
        """Make a config of JSON values; missing entries have their defaults, unknown ones are refused."""
        if not isinstance(values, Mapping):
            raise TypeError(f"a network's config must be a mapping, got {type(values).__name__}")
        unknown = sorted(set(values) - {field.name for field in fields(cls)}, key=str)
        if unknown:
            raise ValueError(f"a network's config has unknown entries {unknown}; was it written by a newer version?")
        return cls(**values)


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 2**63
    return isinstance(value, float) and isfinite(value)


def _check_integer(name: str, value: Any, low: int, high: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be {f'at least {low}' if high is None else f'{low} to {high}'}, got {value}")


def _numbers(name: str, values: Any, low: float) -> tuple[float, ...]:
    if not isinstance(values, (list, tuple)) or not values or not all(_is_number(value) for value in values):
        raise TypeError(f"{name} must be one or more finite numbers, got {values!r}")
    if len(values) > MOST_SCALES:
        raise ValueError(f"{name} must be at most {MOST_SCALES} numbers, got {len(values)}")
    if min(values) < low:
        raise ValueError(
            f"{name} must not be {'negative' if low == 0 else 'negative or 0 when learnt'}, got {values!r}"
        )
    return tuple(float(value) for value in values)
