"""`shapetailor experiment`: the list, a quick run with real methods, going on after a kill, complaints."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from shapetailor import cli
from shapetailor.baselines import BASELINES
from shapetailor.experiments import EXPERIMENTS


def test_the_list_explains_every_experiment_and_method(capsys):
    assert cli.main(["experiment", "--list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in (*EXPERIMENTS, *BASELINES))


def test_a_quick_run_needs_no_data(tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--quick", "--methods", "stld,kmeans-colour", "--limit", "1", "--out", str(out)]
    assert cli.main(["experiment", "rwtsd", *options]) == 0
    assert "# Real-World Texture" in capsys.readouterr().out
    record = json.loads((out / "results.json").read_text())
    assert [row["method"] for row in record["rows"][:2]] == ["STLD", "k-means of colours"]
    assert all((out / name).exists() for name in ("results.md", "scores.png", "examples.png"))


def parts(out):
    """What is kept of a run; a killed process may leave a hidden temporary file beside it."""
    return [path for path in out.glob("parts/*/*/*.json") if not path.name.startswith(".")]


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    out = tmp_path / "out"
    arguments = ["experiment", "multi-region", "--quick", "--methods", "kmeans-colour,forest", "--out", str(out)]
    command = [sys.executable, "-m", "shapetailor.cli", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    deadline = time.monotonic() + 60
    while len(parts(out)) < 2 and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    first.send_signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    before = {path: path.stat().st_mtime_ns for path in parts(out)}
    assert 2 <= len(before) < 8
    assert not (out / "results.json").exists()
    assert cli.main(arguments) == 0
    after = {path: path.stat().st_mtime_ns for path in parts(out)}
    assert len(after) == 8
    assert {path: after[path] for path in before} == before
    assert (out / "results.json").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["rwtsd", "--out", "{out}"], "--data DIR"),
        (["rwtsd"], "experiment NAME --out DIR"),
        (["rwtsd", "--data", "{out}/nowhere", "--out", "{out}"], "nowhere is not a folder"),
    ],
)
def test_what_is_missing_is_named(options, complaint, tmp_path, capsys):
    assert cli.main(["experiment", *(option.format(out=tmp_path) for option in options)]) == 2
    assert complaint in capsys.readouterr().err


def test_an_unknown_method_is_refused_with_those_there_are(tmp_path, capsys):
    with pytest.raises(SystemExit):
        cli.main(["experiment", "rwtsd", "--quick", "--methods", "magic", "--out", str(tmp_path)])
    message = capsys.readouterr().err
    assert "no method is called 'magic'" in message
    assert "stld" in message
