"""A dense conditional random field that removes small regions, as in the paper's experiments with many regions."""

from __future__ import annotations

import numpy as np
from skimage.measure import label as connected_components

from ..arrays import RGB8, Ints
from ..segmentation.cleanup import remove_small

#: Probability that a given label is right, and mean-field iterations (pydensecrf's own example).
CERTAINTY, ITERATIONS = 0.7, 5


def dense_crf(labels: Ints, image: RGB8, min_share: float) -> Ints:
    """Let a dense CRF [1]_ decide about connected components below a share of the image, and smooth the boundaries.

    By the optional `pydensecrf2`, with the settings of that library's example [2]_. Pixels of small components are
    unknown: they may become any region that has a large component. The others may change as well. Components that are
    small even then go the way of `remove_small`. `labels` must not be negative.

    References
    ----------
    .. [1] P. Krähenbühl and V. Koltun, "Efficient inference in fully connected CRFs with Gaussian edge potentials",
       NIPS 2011.
    .. [2] github.com/lucasb-eyer/pydensecrf, `examples/inference.py`.
    """
    from pydensecrf.densecrf import DenseCRF2D

    components = connected_components(labels, background=-1, connectivity=1)
    unknown = np.bincount(components.ravel())[components] < min_share * labels.size
    known = np.unique(labels[~unknown])
    count = len(known)
    if count < 2:
        return remove_small(labels, min_share)[0]
    probability = np.full((count, labels.size), 1.0 / count, dtype=np.float32)
    sure = np.flatnonzero(~unknown)
    probability[:, sure] = (1 - CERTAINTY) / (count - 1)
    probability[np.searchsorted(known, labels[~unknown]), sure] = CERTAINTY
    field = DenseCRF2D(labels.shape[1], labels.shape[0], count)
    field.setUnaryEnergy(-np.log(probability))
    field.addPairwiseGaussian(sxy=3, compat=3)
    # A copy: the library refuses read-only arrays.
    field.addPairwiseBilateral(sxy=80, srgb=13, rgbim=image.copy(order="C"), compat=10)
    decided = known[np.argmax(field.inference(ITERATIONS), axis=0)].reshape(labels.shape)
    return remove_small(decided, min_share)[0]
