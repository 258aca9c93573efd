"""Alg. 2: regions and descriptors evolve together."""

from .config import EvolutionConfig
from .evolve import Callback, Evolution, evolve

__all__ = ["Callback", "Evolution", "EvolutionConfig", "evolve"]
