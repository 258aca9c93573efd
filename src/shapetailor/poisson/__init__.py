"""The Poisson equation on arbitrary regions: a fast, exact, differentiable PyTorch operation."""

from .operator import Edges, edges_of, laplacian
from .solve import smooth
from .stats import ConvergenceWarning, Stats

__all__ = ["ConvergenceWarning", "Edges", "Stats", "edges_of", "laplacian", "smooth"]
