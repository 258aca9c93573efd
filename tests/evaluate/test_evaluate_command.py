"""`shapetailor evaluate`: files of every kind, complaints about all that is wrong, what is written."""

from __future__ import annotations

import argparse
import base64
import csv
import io
import json
import re

import numpy as np
import pytest
import tifffile
from PIL import Image
from scipy.io import loadmat, savemat

from shapetailor import metrics
from shapetailor.cli import evaluate as command
from shapetailor.evaluate.evaluation import MEASURES
from shapetailor.evaluate.report import AGREE, DIFFER, IGNORED, Case, case_pictures, histogram
from shapetailor.io import write_labels
from shapetailor.io.label_maps import write_label_tiff

LEFT = np.repeat([[0, 1]], 6, axis=1).repeat(10, axis=0).astype(np.uint8)
TOP = np.repeat([[0], [1]], 5, axis=0).repeat(12, axis=1).astype(np.uint8)


@pytest.fixture
def folders(tmp_path):
    (tmp_path / "pred").mkdir()
    (tmp_path / "truth").mkdir()
    return tmp_path


def save(path, labels):
    Image.fromarray(labels).save(path)


def run(folders, *options):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    arguments = ["--pred", str(folders / "pred"), "--truth", str(folders / "truth"), *map(str, options)]
    return command.run(parser.parse_args(arguments))


def two_images(folders):
    for name, truth in (("good", LEFT), ("poor", TOP)):
        save(folders / "pred" / f"{name}.png", LEFT)
        save(folders / "truth" / f"{name}.png", truth * 255)


def save_annotators(path, *maps):
    cells = np.empty((1, len(maps)), dtype=object)
    for i, labels in enumerate(maps):
        cells[0, i] = {"Segmentation": labels, "Boundaries": metrics.label_boundaries(labels)}
    savemat(path, {"groundTruth": cells})


def test_table_has_every_measure(folders, capsys):
    two_images(folders)
    assert run(folders) == 0
    out = capsys.readouterr().out
    assert all(words in out for words in MEASURES.values())
    mean = (1 + metrics.covering(LEFT, TOP)) / 2
    assert re.search(rf"^covering +{mean:.4f} +{mean:.4f}", out, re.MULTILINE)
    assert "2 images" in out
    assert "poor" not in out


def test_per_image_on_request(folders, capsys):
    two_images(folders)
    run(folders, "--per-image")
    out = capsys.readouterr().out
    assert re.search(r"^good +1\.0000 +1\.0000 +0\.0000", out, re.MULTILINE)
    assert re.search(r"^poor +0\.3333", out, re.MULTILINE)


def test_json_and_csv_hold_the_same_numbers_and_runs_are_identical(folders):
    two_images(folders)
    written = []
    for attempt in ("1", "2"):
        files = [folders / f"{attempt}.{kind}" for kind in ("json", "csv", "html")]
        run(folders, "--json", files[0], "--csv", files[1], "--html", files[2])
        written.append([file.read_bytes() for file in files])
    assert written[0] == written[1]
    report = json.loads(written[0][0])
    rows = list(csv.DictReader(io.StringIO(written[0][1].decode())))
    assert report["count"] == 2
    assert [row["name"] for row in rows] == ["good", "poor"]
    for row, image in zip(rows, report["images"], strict=True):
        assert {m: float(row[m]) for m in MEASURES} == {m: image[m] for m in MEASURES}
    assert report["summary"]["covering"]["mean"] == np.mean([i["covering"] for i in report["images"]])


def test_page_needs_nothing_else_and_shows_the_worst_first(folders):
    two_images(folders)
    run(folders, "--html", folders / "page.html")
    page = (folders / "page.html").read_text()
    sources = re.findall(r'src="([^"]*)"', page)
    assert len(sources) == 6
    for source in sources:
        head, data = source.split(",")
        assert head == "data:image/png;base64"
        assert Image.open(io.BytesIO(base64.b64decode(data))).size == (12, 10)
    assert not re.search(r"https?:|<link|<script", page)
    assert page.index("<h3>poor</h3>") < page.index("<h3>good</h3>")


def test_a_subset_of_the_truth_may_be_predicted(folders, capsys):
    two_images(folders)
    (folders / "pred" / "poor.png").unlink()
    with pytest.raises(ValueError, match=r"missing: .*poor\.png has no prediction .*--subset"):
        run(folders)
    assert run(folders, "--subset") == 0
    assert "1 image" in capsys.readouterr().out


def test_a_long_list_of_problems_is_cut(folders):
    for number in range(100):
        save(folders / "truth" / f"{number}.png", LEFT)
    save(folders / "pred" / "7.png", LEFT)
    with pytest.raises(ValueError, match="missing: and 94 more") as error:
        run(folders)
    assert len(str(error.value).splitlines()) == 7


def test_the_page_shows_pictures_and_histograms(folders):
    two_images(folders)
    (folders / "images").mkdir()
    save(folders / "images" / "poor.jpg", np.full((10, 12, 3), 90, np.uint8))
    run(folders, "--images", folders / "images", "--html", folders / "page.html")
    page = (folders / "page.html").read_text()
    assert len(re.findall(r'src="data:', page)) == 7
    assert page.count("<figcaption>picture</figcaption>") == 1
    assert page.count("<svg") == len(MEASURES)


def test_histograms_count_every_image():
    found = histogram([0.0, 0.26, 0.26, 1.0, 3.0])
    assert (found["low"], found["high"], sum(found["counts"])) == (0.0, 3.0, 5)
    assert max(found["heights"]) == 1
    assert histogram([0.5, np.nan])["high"] == 1.0


def test_names_cannot_break_the_page(folders):
    save(folders / "pred" / "a<b>&.png", LEFT)
    save(folders / "truth" / "a<b>&.png", LEFT)
    run(folders, "--html", folders / "page.html")
    assert "a<b>" not in (folders / "page.html").read_text()


def test_pictures_pair_colours_and_mark_the_difference():
    truth = np.zeros((20, 30), int)
    truth[:, 15:] = 4
    truth[:, 27:] = 255
    prediction = np.full((20, 30), 9)
    prediction[:, 12:] = 3
    ours, theirs, difference = case_pictures(Case("x", prediction, [truth]), ignore=255)
    np.testing.assert_array_equal(ours[5, 5], theirs[5, 5])
    np.testing.assert_array_equal(ours[5, 20], theirs[5, 20])
    assert not np.array_equal(ours[5, 5], ours[5, 20])
    assert tuple(difference[5, 5]) == tuple(difference[5, 20]) == AGREE
    assert tuple(difference[5, 13]) == DIFFER
    assert tuple(difference[5, 29]) == tuple(theirs[5, 29]) == IGNORED


def test_large_maps_are_thinned_out_for_the_page():
    labels = np.zeros((300, 1200), int)
    assert {p.shape for p in case_pictures(Case("x", labels, [labels]))} == {(100, 400, 3)}


def test_label_maps_of_many_formats_are_the_same(folders):
    palette = Image.fromarray(TOP).convert("P")
    palette.putpalette([9, 9, 9, 200, 0, 0])
    colours = np.array([[10, 20, 30], [30, 20, 10]], np.uint8)[TOP]
    for name in ("palette", "deep", "colour", "tiff", "annotated"):
        save(folders / "truth" / f"{name}.png", TOP)
    (folders / "truth" / "annotated.png").unlink()
    save_annotators(folders / "truth" / "annotated.mat", TOP + 1, 5 - TOP)
    palette.save(folders / "pred" / "palette.png")
    save(folders / "pred" / "deep.png", TOP.astype(np.uint16) * 40_000)
    save(folders / "pred" / "colour.png", colours)
    tifffile.imwrite(folders / "pred" / "tiff.tif", TOP.astype(np.int32) - 7)
    save(folders / "pred" / "annotated.png", TOP)
    run(folders, "--csv", folders / "out.csv")
    rows = list(csv.DictReader(io.StringIO((folders / "out.csv").read_text())))
    assert len(rows) == 5
    assert {row["covering"] for row in rows} == {"1.0"}


def test_ignored_label(folders):
    truth = LEFT.copy()
    truth[:, 9:] = 255
    prediction = LEFT.copy()
    prediction[:, 9:] = 4
    save(folders / "pred" / "a.png", prediction)
    save(folders / "truth" / "a.png", truth)
    run(folders, "--ignore", 255, "--json", folders / "out.json", "--html", folders / "out.html")
    assert json.loads((folders / "out.json").read_text())["images"][0]["boundary_f"] == 1.0


def test_overlays_and_other_files_are_no_label_maps(folders):
    two_images(folders)
    save(folders / "pred" / "good.overlay.png", np.dstack([LEFT] * 3))
    (folders / "pred" / "notes.txt").write_text("hello")
    (folders / "truth" / ".hidden.png").write_text("")
    assert run(folders) == 0


def test_exports_of_a_map_beside_it_are_no_further_predictions(folders, capsys):
    two_images(folders)
    outside = np.where(np.arange(12) < 3, -1, LEFT)
    write_labels(folders / "pred" / "good.png", outside)
    write_label_tiff(folders / "pred" / "good.tif", outside)
    write_label_tiff(folders / "pred" / "good.ome.tif", outside, ome=True)
    assert run(folders) == 0
    for folder in ("pred", "truth"):  # a map of its own, of a picture called slide.ome.tif
        save(folders / folder / "slide.ome.png", TOP)
    assert run(folders, "--per-image") == 0
    assert "slide.ome" in capsys.readouterr().out
    write_label_tiff(folders / "pred" / "good.tif", LEFT)
    with pytest.raises(ValueError, match=r"ambiguous: .*good\.tif and .*good\.png"):
        run(folders)


def test_all_that_is_wrong_is_named_and_nothing_is_written(folders):
    two_images(folders)
    save(folders / "pred" / "extra.png", LEFT)
    save(folders / "truth" / "missing.png", LEFT)
    save(folders / "pred" / "small.png", LEFT[:4])
    save_annotators(folders / "truth" / "small.mat", LEFT[:4], LEFT)
    save(folders / "pred" / "broken.png", LEFT)
    (folders / "truth" / "broken.png").write_bytes(b"not a picture")
    save(folders / "pred" / "wrong.png", LEFT)
    savemat(folders / "truth" / "wrong.mat", {"other": 1})
    save(folders / "truth" / "good.tif", LEFT)
    with pytest.raises(ValueError, match="nothing evaluated") as failure:
        run(folders, "--json", folders / "out.json", "--html", folders / "out.html")
    message = str(failure.value)
    for words in (
        "missing: .*missing.png has no prediction",
        "extra: .*extra.png has no truth",
        r"misshapen: .*small.png is 4×12 .* but .*small.mat is 10×12",
        "unreadable: .*broken.png",
        "unreadable: .*wrong.mat",
        "ambiguous: .*good.tif and .*good.png",
    ):
        assert re.search(words, message), words
    assert len(message.splitlines()) == 7
    assert not list(folders.glob("out.*"))


def test_truth_that_is_ignored_everywhere_is_named(folders):
    two_images(folders)
    save(folders / "truth" / "good.png", np.full_like(LEFT, 7))
    with pytest.raises(ValueError, match=r"good\.png is 7 everywhere"):
        run(folders, "--ignore", 7)


def test_missing_and_empty_folders_are_named(folders):
    with pytest.raises(ValueError, match="no label maps in"):
        run(folders)
    with pytest.raises(ValueError, match="nowhere is not a folder"):
        run(folders, "--json", folders / "nowhere" / "out.json")


def test_figures_of_the_official_example(folders, data_dir):
    bench = data_dir("bsds500/bench")
    for path in (bench / "segs").glob("*.mat"):
        save(folders / "pred" / f"{path.stem}.png", loadmat(path)["segs"][0][1].astype(np.uint8))
    (folders / "truth").rmdir()
    (folders / "truth").symlink_to(bench / "groundTruth")
    run(folders, "--json", folders / "out.json")
    summary = json.loads((folders / "out.json").read_text())["summary"]
    _, rand, information = np.loadtxt(bench / "test_4" / "eval_RI_VOI_thr.txt")[1]
    assert summary["rand_index"]["mean"] == pytest.approx(rand, abs=1e-5)
    assert summary["variation_of_information"]["mean"] == pytest.approx(information, abs=1e-5)
