"""JSON and lists as people write them, and folders to write to."""

import pytest

from shapetailor.io.files import make_folder, read_json, read_lines


def test_the_mark_that_windows_puts_before_a_text_is_skipped(tmp_path):
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone.png\r\n\r\n two.png \n")
    assert read_json(tmp_path / "a.json") == {"a": 1}
    assert read_lines(tmp_path / "a.txt") == ["one.png", "two.png"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"a": {"b": 1, "b": 2}}', "the key 'b' comes twice"),
        (b"[" + b"9" * 5000 + b"]", "no JSON"),
        ('{"a": 1}'.encode("utf-16"), "no JSON in UTF-8"),
    ],
    ids=["twice", "digits", "UTF-16"],
)
def test_json_that_is_none_or_has_two_meanings_is_refused_with_its_name(tmp_path, content, reason):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=rf"a\.json: .*{reason}"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize("content", [b"\xff\xfe\n", b"a\0b.png\n"])
def test_a_list_that_is_no_text_is_refused_with_its_name(tmp_path, content):
    (tmp_path / "list.txt").write_bytes(content)
    with pytest.raises(ValueError, match=r"list\.txt: "):
        read_lines(tmp_path / "list.txt")


@pytest.mark.parametrize("name", ["file", "file/inside"])
def test_a_file_where_a_folder_shall_be_is_named(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="expected a folder to write to, but there is a file"):
        make_folder(tmp_path / name)
