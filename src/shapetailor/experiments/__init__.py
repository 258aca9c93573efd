"""The paper's tables and figures, and what we measure besides, one module each."""

from importlib import import_module
from types import ModuleType

#: The experiments' names. Their modules, imported when asked for, have a `SUMMARY` and ``run(context) -> Results``.
EXPERIMENTS = (
    "rwtsd",
    "brodatz",
    "multi-region",
    "bsds500",
    "covariance",
    "deformation",
    "ablation",
    "size",
    "strokes",
    "classes",
)


def load(name: str) -> ModuleType:
    """Return an experiment's module."""
    return import_module(f".{name.replace('-', '_')}", __name__)
