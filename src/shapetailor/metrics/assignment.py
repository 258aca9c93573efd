"""The cheapest one-to-one pairing on a sparse bipartite graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from ..arrays import Array, Ints


def cheapest_pairs(
    rows: Array, columns: Array, costs: npt.NDArray[np.floating[Any]], shape: tuple[int, int], alone: float
) -> tuple[Ints, Ints]:
    """Pair rows with columns; the sum of the pairs' costs and of `alone` for every unpaired row is least.

    Parameters
    ----------
    rows, columns, costs : ndarray
        The allowed pairs, each once, and their costs (not negative).
    shape : (int, int)
        Number of rows and of columns.
    alone : float
        Cost of an unpaired row.

    Returns
    -------
    rows, columns : ndarray
        The chosen pairs.

    Notes
    -----
    Every row gets an extra column of its own at the cost `alone`. So a full matching of the rows exists, and SciPy's
    sparse Jonker–Volgenant solver finds the exact optimum.
    """
    count, width = shape
    if count > width:
        right, left = cheapest_pairs(columns, rows, costs, (width, count), alone)
        return left, right
    row = np.concatenate([rows, np.arange(count)])
    column = np.concatenate([columns, width + np.arange(count)])
    # The solver reads a stored zero as "no edge"; a constant on every edge does not change the optimum.
    cost = np.concatenate([costs, np.full(count, alone)]) + 1.0
    graph = csr_array((cost, (row, column)), shape=(count, width + count))
    left, right = min_weight_full_bipartite_matching(graph)
    paired = right < width
    return left[paired], right[paired]
