"""Scorers of candidate segmentations, cross-validated over images (scikit-learn)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
FOLDS = 5


def agreement(mutual: Array) -> Array:
    """Return how well each candidate is covered by the others, (N, C), from (N, C, C) coverings [by, of]."""
    count = mutual.shape[1]
    return (mutual.sum(axis=1) - 1) / (count - 1)


def scores(measures: Array, mutual: Array, coverings: Array) -> dict[str, Array]:
    """Return predictions (N, C) of which candidate covers the truth best, each made without its image.

    Parameters
    ----------
    measures : ndarray, (N, C, F)
    mutual : ndarray, (N, C, C)
        Coverings of candidates by each other.
    coverings : ndarray, (N, C)
        Of the truth: what is learnt.
    """
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.linear_model import RidgeCV

    count = mutual.shape[1]
    others = np.stack([agreement(mutual), (mutual.sum(axis=2) - 1) / (count - 1)], axis=-1)
    everything = np.concatenate([measures, others, _relative(measures), _relative(others[..., :1])], axis=2)
    return {
        f"ridge regression on {measures.shape[2]} measures": _cross_validated(
            lambda: RidgeCV(np.logspace(-1, 4, 12)), measures, coverings
        ),
        "gradient boosting on these and the agreement": _cross_validated(
            lambda: GradientBoostingRegressor(
                n_estimators=150, max_depth=3, learning_rate=0.05, subsample=0.5, random_state=0
            ),
            everything,
            _relative(coverings),
        ),
    }


def _relative(values: Array) -> Array:
    """Take each candidate's values from the mean of its image's candidates."""
    return values - values.mean(axis=1, keepdims=True)


def _cross_validated(model: Callable[[], Any], inputs: Array, target: Array) -> Array:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fold = np.arange(len(inputs)) % FOLDS
    predicted = np.zeros_like(target)
    for each in range(FOLDS):
        seen = fold != each
        fitted = make_pipeline(StandardScaler(), model())
        fitted.fit(inputs[seen].reshape(-1, inputs.shape[2]), target[seen].ravel())
        predicted[~seen] = fitted.predict(inputs[~seen].reshape(-1, inputs.shape[2])).reshape(-1, target.shape[1])
    return predicted
