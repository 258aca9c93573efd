"""The best one-to-one pairing on a sparse graph where anyone may stay alone at a price."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from ..arrays import Array, Ints


def cheapest_pairs(
    rows: Array,
    columns: Array,
    costs: npt.NDArray[np.floating[Any]],
    shape: tuple[int, int],
    alone: float,
) -> tuple[Ints, Ints]:
    """Pair rows with columns so that the pairs' costs plus `alone` for every unpaired row is least.

    Parameters
    ----------
    rows, columns, costs : ndarray
        The allowed pairs, each named once, and the price of each (not negative).
    shape : (int, int)
        Number of rows and of columns.
    alone : float
        Price of a row that stays unpaired. As unpaired rows and columns come and go together, half of
        it may be read as the price of any unpaired node.

    Returns
    -------
    rows, columns : ndarray
        The chosen pairs.

    Notes
    -----
    Every row gets a private extra column of cost `alone`, which makes a full matching of the rows
    exist, so that the sparse Jonker–Volgenant solver of SciPy applies; it is exact.
    """
    count, width = shape
    if count > width:
        right, left = cheapest_pairs(columns, rows, costs, (width, count), alone)
        return left, right
    row = np.concatenate([rows, np.arange(count)])
    column = np.concatenate([columns, width + np.arange(count)])
    # The solver reads a stored zero as "no edge"; a constant on every edge changes no optimum.
    cost = np.concatenate([costs, np.full(count, alone)]) + 1.0
    graph = csr_array((cost, (row, column)), shape=(count, width + count))
    left, right = min_weight_full_bipartite_matching(graph)
    paired = right < width
    return left[paired], right[paired]
