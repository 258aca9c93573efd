"""The benchmarks check what they time, and write down what they measured."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from shapetailor.bench import poisson
from shapetailor.bench.measure import Outcome, best_times, peak_memory
from shapetailor.bench.poisson_methods import (
    CASES,
    METHODS,
    Method,
    graph_laplacian,
    make_problem,
    ours,
    relative_error,
)
from shapetailor.bench.poisson_report import judge, report
from shapetailor.bench.report import text_table
from shapetailor.cli import main

BRIEF = poisson.Effort(0.0, 1, (), CASES)
ALTERNATIVES = [name for name in METHODS if name != "ours"]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ALTERNATIVES)
def test_every_alternative_solves_the_same_problem_as_ours(name, case):
    problem = make_problem(16, 8, case)
    reference = ours(problem, 1e-10, dtype=torch.float64)
    assert relative_error(METHODS[name].solve(problem, 1e-4), reference) < 1e-4


def test_the_laplacian_is_that_of_the_contract():
    labels = np.array([[0, 0, 1]])
    assert graph_laplacian(labels).toarray().tolist() == [[1, -1, 0], [-1, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize("case", CASES)
def test_two_runs_have_the_same_data_and_both_regions_are_large(case):
    one, two = make_problem(32, 1, case), make_problem(32, 1, case)
    assert np.array_equal(one.channels, two.channels)
    assert one.channels.shape == ((1 if case == "shared" else 5), 8, 32, 32)
    assert 0.4 < one.labels.mean() < 0.6
    assert len({channel.tobytes() for channel in one.channels.reshape(-1, 32 * 32)}) == one.channels[:, :, 0, 0].size


def test_the_error_is_the_worst_channels_and_never_hidden_by_nan():
    exact = np.ones((5, 8, 4, 4))
    wrong = exact.copy()
    wrong[3, 2] *= 1.5
    assert relative_error(wrong, exact) == pytest.approx(0.5)
    wrong[0, 0, 0, 0] = np.nan
    assert relative_error(wrong, exact) == np.inf


def blurred_across_regions(problem, tol):
    return ours(replace(problem, labels=np.zeros_like(problem.labels)), tol)


@pytest.mark.parametrize("iterative", [True, False])
def test_a_wrong_solver_is_caught_and_not_timed(iterative):
    limits = dict.fromkeys(CASES, 64)
    methods = {"ours": METHODS["ours"], "leaky": Method(blurred_across_regions, iterative, limits)}
    rows = {row.method: row for row in poisson.measure(16, 1, "shared", methods, BRIEF)}
    assert rows["leaky"].error > poisson.ACCURACY
    assert rows["leaky"].seconds is None
    assert rows["ours"].seconds > 0


def test_a_wrong_answer_makes_the_run_unsound():
    leaky = Method(blurred_across_regions, False, {"shared": 64, "distinct": 0})
    outcome = poisson.run([16], effort=BRIEF, methods={"leaky": leaky})
    assert not outcome.sound
    assert "wrong" in outcome.text


def test_splu_and_the_reference_have_to_agree():
    leaky = Method(blurred_across_regions, False, dict.fromkeys(CASES, 64))
    with pytest.raises(ValueError, match="splu differs"):
        poisson.measure(16, 1, "shared", {"splu": leaky}, BRIEF)


def test_the_loosest_tolerance_that_holds_is_taken():
    (row,) = (r for r in poisson.measure(32, 1, "shared", {"ours": METHODS["ours"]}, BRIEF) if r.method == "ours")
    looser = poisson.LADDER[poisson.LADDER.index(row.tol) - 1]
    problem = make_problem(32, 1, "shared")
    reference = ours(problem, 1e-10, dtype=torch.float64)
    assert row.error <= 1e-3 < relative_error(ours(problem, looser), reference)


def test_a_run_verifies_every_row_and_tells_its_progress(capsys):
    fast = {name: method for name, method in METHODS.items() if name in ("ours", "splu", "torch loop")}
    outcome = poisson.run([32, 16], effort=BRIEF, methods=fast)
    data = outcome.data
    assert outcome.sound
    assert data.keys() == {"benchmark", "machine", "settings", "rows", "memory", "targets", "seconds"}
    assert data["machine"].keys() >= {"cpu", "cores", "threads", "versions", "date"}
    assert data["settings"]["sizes"] == [16, 32]
    # two sizes, three factors; ours at two tolerances and splu in both cases, the torch loop in one
    assert len(data["rows"]) == 2 * 3 * (4 + 3)
    assert all(row["error"] <= 1e-3 and row["seconds"] > 0 and row["checked"] == 40 for row in data["rows"])
    assert len(re.findall(r"^splu / ours .*×", outcome.text, re.MULTILINE)) == 6
    assert "32², alphas ×64, distinct channels" in capsys.readouterr().err


@pytest.mark.parametrize("sound", [True, False])
def test_the_command_prints_the_report_writes_json_and_says_whether_answers_were_right(
    sound, tmp_path, monkeypatch, capsys
):
    calls = []
    monkeypatch.setattr(poisson, "run", lambda *call: calls.append(call) or Outcome("a table", {"rows": [1]}, sound))
    file = tmp_path / "poisson.json"
    assert main(["bench", "poisson", "--quick", "--sizes", "32", "16", "--json", str(file)]) == (0 if sound else 1)
    assert calls == [([32, 16], True)]
    assert capsys.readouterr().out == "a table\n"
    assert json.loads(file.read_text()) == {"rows": [1]}
    assert [path.name for path in tmp_path.iterdir()] == ["poisson.json"]


def test_bad_sizes_and_a_missing_folder_are_refused_before_the_work(tmp_path, capsys):
    assert main(["bench", "poisson", "--sizes", "4"]) == 2
    assert "sizes must be at least 8" in capsys.readouterr().err
    assert main(["bench", "poisson", "--json", str(tmp_path / "nowhere" / "x.json")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def made_up(ours_seconds, large_seconds, extra):
    common = {"case": "shared", "factor": 8, "error": 1e-4, "checked": 40}
    timed = [("ours", 256, ours_seconds), ("splu", 256, 3.0)]
    timed += [("ours, tol 0.001", 256, 0.1), ("ours, tol 0.001", 2048, large_seconds)]
    return {
        "machine": {"cpu": "c", "cores": 2, "threads": 2, "load": 0, "system": "s", "versions": {}, "date": "d"},
        "settings": {"sizes": [256, 2048], "accuracy": 1e-3, "alphas": [5, 25]},
        "rows": [common | {"method": m, "size": n, "seconds": s, "tol": 0.1} for m, n, s in timed],
        "memory": [{"case": "shared", "factor": 8, "size": 256, "method": "ours", "extra": extra, "total": extra}],
    }


@pytest.mark.parametrize(("figures", "reached"), [((0.099, 9.5, 5.9), True), ((0.101, 9.7, 6.1), False)])
def test_targets_are_judged_from_the_measured_figures(figures, reached):
    data = made_up(*figures)
    data["targets"] = judge(data)
    assert [verdict["reached"] for verdict in data["targets"]] == [reached] * 3
    assert len(re.findall("not reached$", report(data), re.MULTILINE)) == 3 * (not reached)


def test_times_are_the_least_of_turns():
    turns = []
    calls = {name: (lambda name=name: turns.append(name)) for name in "ab"}
    best = best_times(calls, seconds=60.0, most=3, spent={"b": 7.0})
    assert turns == ["a", "b", "a", "b", "a"]
    assert best["b"] < 1.0


def allocate(megabytes):
    np.ones(2**19 * megabytes)  # the preparation's own peak must not count
    return lambda: np.ones(2**17 * megabytes).sum()


def test_peak_memory_is_that_of_the_call_alone():
    rise = peak_memory(allocate, 64)
    assert rise is None or 60 < rise / 2**20 < 72


def test_a_table_has_columns_of_equal_width():
    lines = text_table(["a", "long head"], [["x", "1"], ["longer", "2"]]).splitlines()
    assert len({len(line) for line in lines}) == 1
