"""The experiments that make tables: which images they train on, what they ask of a method, what they count."""

from dataclasses import replace

import numpy as np
import pytest
from experiment_fakes import Fake, with_fake
from PIL import Image

from shapetailor.baselines import FitSettings
from shapetailor.baselines.method import DescriptorMethod
from shapetailor.datasets import BSDS500, Sample
from shapetailor.datasets.published import read_bsds_truths
from shapetailor.experiments import ablation, brodatz, bsds500, load, multi_region, rwtsd, size
from shapetailor.experiments.context import Context
from shapetailor.experiments.gpb import add_gpb
from shapetailor.experiments.results import Results
from shapetailor.experiments.variants import square, variants
from shapetailor.network.describer import Describer
from shapetailor.network.stdnn import STDNN


@pytest.fixture
def context(tmp_path):
    return Context(None, tmp_path / "out", quick=True, progress=False)


@pytest.fixture
def textures(tmp_path):
    """A folder in RWTSD's layout: eight small pictures of two gray values."""
    root = tmp_path / "rwtsd"
    for folder in ("images", "masks"):
        (root / folder).mkdir(parents=True)
    for number in range(8):
        mask = np.where(np.arange(32) < 10 + number, 0, 255).astype(np.uint8)[None].repeat(32, 0)
        Image.fromarray(np.stack([mask // 2] * 3, axis=2)).save(root / "images" / f"{number}.jpg")
        Image.fromarray(mask).save(root / "masks" / f"{number}.png")
    return root


def test_rwtsd_trains_on_one_half_and_tests_on_the_other(context, textures):
    context, _, fits = with_fake(context)
    results = rwtsd.run(replace(context, data=textures, quick=False))
    assert len(fits[0]) == 4
    assert set(fits[0]) | set(results.images["fake"]) == set("01234567")
    assert not set(fits[0]) & set(results.images["fake"])


def test_rwtsd_follows_a_split_file(context, textures, tmp_path):
    context, _, fits = with_fake(context)
    (tmp_path / "train.txt").write_text("3\n5\n")
    results = rwtsd.run(replace(context, data=textures, quick=False, split=tmp_path / "train.txt"))
    assert fits == [["3", "5"]]
    assert list(results.images["fake"]) == ["0", "1", "2", "4", "6", "7"]


def test_rwtsd_refuses_a_split_file_with_unknown_names(context, textures, tmp_path):
    (tmp_path / "train.txt").write_text("3\n99\n")
    with pytest.raises(ValueError, match="not there: 99"):
        rwtsd.run(replace(context, data=textures, split=tmp_path / "train.txt"))


def test_rwtsd_cross_validation_never_tests_on_training_images(context, textures):
    tested = {}

    class Watching(Fake):
        def segment(self, image, regions, seed=0):
            name = str(np.count_nonzero(image[0, :, 0] < 64) - 10)  # see `textures`
            tested.setdefault(len(fits), []).append(name)
            return super().segment(image, regions)

    context, _, fits = with_fake(context, Watching())
    results = rwtsd.run(replace(context, data=textures, quick=False, folds=3))
    assert len(fits) == 3
    for train, test in zip(fits, tested.values(), strict=True):
        assert sorted(train + test) == list("01234567")
    assert list(results.images["fake"]) == list("01234567")


def test_brodatz_mosaics_share_no_texture(context, tmp_path):
    root = tmp_path / "album"
    root.mkdir()
    for number in range(10):
        Image.fromarray(np.full((64, 64), 20 + 20 * number, np.uint8)).save(root / f"D{number}.png")
    split = brodatz._mosaics(replace(context, data=root))
    train, test = ({int(gray) for each in part for gray in np.unique(each.image)} for part in (split.train, split.test))
    assert train
    assert test
    assert not train & test


def test_multi_region_asks_for_four_and_for_the_true_number(context):
    context, method, _ = with_fake(context)
    results = multi_region.run(context)
    true = [len(np.unique(each.truths[0])) for each in multi_region._split(context).test]
    assert method.asked == [4] * len(true) + true
    assert [row.method for row in results.rows if row.source == "measured"] == ["fake, K=4", "fake, true K"]


def test_bsds_covering_is_pooled_over_annotators(context):
    # Fake's stripes meet in the middle. Image a: three annotators agree with it; image b: one does not.
    middle = np.tile((np.arange(8) >= 4).astype(np.int64), (8, 1))
    rows = middle.T.copy()
    samples = [Sample((50 * middle).astype(np.uint8), (middle,) * 3, "a"), Sample(middle, (rows,), "b")]
    results = Results("", "", ("covering",), "")
    for each in samples:
        context.remember_labels(f"p/{each.name}", lambda: middle)
    results.rows.append(rwtsd.Results("", "", ("covering",), "").add("m", _images(samples, middle)))
    bsds500._pool(context, results, samples, {"m": "p"})
    # Halves across each other have best IoU 1/3: (3·1 + 1/3) / 4, where the images' mean is 2/3.
    assert results.rows[0].values["covering"] == pytest.approx((3 + 1 / 3) / 4)


def _images(samples, labels):
    from shapetailor.evaluate.evaluation import measure

    return {each.name: measure(labels, each.truths) for each in samples}


@pytest.mark.parametrize("smooth", [bsds500.smooth_by_neighbours, bsds500.smooth_by_crf])
def test_bsds_smooths_small_regions_before_the_evolution(smooth):
    if smooth is bsds500.smooth_by_crf:
        pytest.importorskip("pydensecrf", reason="needs pydensecrf2")
    labels = np.zeros((20, 20), np.int64)
    labels[:, 10:] = 5
    image = (50 * labels).astype(np.uint8)
    labels[3, 3] = 2  # a single pixel is below 2 %
    np.testing.assert_array_equal(smooth(labels, image), labels // 5)


@pytest.mark.parametrize(("quick", "size"), [(False, (256, 256)), (True, (30, 50))])
def test_bsds_segments_squares_and_judges_at_the_images_size(context, quick, size):
    seen = []

    class Halves(Fake):
        def segment(self, image, regions, seed=0):
            seen.append((image.shape[:2], regions))
            return super().segment(image, 2)

    image = np.zeros((30, 50, 3), np.uint8)
    segment = bsds500.clusters_then_evolution(replace(context, quick=quick), bsds500.smooth_by_neighbours)
    found = segment(Halves(), Sample(image, (), ""))
    np.testing.assert_array_equal(found, np.tile(np.arange(50) // 25, (30, 1)))
    assert seen == [(size, 8 if quick else 20)]


class Colours(Describer):
    """A describer that keeps count of the pictures it is shown."""

    image_channels, stride = 3, 0

    def __init__(self):
        self.seen = set()

    def rescaled(self, resolution):
        return self

    def prepare(self, image):
        return image

    def __call__(self, image, labels):
        self.seen.add(tuple(image.shape[2:]))
        return image * (labels >= 0)[:, None]


def test_bsds_clusters_and_evolves_descriptors_of_squares(context):
    colours = Colours()
    truth = np.tile((np.arange(48) >= 18).astype(np.int64), (32, 1))
    image = np.repeat(np.where(truth == 1, 200, 40).astype(np.uint8)[..., None], 3, axis=2)
    settings = FitSettings(start="kmeans", evolution=bsds500.EVOLUTION)
    method = DescriptorMethod("colours", 0, lambda channels: colours, settings)
    segment = bsds500.clusters_then_evolution(replace(context, quick=False), bsds500.smooth_by_neighbours, 2)
    found = segment(method, Sample(image, (truth,), ""))
    assert colours.seen == {(256, 256)}
    assert abs((found == truth).mean() - 0.5) == 0.5  # in one order or the other


def test_gpb_has_the_official_figures(context, data_dir):
    """`bench/test_1` of BSDS500 is the official code's output for five images' ucm2 at five thresholds."""
    root = data_dir("bsds500") / "bench"
    samples = _bench_samples(root)
    results = Results("", "", bsds500.REGION, "")
    add_gpb(replace(context, gpb=root / "ucm2"), results, samples)
    values = results.rows[0].values
    cover = np.loadtxt(root / "test_1" / "eval_cover.txt")
    rand_information = np.loadtxt(root / "test_1" / "eval_RI_VOI.txt")
    assert values["covering"] == pytest.approx(cover[1], abs=1e-5)
    assert values["covering_ois"] == pytest.approx(cover[2], abs=1e-5)
    assert values["rand_index"] == pytest.approx(rand_information[1], abs=1e-5)
    assert values["rand_index_ois"] == pytest.approx(rand_information[2], abs=1e-5)
    assert values["variation_of_information"] == pytest.approx(rand_information[4], abs=1e-5)
    assert values["variation_of_information_ois"] == pytest.approx(rand_information[5], abs=1e-5)
    assert values["boundary_f"] == pytest.approx(np.loadtxt(root / "test_1" / "eval_bdry.txt")[3], abs=0.005)


def _bench_samples(root):
    truths = {path.stem: read_bsds_truths(path) for path in sorted((root / "groundTruth").glob("*.mat"))}
    return [Sample(np.zeros(each[0].shape, np.uint8), tuple(each), name) for name, each in truths.items()]


def test_gpb_names_a_missing_map(context, tmp_path):
    sample = Sample(np.zeros((8, 8), np.uint8), (np.zeros((8, 8), np.int64),), "17")
    with pytest.raises(FileNotFoundError, match=r"neither 17\.mat nor 17\.png"):
        add_gpb(replace(context, gpb=tmp_path), Results("", "", (), ""), [sample])


def test_bsds_without_a_test_split_trains_on_train_only(context, data_dir):
    root = data_dir("bsds500")
    split = bsds500._split(replace(context, data=root))
    assert {each.name.split("-")[0] for each in split.train} <= set(BSDS500(root, "train").names)
    assert {each.name for each in split.test} <= set(BSDS500(root, "val").names)
    assert "the test split is not there" in split.words


@pytest.mark.parametrize("turns", range(4))
def test_a_cut_out_of_quarter_turns_is_exact(turns):
    image = np.random.default_rng(0).integers(0, 255, (12, 12))
    found = square(image, (5.5, 5.5), 12, turns * np.pi / 2, 12, order=0)
    assert any(np.array_equal(found, np.rot90(image, k)) for k in (turns, -turns))
    assert turns in (0,) or not np.array_equal(found, image)


def test_cut_outs_turn_image_and_truth_together():
    truth = np.tile((np.arange(60) >= 30).astype(np.int64), (80, 1))
    found = variants([Sample((200 * truth).astype(np.uint8), (truth,), "x")], each=40, size=32, seed=0)
    assert len(found) >= 35
    assert len({each.name for each in found}) == len(found)
    for each in found:
        inside = np.abs(each.image.astype(int) - 100) > 90  # away from the interpolated edge
        agree = (each.image > 100) == each.truths[0]
        assert agree[inside].all()


def test_size_counts_parameters_and_training_images(context, textures):
    context, _, _ = with_fake(context)
    results = size.run(replace(context, data=textures, quick=False))
    assert results.rows[0].values == {"parameters": 7, "training images": 4}


def test_size_counts_no_training_images_where_nothing_is_learnt(context):
    assert size.run(with_fake(context, learns=False)[0]).rows[0].values["training images"] == 0


def test_ablation_has_one_to_five_layers_with_and_without_updates(context, monkeypatch):
    trained, used = [], []

    def train(samples, path, config, **options):
        trained.append(len(config.network.widths))
        return STDNN(replace(config.network, image_channels=3))

    def segment(self, image, regions, seed=0):
        used.append(self.settings.evolution.tailored)
        return Fake().segment(image, regions)

    monkeypatch.setattr(ablation, "train", train)
    monkeypatch.setattr(DescriptorMethod, "segment", segment)
    siamese = DescriptorMethod("Siamese", 1, lambda channels: None, FitSettings())
    context, _, _ = with_fake(context, siamese, name="siamese")
    results = ablation.run(context)
    images = len(results.images["ST-DNN (1), whole image"])
    assert trained == [1, 2, 3, 4, 5]
    assert used == [False] * 6 * images + [True] * 6 * images
    assert {row.method for row in results.rows if row.source == "measured"} == set(ablation.PAPER)


@pytest.mark.parametrize("name", ["rwtsd", "brodatz", "multi-region", "bsds500"])
def test_a_table_is_written_with_its_pictures(name, context):
    context, _, _ = with_fake(context)
    results = load(name).run(context)
    assert results.pictures
    for picture in results.pictures:
        with Image.open(context.out / picture) as drawn:
            assert min(drawn.size) > 100
