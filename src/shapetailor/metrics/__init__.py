"""Region and boundary metrics that reproduce the figures of the BSDS benchmark; see docs/evaluate.md."""

from .benchmark import (
    BoundaryBenchmark,
    RegionBenchmark,
    benchmark_thresholds,
    boundary_benchmark,
    boundary_curve,
    region_benchmark,
    region_curve,
    strength_boundaries,
    ucm_segmentations,
    ucm_strength,
)
from .boundary import BoundaryScore, boundary_f, label_boundaries
from .region import (
    RegionScores,
    VocAccuracy,
    adjusted_rand,
    align_labels,
    covering,
    mean_iou,
    rand_index,
    region_scores,
    variation_of_information,
    voc_accuracy,
)

__all__ = [
    "BoundaryBenchmark", "BoundaryScore", "RegionBenchmark", "RegionScores", "VocAccuracy", "adjusted_rand",
    "align_labels", "benchmark_thresholds", "boundary_benchmark", "boundary_curve", "boundary_f", "covering",
    "label_boundaries", "mean_iou", "rand_index", "region_benchmark", "region_curve", "region_scores",
    "strength_boundaries", "ucm_segmentations", "ucm_strength", "variation_of_information", "voc_accuracy",
]  # fmt: skip
