"""The commands `teach` and `apply` on a project's folder."""

import csv
import json
import shutil
import tempfile
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
import tifffile
from class_pictures import picture, project
from PIL import Image

from full_disk import full_disk
from shapetailor import Classifier
from shapetailor.classes.batch import as_pixel_size, stored_pixel_size
from shapetailor.classes.classification import PixelSize
from shapetailor.classes.project import Project
from shapetailor.cli import main
from shapetailor.io.images import read_image, read_labels


@pytest.fixture
def copy(taught, tmp_path):
    """A copy of the taught project that a test may change."""
    return shutil.copytree(taught, tmp_path / "copy")


def table(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_results_hold_the_classes_values_in_their_colours(taught):
    for number in range(3):
        labels = read_labels(taught / "results" / f"p{number}.png")
        assert np.mean(labels == picture(number, 40 + 4 * number)[1]) > 0.93
    with Image.open(taught / "results" / "p0.png") as file:
        assert file.mode == "P"
        assert file.convert("RGB").getpixel((2, 2)) == (0xE6, 0x19, 0x4B)


def test_python_finds_what_the_command_wrote(taught):
    classifier = Classifier.load(taught / "model.safetensors")
    for path in (taught / "pictures").iterdir():
        labels = classifier.apply(read_image(path)).labels
        assert np.array_equal(labels, read_labels(taught / "results" / f"{path.stem}.png"))


def test_every_picture_has_overlay_with_legend_and_uncertainty(taught):
    with Image.open(taught / "results" / "p2.overlay.png") as file:
        assert file.size[0] == 96
        assert file.size[1] > 72
    assert np.asarray(Image.open(taught / "results" / "p2.uncertainty.png")).shape == (72, 96)


def test_the_table_has_a_row_for_each_picture_and_class(taught):
    rows = table(taught / "results" / "table.csv")
    assert list(rows[0])[:5] == ["picture", "class", "value", "pixels", "fraction"]
    assert [(row["picture"], row["class"], row["value"]) for row in rows] == [
        (f"p{number}.png", name, value) for number in range(3) for name, value in (("smooth", "3"), ("grainy", "7"))
    ]
    for row in rows:
        labels = read_labels(taught / "results" / row["picture"])
        assert int(row["pixels"]) == np.count_nonzero(labels == int(row["value"]))
        assert float(row["fraction"]) == int(row["pixels"]) / labels.size


def test_the_summary_is_the_mean_with_students_interval(taught):
    rows = [row for row in table(taught / "results" / "table.csv") if row["class"] == "smooth"]
    fractions = np.array([float(row["fraction"]) for row in rows])
    summary = table(taught / "results" / "summary.csv")[0]
    assert float(summary["mean_fraction"]) == pytest.approx(fractions.mean())
    half = 4.302653 * fractions.std(ddof=1) / sqrt(3)
    assert float(summary["high_95"]) - float(summary["mean_fraction"]) == pytest.approx(half, rel=1e-6)


def test_applying_again_does_nothing_and_gives_the_same_table(copy, capsys):
    before = (copy / "results" / "table.csv").read_bytes()
    stamp = (copy / "results" / "p0.png").stat().st_mtime_ns
    assert main(["apply", str(copy)]) == 0
    assert "0 classified, 3 done before" in capsys.readouterr().out
    assert (copy / "results" / "p0.png").stat().st_mtime_ns == stamp
    assert (copy / "results" / "table.csv").read_bytes() == before


def test_classes_that_have_changed_since_the_teaching_are_told(copy, capsys):
    assert main(["apply", str(copy)]) == 0
    assert "has changed" not in capsys.readouterr().err
    classes = (copy / "classes.json").read_text()
    (copy / "classes.json").write_text(classes.replace("grainy", "coarse"))
    assert main(["apply", str(copy)]) == 0
    assert "classes.json has changed since the model was taught" in capsys.readouterr().err
    assert {row["class"] for row in table(copy / "results" / "table.csv")} == {"smooth", "grainy"}


def test_a_changed_picture_a_lost_map_and_another_model_are_done_again(copy, capsys):
    Image.fromarray(picture(9)[0]).save(copy / "pictures" / "p0.png")
    (copy / "results" / "p1.png").unlink()
    main(["apply", str(copy)])
    assert "2 classified, 1 done before" in capsys.readouterr().out
    main(["teach", str(copy), "--seed", "1"])
    main(["apply", str(copy)])
    assert "3 classified" in capsys.readouterr().out


def test_teaching_again_with_equal_marks_changes_nothing_and_other_marks_keep_the_former_model(copy):
    former = (copy / "model.safetensors").read_bytes()
    main(["teach", str(copy)])
    assert (copy / "model.safetensors").read_bytes() == former
    assert not (copy / "model.1.safetensors").exists()
    (copy / "marks" / "p1.json").unlink()
    main(["teach", str(copy)])
    assert (copy / "model.1.safetensors").read_bytes() == former
    assert (copy / "model.safetensors").read_bytes() != former


def test_a_picture_that_cannot_be_read_is_named_and_costs_the_others_nothing(copy, capsys):
    (copy / "pictures" / "bad.png").write_bytes(b"no picture")
    shutil.rmtree(copy / "results")
    assert main(["apply", str(copy)]) == 1
    output = capsys.readouterr()
    assert "3 classified, 1 failed" in output.out
    assert "bad.png" in output.err
    assert len(table(copy / "results" / "table.csv")) == 6


def test_a_model_is_applied_to_pictures_outside_the_project(taught, tmp_path, capsys):
    Image.fromarray(picture(5)[0]).save(tmp_path / "x.png")
    model = str(taught / "model.safetensors")
    assert main(["apply", model, str(tmp_path / "x.png"), "--out", str(tmp_path / "o"), "--pixel-size", "2um"]) == 0
    row = table(tmp_path / "o" / "table.csv")[0]
    assert (float(row["area"]), row["unit"]) == (4.0 * int(row["pixels"]), "µm²")
    assert main(["apply", model, str(tmp_path / "x.png")]) == 2
    assert "--out" in capsys.readouterr().err
    assert main(["apply", model, str(tmp_path / "x.png"), "--out", str(tmp_path)]) == 2
    assert "choose another --out" in capsys.readouterr().err


def test_a_list_of_paths_may_stand_for_the_folder(copy):
    (copy / "pictures").rename(copy / "elsewhere")
    (copy / "pictures.txt").write_text("elsewhere/p0.png\nelsewhere/p1.png\n")
    shutil.rmtree(copy / "results")
    assert main(["teach", str(copy)]) == 0
    assert main(["apply", str(copy)]) == 0
    assert len(table(copy / "results" / "table.csv")) == 4


def _wrong(change):
    return pytest.param(change, id=change.__name__)


def unknown_class(folder):
    Image.fromarray(np.full((72, 96), 9, np.uint8)).save(folder / "marks" / "p0.png")
    return "p0.png: marks name the unknown class 9"


def another_size(folder):
    Image.fromarray(np.full((9, 9), 3, np.uint8)).save(folder / "marks" / "p0.png")
    return "p0.png: marks must have the picture's size"


def outside_the_picture(folder):
    strokes = [{"region": 3, "points": [[500, 500]]}]
    (folder / "marks" / "p1.json").write_text(json.dumps({"version": 1, "strokes": strokes}))
    return "p1.json: stroke 0 lies outside"


def marks_without_a_picture(folder):
    (folder / "marks" / "p1.json").rename(folder / "marks" / "other.json")
    return "no picture called other"


def one_class_only(folder):
    (folder / "marks" / "p1.json").unlink()
    Image.fromarray(np.full((72, 96), 3, np.uint8)).save(folder / "marks" / "p0.png")
    return "at least two classes, got smooth only"


def no_marks(folder):
    shutil.rmtree(folder / "marks")
    return "no picture is marked"


def no_classes(folder):
    (folder / "classes.json").unlink()
    return "names its classes there"


def unreadable_marks(folder):
    (folder / "marks" / "p0.png").write_bytes(b"x")
    return "p0.png"


def marked_twice(folder):
    (folder / "marks" / "p0.json").write_text('{"version": 1, "strokes": []}')
    return "both mark p0"


@pytest.mark.parametrize(
    "change",
    [
        _wrong(change)
        for change in (
            unknown_class,
            another_size,
            outside_the_picture,
            marks_without_a_picture,
            one_class_only,
            no_marks,
            no_classes,
            unreadable_marks,
            marked_twice,
        )
    ],
)
def test_what_is_wrong_with_a_project_is_said_and_the_model_stays(copy, capsys, change):
    message = change(copy)
    former = (copy / "model.safetensors").read_bytes()
    assert main(["teach", str(copy)]) == 2
    assert message in capsys.readouterr().err
    assert (copy / "model.safetensors").read_bytes() == former
    assert not list(copy.glob(".*"))


def test_a_project_that_was_never_taught_says_what_to_do(tmp_path, capsys):
    assert main(["apply", str(project(tmp_path / "new"))]) == 2
    assert "shapetailor teach" in capsys.readouterr().err


def test_the_pixels_size_is_read_from_imagej_and_ome_files_only(tmp_path):
    image = picture(0)[0]
    tifffile.imwrite(tmp_path / "a.tif", image, imagej=True, resolution=(4, 4), metadata={"unit": "um"})
    tifffile.imwrite(tmp_path / "b.ome.tif", image, metadata={"PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "nm"})
    tifffile.imwrite(tmp_path / "c.tif", image, resolution=(300, 300))
    assert stored_pixel_size(tmp_path / "a.tif") == PixelSize(0.25, "µm")
    assert stored_pixel_size(tmp_path / "b.ome.tif") == PixelSize(0.5, "nm")
    assert stored_pixel_size(tmp_path / "c.tif") is None


@pytest.mark.parametrize("text", ["5", "um", "-1um", "0um", "1 um 2"])
def test_a_pixels_size_without_side_or_unit_is_refused(text):
    with pytest.raises(ValueError, match="--pixel-size"):
        as_pixel_size(text)


def test_a_former_model_is_kept_once_though_a_run_was_killed_after_it_kept_it(copy):
    model = copy / "model.safetensors"
    former = model.read_bytes()
    (copy / "model.1.safetensors").write_bytes(former)
    other = Classifier.load(model)
    other.record["seed"] = 9
    Project(copy).keep(other)
    assert model.read_bytes() != former
    assert not (copy / "model.2.safetensors").exists()


def test_a_full_disk_costs_a_project_of_classes_nothing(taught, tmp_path, capsys):
    folder = shutil.copytree(taught, tmp_path / "copy")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    model = folder / "model.safetensors"
    other = replace(Classifier.load(model), record={})
    with full_disk():
        with pytest.raises(OSError, match=r"model\.safetensors"):
            Project(folder).keep(other)
        assert main(["teach", str(folder), "--seed", "5"]) == 2
        assert f"{tempfile.gettempdir()}/shapetailor-" in capsys.readouterr().err
        assert main(["apply", str(folder), "--force"]) == 2
        assert f"{folder / 'results'}" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert main(["apply", str(folder)]) == 0


def test_a_picture_whose_results_have_too_long_names_fails_alone(taught, tmp_path, capsys):
    (tmp_path / "pictures").mkdir()
    for name in ("x" * 240, "short"):
        shutil.copy(taught / "pictures" / "p0.png", tmp_path / "pictures" / f"{name}.png")
    words = ["apply", str(taught / "model.safetensors"), str(tmp_path / "pictures"), "--out", str(tmp_path / "out")]
    assert main(words) == 1
    assert "1 classified, 1 failed" in capsys.readouterr().out
    assert (tmp_path / "out" / "short.png").is_file()


def test_a_map_that_was_spoilt_is_made_again(copy, capsys):
    before = (copy / "results" / "p1.png").read_bytes()
    (copy / "results" / "p1.png").write_bytes(b"spoilt")
    assert main(["apply", str(copy)]) == 0
    assert "1 classified, 2 done before" in capsys.readouterr().out
    assert (copy / "results" / "p1.png").read_bytes() == before


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        (["a.tif"], ["--export", "tiff"], "a.tif would overwrite a picture"),
        (["a.jpg", "mine: a.png"], [], "a.png is there already and is no result"),
        (["a.jpg", "mine: table.csv"], [], "table.csv is there already and is no result"),
        (["a.jpg", "mine: out/a.png"], ["--out", "OUT"], "a.png is there already and is no result"),
        (["a.jpg", "mine: out/failures.csv"], ["--out", "OUT"], "failures.csv is there already and is no list"),
        (["a.png", "a.overlay.png"], ["--out", "OUT"], "would both be written to a.overlay.png"),
    ],
)
def test_apply_never_writes_over_the_users_files(taught, tmp_path, capsys, files, options, message):
    for name in files:
        path = tmp_path / name.removeprefix("mine: ")
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(picture(0, 40)[0]).save(path, "PNG")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    inputs = [str(tmp_path / name) for name in files if not name.startswith("mine: ")]
    out = [] if "--out" in options else ["--out", str(tmp_path)]
    words = [*inputs, *out, *(word.replace("OUT", str(tmp_path / "out")) for word in options)]
    assert main(["apply", str(taught / "model.safetensors"), *words]) == 2
    assert message in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_marks_that_nobody_would_read_are_refused(copy, capsys):
    (copy / "marks" / "p2.jpg").write_bytes(b"")
    assert main(["teach", str(copy)]) == 2
    assert "p2.jpg: marks are NAME.json, or a map in one of .png, .tif, .tiff" in capsys.readouterr().err


def test_a_file_of_marks_that_marks_nothing_is_named(copy, capsys):
    (copy / "marks" / "p2.json").write_text('{"version": 1, "strokes": []}')
    assert main(["teach", str(copy)]) == 2
    assert "marks/p2.json: no pixel is marked with a class" in capsys.readouterr().err


def test_a_project_that_cannot_be_written_to_is_refused_before_the_work(copy, capsys, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    monkeypatch.setattr(Classifier, "teach", None)
    monkeypatch.setattr(Classifier, "apply", None)
    for words in (["teach", str(copy)], ["apply", str(copy), "--force"]):
        assert main(words) == 2
        assert "this folder cannot be written to" in capsys.readouterr().err
