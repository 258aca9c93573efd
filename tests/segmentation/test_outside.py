"""Pixels outside the picture: no region, no influence."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gallery import TURNS
from shapetailor.drawing.overlay import as_rgb8
from shapetailor.io import Picture, read_labels
from shapetailor.metrics import covering
from shapetailor.network import STDNN, STDNNConfig
from shapetailor.segmentation.result import Segmentation
from shapetailor.segmentation.segmenter import Segmenter
from shapetailor.segmentation.starts import block_means
from shapetailor.strokes import Stroke

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def segmenter():
    return Segmenter.from_pretrained("texture")


def halves(rows=64, columns=96, hole=(slice(20, 44), slice(30, 70))):
    """Two halves of noise, and a mask that leaves a hole and the first rows out."""
    truth = np.tile(np.arange(columns) >= columns // 2, (rows, 1)).astype(np.int64)
    image = np.where(truth, 0.7, 0.25) + RNG.normal(0, 0.08, truth.shape)
    inside = np.ones(truth.shape, bool)
    inside[hole], inside[:5] = False, False
    return image.astype(np.float32), truth, inside


@pytest.mark.parametrize(
    ("options", "pixels"), [({"regions": 2}, 2**22), ({"regions": "auto"}, 2**22), ({"regions": 2}, 40**2)]
)
def test_the_outside_is_no_region(segmenter, options, pixels):
    image, truth, inside = halves()
    small = Segmenter(segmenter.net, max_pixels=pixels, usage=segmenter.usage)
    result = small.segment(np.where(inside, image, np.nan), **options)
    np.testing.assert_array_equal(result.labels < 0, ~inside)
    assert covering(result.labels[inside][None], truth[inside][None]) > 0.9
    assert result.vanished == ()
    assert np.isfinite(result.energy).all()


def test_what_the_outside_holds_changes_nothing(segmenter):
    image, _, inside = halves()
    nothing = segmenter.segment(np.where(inside, image, np.nan), 2, return_descriptors=True)
    for value in (0.0, 1e30):
        other = segmenter.segment(Picture(np.where(inside, image, value), inside), 2, return_descriptors=True)
        np.testing.assert_array_equal(other.labels, nothing.labels)
        np.testing.assert_array_equal(other.descriptors, nothing.descriptors)
        assert other.energy == nothing.energy


@pytest.mark.parametrize("start", ["ncut", "kmeans", "boxes"])
def test_every_start_leaves_the_outside_out(segmenter, start):
    image, _, inside = halves()
    result = segmenter.segment(np.where(inside, image, np.nan), 2, start=start, iterations=1)
    np.testing.assert_array_equal(result.labels < 0, ~inside)


@pytest.mark.parametrize("turn", list(TURNS.values())[1:4:2], ids=list(TURNS)[1:4:2])
def test_the_outside_turns_with_the_picture(segmenter, turn):
    image, _, inside = halves()
    picture = np.where(inside, image, np.nan)
    straight = segmenter.segment(picture, 2)
    np.testing.assert_array_equal(segmenter.segment(turn(picture), 2).labels, turn(straight.labels))


def test_given_regions_and_marks_outside_are_ignored(segmenter):
    image, truth, inside = halves()
    picture = np.where(inside, image, np.nan)
    given = segmenter.segment(picture, init=np.where(inside, truth, 255), iterations=1)  # as a label map's file has it
    np.testing.assert_array_equal(given.labels < 0, ~inside)
    assert given.vanished == ()
    marks = np.full(truth.shape, -1)
    marks[2, 60], marks[50, 10], marks[50, 80] = 1, 0, 1
    marked = segmenter.segment(picture, scribbles=marks, iterations=1)
    assert (marked.labels[2, 60], marked.labels[50, 10], marked.labels[50, 80]) == (-1, 0, 1)


def test_a_picture_of_one_pixel_inside_is_segmented(segmenter):
    picture = np.full((6, 7), np.nan)
    picture[2, 3] = 0.5
    labels = segmenter.segment(picture, 1).labels
    assert labels[2, 3] == 0
    assert (labels == -1).sum() == labels.size - 1


@pytest.mark.parametrize(
    "config", [STDNNConfig(), STDNNConfig(features="rich", stride=2, widths=(6, 4))], ids=["paper", "rich"]
)
def test_preparation_does_not_count_the_outside(config):
    torch.manual_seed(0)
    net, image = STDNN(config), torch.rand(1, 3, 12, 16)
    inside = torch.ones(1, 12, 16, dtype=torch.bool)
    inside[:, :, 12:] = False
    framed = net.prepare(torch.where(inside[:, None], image, 0.9), inside)
    torch.testing.assert_close(framed[..., :12], net.prepare(image[..., :12]), atol=1e-5, rtol=1e-4)


def test_block_means_are_of_pixels_inside():
    descriptors = RNG.random((2, 8, 8)).astype(np.float32)
    inside = np.zeros((8, 8), bool)
    inside[:4, :3] = True
    means = block_means(descriptors, 1, 2, inside)
    np.testing.assert_allclose(means, descriptors[:, :4, :3].mean(axis=(1, 2))[None], rtol=1e-6)


def test_results_leave_the_outside_out(tmp_path):
    labels = np.zeros((10, 12), np.int64)
    labels[:, 8:], labels[:, :2] = 1, -1
    image = np.where(labels < 0, -9999, 5 * labels + 100).astype(np.float32)
    result = Segmentation(labels=labels, image=image, energy=[0.0], iterations=0, converged=True)
    first, second = result.statistics()
    assert (first["area"], first["share"], second["share"]) == (60, 0.6, 0.4)
    assert first["perimeter"] == pytest.approx(second["perimeter"])
    assert [feature["id"] for feature in result.polygons()["features"]] == [0, 1]
    untinted = as_rgb8(image, labels >= 0)[:, 0]
    np.testing.assert_array_equal(result.overlay()[:, 0], untinted)
    assert result.overlay()[5, 11].max() > 50  # its limits are those of the inside
    result.save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_labels(tmp_path / "a.png"), np.where(labels < 0, 255, labels))


def test_a_result_says_in_a_line_what_it_is(segmenter):
    labels = np.zeros((10, 12), np.int64)
    labels[:, 9:] = 3
    result = Segmentation(labels=labels, image=labels.astype(np.uint8), energy=[0.0], iterations=4, converged=True)
    assert repr(result) == "<Segmentation of 10×12 pixels: 0: 75.0%, 3: 25.0%; 4 iterations, converged>"
    assert result._repr_png_().startswith(b"\x89PNG")
    assert repr(segmenter) == ("<Segmenter: STDNN for 3 channels, blocks of 4 pixels and 2, on cpu, max_pixels=160000>")
    session = segmenter.open(np.arange(32 * 40, dtype=np.uint16).reshape(32, 40))
    session.add(Stroke(0, [(3, 4)]))
    assert repr(session) == "<Session on 32×40 pixels: 1 marks, regions=None>"
