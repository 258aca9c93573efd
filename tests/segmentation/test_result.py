"""The result: what it saves is what it holds, polygons are exact, small pieces go where they should."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.path import Path as Outline
from PIL import Image
from scipy.ndimage import gaussian_filter
from skimage.measure import label as connected_components

from shapetailor.drawing.animation import Recorder
from shapetailor.drawing.overlay import as_rgb8, overlay
from shapetailor.drawing.polygons import trace
from shapetailor.io.images import read_image, read_labels
from shapetailor.io.palette import COLOURS, region_colour
from shapetailor.segmentation.cleanup import remove_small
from shapetailor.segmentation.result import Segmentation

SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 9))
MAPS = arrays(np.int64, SHAPES, elements=st.integers(0, 2))
RING = np.array([[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])


def segmentation(labels, image=None, **options):
    labels = np.asarray(labels, dtype=np.int64)
    image = np.zeros(labels.shape, dtype=np.uint8) if image is None else image
    return Segmentation(labels=labels, image=image, energy=[2.0, 1.0], iterations=1, converged=True, **options)


def area(ring):
    x, y = np.array(ring).T
    return float(x[:-1] @ y[1:] - x[1:] @ y[:-1]) / 2


# polygons


@given(arrays(np.int64, SHAPES, elements=st.integers(-1, 2)))
def test_polygons_areas_are_pixel_counts_and_rings_are_simple(labels):
    polygons = trace(labels)
    assert sorted(polygons) == sorted(set(labels[labels >= 0].tolist()))
    for number, pieces in polygons.items():
        assert sum(area(ring) for polygon in pieces for ring in polygon) == (labels == number).sum()
        assert len(pieces) == connected_components(labels == number, connectivity=1).max()
        for outer, *holes in pieces:
            assert area(outer) > 0
            assert all(area(hole) < 0 for hole in holes)
        for ring in (ring for polygon in pieces for ring in polygon):
            assert ring[0] == ring[-1]
            assert len(set(ring)) == len(ring) - 1 >= 4
            steps = np.diff(ring, axis=0)
            assert (np.count_nonzero(steps, axis=1) == 1).all()
            turns = np.einsum("ij,ij->i", steps, np.roll(steps, 1, axis=0))
            assert (turns == 0).all()  # corners only


@given(MAPS)
def test_polygons_contain_the_centres_of_their_pixels_and_no_others(labels):
    y, x = np.indices(labels.shape)
    centres = np.stack([x.ravel() + 0.5, y.ravel() + 0.5], axis=1)
    for number, pieces in trace(labels).items():
        covered = np.zeros(labels.size, dtype=int)
        for outer, *holes in pieces:
            covered += Outline(outer).contains_points(centres)
            for hole in holes:
                covered -= Outline(hole).contains_points(centres)
        np.testing.assert_array_equal(covered.reshape(labels.shape), labels == number)


def test_a_hole_is_a_hole_and_two_pieces_are_a_multipolygon():
    labels = np.zeros((3, 5), dtype=np.int64)
    labels[1, 1] = labels[1, 3] = 1
    background, dots = segmentation(labels).polygons()["features"]
    assert background["geometry"]["type"] == "Polygon"
    assert len(background["geometry"]["coordinates"]) == 3
    assert dots["geometry"] == {
        "type": "MultiPolygon",
        "coordinates": [
            [[(1, 1), (2, 1), (2, 2), (1, 2), (1, 1)]],
            [[(3, 1), (4, 1), (4, 2), (3, 2), (3, 1)]],
        ],
    }
    assert dots["properties"] == {"region": 1, "area": 2}


def test_a_piece_that_closes_at_a_corner_has_a_hole_that_touches_there():
    labels = np.array([[1, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    (polygon,) = trace(labels)[1]
    assert [area(ring) for ring in polygon] == [8.0, -1.0]
    assert (2, 2) in polygon[0]
    assert (2, 2) in polygon[1]


# overlay


@pytest.mark.parametrize(
    "image",
    [
        np.full((20, 30), 90, np.uint8),
        np.full((20, 30, 1), 90, np.uint8),
        np.full((20, 30, 2), 90, np.uint8),
        np.full((20, 30, 5), 90, np.uint8),
        np.zeros((20, 30), dtype=bool),
        np.arange(600, dtype=np.uint16).reshape(20, 30) * 100,
        np.full((20, 30, 3), np.nan),
        np.full((20, 30), 3.5, np.float32),
    ],
    ids=["gray", "one", "two", "five", "bool", "16bit", "nan", "constant"],
)
def test_every_kind_of_image_has_an_overlay(image):
    picture = overlay(image, np.repeat([[0] * 15 + [1] * 15], 20, axis=0))
    assert picture.shape == (20, 30, 3)
    assert picture.dtype == np.uint8
    assert picture[10, 3].tolist() != picture[10, 25].tolist()


def test_boundary_is_white_with_a_dark_rim_and_regions_keep_their_tint():
    image = np.full((20, 30, 3), 128, np.uint8)
    picture = overlay(image, np.repeat([[0] * 15 + [1] * 15], 20, axis=0)).astype(int)
    assert (picture[:, 14] == 255).all()
    assert picture[:, [13, 15]].max() < 80
    for column, colour in ((5, COLOURS[0]), (25, COLOURS[1])):
        assert (np.sign(picture[10, column] - 128) == np.sign(np.array(colour) - 128)).all()
    np.testing.assert_array_equal(overlay(image, np.full((20, 30), -1)), image)


def test_bytes_are_shown_as_they_are_and_others_stretched_by_their_bulk():
    image = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    np.testing.assert_array_equal(as_rgb8(image), image)
    values = np.linspace(-3.0, 5.0, 2000).reshape(40, 50)
    values[0, 0], values[1, 1] = 1e9, np.nan
    shown = as_rgb8(values)[..., 0].astype(int)
    assert shown.min() == 0
    assert shown[20, 25] == pytest.approx(128, abs=3)
    assert shown[-1, -1] == 255


def test_regions_have_different_colours():
    assert len({region_colour(number) for number in range(60)}) == 60


def test_image_and_labels_of_different_size_are_refused():
    with pytest.raises(ValueError, match=r"image's shape \(4, 5\), got \(5, 4\)"):
        overlay(np.zeros((4, 5)), np.zeros((5, 4), int))


# statistics and files


def test_statistics_of_a_known_picture():
    labels = np.zeros((20, 30), dtype=np.int64)
    labels[1:13, 2:14] = 2
    image = np.where(labels[..., None] == 2, [10.0, np.nan], [4.0, 7.0])
    background, vanished, square = segmentation(labels, image, vanished=(1,)).statistics()
    assert (square["region"], square["area"]) == (2, 144)
    assert square["share"] == pytest.approx(144 / 600)
    assert (square["x"], square["y"]) == (7.5, 6.5)
    assert [square[side] for side in ("left", "top", "right", "bottom")] == [2, 1, 14, 13]
    assert square["perimeter"] == background["perimeter"] == pytest.approx(48, rel=0.1)
    assert (square["mean_0"], square["std_0"], square["mean_1"]) == (10.0, 0.0, None)
    assert (background["mean_1"], background["pieces"]) == (7.0, 1)
    assert (vanished["region"], vanished["area"], vanished["x"]) == (1, 0, None)


def test_frame_is_no_perimeter():
    assert segmentation(np.zeros((5, 5))).statistics()[0]["perimeter"] == 0.0


def test_files_hold_what_the_result_holds(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    result = segmentation(RING, image, vanished=(2,))
    for name in ("labels.png", "labels.tif"):
        result.save(tmp_path / name)
        np.testing.assert_array_equal(read_labels(tmp_path / name), RING)
    result.save_overlay(tmp_path / "overlay.png")
    np.testing.assert_array_equal(read_image(tmp_path / "overlay.png"), result.overlay())
    result.save_statistics(tmp_path / "statistics.csv")
    with (tmp_path / "statistics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["region"], row["area"]) for row in rows] == [("0", "13"), ("1", "3"), ("2", "0")]
    assert float(rows[1]["mean_2"]) == pytest.approx(image[RING == 1, 2].mean())
    result.save_polygons(tmp_path / "polygons.geojson")
    stored = json.loads((tmp_path / "polygons.geojson").read_text())
    assert stored["type"] == "FeatureCollection"
    assert [feature["properties"]["region"] for feature in stored["features"]] == [0, 1]
    assert len(list(tmp_path.iterdir())) == 5  # no temporary file is left


def test_animation_shows_the_evolution_and_ends_with_the_result(tmp_path):
    image = np.full((30, 1100), 100, np.uint8)
    left, right = (np.repeat([np.arange(1100) < cut], 30, axis=0).astype(np.int64) for cut in (300, 800))
    recorder = Recorder(image)
    for iteration, labels in enumerate([left, right]):
        recorder(iteration, labels, 2.0 - iteration)
    recorder.save(tmp_path / "a.gif", left)
    with Image.open(tmp_path / "a.gif") as file:
        assert file.size == (512, 14)
        assert file.n_frames == 3
        widths = []
        for index in range(3):
            file.seek(index)
            shown = np.asarray(file.convert("RGB")).astype(int)
            widths.append((shown[7, :, 2] < shown[7, :, 0]).sum() / 512)
    np.testing.assert_allclose(widths, [300 / 1100, 800 / 1100, 300 / 1100], atol=0.02)


# cleaning


def slow_remove_small(labels, least):
    """Do the same by the definition, numbering the pieces anew after every step; None if two are smallest."""
    labels = labels.copy()
    while True:
        pieces = connected_components(labels, background=-1, connectivity=1)
        area = np.bincount(pieces.ravel())[1:]
        if area.min() >= least or len(area) == 1:
            return labels
        mask = pieces == 1 + area.argmin()
        padded = np.pad(mask, 1)
        rolls = [(shift, axis) for shift in (1, -1) for axis in (0, 1)]
        where = [np.pad(pieces, 1)[np.roll(padded, *r) & ~padded] for r in rolls]
        touched = np.concatenate([each[each > 0] for each in where])
        if (area == area.min()).sum() > 1:
            return None
        region = np.zeros(len(area) + 1, dtype=int)
        region[pieces] = labels
        contact = np.bincount(region[touched], minlength=4)
        size = np.bincount(region[np.unique(touched)], area[np.unique(touched) - 1], minlength=4)
        labels[mask] = max(range(4), key=lambda number: (contact[number], size[number], -number))


@given(MAPS, st.floats(0, 1))
def test_no_small_piece_is_left(labels, share):
    cleaned, vanished = remove_small(labels, share)
    pieces = connected_components(cleaned, background=-1, connectivity=1)
    area = np.bincount(pieces.ravel())[1:]
    assert len(area) == 1 or area.min() >= share * labels.size
    assert set(vanished) == set(labels.ravel().tolist()) - set(cleaned.ravel().tolist())


def test_the_smallest_piece_goes_first_and_to_the_region_it_touches_most():
    rng = np.random.default_rng(0)
    compared = 0
    for _ in range(100):
        fields = gaussian_filter(rng.standard_normal((4, 80, 80)), (0, 5, 5))
        labels = fields.argmax(axis=0)
        expected = slow_remove_small(labels, 0.05 * labels.size)
        if expected is not None and (expected != labels).any():
            np.testing.assert_array_equal(remove_small(labels, 0.05)[0], expected)
            compared += 1
    assert compared >= 5


def test_a_dot_joins_its_longest_neighbour_and_its_region_is_reported():
    labels = np.repeat([[0] * 6 + [1] * 6], 10, axis=0)
    labels[4:6, 5:7] = 7
    labels[4:6, 4] = 7
    cleaned, vanished = remove_small(labels, 0.1)
    assert (cleaned[4:6, 4:7] == 0).all()
    assert vanished == (7,)


def test_pixels_in_no_region_are_left_alone():
    labels = np.array([[-1, -1, 1, 0, 0, 0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(remove_small(labels, 0.2)[0], [[-1, -1, 0, 0, 0, 0, 0, 0, 0, 0]])


def test_many_pieces_are_no_trouble():
    labels = np.random.default_rng(0).integers(0, 4, (300, 300))
    cleaned, _ = remove_small(labels, 0.01)
    assert np.bincount(connected_components(cleaned, background=-1, connectivity=1).ravel())[1:].min() >= 900


def test_an_impossible_share_is_refused():
    with pytest.raises(ValueError, match="min_share must be a share"):
        remove_small(RING, 2.0)
