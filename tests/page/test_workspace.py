"""The folder that is served: when it becomes a project, what is refused."""

import json

import numpy as np
import pytest
from page_folders import named_classes, pictures
from PIL import Image
from safetensors.numpy import save_file

from shapetailor.classes.project import Project
from shapetailor.page.refusal import Refusal
from shapetailor.page.workspace import Workspace, header_size
from shapetailor.strokes.marks import Stroke

STROKE = Stroke(1, ((5, 5),))


def test_a_folder_of_pictures_becomes_a_project_with_the_first_stroke_and_not_before(tmp_path):
    workspace = Workspace(pictures(tmp_path))
    before = sorted(tmp_path.iterdir())
    assert workspace.describe({})["kind"] == "folder"
    assert sorted(tmp_path.iterdir()) == before
    workspace.history("p1").add(STROKE)
    project = Project(tmp_path)
    assert [path.name for path in project.pictures] == ["p0.png", "p1.png", "p2.png"]
    assert [picture.name for picture, _ in project.marked] == ["p1.png"]
    assert workspace.kind == "project"


def test_two_pictures_of_one_name_leave_a_warning_and_a_usable_project(tmp_path):
    pictures(tmp_path, 2)
    Image.new("L", (8, 8)).save(tmp_path / "p1.bmp")
    workspace = Workspace(tmp_path)
    assert list(workspace.pictures()) == ["p0", "p1"]
    assert "p1.png is left out" in workspace.describe({})["warnings"][0]
    workspace.history("p0").add(STROKE)
    assert len(Project(tmp_path).pictures) == 2


def test_another_file_of_the_same_name_has_another_version(tmp_path):
    """The page's addresses carry it: browsers keep tiles, also those of another folder on the same port."""
    first, second = (Workspace(pictures(tmp_path / name, 1)) for name in ("one", "two"))
    before = first.version("p0")
    assert before == first.version("p0") != second.version("p0")
    Image.new("L", (8, 8)).save(tmp_path / "one" / "p0.png")
    assert first.version("p0") != before


def test_held_out_figures_belong_to_the_classes_in_their_order(tmp_path):
    held = {"folds": 3, "mean_iou": 0.7, "accuracy": 0.9, "iou": [0.8, None, 0.6]}
    entry = {
        "classes": [{"name": name, "value": value} for value, name in enumerate(("stone", "10", "2"), start=1)],
        "record": {"pictures": ["a.png"], "marked_pixels": {"10": 0, "2": 5, "stone": 5}, "held_out": held},
    }
    save_file({"x": np.zeros(1)}, tmp_path / "model.safetensors", {"shapetailor": json.dumps(entry)})
    model = Workspace(tmp_path).model()
    assert model["held_out"]["iou"] == [["stone", 0.8], ["10", None], ["2", 0.6]]
    assert (model["teachings"], model["results"]) == ([0.7], 0)
    (tmp_path / "model.safetensors").write_bytes(b"spoilt")
    nothing = {"pictures": [], "held_out": None, "fine_tuned": None, "teachings": [], "results": 0, "outdated": False}
    assert Workspace(tmp_path).model() == nothing


def test_a_model_is_outdated_once_a_class_has_another_name_or_colour(tmp_path):
    workspace = Workspace(named_classes(pictures(tmp_path)))
    taught = [each.to_dict() for each in workspace.classes]
    entry = {"classes": taught, "record": {"pictures": ["p0.png"]}}
    save_file({"x": np.zeros(1)}, tmp_path / "model.safetensors", {"shapetailor": json.dumps(entry)})
    assert not workspace.model()["outdated"]
    for other in ({"name": "ferrite"}, {"color": "#123456"}):
        workspace.set_classes([taught[0] | other, *taught[1:]])
        assert workspace.model()["outdated"]


@pytest.mark.parametrize(
    ("tuned", "helped"),
    [(None, None), ((["a.png"], 40), True), ((["a.png"], 0), False), (([], 0), True)],
)
def test_the_page_knows_whether_fine_tuning_has_helped(tmp_path, tuned, helped):
    record = {"pictures": ["a.png"]}
    if tuned is not None:
        record["fine_tune"] = dict(zip(("held_out", "best_step"), tuned, strict=True))
    entry = {"shapetailor": json.dumps({"classes": [], "record": record})}
    save_file({"x": np.zeros(1)}, tmp_path / "model.safetensors", entry)
    assert Workspace(tmp_path).model()["fine_tuned"] is helped


def test_erasing_every_mark_leaves_no_file_that_teaching_would_refuse(tmp_path):
    history = Workspace(pictures(tmp_path)).history("p0")
    history.add(STROKE)
    history.add(Stroke(-1, ((0, 0), (95, 71)), kind="box"))
    assert not history.file.exists()
    history.undo()
    assert history.file.exists()


def test_a_class_that_is_marked_cannot_be_removed(tmp_path):
    workspace = Workspace(pictures(tmp_path))
    workspace.history("p0").add(STROKE)
    keep = [{"value": value, "name": str(value), "color": ""} for value in (2, 3)]
    workspace.history("p2").add(STROKE)
    with pytest.raises(Refusal, match="class 1 is marked in p0, p2"):
        workspace.set_classes(keep)
    workspace.history("p0").undo()
    workspace.history("p2").undo()
    workspace.set_classes(keep)
    assert [each.value for each in Project(tmp_path).classes] == [2, 3]


def test_a_class_in_a_map_of_marks_cannot_be_removed(tmp_path):
    named_classes(pictures(tmp_path))
    (tmp_path / "marks").mkdir()
    Image.fromarray(np.full((72, 96), 3, np.uint8)).save(tmp_path / "marks" / "p0.png")
    with pytest.raises(Refusal, match="smooth is marked in p0"):
        Workspace(tmp_path).set_classes(["a", "b"])


def test_two_servers_do_not_write_to_one_folder(tmp_path):
    first, second = (Workspace(pictures(tmp_path)) for _ in range(2))
    first.history("p0").add(STROKE)
    with pytest.raises(Refusal, match="Another shapetailor serve"):
        second.history("p1").add(STROKE)


@pytest.mark.parametrize("name", ["../x.png", "a/b.png", "..", "", ".x.png", "x.exe", "x\\y.png", " x.png", "x\0.png"])
def test_a_name_that_is_no_plain_picture_name_is_refused(tmp_path, name):
    with pytest.raises(Refusal):
        Workspace(pictures(tmp_path)).add_picture(name)


def test_added_pictures_lie_where_the_others_are_and_are_listed(tmp_path):
    bare, empty = Workspace(pictures(tmp_path / "bare")), Workspace(tmp_path / "new")
    assert bare.add_picture("q.png") == bare.folder / "q.png"
    assert empty.add_picture("q.png") == empty.folder / "pictures" / "q.png"
    bare.become_project()
    path = bare.add_picture("q.png")
    Image.new("L", (8, 8)).save(path)
    bare.picture_added(path)
    assert [each.stem for each in Project(bare.folder).pictures] == ["p0", "p1", "p2", "q"]


def test_a_picture_that_cannot_be_read_is_named_and_costs_the_others_nothing(tmp_path):
    pictures(tmp_path)
    (tmp_path / "bad.png").write_bytes(b"no picture")
    states = {each["name"]: each["state"] for each in Workspace(tmp_path).describe({})["pictures"]}
    assert states == {"bad": "failed", "p0": "untouched", "p1": "untouched", "p2": "untouched"}


def test_the_size_by_the_header_is_that_of_the_upright_picture(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (30, 20)).save(tmp_path / "turned.jpg", exif=exif)
    assert header_size(tmp_path / "turned.jpg") == ((20, 30), None)


def test_a_name_that_cannot_be_listed_keeps_nobody_from_drawing(tmp_path):
    pictures(tmp_path, 2)
    Image.new("L", (8, 8)).save(tmp_path / " p9 .png")
    workspace = Workspace(tmp_path)
    assert "' p9 .png' is left out: rename it" in workspace.describe({})["warnings"][0]
    workspace.history("p0").add(STROKE)
    assert [path.name for path in Project(tmp_path).pictures] == ["p0.png", "p1.png"]
