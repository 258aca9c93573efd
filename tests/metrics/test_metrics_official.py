"""The official BSDS benchmark printed figures for its own example; ours must be the same."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from PIL import Image
from scipy.io import loadmat

from shapetailor import metrics

UCM_THRESHOLDS = metrics.benchmark_thresholds(5)
SEGMENTATIONS = np.arange(1, 6)
#: The official matcher adds random outlier edges; figures move in the third or fourth digit.
MATCHER_NOISE = 0.005


@pytest.fixture(scope="module")
def bench(data_dir):
    return data_dir("bsds500/bench")


@pytest.fixture(scope="module")
def names(bench):
    # The official code lists files in the order of their names.
    return sorted(path.stem for path in (bench / "groundTruth").glob("*.mat"))


@pytest.fixture(scope="module")
def truths(bench, names):
    def read(name, field):
        cells = loadmat(bench / "groundTruth" / f"{name}.mat")["groundTruth"][0]
        return [cell[field][0, 0] for cell in cells]

    return {
        "labels": {name: read(name, "Segmentation") for name in names},
        "boundaries": {name: [b > 0 for b in read(name, "Boundaries")] for name in names},
    }


def segmentations(bench, name, kind):
    if kind == "ucm2":
        ucm = loadmat(bench / "ucm2" / f"{name}.mat")["ucm2"]
        return metrics.ucm_segmentations(ucm, UCM_THRESHOLDS)
    return loadmat(bench / "segs" / f"{name}.mat")["segs"][0]


def boundaries(bench, name, kind):
    if kind == "segs":
        return map(metrics.label_boundaries, segmentations(bench, name, kind))
    if kind == "ucm2":
        strength = metrics.ucm_strength(loadmat(bench / "ucm2" / f"{name}.mat")["ucm2"])
    else:
        strength = np.asarray(Image.open(bench / "png" / f"{name}.png")) / 255
    return metrics.strength_boundaries(strength, UCM_THRESHOLDS)


@pytest.fixture(scope="module")
def boundary_curves(bench, names, truths):
    """Return a function: kind → the images' counts, matched once."""

    @cache
    def curves(kind):
        return [metrics.boundary_curve(boundaries(bench, n, kind), truths["boundaries"][n]) for n in names]

    return curves


def thresholds(kind):
    return SEGMENTATIONS if kind == "segs" else UCM_THRESHOLDS


def assert_printed_digits(ours, path):
    """Six significant digits were printed, of sums that had been rounded to six themselves."""
    np.testing.assert_allclose(ours, np.loadtxt(path, ndmin=2), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("test", "kind"), [("test_1", "ucm2"), ("test_4", "segs"), ("test_5", "segs")])
def test_region_figures_are_the_printed_ones(bench, names, truths, test, kind):
    curves = [metrics.region_curve(segmentations(bench, n, kind), truths["labels"][n]) for n in names]
    ours = metrics.region_benchmark(curves, thresholds(kind))
    folder = bench / test
    cover = [[ours.covering.threshold, ours.covering.ods, ours.covering.ois, ours.best_covering]]
    assert_printed_digits(cover, folder / "eval_cover.txt")
    per_image = [(number, *image) for number, image in enumerate(ours.images, start=1)]
    assert_printed_digits(per_image, folder / "eval_cover_img.txt")
    assert_printed_digits(np.c_[ours.thresholds, ours.covering_curve], folder / "eval_cover_th.txt")
    best = [[*ours.rand_index, *ours.variation_of_information]]
    assert_printed_digits(best, folder / "eval_RI_VOI.txt")
    curve = np.c_[ours.thresholds, ours.rand_index_curve, ours.variation_of_information_curve]
    assert_printed_digits(curve, folder / "eval_RI_VOI_thr.txt")


@pytest.mark.parametrize(
    ("test", "kind"), [("test_1", "ucm2"), ("test_2", "png"), ("test_3", "segs"), ("test_4", "segs")]
)
def test_boundary_figures_are_the_printed_ones(bench, boundary_curves, test, kind):
    ours = metrics.boundary_benchmark(boundary_curves(kind), thresholds(kind))
    folder = bench / test
    tables = {
        "eval_bdry_thr.txt": np.c_[ours.thresholds, ours.recall, ours.precision, ours.f],
        "eval_bdry_img.txt": [(number, *image) for number, image in enumerate(ours.images, start=1)],
        "eval_bdry.txt": [[*ours.ods, ours.ois.recall, ours.ois.precision, ours.ois.f, ours.average_precision]],
    }
    for name, table in tables.items():
        official = np.loadtxt(folder / name, ndmin=2)
        np.testing.assert_allclose(table, official, rtol=0, atol=MATCHER_NOISE, err_msg=name)


def test_the_annotators_boundaries_are_our_boundaries_of_their_labels(names, truths):
    for name in names:
        for labels, boundary in zip(truths["labels"][name], truths["boundaries"][name], strict=True):
            np.testing.assert_array_equal(metrics.label_boundaries(labels), boundary)


def test_single_image_metrics_are_the_curve_at_one_segmentation(bench, names, truths, boundary_curves):
    name = names[0]
    first, truth = segmentations(bench, name, "segs")[0], truths["labels"][name]
    curve = metrics.region_curve([first], truth)
    scores = metrics.region_scores(first, truth)
    assert scores.covering == pytest.approx(curve.covering[0], abs=1e-12)
    assert scores.rand_index == pytest.approx(curve.rand_index[0], abs=1e-12)
    assert scores.variation_of_information == pytest.approx(curve.variation_of_information[0], abs=1e-12)
    ours = metrics.boundary_benchmark([boundary_curves("segs")[0][:1]], [1])
    assert metrics.boundary_f(first, truth).f == pytest.approx(ours.f[0], abs=1e-12)
