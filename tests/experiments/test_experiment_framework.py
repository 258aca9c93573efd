"""Experiments' memory, tables and files."""

import json
from dataclasses import replace

import numpy as np
import pytest
from experiment_fakes import Fake, with_fake

from shapetailor.baselines import BASELINES
from shapetailor.datasets import Sample
from shapetailor.experiments import EXPERIMENTS, load, running, suite
from shapetailor.experiments.context import Context
from shapetailor.experiments.figures import GAP, SIDE, sheet
from shapetailor.experiments.results import Results, TableRow, as_text
from shapetailor.experiments.running import markdown, run_experiment, write_results


@pytest.fixture
def context(tmp_path):
    return Context(None, tmp_path / "out", quick=True, progress=False)


def halves_sample(name, left=4):
    truth = np.tile((np.arange(8) >= left).astype(np.int64), (8, 1))
    return Sample((100 * truth).astype(np.uint8), (truth,), name)


def test_a_part_is_computed_once(context):
    values = iter([{"x": 1.5}, {"x": 2.5}])
    assert context.remember("a/b", lambda: next(values)) == {"x": 1.5}
    assert context.remember("a/b", lambda: next(values)) == {"x": 1.5}


def test_a_part_that_failed_is_not_remembered(context):
    with pytest.raises(ZeroDivisionError):
        context.remember("a", lambda: 1 / 0)
    assert context.remember("a", lambda: 2) == 2
    assert [path.name for path in (context.out / "parts").iterdir()] == ["a.json"]


def test_label_maps_are_kept_exactly(context):
    labels = np.arange(300).reshape(15, 20)
    np.testing.assert_array_equal(context.remember_labels("x/1", lambda: labels), labels)
    np.testing.assert_array_equal(context.remember_labels("x/1", lambda: labels * 0), labels)


def test_judging_measures_each_image_against_its_truth(context):
    samples = [halves_sample("right"), halves_sample("wrong", left=2)]
    found = suite.judge(context, "p", Fake(), samples, suite.given(context, 2))
    assert found["right"]["covering"] == 1.0
    # Stripes meet at 4 of 8: true areas 2 and 6 have best IoU 2/4 and 4/6.
    assert found["wrong"]["covering"] == pytest.approx((2 * 2 / 4 + 6 * 4 / 6) / 8)


def test_after_an_interruption_only_the_rest_is_done(context):
    samples = [halves_sample(str(i)) for i in range(4)]
    dying = Fake(dies_at=2)
    with pytest.raises(KeyboardInterrupt):
        suite.judge(context, "p", dying, samples, suite.given(context, 2))
    second = Fake()
    found = suite.judge(context, "p", second, samples, suite.given(context, 2))
    assert len(dying.asked) == 2
    assert len(second.asked) == 2
    assert list(found) == ["0", "1", "2", "3"]


def test_a_row_has_the_means_over_its_images(context):
    samples = [halves_sample("a"), halves_sample("b", left=2)]
    images = suite.judge(context, "p", Fake(), samples, suite.given(context, 2))
    results = Results("t", "tab:x", ("covering",), "d")
    row = results.add("fake", images)
    assert row.values == {"covering": pytest.approx((images["a"]["covering"] + images["b"]["covering"]) / 2)}


def test_stdnn_takes_part_with_its_own_and_the_common_start(context):
    found = suite.entries(with_fake(context, name="stdnn")[0], Results("", "", (), ""))
    assert [(entry.start, entry.key) for entry in found] == [("ncut", "stdnn-ncut"), ("kmeans", "stdnn")]
    assert len({entry.title(Fake()) for entry in found}) == 2


def test_a_method_that_cannot_run_is_noted(context):
    context, _, _ = with_fake(context, unavailable="torchvision is missing")
    results = Results("", "", (), "")
    assert suite.entries(context, results) == []
    assert "fake: torchvision is missing." in results.notes


def test_halves_share_nothing_and_depend_on_the_seed():
    train, test = suite.halves(256, seed=1)
    assert len(train) == len(test) == 128
    assert sorted(train + test) == list(range(256))
    assert suite.halves(256, seed=2)[0] != train


def test_generated_parts_differ_in_names_and_pictures(context):
    split = suite.generated(context)
    names = [sample.name for sample in (*split.train, *split.test)]
    assert len(set(names)) == len(names)
    assert not any(np.array_equal(a.image, b.image) for a in split.train for b in split.test)


def test_a_folder_of_other_settings_is_refused(context):
    context, _, _ = with_fake(context)
    run_experiment("rwtsd", context, "first")
    with pytest.raises(ValueError, match="seed: 0 → 1"):
        run_experiment("rwtsd", replace(context, seed=1), "other seed")
    run_experiment("rwtsd", replace(context, limit=1), "other limit")


def test_the_time_of_runs_adds_up_that_of_stopped_ones_too(context, monkeypatch):
    times = iter([0.0, 10.0, 100.0, 103.0])
    monkeypatch.setattr(running, "perf_counter", lambda: next(times))
    with pytest.raises(KeyboardInterrupt):
        run_experiment("rwtsd", with_fake(context, Fake(dies_at=1))[0], "stopped")
    run_experiment("rwtsd", with_fake(context)[0], "finished")
    assert json.loads((context.out / "results.json").read_text())["seconds"] == 13.0


def test_without_data_only_a_quick_run_is_possible(context):
    with pytest.raises(ValueError, match="--data DIR"):
        run_experiment("brodatz", replace(context, quick=False), "")


def test_results_json_records_how_it_came_about(context):
    context.out.mkdir()
    results = Results("t", "tab:x", ("covering",), "d", [TableRow("m", {"covering": float("nan")}, "measured")])
    write_results(context, "rwtsd", results, "shapetailor experiment rwtsd", 1.5)
    record = json.loads((context.out / "results.json").read_text())
    assert record["rows"][0]["values"] == {"covering": None}
    assert record["command"] == "shapetailor experiment rwtsd"
    assert {"version", "seed", "machine", "seconds", "images", "intervals"} <= set(record)
    assert {"system", "cpu", "cores", "versions", "device", "date"} <= set(record["machine"])


def test_the_page_sets_the_papers_figures_beside_ours():
    results = Results("t", "tab:x", ("covering", "mean_iou"), "d")
    results.rows.append(TableRow("mine", {"covering": 0.9126, "mean_iou": 0.5}, "measured", "a note", beside="theirs"))
    results.cite({"theirs": (0.94,)}, ("covering",))
    where = {"system": "s", "cpu": "p", "cores": 1, "versions": {"torch": "2"}, "device": "cpu", "date": "d"}
    record = {"quick": False, "machine": where, "command": "c", "version": "1", "seed": 0, "seconds": 1}
    lines = markdown(results, record).splitlines()
    assert "| mine | 0.913 (0.94) | 0.500 | a note |" in lines
    assert "| *theirs* | 0.940 | – | *paper* |" in lines


def test_figures_are_set_by_their_kind():
    assert [as_text(0.5), as_text(45_000_000), as_text(float("nan"))] == ["0.500", "45,000,000", "–"]


def test_a_sheet_has_a_cell_for_each_picture():
    red = np.full((10, 20, 3), (255, 0, 0), np.uint8)
    blue = np.full((30, 10, 3), (0, 0, 255), np.uint8)
    page = sheet(["a", "b"], [[red, blue]])
    top = page.shape[0] - SIDE - GAP
    assert page[top + 5, GAP + SIDE // 2].tolist() == [255, 0, 0]
    assert page[top + SIDE - 5, 2 * GAP + SIDE + 5].tolist() == [0, 0, 255]
    assert page[top + SIDE - 5, GAP + SIDE // 2].tolist() == [255, 255, 255]  # wide pictures leave room below


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_explains_itself(name):
    assert len(load(name).SUMMARY) > 80


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if hasattr(load(name), "BESIDE")])
def test_rows_beside_ours_are_rows_of_the_paper(name):
    module = load(name)
    assert set(module.BESIDE) <= set(BASELINES)
    assert set(module.BESIDE.values()) <= set(module.PAPER)
