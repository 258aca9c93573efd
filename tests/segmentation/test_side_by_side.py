"""Pictures side by side, in whole planes: the same regions as one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from shapetailor import Segmenter
from shapetailor.clustering import affinities
from shapetailor.datasets import ProceduralTextures
from shapetailor.datasets.mosaics import MosaicDataset
from shapetailor.evolution import Evolution
from shapetailor.labels import in_order
from shapetailor.labels import smooth_boundaries as smooth_one
from shapetailor.network import STDNN, STDNNConfig
from shapetailor.network.masked import Whole, describe_masks, describe_wholes, spread, statistics
from shapetailor.network.two_level import describe_whole
from shapetailor.segmentation import many
from shapetailor.segmentation.batched_cut import leading, ncut_starts
from shapetailor.segmentation.side_by_side import smooth_boundaries
from shapetailor.segmentation.starts import ncut_start

SMALL = STDNNConfig(
    features="rich", premix=4, scales=(0.5, 4.0), widths=(8, 6), alpha=1.0, head="unit", resolution=64, tol=1e-3
)


@pytest.fixture(scope="module")
def compiled():
    return Segmenter.from_pretrained("texture")


@pytest.fixture(scope="module")
def planes(compiled):
    """What a GPU does, on the CPU."""
    segmenter = Segmenter(compiled.net, usage=compiled.usage)
    segmenter._planes = True
    return segmenter


@pytest.fixture(scope="module")
def mosaics():
    textures = ProceduralTextures(10, 160)
    return {count: MosaicDataset(textures, 2, (count, count), 140, 0) for count in (2, 3, 5)}


def picture(mosaics, regions, rows=140, columns=140, gray=False, hole=False, number=0):
    image = np.asarray(mosaics[regions][number].image)[:rows, :columns].astype(np.float32)
    if not gray:
        image = np.stack([image, 20 + 0.8 * image, 255 - image], axis=2)
    if hole:
        image[20:60, 40:90], image[:3] = np.nan, np.nan
    return image


@pytest.mark.parametrize(
    ("regions", "shape", "gray", "hole"),
    [
        (2, (140, 140), False, False),
        (3, (139, 101), True, False),
        (5, (140, 133), False, False),
        (2, (131, 140), False, True),
    ],
)
def test_planes_find_the_regions_that_compiled_code_finds(compiled, planes, mosaics, regions, shape, gray, hole):
    image = picture(mosaics, regions, *shape, gray=gray, hole=hole)
    expected, found = compiled.segment(image, regions), planes.segment(image, regions)
    assert (found.labels == expected.labels).mean() >= 0.999
    np.testing.assert_array_equal(found.labels < 0, expected.labels < 0)
    np.testing.assert_allclose(found.energy, expected.energy, rtol=1e-3)
    assert (found.vanished, found.converged) == (expected.vanished, expected.converged)


def test_a_large_picture_comes_out_at_its_size(compiled, mosaics):
    image = picture(mosaics, 2)
    options = {"max_pixels": 80**2, "usage": compiled.usage}
    one, other = Segmenter(compiled.net, **options), Segmenter(compiled.net, **options)
    other._planes = True
    assert (one.segment(image, 2).labels == other.segment(image, 2).labels).mean() >= 0.999


def test_neighbours_in_a_batch_change_nothing_and_order_is_kept(planes, mosaics):
    images = [picture(mosaics, 2), picture(mosaics, 2, columns=101), picture(mosaics, 2, number=1)]
    together = list(planes.segment_many(images, 2, iterations=1))
    for image, found in zip(images, together, strict=True):
        alone = planes.segment(image, 2, iterations=1)
        assert (found.labels == alone.labels).mean() >= 0.999
        np.testing.assert_array_equal(found.image, image)


def test_the_cpu_takes_pictures_one_by_one(compiled, mosaics):
    image = picture(mosaics, 2, 60, 60)
    (found,) = compiled.segment_many([image], 2, seed=3, iterations=1)
    expected = compiled.segment(image, 2, seed=3, iterations=1)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert (found.seed, found.energy) == (3, expected.energy)


def test_what_planes_cannot_do_goes_the_other_way(compiled, planes, mosaics):
    image = picture(mosaics, 2, 60, 60)
    for options in ({"iterations": 0}, {"regions": "auto", "iterations": 1}, {"regions": 1}):
        options = {"regions": 2, **options}
        (found,) = planes.segment_many([image], **options)
        np.testing.assert_array_equal(found.labels, compiled.segment(image, **options).labels)


def nothing_found(end):
    return Evolution(np.zeros(end.canvas.values.shape[1:], np.int64), [0.0])


@pytest.mark.parametrize("most", [1, 2])
def test_short_memory_makes_smaller_batches_and_is_said_once(planes, mosaics, monkeypatch, most):
    sizes = []

    def regions_of(net, ends, *_):
        sizes.append(len(ends))
        if len(ends) > most:
            raise torch.OutOfMemoryError("out of memory")
        return [nothing_found(end) for end in ends]

    monkeypatch.setattr(many, "regions_of", regions_of)
    images = [picture(mosaics, 2, 60, 60)] * 5
    with pytest.warns(UserWarning, match="too many for the memory") as said:
        found = list(planes.segment_many(images, 2, iterations=1, batch_size=4))
    assert len(found) == 5
    assert len(said) == 1
    assert sizes == {1: [4, 2, 1, 1, 1, 1, 1], 2: [4, 2, 2, 1]}[most]


def test_memory_that_is_too_short_for_one_picture_is_an_error(planes, mosaics, monkeypatch):
    def regions_of(*_):
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(many, "regions_of", regions_of)
    with pytest.raises(torch.OutOfMemoryError):
        list(planes.segment_many([picture(mosaics, 2, 60, 60)], 2))


def test_a_picture_that_cannot_be_read_costs_only_itself(planes, mosaics, monkeypatch):
    monkeypatch.setattr(many, "regions_of", lambda net, ends, *_: [nothing_found(end) for end in ends])
    left = []

    class Held:
        def __enter__(self):
            return self

        def __exit__(self, kind, *_):
            left.append(kind)

    def start(image):
        return many.Job(image, lambda result: result.labels.shape, Held())

    images = [picture(mosaics, 2, 60, 60), np.zeros((0, 3)), picture(mosaics, 2, 60, 50)]
    options = many.Options(2, 1)
    done = list(many.segment_each(planes, images, start, options, 2))
    assert [each.result for each in done] == [(60, 60), None, (60, 50)]
    assert [each.item for each in done] == images
    assert isinstance(done[1].error, ValueError)
    assert sorted(left, key=bool) == [None, None, ValueError]
    with pytest.raises(ValueError, match="got shape"):
        list(planes.segment_many(images, 2, iterations=1))


@pytest.mark.parametrize(
    ("options", "words"), [({"batch_size": 0}, "batch_size"), ({"regions": 0}, "regions"), ({"seed": -1}, "seed")]
)
def test_options_are_checked_at_once(planes, options, words):
    with pytest.raises(ValueError, match=words):
        planes.segment_many([], **{"regions": 2, **options})


@pytest.mark.parametrize("hole", [False, True])
def test_whole_pictures_have_the_descriptors_of_single_ones(hole):
    torch.manual_seed(0)
    net = STDNN(replace(SMALL, stride=4)).eval()
    pictures = torch.rand(2, 3, 37, 46)
    inside = torch.rand(2, 37, 46) < 0.9 if hole else None
    with torch.no_grad():
        found = describe_wholes(net, pictures, 2, inside)
        expected = describe_whole(net, net.prepare(pictures, inside), 2, inside)
    pixels = spread(found.descriptors, found.side, (37, 46))
    where = torch.ones(2, 37, 46, dtype=torch.bool) if inside is None else inside
    np.testing.assert_allclose(pixels.movedim(1, 3)[where], expected.movedim(1, 3)[where], atol=1e-4)


def test_masks_have_the_descriptors_of_label_maps():
    torch.manual_seed(0)
    net = STDNN(replace(SMALL, stride=2)).eval()
    pictures = torch.rand(3, 3, 21, 30)
    masks = torch.rand(3, 21, 30) < 0.6
    with torch.no_grad():
        expected = net(net.prepare(pictures), masks.long() - 1)
        found = spread(describe_masks(net, pictures, statistics(net, pictures), masks), 2, (21, 30))
    np.testing.assert_allclose(torch.where(masks[:, None], found, 0), expected, atol=1e-4)


def clusters(seed, noise, count=3, size=(12, 15)):
    """Descriptors of unit norm, (6, h, w), in patches."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((count, 6))
    which = rng.integers(count, size=(size[0] // 4 + 1, size[1] // 4 + 1)).repeat(4, 0).repeat(4, 1)
    values = centres[which[: size[0], : size[1]]] + noise * rng.standard_normal((*size, 6))
    return np.moveaxis(values / np.linalg.norm(values, axis=2, keepdims=True), 2, 0).astype(np.float32)


@pytest.mark.parametrize("hole", [False, True])
@pytest.mark.parametrize("noise", [0.0, 0.1, 0.6])
def test_cuts_are_those_of_single_pictures(noise, hole):
    pictures = np.stack([clusters(seed, noise) for seed in range(3)])
    inside = np.ones((3, 24, 29), bool)
    if hole:
        inside[0, 3:15, 6:17] = inside[1, :5] = False
    given = torch.from_numpy(inside) if hole else None
    rngs = [np.random.default_rng(5) for _ in pictures]
    found = ncut_starts(Whole(torch.from_numpy(pictures), 2), (24, 29), given, 3, rngs).numpy()
    for descriptors, mask, blocks in zip(pictures, inside, found, strict=True):
        full = descriptors.repeat(2, 1).repeat(2, 2)[:, :, :29]
        expected = in_order(ncut_start(full, 3, np.random.default_rng(5), mask if hole else None))
        assert (blocks.repeat(2, 0).repeat(2, 1)[:, :29] == expected)[mask].mean() > 0.999


def test_pictures_of_one_value_are_one_cluster():
    flat = torch.full((2, 4, 20, 20), 0.5)
    found = ncut_starts(Whole(flat, 2), (40, 40), None, 3, [np.random.default_rng(0) for _ in flat])
    assert (found == 0).all()


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.5])
def test_leading_vectors_are_the_matrix_own(noise):
    points = np.moveaxis(clusters(1, noise, 4, (18, 18)), 0, 2).reshape(-1, 6).astype(np.float64)
    affinity = affinities(points, 0.1)
    degree = np.sqrt(affinity.sum(axis=1))
    matrix = affinity / (degree[:, None] * degree)
    values, vectors = (each[0].numpy() for each in leading(torch.from_numpy(matrix)[None], 4))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[::-1][:4], atol=1e-9)
    np.testing.assert_allclose(matrix @ vectors, values * vectors, atol=1e-6)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-9)


def test_boundaries_are_smoothed_as_in_single_maps():
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 3, (3, 9, 11)).repeat(5, 1).repeat(5, 2)
    found = smooth_boundaries(torch.from_numpy(labels), 3, 2.0).numpy()
    for each, smooth in zip(labels, found, strict=True):
        assert (smooth != smooth_one(each, 2.0)).mean() < 1e-3
