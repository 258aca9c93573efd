"""Files at URLs: what is said of them, and what is a path after all."""

from pathlib import Path

import pytest

from shapetailor.io.images import read_image
from shapetailor.io.remote import Remote, fetched, location

fsspec = pytest.importorskip("fsspec")


def test_what_is_wrong_with_a_fetched_file_is_said_of_its_url():
    with fsspec.open("memory://pictures/a.png", "wb") as file:
        file.write(b"no picture")
    reasons = set()
    for _ in range(2):  # each time the copy has another name
        with (
            pytest.raises(ValueError, match="no image") as caught,
            fetched(location("memory://pictures/a.png")) as path,
        ):
            read_image(path)
        reasons.add(str(caught.value))
    assert reasons == {"memory://pictures/a.png: no image of a known format, or corrupt"}


def test_an_error_that_is_no_sentence_passes_as_it_is():
    with fsspec.open("memory://pictures/b.txt", "wb") as file:
        file.write(b"\xff")
    with pytest.raises(UnicodeDecodeError), fetched(Remote("memory://pictures/b.txt")) as path:
        path.read_text(encoding="utf-8")


def test_the_url_of_a_local_file_is_its_path():
    assert location("file:///a/b.png") == Path("/a/b.png")
    assert location("file:///a/*.png") == Remote("file:///a/*.png")
