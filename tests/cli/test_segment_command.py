"""`shapetailor segment`: what is written, what is skipped, what is said about bad files; with a stand-in segmenter."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

from shapetailor.cli import segment as command
from shapetailor.io.images import read_image, read_labels, write_image, write_labels
from shapetailor.network import STDNN, STDNNConfig
from shapetailor.segmentation.result import Segmentation
from shapetailor.segmentation.segmenter import Segmenter
from shapetailor.segmentation.usage import Usage
from shapetailor.strokes import Stroke, write_strokes

RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 256, (12, 16, 3), dtype=np.uint8)
HALVES = np.repeat([[0] * 8 + [1] * 8], 12, axis=0)

SMALL = STDNNConfig(features="rich", premix=4, scales=(0.5,), widths=(6, 4), alpha=1.0, head="unit", resolution=128)
TINY = replace(SMALL, stride=4, fine=replace(SMALL, stride=2))


class StandIn:
    """Answers with two halves, and remembers what it was asked."""

    def __init__(self):
        self.calls = []

    def segment(self, source, callback=None, **options):
        self.calls.append(options)
        image = source.whole().values
        if image.max() == 0:
            raise ValueError("image is black")
        labels = np.repeat([[0] * (image.shape[1] // 2) + [1] * (-(-image.shape[1] // 2))], image.shape[0], axis=0)
        for iteration in range(3):
            if callback is not None:
                callback(iteration, labels, 3.0 - iteration)
        vanished = (2,) if options.get("regions") == 3 else ()
        return Segmentation(
            labels=labels,
            image=image,
            energy=[3.0, 2.0],
            iterations=1,
            converged=True,
            vanished=vanished,
            uncertainty=np.zeros(labels.shape, np.float32) if "scribbles" in options else None,
        )


@pytest.fixture
def segmenter(monkeypatch):
    stand_in = StandIn()
    monkeypatch.setattr(command, "load_segmenter", lambda name, device, max_pixels: stand_in)
    return stand_in


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a", "b"):
        write_image(folder / f"{name}.png", PICTURE)
    return folder


def run(*words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([str(word) for word in words]))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_gives_label_maps_and_overlays(segmenter, pictures, tmp_path, capsys):
    assert run(pictures, "--regions", 2, "--out", tmp_path / "new" / "out") == 0
    assert names(tmp_path / "new" / "out") == ["a.overlay.png", "a.png", "b.overlay.png", "b.png"]
    np.testing.assert_array_equal(read_labels(tmp_path / "new" / "out" / "a.png"), HALVES)
    assert read_image(tmp_path / "new" / "out" / "a.overlay.png").shape == (12, 16, 3)
    assert segmenter.calls == [{"seed": 0, "regions": 2}] * 2
    assert capsys.readouterr().out == "2 segmented\n"


@pytest.mark.parametrize("words", [(), ("--statistics", "--seed", 3), ("--regions", "auto")])
def test_a_gpu_writes_the_files_that_a_cpu_writes(monkeypatch, pictures, tmp_path, capsys, words):
    def load(name, device, max_pixels):
        torch.manual_seed(0)
        segmenter = Segmenter(STDNN(TINY), usage=Usage.usual(4, two_networks=True))
        segmenter._planes = device == "cuda"
        return segmenter

    monkeypatch.setattr(command, "load_segmenter", load)
    (pictures / "c.png").write_bytes(b"no picture")
    for device in ("cpu", "cuda"):
        assert run(pictures, "--out", tmp_path / device, "--iterations", 1, "--device", device, *words) == 1
        assert "2 segmented, 1 failed" in capsys.readouterr().out
    assert names(tmp_path / "cpu") == names(tmp_path / "cuda")
    for name in ("a.png", "failures.csv"):
        assert (tmp_path / "cpu" / name).read_bytes() == (tmp_path / "cuda" / name).read_bytes()


def test_all_outputs_on_request(segmenter, pictures, tmp_path):
    out = tmp_path / "out"
    options = ["--animate", "--statistics", "--polygons", "--format", "tiff"]
    assert run(pictures / "a.png", "--out", out, *options) == 0
    assert names(out) == ["a.csv", "a.geojson", "a.gif", "a.overlay.png", "a.tif"]
    np.testing.assert_array_equal(read_labels(out / "a.tif"), HALVES)
    with Image.open(out / "a.gif") as file:
        assert file.n_frames >= 1
    assert len(json.loads((out / "a.geojson").read_text())["features"]) == 2
    assert (out / "a.csv").read_text().count("\n") == 3


def test_options_reach_the_segmenter(segmenter, pictures, tmp_path):
    run(pictures / "a.png", "--out", tmp_path / "out", "--regions", "auto", "--seed", 4, "--iterations", 7)
    assert segmenter.calls == [{"seed": 4, "regions": "auto", "iterations": 7}]
    write_labels(tmp_path / "init.png", HALVES)
    run(pictures / "b.png", "--out", tmp_path / "out", "--init", tmp_path / "init.png", "--iterations", 7)
    assert segmenter.calls[1]["iterations"] == 7


def test_init_and_scribbles_are_read_and_255_is_unmarked(segmenter, pictures, tmp_path):
    marks = np.full((12, 16), 255)
    marks[0, :3] = 0
    marks[5, 9:] = 1
    folder = tmp_path / "inits"
    folder.mkdir()
    for name in ("a", "b"):
        write_labels(folder / f"{name}.png", HALVES)
    write_labels(tmp_path / "marks.png", marks)
    assert (
        run(
            pictures, "--out", tmp_path / "out", "--init", folder, "--scribbles", tmp_path / "marks.png", "--same-marks"
        )
        == 0
    )
    for call in segmenter.calls:
        assert call["regions"] is None
        np.testing.assert_array_equal(call["init"], HALVES)
        np.testing.assert_array_equal(call["scribbles"], np.where(marks == 255, -1, marks))


def test_strokes_are_read_for_each_picture(segmenter, pictures, tmp_path, capsys):
    write_strokes(tmp_path / "a.json", [Stroke(0, [(2, 3)], radius=1), Stroke(1, [(9, 3), (11, 5)], kind="box")])
    (tmp_path / "b.json").write_text("{}")
    assert run(pictures, "--out", tmp_path / "out", "--strokes", tmp_path, "--uncertainty") == 1
    marks = segmenter.calls[0]["scribbles"]
    assert marks[3, 2] == 0
    assert (marks[3:6, 9:12] == 1).all()
    assert "b.json: a stroke file is" in capsys.readouterr().err


def test_one_file_of_marks_for_many_pictures_must_be_asked_for(segmenter, pictures, tmp_path):
    write_strokes(tmp_path / "marks.json", [Stroke(0, [(2, 3)]), Stroke(1, [(14, 3)])])
    words = (pictures, "--out", tmp_path / "out", "--strokes", tmp_path / "marks.json")
    with pytest.raises(ValueError, match=r"one file for 2 pictures.*--same-marks"):
        run(*words)
    assert run(*words, "--same-marks") == 0
    assert len(segmenter.calls) == 2


def test_a_file_of_marks_that_is_not_there_is_named_before_the_work(segmenter, pictures, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"--strokes .*nofile.json: no such file"):
        run(pictures, "--out", tmp_path / "out", "--strokes", tmp_path / "nofile.json")
    assert not segmenter.calls


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--uncertainty",), "give --strokes or --scribbles"),
        (("--strokes", "x.json", "--scribbles", "x.png"), "got both"),
    ],
)
def test_marks_that_make_no_sense_are_refused(segmenter, pictures, tmp_path, words, message):
    with pytest.raises(ValueError, match=message):
        run(pictures, "--out", tmp_path / "out", *words)


def test_a_missing_partner_fails_only_its_image(segmenter, pictures, tmp_path, capsys):
    folder = tmp_path / "inits"
    folder.mkdir()
    write_labels(folder / "b.png", HALVES)
    assert run(pictures, "--out", tmp_path / "out", "--init", folder) == 1
    assert "a.png: expected one file a.png or .tif" in capsys.readouterr().err
    assert (tmp_path / "out" / "b.png").exists()


def test_what_is_done_is_skipped_unless_forced(segmenter, pictures, tmp_path, capsys):
    out = tmp_path / "out"
    run(pictures / "a.png", "--out", out)
    capsys.readouterr()
    run(pictures, "--out", out)
    assert len(segmenter.calls) == 2
    assert capsys.readouterr().out == "1 segmented, 1 done before (--force does them again)\n"
    run(pictures, "--out", out, "--force")
    assert len(segmenter.calls) == 4


def test_what_lacks_an_output_is_done_again(segmenter, pictures, tmp_path):
    out = tmp_path / "out"
    run(pictures, "--out", out)
    (out / "a.png").unlink()
    run(pictures, "--out", out)
    assert len(segmenter.calls) == 3
    run(pictures, "--out", out, "--statistics")
    assert len(segmenter.calls) == 5


def test_nothing_to_do_loads_no_model(segmenter, pictures, tmp_path, monkeypatch):
    run(pictures, "--out", tmp_path / "out")
    monkeypatch.setattr(command, "load_segmenter", None)
    assert run(pictures, "--out", tmp_path / "out") == 0


def test_bad_files_are_named_at_the_end_and_the_rest_is_done(segmenter, pictures, tmp_path, capsys):
    (pictures / "broken.jpg").write_bytes(b"\xff\xd8\xff nonsense")
    write_image(pictures / "black.png", np.zeros((4, 4), np.uint8))
    assert run(pictures, "--out", tmp_path / "out") == 1
    printed = capsys.readouterr()
    assert printed.out == "2 segmented, 2 failed\n"
    assert f"failed: {pictures / 'black.png'}: image is black" in printed.err
    assert f"failed: {pictures / 'broken.jpg'}: " in printed.err
    assert names(tmp_path / "out") == ["a.overlay.png", "a.png", "b.overlay.png", "b.png", "failures.csv"]
    assert f"{pictures / 'black.png'},image is black" in (tmp_path / "out" / "failures.csv").read_text()
    (pictures / "broken.jpg").unlink()
    write_image(pictures / "black.png", PICTURE)
    assert run(pictures, "--out", tmp_path / "out") == 0
    assert "failures.csv" not in names(tmp_path / "out")


def test_vanished_regions_are_said(segmenter, pictures, tmp_path, capsys):
    run(pictures / "a.png", "--out", tmp_path / "out", "--regions", 3)
    assert "a.png: no pixel in region 2" in capsys.readouterr().err


def test_an_interrupted_run_leaves_whole_files_and_is_continued(segmenter, pictures, tmp_path, monkeypatch):
    out = tmp_path / "out"

    def interrupted(self, path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Segmentation, "save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(pictures, "--out", out)
    assert names(out) == ["a.overlay.png"]
    assert run(pictures, "--out", out) == 0
    assert names(out) == ["a.overlay.png", "a.png", "b.overlay.png", "b.png"]


def test_an_interrupted_run_says_what_failed_so_far(segmenter, pictures, tmp_path, capsys, monkeypatch):
    write_image(pictures / "A.png", np.zeros_like(PICTURE))

    def interrupted(self, path):
        raise KeyboardInterrupt

    monkeypatch.setattr(Segmentation, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(pictures, "--out", tmp_path / "out")
    said = capsys.readouterr()
    assert said.out == "0 segmented, 1 failed\n"
    assert "A.png: image is black" in said.err


def test_a_name_too_long_fails_alone_and_again(segmenter, pictures, tmp_path):
    write_image(pictures / f"{'x' * 251}.png", PICTURE)
    for _ in range(2):
        assert run(pictures, "--out", tmp_path / "out") == 1
        assert names(tmp_path / "out") == ["a.overlay.png", "a.png", "b.overlay.png", "b.png", "failures.csv"]


def test_a_folder_that_cannot_be_written_to_is_noticed_before_the_work(segmenter, pictures, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(PermissionError, match="cannot be written to"):
        run(pictures, "--out", tmp_path / "out")
    assert not segmenter.calls


def test_a_page_or_channels_are_chosen(segmenter, tmp_path):
    stack = RNG.integers(1, 256, (5, 12, 16), dtype=np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", stack, photometric="minisblack")
    assert run(tmp_path / "a.tif", "--out", tmp_path / "none") == 1
    assert run(tmp_path / "a.tif", "--page", 3, "--out", tmp_path / "page") == 0
    assert run(tmp_path / "a.tif", "--channels", "0,1,2", "--out", tmp_path / "channels") == 0


def test_a_long_list_of_vanished_regions_is_cut(segmenter, pictures, tmp_path, capsys, monkeypatch):
    plain = StandIn.segment

    def many(self, *args, **options):
        return replace(plain(self, *args, **options), vanished=tuple(range(2, 500)))

    monkeypatch.setattr(StandIn, "segment", many)
    run(pictures / "a.png", "--out", tmp_path / "out")
    assert "no pixel in region 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 488 more" in capsys.readouterr().err


def test_same_stems_are_refused_before_anything_is_done(segmenter, pictures, tmp_path):
    write_image(pictures / "a.bmp", PICTURE)
    with pytest.raises(ValueError, match=r"a\.bmp and .*a\.png would both be written to .*a\.overlay\.png"):
        run(pictures, "--out", tmp_path / "out")
    assert not segmenter.calls
    assert not (tmp_path / "out").exists()


def test_an_input_is_never_overwritten(segmenter, pictures):
    with pytest.raises(ValueError, match="would overwrite a picture"):
        run(pictures / "a.png", "--out", pictures)
    with pytest.raises(ValueError, match="--out must be another folder"):
        run(pictures, "--out", pictures)
    np.testing.assert_array_equal(read_image(pictures / "a.png"), PICTURE)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.png"], "missing.png: no such file or folder"),
        (["EMPTY"], "holds no pictures"),
        (["PICTURES", "--seed", "-1"], "--seed must not be negative"),
        (["PICTURES", "--iterations", "-1"], "--iterations must not be negative"),
        (["PICTURES", "--max-pixels", "0"], "--max-pixels must be at least 1, got 0"),
    ],
)
def test_unusable_arguments_are_named(segmenter, pictures, tmp_path, words, message):
    (tmp_path / "empty").mkdir()
    places = {"EMPTY": tmp_path / "empty", "PICTURES": pictures}
    with pytest.raises((ValueError, OSError), match=message):
        run(*(places.get(word, word) for word in words), "--out", tmp_path / "out")


@pytest.mark.parametrize("text", ["0", "-2", "many", "2.5"])
def test_regions_are_a_number_or_auto(segmenter, pictures, tmp_path, capsys, text):
    with pytest.raises(SystemExit):
        run(pictures, "--out", tmp_path / "out", f"--regions={text}")
    assert 'at least 1, or "auto"' in capsys.readouterr().err


def test_the_size_of_the_work_reaches_the_segmenter():
    assert command.load_segmenter("texture", "cpu", 900).max_pixels == 900
    assert command.load_segmenter("texture", "cpu", None).max_pixels == 400**2


def test_a_file_beside_the_pictures_that_is_no_result_is_kept(segmenter, pictures):
    write_image(pictures / "b.jpg", PICTURE)
    write_image(pictures / "b.png", PICTURE)
    with pytest.raises(ValueError, match=r"b\.png is there already and is no result of this command"):
        run(pictures / "b.jpg", "--out", pictures)
    np.testing.assert_array_equal(read_image(pictures / "b.png"), PICTURE)
    assert run(pictures / "b.jpg", "--out", pictures, "--force") == 0
    assert run(pictures / "b.jpg", "--out", pictures, "--statistics") == 0  # now it is one


@pytest.mark.parametrize("name", ["a.png", "b.csv", "a.ome.zarr", "failures.csv"])
def test_a_file_in_another_folder_that_is_no_result_is_kept(segmenter, pictures, tmp_path, name):
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_bytes(b"mine")
    words = (pictures, "--out", out, "--statistics", "--export", "ome-zarr")
    with pytest.raises(ValueError, match=rf"{name} is there already and is no .*--force"):
        run(*words)
    assert names(out) == [name]
    assert (out / name).read_bytes() == b"mine"
    assert not segmenter.calls


def test_a_map_without_its_overlay_is_nobodys_to_overwrite(segmenter, pictures, tmp_path):
    out = tmp_path / "out"
    run(pictures, "--out", out)
    (out / "a.overlay.png").unlink()
    with pytest.raises(ValueError, match=r"a\.png is there already and is no result"):
        run(pictures, "--out", out)
    assert run(pictures, "--out", out, "--force") == 0


def test_a_folder_of_results_is_gone_on_with_in_other_formats(segmenter, pictures, tmp_path):
    out = tmp_path / "out"
    (pictures / "broken.png").write_bytes(b"no picture")
    assert run(pictures, "--out", out) == 1
    (out / "b.png").unlink()  # as a killed run leaves it
    assert run(pictures, "--out", out, "--format", "tiff", "--statistics") == 1
    assert run(pictures, "--out", out) == 1
    assert {"a.png", "a.tif", "a.csv", "b.png", "b.tif", "failures.csv"} <= set(names(out))


def test_statistics_are_not_written_to_the_list_of_failures(segmenter, tmp_path):
    write_image(tmp_path / "failures.png", PICTURE)
    with pytest.raises(ValueError, match=r"failures\.csv, which lists failures"):
        run(tmp_path / "failures.png", "--out", tmp_path / "out", "--statistics")
    assert run(tmp_path / "failures.png", "--out", tmp_path / "out") == 0


def test_names_that_are_no_text_are_reported_byte_for_byte(segmenter, tmp_path):
    (tmp_path / os.fsdecode(b"\xff.png")).write_bytes(b"no picture")
    assert run(tmp_path / os.fsdecode(b"\xff.png"), "--out", tmp_path / "out") == 1
    assert b"\xff.png" in (tmp_path / "out" / "failures.csv").read_bytes()


def test_a_place_that_takes_no_files_is_named(segmenter, pictures, monkeypatch):
    system = pytest.importorskip("fsspec").filesystem("memory")
    monkeypatch.setattr(type(system), "put", lambda *_, **__: 1 / 0)
    with pytest.raises(ValueError, match=r"memory://out: cannot be written to \(ZeroDivisionError"):
        run(pictures, "--out", "memory://out")
