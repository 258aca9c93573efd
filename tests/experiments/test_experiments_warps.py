"""The covariance and deformation experiments with methods whose answers are known."""

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from gallery import squared_sobolev_norm
from shapetailor.baselines import Baseline
from shapetailor.datasets import Sample
from shapetailor.experiments import covariance, deformation
from shapetailor.experiments.consistency import ACCURACY
from shapetailor.experiments.results import Context, run_experiment

MEASURES = 10


@dataclass
class Fake:
    """A method that labels by a rule, and counts how often it is asked."""

    rule: object
    title: str = "fake"
    parameters: int = 0
    calls: list = field(default_factory=list)

    def segment(self, image, regions, seed=0):
        self.calls.append(image.shape)
        return self.rule(image).astype(np.int64)


def bright(image):
    """Looks at nothing but the pixel: it cannot know how the picture is turned."""
    return image.mean(axis=2) > 100


def right_half(image):
    """Looks at nothing but the place."""
    return np.broadcast_to(np.arange(image.shape[1]) >= image.shape[1] / 2, image.shape[:2])


@pytest.fixture
def run_with(tmp_path):
    def run(experiment, rule, out="out", **settings):
        method = Fake(rule)
        fake = Baseline("fake", "fake", False, lambda samples, folder, settings: method)
        options = {"methods": ("fake",), "baselines": {"fake": fake}, **settings}
        context = Context(None, tmp_path / out, quick=True, progress=False, **options)
        return run_experiment(experiment, context, "test"), method, context

    return run


def blocks(seed=0, side=96):
    """Two flat regions, black and white."""
    row, column = np.indices((side, side))
    labels = ((row + column) > side).astype(np.int64)
    return Sample((255 * labels[..., None].repeat(3, axis=2)).astype(np.uint8), (labels,), f"blocks{seed}")


@pytest.mark.parametrize("experiment", ["covariance", "deformation"])
def test_a_pointwise_method_is_consistent_and_one_of_places_is_not(run_with, experiment, monkeypatch):
    module = {"covariance": covariance, "deformation": deformation}[experiment]
    split = module.two_regions(Context(None, None, quick=True))
    samples = [blocks(0), blocks(1), blocks(2)]
    monkeypatch.setattr(module, "two_regions", lambda context: type(split)(samples, samples, "blocks"))
    results = run_with(experiment, bright)[0]
    measured = [row for row in results.rows if row.source == "measured"]
    assert min(row.values["covering"] for row in measured) > 0.97
    assert min(row.values[ACCURACY] for row in measured) > 0.97
    placed = [row for row in run_with(experiment, right_half, "other")[0].rows if row.source == "measured"]
    assert max(row.values[ACCURACY] for row in placed) < 0.8
    if experiment == "covariance":
        assert placed[0].values["covering"] < 0.8


@pytest.mark.parametrize("experiment", ["covariance", "deformation"])
def test_files_rows_and_pictures(run_with, experiment):
    results, _, context = run_with(experiment, bright)
    record = json.loads((context.out / "results.json").read_text(encoding="utf-8"))
    assert record["label"] == {"covariance": "tab:invariance", "deformation": "fig:defromExp"}[experiment]
    assert all((context.out / name).stat().st_size > 1000 for name in results.pictures)
    assert len(results.pictures) == 2
    rows = [row for row in results.rows if row.source == "measured"]
    assert [row.method for row in rows] == {
        "covariance": ["fake"],
        "deformation": ["fake, ‖v‖² = 20", "fake, ‖v‖² = 80"],
    }[experiment]
    assert all(set(row.values) == set(results.columns) for row in rows)
    assert all(len(scores) == MEASURES for images in results.images.values() for scores in images.values())
    paper = {row.method: row.values for row in results.rows if row.source == "paper"}
    cited = {"covariance": "ST-DNN", "deformation": "ST-DNN, ‖v‖² = 80"}[experiment]
    assert paper[cited]["covering"] == {"covariance": 0.87, "deformation": 0.81}[experiment]


@pytest.mark.parametrize("experiment", ["covariance", "deformation"])
def test_a_second_run_segments_nothing_again(run_with, experiment):
    first, method, _ = run_with(experiment, bright)
    # Each image once as it is, and once for each of its warps.
    assert len(method.calls) == {"covariance": 4, "deformation": 6}[experiment]
    again, method, _ = run_with(experiment, right_half)
    assert not method.calls
    assert [row.values for row in again.rows] == [row.values for row in first.rows]


@pytest.mark.parametrize("seed", range(8))
def test_turned_images_show_both_regions_and_nothing_else(seed):
    strip = np.tile(np.arange(96) > 75, (96, 1)).astype(np.int64)  # which most rectangles miss
    sample = replace(blocks(seed), truths=(strip,))
    trial = covariance.turned(Context(None, None, seed=seed), sample)
    assert trial.warp.valid.all()
    np.testing.assert_allclose(trial.warp.jacobian, 1)
    shares = np.bincount(trial.warp.labels(sample.truths[0]).ravel()) / trial.image[..., 0].size
    assert len(shares) == 2
    assert shares.min() >= covariance.SMALLEST
    down = np.diff(trial.warp.source, axis=1)[:, 0, 0]
    angle = np.arctan2(-down[1], down[0]) % (2 * np.pi)
    assert np.abs(angle - np.array(covariance.ANGLES)).min() < 1e-9


def test_rectangles_differ_between_images_and_seeds_only():
    context = Context(None, None, seed=3)
    first, again, other = (covariance.turned(context, blocks(number)).warp.source for number in (0, 0, 1))
    reseeded = covariance.turned(Context(None, None, seed=4), blocks(0)).warp.source
    assert np.array_equal(first, again)
    assert not any(first.shape == each.shape and np.array_equal(first, each) for each in (other, reseeded))


def test_deformations_have_the_papers_norm_at_its_size_and_the_same_shape_at_others(monkeypatch):
    drawn = []
    real = deformation.random_deformation
    monkeypatch.setattr(deformation, "random_deformation", lambda *args: drawn.append(real(*args)) or drawn[-1])
    for side in (256, 64):
        trial = deformation.deformed(Context(None, None), blocks(0, side), 40)
        assert trial.warp.valid.all()
        assert min(trial.warp.shape) > 0.9 * side
    assert squared_sobolev_norm(drawn[0].displacement) == pytest.approx(40)
    np.testing.assert_allclose(drawn[0].displacement[:, ::4, ::4], 4 * drawn[1].displacement, atol=1e-9)


def test_the_experiments_run_with_their_own_methods(tmp_path):
    context = Context(None, tmp_path, quick=True, progress=False, limit=1)
    rows = [row.method for row in run_experiment("covariance", context, "test").rows]
    assert [name for name in rows if name.startswith(("ST-DNN,", "STLD", "k-means"))] == rows[:4]


def test_the_experiments_read_rwtsd(tmp_path, data_dir):
    context = Context(data_dir("rwtsd"), tmp_path, quick=True, progress=False, limit=1, methods=("kmeans-colour",))
    results = run_experiment("deformation", context, "test")
    assert results.rows[0].values["covering"] > 0.6
