"""Region metrics: how well two partitions of the pixels agree, whatever their labels are called.

Every function takes `prediction` (H×W integers, array or tensor), `truth` (the same, or a list of them, one an
annotator) and `ignore`, a label of the truth whose pixels are left out.
"""

from typing import NamedTuple

import numpy as np

from ..arrays import Ints
from .contingency import Contingency, LabelMap, Truth, as_labels, as_truths, contingency, mean, partition, tables_of


class VocAccuracy(NamedTuple):
    """Mean best IoU over the predicted regions and over the true regions."""

    predicted: float
    true: float


class RegionScores(NamedTuple):
    """All region metrics of one image."""

    covering: float
    rand_index: float
    variation_of_information: float
    adjusted_rand: float
    mean_iou: float
    voc_accuracy: VocAccuracy


def covering(prediction: LabelMap, truth: Truth, *, ignore: int | None = None) -> float:
    """Ground-truth covering in (0, 1]: the true regions' best IoU, weighted by their size.

    Several annotators are pooled: every region of every annotator counts by its size. Not symmetric. P. Arbeláez,
    M. Maire, C. Fowlkes and J. Malik, "Contour detection and hierarchical image segmentation", IEEE TPAMI 33(5), 2011.

    Examples
    --------
    >>> import numpy as np
    >>> covering(np.array([[1, 1, 1, 2]]), np.array([[7, 7, 9, 9]]))  # (2·2/3 + 2·1/2) / 4
    0.5833333333333333
    """
    return _covering(tables_of(prediction, truth, ignore))


def rand_index(prediction: LabelMap, truth: Truth, *, ignore: int | None = None) -> float:
    """Rand index in [0, 1]: the share of pixel pairs that both partitions join or both separate.

    W. M. Rand, "Objective criteria for the evaluation of clustering methods", JASA 66, 1971. The mean over several
    annotators is the probabilistic Rand index: R. Unnikrishnan, C. Pantofaru and M. Hebert, "Toward objective
    evaluation of image segmentation algorithms", IEEE TPAMI 29(6), 2007.
    """
    return mean(Contingency.rand_index, tables_of(prediction, truth, ignore))


def variation_of_information(prediction: LabelMap, truth: Truth, *, ignore: int | None = None) -> float:
    """Variation of information H(S|T) + H(T|S) in bits, 0 for equal partitions; mean over annotators.

    M. Meilă, "Comparing clusterings: an axiomatic view", ICML 2005.
    """
    return mean(Contingency.variation_of_information, tables_of(prediction, truth, ignore))


def adjusted_rand(prediction: LabelMap, truth: Truth, *, ignore: int | None = None) -> float:
    """Rand index adjusted for chance, at most 1, about 0 for unrelated partitions; mean over annotators.

    L. Hubert and P. Arabie, "Comparing partitions", Journal of Classification 2, 1985.
    """
    return mean(Contingency.adjusted_rand, tables_of(prediction, truth, ignore))


def mean_iou(prediction: LabelMap, truth: Truth, *, ignore: int | None = None) -> float:
    """Mean IoU over the true regions, in (0, 1], under the one-to-one pairing with the largest sum of IoU.

    A true region without a partner counts 0. Averaged over several annotators.
    """
    return mean(Contingency.mean_iou, tables_of(prediction, truth, ignore))


def voc_accuracy(prediction: LabelMap, truth: Truth, *, ignore: int | None = None) -> VocAccuracy:
    """Mean best IoU over predicted regions, and over true regions; each averaged over annotators.

    The two accuracies of the synthetic multi-region dataset's benchmark (`evaluation/bench_VOC.m` in its repository,
    MMFa666/Segmentation_dataset), in its order.
    """
    return _voc_accuracy(tables_of(prediction, truth, ignore))


def region_scores(prediction: LabelMap, truth: Truth, *, ignore: int | None = None) -> RegionScores:
    """Return every region metric of one image; the contingency tables are made once."""
    counted = tables_of(prediction, truth, ignore)
    names = ("rand_index", "variation_of_information", "adjusted_rand", "mean_iou")
    means = {name: mean(getattr(Contingency, name), counted) for name in names}
    return RegionScores(covering=_covering(counted), voc_accuracy=_voc_accuracy(counted), **means)


def align_labels(prediction: LabelMap, truth: LabelMap, *, ignore: int | None = None) -> tuple[Ints, Ints]:
    """Renumber both maps' regions so that partners under the pairing of `mean_iou` have the same label.

    Returns
    -------
    prediction, truth : ndarray
        True regions are 0 … n-1 in the order of their labels, ignored pixels of the truth -1; predicted
        regions without a partner are n, n+1, ….

    Examples
    --------
    >>> import numpy as np
    >>> align_labels(np.array([[5, 5, 2, 7]]), np.array([[0, 0, 9, 9]]))
    (array([[0, 0, 1, 2]]), array([[0, 0, 1, 1]]))
    """
    labels = as_labels("prediction", prediction)
    (target,) = as_truths(truth, labels.shape, ignore)
    keep = np.ones(target.shape, dtype=np.bool_) if ignore is None else target != ignore
    predicted, true = partition(labels), partition(target[keep])
    judged = predicted._replace(codes=predicted.codes[keep.ravel()])
    left, right = contingency(judged, true).best_pairing()
    names = np.full(predicted.regions, -1, dtype=np.int64)
    names[left] = right
    names[names < 0] = true.regions + np.arange(np.count_nonzero(names < 0))
    renamed = np.full(target.shape, -1, dtype=np.int64)
    renamed[keep] = true.codes
    return names[predicted.codes].reshape(labels.shape), renamed


def _covering(counted: list[Contingency]) -> float:
    covered = sum(float(table.true_sizes @ table.best_iou_of_true) for table in counted)
    return covered / sum(table.pixels for table in counted)


def _voc_accuracy(counted: list[Contingency]) -> VocAccuracy:
    return VocAccuracy(
        mean(lambda table: float(table.best_iou_of_predicted.mean()), counted),
        mean(lambda table: float(table.best_iou_of_true.mean()), counted),
    )
