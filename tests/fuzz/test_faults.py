"""A full disk or too little memory: a writer leaves the old file or the whole new one, and says what was wrong."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from full_disk import full_disk
from shapetailor.drawing.animation import Recorder
from shapetailor.io.images import write_image, write_labels
from shapetailor.network import STDNN, STDNNConfig
from shapetailor.network.checkpoint import save_model
from shapetailor.segmentation.result import Segmentation

RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, (80, 90, 3), dtype=np.uint8)
RESULT = Segmentation(
    labels=RNG.integers(0, 40, (80, 90)), image=NOISE, energy=[0.0], iterations=0, converged=True, vanished=(50,)
)


def animate(path):
    recorder = Recorder(NOISE)
    recorder(0, RESULT.labels, 0.0)
    recorder.save(path, RESULT.labels)


WRITERS = {
    "labels.png": lambda path: write_labels(path, RESULT.labels),
    "labels.tif": lambda path: write_labels(path, RESULT.labels),
    "image.tif": lambda path: write_image(path, NOISE),
    "image.jpg": lambda path: write_image(path, NOISE),
    "overlay.png": RESULT.save_overlay,
    "table.csv": RESULT.save_statistics,
    "outlines.geojson": RESULT.save_polygons,
    "moves.gif": animate,
    "net.safetensors": lambda path: save_model(path, STDNN(STDNNConfig(widths=(4, 3)))),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"old")
    with full_disk(), pytest.raises(OSError, match=name):
        WRITERS[name](path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    WRITERS[name](path)
    assert path.stat().st_size > 64


#: Runs a command with so many megabytes above what the process has when all is imported.
LIMITED = """
import resource, sys
from pathlib import Path
import shapetailor.segmentation.segmenter
from shapetailor.cli import main
pages = int(Path("/proc/self/statm").read_text().split()[0])
most = pages * resource.getpagesize() + int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (most, most))
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
@pytest.mark.parametrize("megabytes", [20, 60, 150])  # too few to decode it, for NumPy's arrays, for torch's
def test_too_little_memory_is_a_sentence_and_leaves_the_old_files(tmp_path, megabytes):
    picture, out = tmp_path / "a.png", tmp_path / "out"
    write_image(picture, np.resize(NOISE, (1500, 1500, 3)))
    out.mkdir()
    for name in ("a.overlay.png", "a.png"):
        (out / name).write_bytes(b"old")
    words = ["segment", str(picture), "--out", str(out), "--force"]
    ended = subprocess.run([sys.executable, "-c", LIMITED, str(megabytes), *words], capture_output=True, text=True)
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout == "0 segmented, 1 failed\n"
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("failed")]
    assert line.startswith(f"failed: {picture}: ")
    assert line.endswith(("too large for the memory that there is, or corrupt", "there is too little memory for it"))
    assert "Traceback" not in ended.stderr
    assert sorted(path.name for path in out.iterdir()) == ["a.overlay.png", "a.png", "failures.csv"]
    assert {(out / name).read_bytes() for name in ("a.overlay.png", "a.png")} == {b"old"}
