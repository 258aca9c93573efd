import json

import pytest

from shapetailor.classes.names import ClassName, as_classes, read_classes, write_classes


def test_classes_come_back_from_their_file(tmp_path):
    classes = as_classes([ClassName(2, "pearlite", "#00ff00", ignored=True), ClassName(1, "ferrite")])
    write_classes(tmp_path / "classes.json", classes)
    assert read_classes(tmp_path / "classes.json") == classes
    assert [each.value for each in classes] == [1, 2]


def test_a_class_without_a_colour_gets_one():
    assert ClassName(1, "a").color != ClassName(2, "b").color


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([{"value": 0, "name": "a"}, {"value": 1, "name": "b"}], "from 1 to 254"),
        ([{"value": 255, "name": "a"}, {"value": 1, "name": "b"}], "from 1 to 254"),
        ([{"value": 1, "name": "a"}, {"value": 1, "name": "b"}], "different values"),
        ([{"value": 1, "name": "a"}, {"value": 2, "name": "a"}], "different names"),
        ([{"value": 1, "name": "a"}], "at least two"),
        ([{"value": 1, "name": ""}, {"value": 2, "name": "b"}], "name must be"),
        ([{"value": 1, "name": "a", "color": "red"}, {"value": 2, "name": "b"}], "#rrggbb"),
        ([{"value": 1, "title": "a"}], 'must have "value" and "name"'),
        ([{"value": 1, "name": "a", "colour": "#000000"}], "unknown is"),
        ("ab", "no JSON|list|expected"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_the_reason(tmp_path, classes, message):
    path = tmp_path / "classes.json"
    path.write_text(json.dumps({"version": 1, "classes": classes}))
    with pytest.raises(ValueError, match=message) as refused:
        read_classes(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"version": 2, "classes": []}', '{"version": 1}'])
def test_a_file_of_another_kind_is_refused(tmp_path, text):
    (tmp_path / "classes.json").write_text(text)
    with pytest.raises(ValueError, match=r"classes\.json"):
        read_classes(tmp_path / "classes.json")
