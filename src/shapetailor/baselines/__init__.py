"""Other methods to compare with: an image and a number of regions in, labels out.

`Baseline.fit` trains what has to be trained, once, and returns a `Method`. Methods that only differ in their
descriptors share the starts and the evolution of `Segmenter`.

>>> from shapetailor.baselines import BASELINES, FitSettings
>>> from pathlib import Path
>>> import numpy as np
>>> stld = BASELINES["stld"].fit([], Path(), FitSettings())
>>> stripes = np.tile(np.where(np.arange(32) < 16, 40, 200).astype(np.uint8), (32, 1))
>>> np.unique(stld.segment(stripes, regions=2)).tolist()
[0, 1]
"""

from . import classical, cnn_training, stld, trained
from .method import Baseline, FitSettings, Method
from .trained import stdnn_method

__all__ = ["BASELINES", "Baseline", "FitSettings", "Method", "stdnn_method"]

#: By name, in the order of tables.
BASELINES: dict[str, Baseline] = {
    each.name: each for module in (trained, stld, cnn_training, classical) for each in module.BASELINES
}
