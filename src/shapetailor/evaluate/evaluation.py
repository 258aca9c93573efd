"""All metrics of every image of a dataset, and their summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from tqdm import tqdm

from .. import metrics
from ..metrics.contingency import LabelMap

#: Column → how it is printed, in the order of every table.
MEASURES = {
    "covering": "covering",
    "rand_index": "Rand index",
    "variation_of_information": "variation of information (bits, smaller is better)",
    "adjusted_rand": "adjusted Rand index",
    "mean_iou": "mean IoU, one-to-one",
    "voc_predicted": "mean best IoU of predicted regions",
    "voc_true": "mean best IoU of true regions",
    "boundary_precision": "boundary precision",
    "boundary_recall": "boundary recall",
    "boundary_f": "boundary F",
}
RESAMPLES = 2000
SEED = 0


class Sample(Protocol):
    """An item of a dataset, such as `shapetailor.datasets.Sample`."""

    @property
    def image(self) -> Any:
        """What `predict` takes."""

    @property
    def truths(self) -> Sequence[LabelMap]:
        """One label map an annotator."""

    @property
    def name(self) -> str:
        """Its name in tables."""


class Summary(NamedTuple):
    """A measure over all images; `low` and `high` bound the mean's 95 % interval."""

    mean: float
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """Image → measure → value, in the order of the dataset."""

    images: Mapping[str, Mapping[str, float]]

    def summary(self) -> dict[str, Summary]:
        """Return each measure's mean, median and 95 % percentile bootstrap interval of the mean [1]_, seeded.

        References
        ----------
        .. [1] B. Efron and R. Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.
        """
        from scipy.stats import bootstrap  # here, because its import takes longer than all else that is imported

        values = np.array([list(scores.values()) for scores in self.images.values()])
        low = high = values[0]
        if len(values) > 1:
            found = bootstrap(
                (values,), np.mean, n_resamples=RESAMPLES, batch=100, method="percentile", random_state=SEED
            )
            low, high = found.confidence_interval
        columns = zip(values.mean(axis=0), np.median(values, axis=0), low, high, strict=True)
        return {measure: Summary(*map(float, column)) for measure, column in zip(MEASURES, columns, strict=True)}

    def ranked(self, measure: str = "covering") -> list[str]:
        """Return the images' names from the worst to the best by a measure; ties by name."""
        if measure not in MEASURES:
            raise ValueError(f"measure must be one of {', '.join(MEASURES)}, got {measure!r}")
        sign = -1 if measure == "variation_of_information" else 1
        return sorted(self.images, key=lambda name: (sign * self.images[name][measure], name))


def evaluate(
    predict: Callable[[Any], LabelMap],
    dataset: Iterable[Sample],
    *,
    ignore: int | None = -1,
    progress: bool = False,
) -> Evaluation:
    """Run `predict` on every image of a dataset and measure its label maps.

    Parameters
    ----------
    predict : callable
        Image in, H×W integer labels out.
    dataset : iterable
        Samples with `image`, `truths` (one or more H×W label maps) and a unique `name`.
    ignore : int, optional
        Label of the truths whose pixels are left out; -1 in our datasets.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> image = np.array([[0.1, 0.2, 0.8, 0.9]] * 4)
    >>> sample = SimpleNamespace(image=image, truths=[np.array([[3, 3, 5, 5]] * 4)], name="edge")
    >>> evaluation = evaluate(lambda image: image > 0.5, [sample])
    >>> evaluation.summary()["covering"].mean
    1.0
    """
    images: dict[str, dict[str, float]] = {}
    for sample in tqdm(dataset, desc="evaluate", unit="image", disable=not progress):
        if sample.name in images:
            raise ValueError(f"dataset has two samples called {sample.name!r}")
        try:
            images[sample.name] = measure(predict(sample.image), sample.truths, ignore=ignore)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{sample.name}: {error}") from error
    if not images:
        raise ValueError("dataset is empty, expected at least one sample")
    return Evaluation(images)


def measure(prediction: LabelMap, truths: Sequence[LabelMap], *, ignore: int | None = None) -> dict[str, float]:
    """Return all measures of one image, in the order of `MEASURES`."""
    region = metrics.region_scores(prediction, list(truths), ignore=ignore)
    boundary = metrics.boundary_f(prediction, list(truths), ignore=ignore)
    values = (*region[:-1], *region.voc_accuracy, *boundary)
    return dict(zip(MEASURES, values, strict=True))
