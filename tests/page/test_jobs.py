"""Teaching and applying from the page: the same bytes as from the command line, cancelled and resumed."""

import asyncio
import json
import sys
import time
from io import BytesIO
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from class_pictures import SHAPE, picture, thinned
from page_folders import LEFT, RIGHT, named_classes, page, pictures, tab
from PIL import Image

from shapetailor.cli import main
from shapetailor.page.jobs import Jobs
from shapetailor.strokes.files import write_strokes
from shapetailor.strokes.marks import Stroke
from shapetailor.training.loop import Loop, Pace


def wait(client, *states):
    """The job, once it is in one of these states."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        job = client.get("/api/project").json()["job"]
        if job["state"] in states:
            return job
        time.sleep(0.1)
    raise AssertionError(job)


def files(folder):
    """What a project holds, less the page's own hidden files."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_the_page_and_the_command_line_write_the_same_bytes(tmp_path):
    by_page, by_hand = (named_classes(pictures(tmp_path / name)) for name in ("page", "hand"))
    (by_hand / "marks").mkdir()
    for name in ("p0", "p1"):
        write_strokes(by_hand / "marks" / f"{name}.json", [Stroke.from_dict(LEFT), Stroke.from_dict(RIGHT)])
    assert main(["teach", str(by_hand)]) == 0
    assert main(["apply", str(by_hand), "--export", "geojson", "coco", "imagej", "ome-tiff"]) == 0

    with page(by_page) as client:
        with tab(client) as mine:
            for name in ("p0", "p1"):
                mine.draw(name, LEFT)
                mine.draw(name, RIGHT)
                mine.draw(name, LEFT)
                mine.change("undo", name)
            assert client.post("/api/jobs", json={"kind": "teach"}).status_code == 202
            heard = mine.until(lambda heard: heard["type"] == "job" and heard["job"]["done"] == 1)
            assert heard["job"]["text"] == "Looking at p1.png"
            assert heard["job"]["total"] == 2
            heard = mine.until(lambda heard: heard["type"] == "job" and heard["job"]["done"] == 2)
            assert heard["job"]["text"] == "Learning the classes"
        assert wait(client, "done", "failed")["state"] == "done"
        model = client.get("/api/project").json()["model"]
        assert (model["pictures"], model["results"]) == (["p0.png", "p1.png"], 0)
        assert client.post("/api/jobs", json={"kind": "apply"}).status_code == 202
        assert client.post("/api/jobs", json={"kind": "apply"}).status_code == 409
        job = wait(client, "done", "failed")
        assert (job["state"], job["done"], job["total"]) == ("done", 3, 3)
        assert {each["state"] for each in client.get("/api/project").json()["pictures"]} == {"applied"}
        assert client.get("/api/project").json()["model"]["results"] == 3
        kinds = {".png": "labels.png", ".overlay.png": "overlay.png", ".uncertainty.png": "uncertainty.png"}
        exports = {".geojson": "geojson", ".coco.json": "coco.json", ".ome.tif": "ome.tif"}
        for ending, kind in (kinds | exports).items():
            sent = client.get(f"/api/pictures/p2/download/{kind}?source=applied").content
            expected = (by_hand / "results" / f"p2{ending}").read_bytes()
            assert sent == expected, kind
        assert client.get("/api/download/model.safetensors").content == (by_hand / "model.safetensors").read_bytes()
        assert client.get("/api/download/table.csv").content == (by_hand / "results" / "table.csv").read_bytes()
        assert client.get("/api/download/results.zip").content[:2] == b"PK"
        for kind, ending in {"geojson": ".geojson", "coco": ".coco.json", "ome-tiff": ".ome.tif"}.items():
            with ZipFile(BytesIO(client.get(f"/api/download/{kind}.zip").content)) as archive:
                for name in ("p0", "p1", "p2"):
                    assert archive.read(name + ending) == (by_hand / "results" / f"{name}{ending}").read_bytes()
        with ZipFile(BytesIO(client.get("/api/download/imagej.zip").content)) as archive:
            assert archive.namelist() == ["p0.rois.zip", "p1.rois.zip", "p2.rois.zip"]
        assert client.get("/api/download/project.zip").content[:2] == b"PK"

    exported = (".geojson", ".coco.json", ".rois.zip", ".ome.tif")
    expected = {name: content for name, content in files(by_hand).items() if not name.endswith(exported)}
    assert main(["apply", str(by_hand), "--force"]) == 0  # the record of the run names its exports
    expected["results/apply.json"] = files(by_hand)["results/apply.json"]
    assert files(by_page) == expected


def test_a_cancelled_run_goes_on_where_it_was(taught, tmp_path):
    import shutil

    folder = tmp_path / "steel"
    shutil.copytree(taught, folder, ignore=shutil.ignore_patterns("results"))
    with page(folder) as client, tab(client) as mine:
        client.post("/api/jobs", json={"kind": "apply"})
        mine.until(lambda heard: heard["type"] == "job" and heard["job"]["done"] >= 1)
        assert client.delete("/api/jobs").json()["state"] == "cancelled"
        done = set(json.loads((folder / "results" / "apply.json").read_text())["done"])
        assert done
        client.post("/api/jobs", json={"kind": "apply"})
        job = wait(client, "done")
        assert "done before" in job["text"] or done == {"p0", "p1", "p2"}
    assert files(folder / "results") == files(taught / "results")


def test_a_picture_that_cannot_be_read_is_named_after_applying(taught, tmp_path):
    import shutil

    folder = tmp_path / "steel"
    shutil.copytree(taught, folder)
    (folder / "pictures" / "bad.png").write_bytes(b"no picture")
    with page(folder) as client:
        client.post("/api/jobs", json={"kind": "apply"})
        job = wait(client, "done", "failed")
        assert (job["state"], len(job["failures"])) == ("done", 1)
        states = {each["name"]: each["state"] for each in client.get("/api/project").json()["pictures"]}
    assert states == {"bad": "failed", "p0": "applied", "p1": "applied", "p2": "applied"}


def test_a_job_that_fails_says_why(tmp_path):
    folder = named_classes(pictures(tmp_path))
    with page(folder) as client:
        with tab(client) as mine:
            mine.draw("p0", LEFT)
            mine.draw("p0", RIGHT)
        Image.new("L", SHAPE[::-1], 9).save(folder / "marks" / "p1.png")
        client.post("/api/jobs", json={"kind": "teach"})
        job = wait(client, "done", "failed")
    assert job["state"] == "failed"
    assert "unknown class 9" in job["text"]


def test_teaching_one_class_is_refused_at_once(tmp_path):
    with page(named_classes(pictures(tmp_path))) as client:
        with tab(client) as mine:
            mine.draw("p0", LEFT)
        answer = client.post("/api/jobs", json={"kind": "teach"})
        assert (answer.status_code, client.get("/api/project").json()["job"]) == (409, None)
        assert answer.json()["error"] == "Only smooth is marked: mark a second class, then teach."


def test_held_out_figures_are_kept_from_teaching_to_teaching(tmp_path):
    folder = named_classes(pictures(tmp_path))
    (folder / "marks").mkdir()
    for first in (0, 1):
        for number in range(3):
            marks = np.roll(thinned(picture(number, 40 + 4 * number)[1]), first, axis=0)
            Image.fromarray(marks).save(folder / "marks" / f"p{number}.png")
        assert main(["teach", str(folder)]) == 0
    with page(folder) as client:
        model = client.get("/api/project").json()["model"]
    assert [name for name, _ in model["held_out"]["iou"]] == ["smooth", "grainy"]
    assert len(model["teachings"]) == 2
    assert model["teachings"][-1] == model["held_out"]["mean_iou"]


def test_fine_tuning_draws_its_loss_and_begins_anew_with_all_marks_after_the_trial(capfd):
    jobs = Jobs(lambda job: None)
    job = {"state": "running", "done": 0, "total": 3, "text": "", "curve": [], "tried": False}
    for steps in (6, 4):
        net = torch.nn.Linear(1, 1)
        loop = Loop(net, Pace(steps, learning_rate=0.1, every=2), progress=True)
        for _ in loop:
            loop.take(lambda net=net: net(torch.ones(1, 1)).square().mean())
            if loop.due:
                loop.record({})
        said = capfd.readouterr().err.splitlines()
        assert "all marks" not in job["text"]
        assert all(jobs._follow(job, line) for line in said)
        assert [step for step, _ in job["curve"]] == list(range(2, steps + 1, 2))
        assert [loss for _, loss in job["curve"]] == [round(each["loss"], 4) for each in loop.state.records]
    assert not jobs._follow(job, "something else")
    assert (job["done"], job["total"], job["text"]) == (4, 4, "Fine-tuning with all marks: step 4 of 4, 0 s left")


def test_the_page_says_that_cancelled_fine_tuning_goes_on():
    async def cancelled(words):
        code = f"import sys; print({words!r}, file=sys.stderr)"
        piped = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, **piped)
        job = {"kind": "teach", "state": "cancelled", "curve": [], "tried": False}
        await Jobs(lambda job: None)._watch(process, job)
        return job["text"]

    assert "goes on" in asyncio.run(cancelled("step 25/200: loss 0.0080, 379 s left"))
    assert asyncio.run(cancelled("")) == "Cancelled."


@pytest.mark.parametrize("kind", ["nonsense", None, 5])
def test_only_teaching_and_applying_are_jobs(tmp_path, kind):
    with page(named_classes(pictures(tmp_path))) as client:
        assert client.post("/api/jobs", json={"kind": kind}).status_code == 400


def test_outlines_of_a_picture_with_a_place_on_the_earth_are_the_command_line_s(taught, tmp_path):
    import shutil

    rasterio = pytest.importorskip("rasterio")
    folder = tmp_path / "field"
    shutil.copytree(taught, folder, ignore=shutil.ignore_patterns("results", "p0.*"))
    values = np.asarray(Image.open(taught / "pictures" / "p0.png"))
    place = {"crs": "EPSG:32632", "transform": rasterio.Affine(0.5, 0, 6e5, 0, -0.5, 52e5)}
    kind = {"driver": "GTiff", "height": values.shape[0], "width": values.shape[1], "count": 1, "dtype": "uint8"}
    with rasterio.open(folder / "pictures" / "p0.tif", "w", **kind, **place) as file:
        file.write(values, 1)
    assert main(["apply", str(folder), "--export", "geojson"]) == 0
    with page(folder) as client:
        sent = client.get("/api/pictures/p0/download/geojson?source=applied").content
        row = client.get("/api/pictures/p0/table?source=applied").json()["rows"][0]
    assert sent == (folder / "results" / "p0.geojson").read_bytes()
    assert (row["area"], row["unit"]) == (row["pixels"] / 4, "m²")
