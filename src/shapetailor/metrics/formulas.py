"""The region metrics as functions of one contingency table. `n_ij` is the overlap of regions i and j."""

from __future__ import annotations

import numpy as np

from ..arrays import Floats, Ints
from .assignment import cheapest_pairs
from .contingency import Contingency


def best_iou_of_true(table: Contingency) -> Floats:
    """For every true region, max_i IoU(i, j)."""
    return _largest(table.iou, table.true, len(table.true_sizes))


def best_iou_of_predicted(table: Contingency) -> Floats:
    """For every predicted region, max_j IoU(i, j)."""
    return _largest(table.iou, table.predicted, len(table.predicted_sizes))


def rand_index(table: Contingency) -> float:
    """1 - (Σ_i a_i²/2 + Σ_j b_j²/2 - Σ_ij n_ij²) / (N choose 2), with the region sizes a and b."""
    total = table.pixels * (table.pixels - 1) // 2
    if total == 0:
        return 1.0
    together, predicted, true = _pairs_together(table)
    return (total - predicted - true + 2 * together) / total


def adjusted_rand(table: Contingency) -> float:
    """(index - expected) / (mean - expected) of the pairs together; Hubert & Arabie (1985)."""
    total = table.pixels * (table.pixels - 1) // 2
    together, predicted, true = _pairs_together(table)
    # Over the common denominator 2·total, in exact integers: the differences cancel heavily.
    expected = 2 * predicted * true
    largest = total * (predicted + true)
    if largest == expected:  # one region in both, or every pixel its own region in both
        return 1.0
    return (2 * total * together - expected) / (largest - expected)


def variation_of_information(table: Contingency) -> float:
    """-Σ_ij p_ij (log2 p_ij/p_i + log2 p_ij/q_j), the two conditional entropies; Meilă (2005)."""
    share = table.overlap / table.pixels
    of_predicted = table.overlap / table.predicted_sizes[table.predicted]
    of_true = table.overlap / table.true_sizes[table.true]
    return float(np.sum(share * -(np.log2(of_predicted) + np.log2(of_true)))) + 0.0


def best_pairing(table: Contingency) -> tuple[Ints, Ints]:
    """Return the one-to-one pairs of predicted and true regions whose sum of IoU is largest."""
    shape = len(table.predicted_sizes), len(table.true_sizes)
    # IoU is at most 1: a pair costs 1 - IoU, no pair costs the same as a pair of IoU 0.
    return cheapest_pairs(table.predicted, table.true, 1.0 - table.iou, shape, alone=1.0)


def mean_iou(table: Contingency) -> float:
    """Σ IoU of the best pairing / number of true regions."""
    width = len(table.true_sizes)
    predicted, true = best_pairing(table)
    chosen = np.isin(table.predicted * width + table.true, predicted * width + true)
    return float(table.iou[chosen].sum()) / width


def _largest(values: Floats, groups: Ints, count: int) -> Floats:
    largest = np.zeros(count)
    np.maximum.at(largest, groups, values)
    return largest


def _pairs(sizes: Ints) -> int:
    return int((sizes * (sizes - 1) // 2).sum())


def _pairs_together(table: Contingency) -> tuple[int, int, int]:
    """Pixel pairs together in both partitions, in the prediction, in the truth."""
    return (
        _pairs(table.overlap),
        _pairs(table.predicted_sizes),
        _pairs(table.true_sizes),
    )
