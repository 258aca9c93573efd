"""Stroke files, and scribble pictures as people make them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter

from shapetailor.io import write_labels
from shapetailor.strokes import Stroke, read_marks, read_scribbles, read_strokes, write_strokes

EXPECTED = np.full((20, 30), -1)
EXPECTED[3:6, 4:12] = 0
EXPECTED[12:15, 8:20] = 1


def painted(background, first, second, mode):
    image = Image.new(mode, (30, 20), background)
    image.paste(first, (4, 3, 12, 6))
    image.paste(second, (8, 12, 20, 15))
    return image


def palette(image, *, transparency=None):
    image.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, *[7] * (3 * 253)])
    return image, {} if transparency is None else {"transparency": transparency}


PICTURES = {
    "gray, 255 unmarked": (painted(255, 0, 1, "L"), {}),
    "palette, background 0": palette(painted(0, 1, 2, "P")),
    "palette, 255 unmarked": palette(painted(255, 0, 1, "P")),
    "palette, transparent background": palette(painted(0, 1, 2, "P"), transparency=0),
    "green and red, transparent background": (painted((0, 0, 0, 0), (0, 255, 0, 255), (255, 0, 0, 255), "RGBA"), {}),
    "green and red on white": (painted((255, 255, 255), (0, 255, 0), (255, 0, 0), "RGB"), {}),
    "green and red on black": (painted((0, 0, 0), (0, 255, 0), (255, 0, 0), "RGB"), {}),
    "gray, background 0": (painted(0, 1, 2, "L"), {}),
    "gray, strokes 100 and 200": (painted(0, 100, 200, "L"), {}),
}


@pytest.mark.parametrize("image", PICTURES.values(), ids=PICTURES)
def test_scribble_pictures_as_people_make_them_are_understood(tmp_path, image):
    picture, options = image
    picture.save(tmp_path / "marks.png", **options)
    np.testing.assert_array_equal(read_scribbles(tmp_path / "marks.png"), EXPECTED)


def test_a_signed_tiff_holds_marks_as_they_are(tmp_path):
    write_labels(tmp_path / "marks.tif", EXPECTED)
    np.testing.assert_array_equal(read_scribbles(tmp_path / "marks.tif"), EXPECTED)


def test_smoothed_edges_of_strokes_are_unmarked(tmp_path):
    image = painted((255, 255, 255), (0, 255, 0), (255, 0, 0), "RGB").resize((300, 200), Image.Resampling.NEAREST)
    image.filter(ImageFilter.GaussianBlur(1)).save(tmp_path / "marks.png")
    marks = read_scribbles(tmp_path / "marks.png")
    assert np.unique(marks).tolist() == [-1, 0, 1]
    assert (marks[35:55, 45:115] == 0).all()
    assert (marks[:20] == -1).all()


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (painted(1, 0, 2, "L"), "every pixel is marked"),
        (painted((9, 9, 200), (0, 255, 0), (255, 0, 0), "RGB"), "background that covers more than half.*#0909c8"),
        (painted((255, 255, 255, 0), (0, 0, 0, 0), (0, 0, 0, 0), "RGBA"), "marks no pixel"),
        (Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)), "more than half"),
    ],
    ids=["full map", "blue background", "empty", "photograph"],
)
def test_pictures_that_are_no_scribbles_are_refused_in_words(tmp_path, image, words):
    image.save(tmp_path / "marks.png")
    with pytest.raises(ValueError, match=words):
        read_scribbles(tmp_path / "marks.png")


@pytest.mark.parametrize("quality", [60, 75, 90, 95])
@pytest.mark.parametrize("background", [(0, 0, 0), (255, 255, 255)])
def test_a_drawing_that_went_through_jpeg_is_refused(tmp_path, background, quality):
    image = painted(background, (0, 255, 0), (255, 0, 0), "RGB").resize((300, 200), Image.Resampling.NEAREST)
    image.save(tmp_path / "marks.jpg", quality=quality)
    Image.open(tmp_path / "marks.jpg").save(tmp_path / "marks.png")
    with pytest.raises(ValueError, match=r"marks\.png: its marks have \d+ colours"):
        read_scribbles(tmp_path / "marks.png")


def test_a_small_stroke_of_a_colour_is_not_lost(tmp_path):
    image = painted((0, 0, 0, 0), (0, 255, 0, 255), (255, 0, 0, 255), "RGBA")
    image.paste((0, 0, 255, 255), (25, 1, 27, 2))
    image.save(tmp_path / "marks.png")
    with pytest.raises(ValueError, match=r"3 colours, more than one for each region and blends .* draw more"):
        read_scribbles(tmp_path / "marks.png")


def test_edges_blended_in_linear_light_are_unmarked(tmp_path):
    image = painted((255, 255, 255), (60, 180, 75), (230, 25, 75), "RGB").resize((1200, 800), Image.Resampling.NEAREST)
    light = (np.asarray(image.rotate(5, fillcolor=(255, 255, 255))) / 255) ** 2.2
    blended = light.reshape(200, 4, 300, 4, 3).mean(axis=(1, 3)) ** (1 / 2.2)
    Image.fromarray(np.rint(255 * blended).astype(np.uint8)).save(tmp_path / "marks.png")
    assert np.unique(read_scribbles(tmp_path / "marks.png")).tolist() == [-1, 0, 1]


def test_strokes_come_back_from_their_file(tmp_path):
    strokes = [Stroke(0, [(1.5, 2), (9, 4)], 3), Stroke(1, [(3, 3), (8, 9)], kind="box")]
    write_strokes(tmp_path / "marks.json", strokes)
    assert read_strokes(tmp_path / "marks.json") == strokes
    assert read_marks(tmp_path / "marks.json") == strokes
    assert [path.name for path in tmp_path.iterdir()] == ["marks.json"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "a stroke file is"),
        (b'{"version": 2, "strokes": []}', "its version is 2"),
        (b'{"strokes": []}', "its version is None"),
        (b'{"version": 1, "strokes": [{"region": 0, "points": [[1, 2]]}, 7]}', "stroke 1: a stroke must be"),
        (b'{"version": 1, "strokes": [{"region": 0, "points": [[1e999, 2]]}]}', "stroke 0: points must be finite"),
    ],
)
def test_a_bad_stroke_file_is_named_with_its_fault(tmp_path, content, words):
    (tmp_path / "marks.json").write_bytes(content)
    with pytest.raises(ValueError, match=f"marks.json: .*{words}|marks.json: {words}"):
        read_strokes(tmp_path / "marks.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["region", "points", "kind", "x"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON | st.builds(lambda s: {"version": 1, "strokes": [s]}, JSON))
def test_any_json_is_read_or_refused(tmp_path, content):
    path = tmp_path / "fuzz.json"
    path.write_text(json.dumps(content))
    try:
        found = read_strokes(path)
    except ValueError as error:
        if not str(error).startswith(str(path)):
            raise
    else:
        assert all(isinstance(each, Stroke) for each in found)
