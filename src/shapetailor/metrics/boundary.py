"""Boundary precision, recall and F by one-to-one matching of boundary pixels, as in the BSDS benchmark.

A predicted and a true boundary pixel may be matched when they lie within a fraction of the image diagonal of each
other. The matching minimises the summed distance plus a cost for every unmatched pixel, 100 times the largest allowed
distance, so that nearly as many pixels as possible are matched.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import KDTree

from ..arrays import Array, Mask
from .contingency import LabelMap, Truth, as_labels, as_truths, cheapest_pairs

#: The benchmark's largest distance of a match, as a fraction of the image diagonal.
TOLERANCE = 0.0075
#: The benchmark's cost of an unmatched pixel, in units of that distance.
OUTLIER_COST = 100.0


class BoundaryScore(NamedTuple):
    """Share of the predicted boundary that is true, of the true that is found, and F, 2PR/(P+R)."""

    precision: float
    recall: float
    f: float


def boundary_f(
    prediction: LabelMap, truth: Truth, *, ignore: int | None = None, tolerance: float = TOLERANCE
) -> BoundaryScore:
    """Boundary precision, recall and F of a label map against one or more annotators.

    D. Martin, C. Fowlkes and J. Malik, "Learning to detect natural image boundaries using local brightness, color, and
    texture cues", IEEE TPAMI 26(5), 2004; P. Arbeláez, M. Maire, C. Fowlkes and J. Malik, "Contour detection and
    hierarchical image segmentation", IEEE TPAMI 33(5), 2011.

    Parameters
    ----------
    prediction : H×W integers, array or tensor
    truth : H×W integers, or a list of them, one an annotator
        A predicted pixel is right when it matches a pixel of any annotator; recall is pooled over annotators.
    ignore : int, optional
        Label of the truth whose pixels are left out.
    tolerance : float
        Largest distance of a match, as a fraction of the image diagonal.

    Returns
    -------
    BoundaryScore
        All three are 1 where neither map has a boundary, 0 where only one has.

    Examples
    --------
    >>> import numpy as np
    >>> truth = np.repeat([[0, 1]], 8, axis=1).repeat(9, axis=0)
    >>> boundary_f(1 - truth, truth)
    BoundaryScore(precision=1.0, recall=1.0, f=1.0)
    """
    if not tolerance > 0:
        raise ValueError(f"tolerance must be a positive fraction of the diagonal, got {tolerance!r}")
    labels = as_labels("prediction", prediction)
    predicted = label_boundaries(labels)
    pairs = []
    for annotator in as_truths(truth, labels.shape, ignore):
        judged = _judged(annotator, ignore)
        pairs.append((predicted & judged, label_boundaries(annotator) & judged))
    matched_true, all_true, matched_predicted, all_predicted = boundary_counts(pairs, tolerance)
    if all_true == all_predicted == 0:
        return BoundaryScore(1.0, 1.0, 1.0)
    precision = matched_predicted / max(all_predicted, 1)
    recall = matched_true / max(all_true, 1)
    return BoundaryScore(precision, recall, float(f_measure(precision, recall)))


def label_boundaries(labels: LabelMap) -> Mask:
    """Return the thinned boundary of a label map, at the map's size.

    A pixel is on the boundary when the 2×2 block that starts at it, towards the right and below, has more than one
    label (the benchmark's `seg2bdry`, format `imageSize`); the result is thinned to a width of one pixel.
    """
    from skimage.morphology import thin  # training imports the region metrics without scikit-image

    array = as_labels("labels", labels)
    padded = np.pad(array, ((0, 1), (0, 1)), mode="edge")
    vertical = padded[:-1] != padded[1:]
    horizontal = padded[:, :-1] != padded[:, 1:]
    thick = vertical[:, :-1] | vertical[:, 1:] | horizontal[:-1] | horizontal[1:]
    thinned: Mask = thin(thick)
    return thinned


def boundary_counts(pairs: Iterable[tuple[Mask, Mask]], tolerance: float = TOLERANCE) -> tuple[int, int, int, int]:
    """Match thin (predicted, true) boundary maps, one pair an annotator.

    Returns the numbers of matched true, true (both summed over the annotators), matched predicted and predicted pixels.
    """
    found: Mask | bool = False
    judged: Mask | bool = False
    matched_true = total_true = 0
    for predicted, true in pairs:
        hit, recalled = match_boundaries(predicted, true, tolerance)
        found, judged = found | hit, judged | predicted
        matched_true += int(recalled.sum())
        total_true += int(true.sum())
    return matched_true, total_true, int(np.sum(found)), int(np.sum(judged))


def match_boundaries(predicted: Mask, true: Mask, tolerance: float = TOLERANCE) -> tuple[Mask, Mask]:
    """Return the pixels of each map that the cheapest one-to-one matching pairs."""
    reach = tolerance * float(np.hypot(*predicted.shape))
    points, targets = np.argwhere(predicted), np.argwhere(true)
    matched = np.zeros_like(predicted), np.zeros_like(true)
    if len(points) and len(targets):
        near = KDTree(points).sparse_distance_matrix(KDTree(targets), reach, output_type="coo_matrix")
        shape = len(points), len(targets)
        # An unmatched pixel costs OUTLIER_COST·reach on either side, an unmatched pair twice that.
        left, right = cheapest_pairs(near.row, near.col, near.data, shape, 2 * OUTLIER_COST * reach)
        matched[0][tuple(points[left].T)] = True
        matched[1][tuple(targets[right].T)] = True
    return matched


def f_measure(precision: Any, recall: Any) -> Any:
    """2PR / (P + R), and 0 where both are 0; numbers or arrays."""
    total = np.asarray(precision + recall)
    return 2 * precision * recall / np.where(total == 0, 1, total)


def _judged(annotator: Array, ignore: int | None) -> Mask:
    """Pixels whose 2×2 block (see `label_boundaries`) has no ignored label."""
    keep = np.ones(annotator.shape, dtype=np.bool_) if ignore is None else annotator != ignore
    padded: Mask = np.pad(keep, ((0, 1), (0, 1)), mode="edge")
    return padded[:-1, :-1] & padded[1:, :-1] & padded[:-1, 1:] & padded[1:, 1:]
