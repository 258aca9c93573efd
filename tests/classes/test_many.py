"""Many pictures: whoever does the work, the files are the same, byte for byte; a killed run is resumed."""

import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import tifffile
from class_pictures import picture
from PIL import Image

from shapetailor.cli import main


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many") / "pictures"
    folder.mkdir()
    for number in range(6):
        Image.fromarray(picture(number, 30 + 6 * number)[0]).save(folder / f"p{number}.png")
    (folder / "broken.png").write_bytes(b"no picture")
    return folder


@pytest.fixture(scope="module")
def alone(taught, pictures):
    """What one process makes of the pictures."""
    return apply(taught, pictures, pictures.parent / "alone")


def apply(taught, pictures, out, *options):
    assert main(["apply", str(taught / "model.safetensors"), str(pictures), "--out", str(out), *options]) == 1
    return out


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_two_processes_write_what_one_writes(taught, pictures, alone, tmp_path):
    found = contents(apply(taught, pictures, tmp_path / "out", "--jobs", "2"))
    assert found == contents(alone)
    assert found["failures.csv"].count(b"broken.png") == 2
    assert len(found["table.csv"].splitlines()) == 1 + 2 * 6


def test_a_cluster_writes_what_one_machine_writes_though_the_run_is_killed(
    ray_cluster, taught, pictures, alone, tmp_path, capsys
):
    out = tmp_path / "out"
    words = [str(taught / "model.safetensors"), str(pictures), "--out", str(out), "--ray", ray_cluster.address]
    run = subprocess.Popen([sys.executable, "-m", "shapetailor.cli", "apply", *words], stderr=subprocess.PIPE)
    while run.poll() is None and not (out / "apply.json").exists():
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    stamps = {path.name: path.stat().st_mtime_ns for path in out.glob("p*.png")}
    assert stamps
    assert "table.csv" not in contents(out)
    apply(taught, pictures, out, "--ray", ray_cluster.address)
    assert "done before" in capsys.readouterr().out
    assert contents(out) == contents(alone)
    apply(taught, pictures, out, "--ray", ray_cluster.address)
    assert "0 classified, 6 done before (--force does them again), 1 failed" in capsys.readouterr().out
    assert contents(out) == contents(alone)


def test_urls_are_read_and_written(taught, pictures, alone, tmp_path):
    served = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=pictures))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    urls = [f"http://127.0.0.1:{served.server_port}/{name}" for name in ("p0.png", "p1.png", "gone.png")]
    out = f"file://{tmp_path}/out"
    for _ in range(2):
        assert main(["apply", str(taught / "model.safetensors"), *urls, "--out", out]) == 1
    served.shutdown()
    served.server_close()
    for name in ("p0.png", "p1.overlay.png"):
        assert (tmp_path / "out" / name).read_bytes() == (alone / name).read_bytes()
    assert "gone.png: cannot be fetched" in (tmp_path / "out" / "failures.csv").read_text()
    assert (tmp_path / "out" / "table.csv").read_text().count("p1.png") == 2


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_segment_has_the_same_files_with_two_processes(pictures, tmp_path):
    both = tmp_path / "both"
    both.mkdir()
    for name in ("p0.png", "p1.png", "broken.png"):
        shutil.copy(pictures / name, both)
    for jobs in ("1", "2"):
        words = ["--jobs", jobs, "--statistics", "--export", "geojson", "ome-tiff"]
        assert main(["segment", str(both), "--out", str(tmp_path / jobs), *words]) == 1
    found = contents(tmp_path / "2")
    uuids = [name for name in found if name.endswith(".ome.tif")]  # each OME-TIFF file has its own number
    assert len(uuids) == 2
    assert {name: found[name] for name in found if name not in uuids} == {
        name: content for name, content in contents(tmp_path / "1").items() if name not in uuids
    }
    np.testing.assert_array_equal(*(tifffile.imread(tmp_path / jobs / "p0.ome.tif") for jobs in "12"))


def test_ome_zarr_labels_have_the_classes_names_and_colours(taught, tmp_path):
    zarr = pytest.importorskip("zarr")
    words = [str(taught / "pictures" / "p0.png"), "--out", str(tmp_path), "--pixel-size", "2um"]
    assert main(["apply", str(taught / "model.safetensors"), *words, "--export", "ome-zarr", "tiff"]) == 0
    group = zarr.open_group(tmp_path / "p0.ome.zarr", mode="r")
    with Image.open(tmp_path / "p0.png") as file:
        np.testing.assert_array_equal(group["0"][:], np.asarray(file))
    label = group.attrs["ome"]["image-label"]
    assert label["colors"] == [
        {"label-value": 3, "rgba": [230, 25, 75, 255]},
        {"label-value": 7, "rgba": [60, 180, 75, 255]},
    ]
    assert [each["class"] for each in label["properties"]] == ["smooth", "grainy"]
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "p0.tif"), group["0"][:])
