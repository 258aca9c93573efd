"""`shapetailor experiment`: the list, a quick run with real methods, going on after a kill, complaints."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

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


def small_dataset(root, files):
    """Write files of 8×8 pixels, those of truth with two regions, lists of names, and folders where a name ends so."""
    picture = np.arange(64, dtype=np.uint8).reshape(8, 8)
    for name in files:
        path = root / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if path.suffix == ".txt":
            path.write_text("a\n")
        elif path.suffix:
            Image.fromarray(picture if "image" in name or "/" not in name else picture // 32).save(path)
    return root


PAIR, MOSAIC = ["images/a.jpg", "masks/a.png"], ["images/a.jpg", "groundtruth/a.png", "train.txt", "val.txt"]


@pytest.mark.parametrize(
    ("name", "files", "complaint"),
    [
        ("rwtsd", [], "RWTSD is not complete"),
        ("rwtsd", ["images/", "masks/"], "RWTSD is not complete"),
        ("rwtsd", PAIR, "1 images to train and 0 to test"),
        ("covariance", PAIR, "1 images to train and 0 to test"),
        ("deformation", PAIR, "1 images to train and 0 to test"),
        ("ablation", PAIR, "1 images to train and 0 to test"),
        ("size", PAIR, "1 images to train and 0 to test"),
        ("strokes", PAIR, "1 images to train and 0 to test"),
        ("strokes", MOSAIC, "1 images to train and 0 to test"),
        ("multi-region", ["images/", "groundtruth/", "train.txt", "val.txt"], "set is not complete"),
        ("bsds500", ["images/train/", "groundTruth/train/"], "BSDS500 is not complete"),
        ("brodatz", ["a.png", "b.png", "c.png"], "holds 3 textures; at least 4"),
        ("classes", [], "The folder of textures is not complete"),
        ("classes", ["a.png", "b.png"], "holds 2 textures; at least 5"),
        ("classes", ["labels/"], "images gives 0 pictures"),
        ("classes", ["labels/", "images/"], "images gives 0 pictures"),
        ("classes", ["images/a.png", "labels/a.png"], "images gives 1 pictures"),
        ("classes", ["images/a.png", "images/b.png", "labels/a.png"], "b.png"),
    ],
)
def test_too_few_pictures_are_refused_in_words_and_the_folder_stays_free(name, files, complaint, tmp_path, capsys):
    (tmp_path / "data").mkdir()
    data, out = small_dataset(tmp_path / "data", files), tmp_path / "out"
    words = ["experiment", name, "--data", str(data), "--methods", "kmeans-colour", "--out", str(out)]
    assert cli.main(words) == 2
    message = capsys.readouterr().err
    assert complaint in message
    assert str(data) in message
    other = tmp_path / "other"
    other.mkdir()
    assert cli.main([str(other) if word == str(data) else word for word in words]) == 2
    assert "belongs to another run" not in capsys.readouterr().err


def test_an_unknown_method_is_refused_with_those_there_are(tmp_path, capsys):
    with pytest.raises(SystemExit):
        cli.main(["experiment", "rwtsd", "--quick", "--methods", "magic", "--out", str(tmp_path)])
    message = capsys.readouterr().err
    assert "no method is called 'magic'" in message
    assert "stld" in message
