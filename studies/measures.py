"""Twenty-two measures of a segmentation that need no truth: what a scorer of candidates can look at."""

from __future__ import annotations

import numpy as np
from candidates import POOL, Array, Labels
from scipy import ndimage

from shapetailor.segmentation.starts import region_means

#: Temperature of the soft assignment to the regions' means, as of the training loss.
TEMPERATURE = 0.2
#: What a region without pixels counts for: the greatest scatter of unit vectors.
EMPTY_SCATTER = 2.0


def measures(descriptors: Array, labels: Labels, regions: int, weights: Array) -> dict[str, float]:
    """Measure a segmentation of (D, h, w) descriptors; `weights` is the affinity of their block means."""
    points = descriptors.reshape(len(descriptors), -1).astype(np.float64)
    flat = labels.ravel()
    area = np.bincount(flat, minlength=regions) / flat.size
    total = float(np.square(points - points.mean(axis=1, keepdims=True)).sum(axis=0).mean())
    means = region_means(descriptors, labels, regions)
    means = np.where(area[:, None] > 0, means, points.mean(axis=1))
    return {
        **_compactness(points, flat, means, area, total),
        **_separation(points, flat, means, area),
        **_assignment(points, flat, means),
        **_shape(labels, area),
        **_cut_value(labels, regions, weights),
        **_contrast(descriptors, labels),
        "regions": float(regions),
        "total scatter": total,
    }


def _compactness(points: Array, flat: Labels, means: Array, area: Array, total: float) -> dict[str, float]:
    scatter = np.square(points - means[flat].T).sum(axis=0)
    sums = np.bincount(flat, scatter, minlength=len(area)) / flat.size
    by_region = float(np.divide(sums, area, out=np.full_like(sums, EMPTY_SCATTER), where=area > 0).mean())
    energy = float(scatter.mean())
    return {
        "energy": energy,
        "energy, share": energy / total,
        "scatter of regions": by_region,
        "scatter of regions, share": by_region / total,
    }


def _separation(points: Array, flat: Labels, means: Array, area: Array) -> dict[str, float]:
    """Fisher's ratio and squared distance of every two regions' means."""
    ratios, distances = [], []
    for i in range(len(area)):
        for j in range(i):
            distance = float(np.linalg.norm(means[i] - means[j]))
            along = (means[i] - means[j]) @ points / (distance + 1e-9)
            spread = np.var(along[flat == i]) + np.var(along[flat == j]) if min(area[i], area[j]) > 0 else 1.0
            ratios.append(distance**2 / (spread + 1e-3))
            distances.append(distance**2)
    logarithms = np.log(np.array(ratios) + 1e-9)
    return {
        "least log separation": float(np.log(min(ratios) + 1e-3)),
        "mean log separation": float(logarithms.mean()),
        "least distance": min(distances),
        "mean distance": float(np.mean(distances)),
    }


def _assignment(points: Array, flat: Labels, means: Array) -> dict[str, float]:
    distance = np.square(points.T[:, None] - means).sum(axis=2)
    nearest = np.partition(distance, 1, axis=1)
    shares = np.exp(-distance / TEMPERATURE)
    shares /= shares.sum(axis=1, keepdims=True)
    logarithm = np.log(shares + 1e-12)
    return {
        "margin": float((nearest[:, 1] - nearest[:, 0]).mean()),
        "entropy": float(-(shares * logarithm).sum(axis=1).mean()),
        "confidence": float(logarithm[np.arange(len(flat)), flat].mean()),
    }


def _shape(labels: Labels, area: Array) -> dict[str, float]:
    length = np.count_nonzero(labels[1:] != labels[:-1]) + np.count_nonzero(labels[:, 1:] != labels[:, :-1])
    pieces, largest = 0, 0
    for region in range(len(area)):
        numbers, count = ndimage.label(labels == region)
        pieces += count
        largest += int(np.bincount(numbers.ravel())[1:].max(initial=0))
    return {
        "boundary": length / sum(labels.shape),
        "pieces": pieces / len(area),
        "largest pieces": largest / labels.size,
        "least area": float(area.min()),
        "entropy of areas": float(-(area * np.log(area + 1e-9)).sum() / np.log(len(area))),
    }


def _cut_value(labels: Labels, regions: int, weights: Array) -> dict[str, float]:
    """The normalised cut that the regions are, and the least affinity inside one."""
    member = labels[::POOL, ::POOL].ravel() == np.arange(regions)[:, None]
    member = member[member.any(axis=1)].astype(np.float64)
    links = member @ weights @ member.T
    inside, degree, size = np.diag(links), links.sum(axis=1), member.sum(axis=1)
    return {
        "cut": float((1 - inside / np.maximum(degree, 1e-9)).sum() / regions),
        "least affinity": float((inside / size**2).min()),
    }


def _contrast(descriptors: Array, labels: Labels) -> dict[str, float]:
    """Change of the descriptors across the boundary, and in proportion to that inside regions."""
    changes, crossings = [], []
    for axis in (0, 1):
        changes.append(np.square(np.diff(descriptors, axis=axis + 1)).sum(axis=0).ravel())
        crossings.append((np.diff(labels, axis=axis) != 0).ravel())
    change, crossing = np.concatenate(changes), np.concatenate(crossings)
    across = change[crossing].sum() / max(crossing.sum(), 1)
    inner = change[~crossing].sum() / max((~crossing).sum(), 1)
    return {"contrast": float(across), "contrast, ratio": float(across / (inner + 1e-4))}
