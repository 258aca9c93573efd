"""A full disk: every writer leaves the old file or the whole new one, and says which file it was."""

from __future__ import annotations

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
