from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from gallery import TURNS, same_partition
from shapetailor.datasets import MosaicDataset, ProceduralTextures
from shapetailor.evolution.config import EvolutionConfig
from shapetailor.metrics import covering
from shapetailor.segmentation import described
from shapetailor.segmentation.segmenter import Segmenter


@pytest.fixture(scope="module")
def segmenter():
    return Segmenter.from_pretrained("texture")


@pytest.fixture(scope="module")
def mosaic():
    """Two textures, as the network has not seen them, in 128 × 128."""
    return MosaicDataset(ProceduralTextures(12, 128, seed=3), 2, (2, 2), 128, seed=1)[1]


def halves(size=48):
    """Dark noise on the left, bright noise on the right, and which is where."""
    truth = np.tile(np.arange(size) >= size // 2, (size, 1)).astype(np.int64)
    noise = np.random.default_rng(0).integers(-30, 31, truth.shape)
    return (np.where(truth, 190, 60) + noise).astype(np.uint8), truth


def assert_halves(result, truth, least=0.9):
    assert result.labels.shape == truth.shape
    assert covering(result.labels, truth) > least


def test_two_textures_of_a_mosaic_are_found(segmenter, mosaic):
    result = segmenter.segment(mosaic.image, regions=2)
    assert covering(result.labels, mosaic.truths[0]) > 0.85
    assert result.vanished == ()
    assert len(result.energy) == result.iterations + 1
    assert (np.diff(result.energy) <= 0).all()
    np.testing.assert_array_equal(result.image, mosaic.image)


def test_the_papers_network_is_shipped_too():
    image, truth = halves(64)
    result = Segmenter.from_pretrained("paper").segment(image, 2, evolution=EvolutionConfig(iterations=5))
    assert_halves(result, truth)


def test_an_unknown_name_is_answered_with_the_shipped_ones():
    with pytest.raises(FileNotFoundError, match=r"'textures'; shipped models: .*texture"):
        Segmenter.from_pretrained("textures")


@pytest.mark.parametrize("start", ["ncut", "kmeans", "boxes"])
def test_one_colour_is_one_region_and_the_others_are_named(segmenter, start):
    result = segmenter.segment(np.full((32, 40), 100, np.uint8), regions=3, start=start, iterations=2)
    if start != "boxes":  # boxes of one colour are as good as anything else
        assert (result.labels == 0).all()
    assert set(result.vanished) == {0, 1, 2} - set(np.unique(result.labels).tolist())
    assert np.isfinite(result.energy).all()


def test_one_colour_is_one_region_by_its_own_choice(segmenter):
    result = segmenter.segment(np.full((32, 40, 3), (200, 10, 90), np.uint8), regions="auto")
    assert (result.labels == 0).all()
    assert result.vanished == ()


@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 3), (1, 40), (40, 1), (2, 3)])
@pytest.mark.parametrize("regions", [1, 2, "auto"])
def test_the_smallest_pictures_are_segmented(segmenter, shape, regions):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    result = segmenter.segment(image, regions)
    assert result.labels.shape == shape[:2]
    if shape[:2] == (1, 1):
        assert (result.labels == 0).all()
        assert result.vanished == ((1,) if regions == 2 else ())


@pytest.mark.parametrize("start", ["ncut", "kmeans", "boxes"])
def test_regions_that_the_image_does_not_support_are_named(segmenter, start):
    image, _ = halves(8)
    result = segmenter.segment(image, regions=70, start=start, iterations=2)  # more than pixels
    present = set(np.unique(result.labels).tolist())
    assert present <= set(range(70))
    assert set(result.vanished) == set(range(70)) - present
    assert len(result.vanished) > 0


def test_an_image_of_nan_is_refused(segmenter):
    with pytest.raises(ValueError, match="no pixel with a value: all 64 are nodata, NaN"):
        segmenter.segment(np.full((8, 8), np.nan), 2)


def test_work_at_a_reduced_size_gives_labels_of_the_full_size():
    image, truth = halves(101)
    small = Segmenter.from_pretrained("texture")
    small.max_pixels = 40**2
    result = small.segment(image, 2, return_descriptors=True)
    assert_halves(result, truth)
    assert result.descriptors.shape[1:] == (34, 34)
    assert np.shares_memory(result.image, image)


@pytest.mark.parametrize(("regions", "side"), [(2, 130), (4, 130), (5, 260), ("auto", 260)])
def test_many_regions_and_an_unknown_number_are_looked_for_on_more_pixels(monkeypatch, regions, side):
    small, seen = Segmenter.from_pretrained("texture", max_pixels=200**2), []
    of = described.Described.of
    monkeypatch.setattr(described.Described, "of", lambda *args: seen.append(of(*args)) or seen[-1])
    small.segment(halves(260)[0], regions, iterations=0)
    assert seen[0].canvas.values.shape[1:] == (side, side)
    assert seen[0].net.config.resolution == 130  # α stay those of the reduced picture


def test_more_pixels_for_many_regions_are_no_more_than_both_networks_work_on():
    small = Segmenter.from_pretrained("texture", max_pixels=200**2)
    small.usage = replace(small.usage, fine_pixels=200**2)
    result = small.segment(halves(260)[0], 5, iterations=0, return_descriptors=True)
    assert result.descriptors.shape[1:] == (130, 130)


def test_the_same_input_and_seed_give_the_same_labels(segmenter, mosaic):
    first, second = (segmenter.segment(mosaic.image, 3, start="kmeans", seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.labels, second.labels)
    assert first.energy == second.energy
    assert first.seed == 5


@pytest.fixture(scope="module", params=["ncut", "boxes"])
def straight(request, segmenter, mosaic):
    """A picture that is not square, and no multiple of the network's blocks; a start; its regions from there."""
    image = mosaic.image[:90]
    return image, request.param, segmenter.segment(image, 2, start=request.param, iterations=2).labels


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_turn_the_image_and_the_segmentation_moves_with_it(segmenter, straight, turn):
    image, start, labels = straight
    seen = []
    watch = {"callback": lambda _, labels, __: seen.append(labels.shape)}
    turned = segmenter.segment(turn(image), 2, start=start, iterations=2, **watch)
    np.testing.assert_array_equal(turned.labels, turn(labels))
    assert set(seen) == {turned.labels.shape}


def test_turned_scribbles_and_descriptors_move_too(segmenter, mosaic):
    image, marks = mosaic.image[:64, :64], np.full((64, 64), -1)
    marks[2:6, 2:6], marks[-6:-2, -6:-2] = 0, 1
    straight = segmenter.segment(image, scribbles=marks, return_descriptors=True)
    turned = segmenter.segment(np.rot90(image), scribbles=np.rot90(marks), return_descriptors=True)
    np.testing.assert_array_equal(turned.labels, np.rot90(straight.labels))
    np.testing.assert_array_equal(turned.descriptors, np.rot90(straight.descriptors, axes=(1, 2)))


def test_scribbles_keep_their_region(segmenter):
    image, truth = halves(64)
    marks = np.full(truth.shape, -1)
    marks[10, 3:20], marks[40, 40:60] = 1, 0
    marks[55, 5] = 0  # a pixel that is marked against what it shows
    result = segmenter.segment(image, scribbles=marks)
    np.testing.assert_array_equal(result.labels[marks >= 0], marks[marks >= 0])
    assert np.mean(result.labels == 1 - truth) > 0.9
    assert result.vanished == ()


def test_thin_scribbles_hold_at_a_reduced_size():
    image, truth = halves(90)
    small = Segmenter.from_pretrained("texture")
    small.max_pixels = 30**2
    marks = np.full(truth.shape, -1)
    marks[21, 3:30], marks[60, 60:81] = 1, 0  # lines that miss the blocks' central pixels
    marks[22, 4] = 0  # in a block with another mark
    result = small.segment(image, regions=2, scribbles=marks)
    np.testing.assert_array_equal(result.labels[marks >= 0], marks[marks >= 0])
    assert np.mean(result.labels == 1 - truth) > 0.9


def test_init_is_where_the_regions_start(segmenter):
    image, truth = halves(48)
    seen = []
    start = np.where(np.arange(48)[:, None] < 16, 2, 1 - truth)
    segmenter.segment(image, init=start, iterations=1, callback=lambda _, labels, __: seen.append(labels.copy()))
    np.testing.assert_array_equal(seen[0], start)


def test_init_as_a_tensor_of_right_regions_stays(segmenter):
    image, truth = halves(48)
    result = segmenter.segment(image, init=torch.from_numpy(1 - truth))
    assert np.mean(result.labels == 1 - truth) > 0.95


def test_a_region_that_init_leaves_out_is_named(segmenter):
    image, truth = halves(48)
    result = segmenter.segment(image, regions=3, init=2 * truth, iterations=1)
    assert result.vanished == (1,)


@pytest.mark.parametrize("high", [255, 20_000_000, 2**31 - 1])
def test_numbers_that_init_leaves_out_are_closed_up(segmenter, high):
    image, truth = halves(48)
    result = segmenter.segment(image, init=high * truth, iterations=0)
    assert result.vanished == ()
    assert set(np.unique(result.labels)) == {0, 1}


def test_one_label_a_pixel_is_refused_with_the_limit(segmenter):
    image, truth = halves(48)
    with pytest.raises(ValueError, match="init must have at most 1024 regions"):
        segmenter.segment(image, init=np.arange(truth.size).reshape(truth.shape))
    with pytest.raises(ValueError, match=r"regions must be a number from 1 to 1024.* got 5000"):
        segmenter.segment(image, 5000)


def test_auto_with_init_is_told_to_leave_one_out(segmenter):
    image, truth = halves(48)
    with pytest.raises(ValueError, match='regions is "auto", but init or scribbles name 2; leave regions out'):
        segmenter.segment(image, "auto", init=truth)


@pytest.mark.parametrize(("device", "words"), [("banana", "must be"), ("mps", "must be"), ("cuda:99", "GPU")])
def test_a_device_that_is_not_there_is_said_in_words(segmenter, device, words):
    with pytest.raises(ValueError, match=f"device .*{words}"):
        Segmenter(segmenter.net, device)


def test_channels_first_are_refused_with_a_hint(segmenter):
    with pytest.raises(ValueError, match=r"got shape \(3, 40, 48\); is it C×H×W\? numpy.moveaxis"):
        segmenter.segment(np.zeros((3, 40, 48), np.uint8), 2)


def test_scribbles_may_name_more_regions_than_init(segmenter):
    image, truth = halves(48)
    marks = np.full(truth.shape, -1)
    marks[4:8, 4:8], marks[4:8, 40:44], marks[40:44, 4:8] = 0, 1, 2
    result = segmenter.segment(image, regions=3, init=truth, scribbles=marks, iterations=2)
    np.testing.assert_array_equal(result.labels[marks >= 0], marks[marks >= 0])


ZEROS = np.zeros((16, 16), np.int64)
BAD = {
    "none": ({"regions": None}, "regions must be a number from 1 to 1024, or 'auto'; got None"),
    "zero": ({"regions": 0}, "regions must be .* got 0"),
    "fraction": ({"regions": 2.5}, "regions must be .* got 2.5"),
    "bool": ({"regions": True}, "regions must be .* got True"),
    "word": ({"regions": "many"}, "regions must be .* got 'many'"),
    "contradiction": ({"regions": 3, "init": ZEROS}, "regions is 3, but init or scribbles name 1"),
    "start": ({"regions": 2, "start": "middle"}, "start must be one of .* got 'middle'"),
    "start unused": ({"regions": 1, "start": "middle"}, "start must be one of .* got 'middle'"),
    "init size": ({"init": ZEROS[:5]}, r"init must have the picture's size \(16, 16\), got \(5, 16\)"),
    "init type": ({"init": ZEROS + 0.5}, "init must be H×W integers, got .* float64"),
    "init negative": ({"init": ZEROS - 1}, "init must give every pixel a region .* got -1"),
    "scribbles size": ({"scribbles": ZEROS[:5]}, r"scribbles must have the picture's size"),
    "scribbles empty": ({"scribbles": ZEROS - 1}, "scribbles mark no pixel"),
    "scribbles gap": ({"scribbles": ZEROS + 1}, r"scribbles must mark every region 0..1; none marks 0"),
    "min_share": ({"regions": 2, "min_share": 2.0}, "min_share must be"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_errors_name_the_argument_and_what_arrived(segmenter, arguments, message):
    with pytest.raises(ValueError, match=message):
        segmenter.segment(np.zeros((16, 16), np.uint8), **arguments)


def forms(image):
    wide = image.astype(np.float64)
    return {
        "16 bits": (257 * image.astype(np.uint16)),
        "float": wide / 255,
        "any float": 1e4 * wide - 3e5,
        "colour": np.stack([image, image // 2, 255 - image], axis=2),
        "2 channels": np.stack([image, image], axis=2),
        "5 channels": np.stack([image] * 5, axis=2),
        "16 channels": np.stack([image] * 16, axis=2).astype(np.float32),
        "tensor": torch.from_numpy(image)[None].float() / 255,
        "PIL": Image.fromarray(image),
    }


@pytest.mark.parametrize("form", forms(halves(8)[0]))
def test_pictures_of_all_kinds_are_segmented(segmenter, form):
    image, truth = halves(48)
    assert_halves(segmenter.segment(forms(image)[form], 2, iterations=0), truth)


@pytest.mark.parametrize("shape", [(33, 47), (20, 64)])
def test_sizes_need_no_multiple_of_the_networks_blocks(segmenter, shape):
    image, truth = halves(64)
    assert_halves(segmenter.segment(image[: shape[0], 8 : 8 + shape[1]], 2), truth[: shape[0], 8 : 8 + shape[1]])


def test_a_file_is_segmented_as_its_array(segmenter, tmp_path):
    image, _ = halves(48)
    Image.fromarray(image).save(tmp_path / "halves.png")
    labels = segmenter.segment(tmp_path / "halves.png", 2, iterations=0).labels
    np.testing.assert_array_equal(labels, segmenter.segment(image, 2, iterations=0).labels)


def test_a_tensor_is_segmented_as_its_array(segmenter):
    image = np.stack([halves(48)[0]] * 3, axis=2)
    image[..., 1] //= 2
    labels = segmenter.segment(torch.from_numpy(image).permute(2, 0, 1), 2, iterations=0).labels
    np.testing.assert_array_equal(labels, segmenter.segment(image, 2, iterations=0).labels)


def test_the_callback_stops_the_run(segmenter):
    image, truth = halves(48)
    seen = []

    def stop(iteration, labels, energy):
        seen.append((iteration, labels.shape, energy))
        return iteration == 1

    result = segmenter.segment(image, init=np.roll(truth, 12, axis=1), callback=stop)
    assert [iteration for iteration, _, _ in seen] == [0, 1]
    assert [energy for _, _, energy in seen] == result.energy
    assert result.iterations == 1
    assert not result.converged


@pytest.mark.parametrize("start", ["own", "init", "large"])
def test_a_number_of_iterations_changes_nothing_else_of_the_models_way(segmenter, monkeypatch, start):
    image, truth = halves(48)
    options = {"init": np.roll(truth, 12, axis=1)} if start == "init" else {"regions": 2}
    usage = segmenter.usage
    if start == "large":
        segmenter = Segmenter(segmenter.net, usage=replace(usage, fine_pixels=1000))
    usual = {"own": usage.near, "init": usage.far, "large": usage.coarse}[start]
    asked = []
    evolve = described.evolve
    monkeypatch.setattr(described, "evolve", lambda *a, **k: asked.append(a[3]) or evolve(*a, **k))
    segmenter.segment(image, iterations=1, **options)
    segmenter.segment(image, **options)
    assert asked == [replace(usual, iterations=1), usual]


def test_iterations_beside_an_evolution_are_refused(segmenter):
    with pytest.raises(ValueError, match="iterations or an evolution"):
        segmenter.segment(halves(16)[0], 2, iterations=3, evolution=EvolutionConfig())
    for wrong in (-1, 2.5):
        with pytest.raises(ValueError, match=f"iterations must be a whole number from 0 on, got {wrong}"):
            segmenter.segment(halves(16)[0], 2, iterations=wrong)


def test_a_run_broken_off_by_its_callback_leaves_the_segmenter_as_it_was(segmenter):
    image, _ = halves(48)
    before = segmenter.segment(image, 2).labels

    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        segmenter.segment(halves(32)[0], 2, callback=interrupt)
    assert segmenter.net.config.resolution == 256
    np.testing.assert_array_equal(segmenter.segment(image, 2).labels, before)


def test_the_image_is_left_as_it_was(segmenter):
    image, _ = halves(48)
    copy = image.copy()
    segmenter.segment(image, 2)
    np.testing.assert_array_equal(image, copy)


def test_descriptors_come_on_request_and_are_those_of_the_final_regions(segmenter):
    image, _ = halves(48)
    assert segmenter.segment(image, 2).descriptors is None
    result = segmenter.segment(image, 2, return_descriptors=True)
    assert result.descriptors.shape == (segmenter.net.config.dimension, 48, 48)
    np.testing.assert_allclose(np.linalg.norm(result.descriptors, axis=0), 1, atol=1e-4)


def test_small_pieces_are_given_away_unless_wanted(segmenter, mosaic):
    start = np.zeros((128, 128), np.int64)
    start[56:68, 56:68] = 1
    still = EvolutionConfig(iterations=0)
    results = [
        segmenter.segment(mosaic.image, init=start, evolution=still, min_share=share).vanished for share in (0.0, 0.02)
    ]
    assert results == [(), (1,)]


def test_one_region_is_the_whole_picture(segmenter):
    image, _ = halves(32)
    result = segmenter.segment(image, 1)
    assert same_partition(result.labels, np.zeros((32, 32), np.int64))
    assert result.vanished == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed must be a whole number from 0 on, got -1"),
        ({"seed": None}, "seed must be a whole number from 0 on, got None"),
        ({"evolution": 5}, "evolution must be an EvolutionConfig, got int"),
        ({"regions": "auto", "scribbles": np.eye(20, dtype=int) - 1}, 'regions is "auto", but the scribbles say'),
    ],
)
def test_odd_options_are_refused_by_their_names(segmenter, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        segmenter.segment(np.eye(20), **{"regions": 2, **options})
