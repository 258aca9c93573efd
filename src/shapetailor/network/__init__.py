"""The shape-tailored network: features, tailored layers, and the file that a model is."""

from .checkpoint import load_model, save_model, shipped_models
from .config import STDNNConfig
from .stdnn import STDNN

__all__ = ["STDNN", "STDNNConfig", "load_model", "save_model", "shipped_models"]
