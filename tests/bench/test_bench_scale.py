"""The scale benchmark: one picture at any size, its ways, its boundary measure."""

from __future__ import annotations

import numpy as np
import pytest

from shapetailor.bench import scale, segment


def test_the_picture_is_the_same_at_every_size():
    small, truth = scale.picture((96, 96))
    large, wide = scale.picture((288, 288))
    assert (truth.shape, wide.shape) == ((96, 96), (288, 288))
    assert np.mean(wide[1::3, 1::3] == truth) > 0.97
    assert np.abs(large[1::3, 1::3].mean((0, 1)) - small.mean((0, 1))).max() < 3
    assert np.bincount(truth.ravel(), minlength=3).min() > 0.05 * truth.size


def test_boundary_f_knows_its_tolerance():
    truth = np.repeat(np.arange(40)[None] // 20, 40, axis=0)
    assert scale.boundary_f(np.roll(truth, 0), truth) == 1
    assert scale.boundary_f(np.pad(truth, ((0, 0), (2, 0)), mode="edge")[:, :40], truth) == 1
    assert scale.boundary_f(np.pad(truth, ((0, 0), (3, 0)), mode="edge")[:, :40], truth) == 0
    assert scale.boundary_f(np.zeros_like(truth), truth) == 0


def test_tiles_are_joined_by_their_overlaps(monkeypatch):
    monkeypatch.setattr(scale, "TILE", 40)
    monkeypatch.setattr(scale, "OVERLAP", 8)
    truth = np.repeat(np.arange(100)[None] // 50, 100, axis=0)

    class Exact:
        """Finds the truth, with numbers of its own."""

        def segment(self, image, regions):
            assert regions == "auto"
            numbers = np.unique(image, return_inverse=True)[1].reshape(image.shape)
            return type("Found", (), {"labels": numbers.astype(np.int64)})

    found = scale.tiled(Exact(), truth)
    assert len(np.unique(found)) == 2
    assert scale.boundary_f(found, truth) == 1


def test_every_way_is_measured_where_it_does_not_take_too_long(monkeypatch):
    figures = {"seconds": 1.0, "bytes": 10**9, "f": 0.9}
    monkeypatch.setattr(
        scale, "measure", lambda way, shape: {"way": way, "height": shape[0], "width": shape[1], **figures}
    )
    outcome = scale.run()
    assert [(row["way"], row["height"]) for row in outcome.data["rows"] if row["way"] == "tiles"] == [
        ("tiles", 1000),
        ("tiles", 2000),
        ("tiles", 4000),
    ]
    assert [each["reached"] for each in outcome.data["targets"]] == [True, True, True]
    assert outcome.text.count("100 MP") == 2


def test_a_small_picture_is_measured_in_a_process_of_its_own():
    found = scale.measure("coarse to fine", (128, 160))
    assert found["seconds"] > 0
    assert 0 <= found["f"] <= 1


def test_whole_calls_are_judged_by_their_size():
    rows = [{"height": 512, "width": 512, "seconds": 1.6, "bytes": 10**9}]
    rows += [{"height": 4000, "width": 6000, "seconds": 14.0, "bytes": 3 * 10**9}]
    assert [each["reached"] for each in segment.judge_wholes(rows)] == [False, True, True, False]


def test_sizes_too_small_are_refused():
    with pytest.raises(ValueError, match="at least 64 pixels, got 16"):
        scale.run([16])
