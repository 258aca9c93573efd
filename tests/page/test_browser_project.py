"""The page in a real browser, with a server for each test: teaching and applying, and a server that is killed."""

import json
import shutil
from io import BytesIO
from zipfile import ZipFile

import numpy as np
import pytest
from browser_tab import BrowserTab, Served, chromium
from page_folders import named_classes, pictures
from PIL import Image
from safetensors.numpy import save_file

from shapetailor.classes.batch import file_digest
from shapetailor.cli import main


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def served(tmp_path, browser):
    server = Served(named_classes(pictures(tmp_path / "steel", count=2)), tmp_path / "state")
    yield server
    server.kill()


@pytest.fixture
def tab(browser, served):
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    yield BrowserTab(context, served, "p0")
    context.close()


def mark(tab):
    tab.keys("1")
    tab.draw((12, 12), (20, 50))
    tab.keys("2")
    tab.draw((70, 12), (80, 50))


def all_downloads(tab):
    """What every entry of the menu gives: name → bytes, an archive's as a mapping of its own."""
    found = {}
    for link in tab.page.locator("#downloads a").all():
        tab.page.locator("#downloads:not([open]) summary").click()
        with tab.page.expect_download() as started:
            link.click()
        content = started.value.path().read_bytes()
        name = started.value.suggested_filename
        assert name not in found
        found[name] = unpacked(content) if name.endswith(".zip") and "rois" not in name else content
    return found


def unpacked(content):
    with ZipFile(BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(folder, *names):
    return {name: (folder / name).read_bytes() for name in names}


def test_every_file_that_the_page_gives_is_the_command_line_s(tab, served, tmp_path):
    mark(tab)
    tab.stored()
    copy = tmp_path / "copy"
    shutil.copytree(served.folder, copy)
    for button, kind in (("#teach", "teach"), ("#apply", "apply")):
        tab.page.locator(f"{button}:not([disabled])").click()
        tab.until(f"state.job?.kind === '{kind}' && state.job.state === 'done'")
    assert main(["teach", str(copy)]) == 0
    assert main(["apply", str(copy)]) == 0
    tab.until("painted?.stage === 'applied'")
    assert (tab.values() == tab.served_values("applied")).all()

    results = copy / "results"
    plain = sorted(path.name for path in results.iterdir())
    expected = written(results, "p0.png", "p0.overlay.png", "p0.uncertainty.png", "table.csv", "summary.csv")
    expected |= written(copy, "model.safetensors") | {"p0.json": (copy / "marks" / "p0.json").read_bytes()}
    expected["results.zip"] = written(results, *plain)
    files = ["classes.json", "pictures.txt", "model.safetensors", "marks/p0.json"]
    expected["project.zip"] = written(copy, *files, *(f"results/{name}" for name in plain))
    rows = expected["table.csv"].splitlines(keepends=True)
    expected["p0.table.csv"] = b"".join(rows[:1] + [row for row in rows if row.startswith(b"p0.png,")])
    assert main(["apply", str(copy), "--force", "--export", "geojson", "coco", "imagej", "ome-tiff"]) == 0
    for archive, ending in (
        ("geojson.zip", ".geojson"),
        ("coco.zip", ".coco.json"),
        ("imagej.zip", ".rois.zip"),
        ("ome-tiff.zip", ".ome.tif"),
    ):
        expected |= written(results, f"p0{ending}")
        expected[archive] = written(results, f"p0{ending}", f"p1{ending}")

    found = all_downloads(tab)
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []
    assert [each["state"] for each in tab.get("state.project.pictures")] == ["applied", "applied"]
    assert tab.errors == []


def taught_once(folder):
    """A result of a former model, and a model that was taught from it; fine-tuning did not help."""
    (folder / "results").mkdir()
    Image.new("L", (96, 72), 3).save(folder / "results" / "p1.png")
    Image.new("L", (96, 72)).save(folder / "results" / "p1.uncertainty.png")
    record = {"pictures": ["p1.png"], "fine_tune": {"held_out": ["p1.png"], "helped": False}}
    save_file(
        {"x": np.zeros(1)}, folder / "model.safetensors", {"shapetailor": json.dumps({"classes": [], "record": record})}
    )


def test_the_page_says_that_a_result_is_a_former_model_s_and_that_fine_tuning_did_not_help(tab, served):
    taught_once(served.folder)
    tab.keys("1")
    tab.draw((12, 12), (20, 50))
    tab.page.locator("#job-text").get_by_text("Taught from 1 picture (fine-tuning did not help)").wait_for()
    tab.keys("n")
    tab.page.locator("#guide").get_by_text("This result is a former model's.").wait_for()


def test_after_applying_was_cancelled_the_next_step_is_to_go_on(tab, served):
    taught_once(served.folder)
    done = {"options": {"model": file_digest(served.folder / "model.safetensors")}, "done": {"p1": "its digest"}}
    (served.folder / "results" / "apply.json").write_text(json.dumps(done))
    mark(tab)
    tab.page.locator("#job-text").get_by_text("1 of 2 have its results. Apply goes on with the rest.").wait_for()
    tab.page.locator("#apply.accent").wait_for()
    tab.page.locator("#guide").get_by_text("Apply goes on with the rest of the pictures.").wait_for()


def test_with_more_pictures_marked_than_taught_the_next_step_is_to_teach_and_not_to_apply(tab, served):
    taught_once(served.folder)
    mark(tab)
    tab.page.locator("#apply.accent").wait_for()
    tab.page.locator("#guide").get_by_text("Apply the model").wait_for()
    tab.keys("n")
    tab.until("state.picture.name === 'p1'")
    mark(tab)
    tab.page.locator("#job-text").get_by_text("2 are marked now. Teach again.").wait_for()
    tab.page.locator("#teach.accent").wait_for()
    tab.page.locator("#guide").get_by_text("or teach.").wait_for()


def test_the_password_is_asked_for_and_opens_the_page(browser, tmp_path, monkeypatch):
    monkeypatch.setenv("SHAPETAILOR_PASSWORD", "correct horse")
    server = Served(pictures(tmp_path / "steel", count=1), tmp_path / "state", "--password")
    try:
        page = browser.new_page()
        page.goto(server.link.split("?")[0])
        for password, then in (("wrong", ".wrong"), ("correct horse", '.thumb[data-name="p0"]')):
            page.fill("input", password)
            page.keyboard.press("Enter")
            page.locator(then).wait_for()
    finally:
        server.kill()


def test_the_link_may_be_followed_from_another_site(browser, served):
    page = browser.new_page()
    page.route("http://elsewhere.example/", lambda route: route.fulfill(body=f'<a href="{served.link}">link</a>'))
    page.goto("http://elsewhere.example/")
    page.click("a")
    page.locator('.thumb[data-name="p0"]').wait_for()


def test_a_folder_that_cannot_be_shown_says_why_for_as_long_as_it_cannot(browser, served):
    path = served.folder / "classes.json"
    content = path.read_text()
    path.write_text(content[:-9])
    page = browser.new_page()
    page.goto(served.link)
    page.locator("#trouble-words").get_by_text("Mend the file, or remove it to name the classes anew.").wait_for()
    assert page.locator("#toasts").inner_text() == ""
    path.write_text(content)
    page.click("#try-again")
    page.locator('.thumb[data-name="p0"]').wait_for()
    assert page.locator("#trouble").is_hidden()


def test_a_model_that_is_gone_is_no_longer_offered(tab, served):
    taught_once(served.folder)
    mark(tab)
    tab.page.locator("#apply:not([disabled])").wait_for()
    (served.folder / "model.safetensors").write_bytes(b"nonsense")
    tab.page.evaluate("import('/static/opening.js').then(({refreshProject}) => refreshProject())")
    tab.page.locator("#job-text").get_by_text("The model's file cannot be read. Teach again.").wait_for()
    (served.folder / "model.safetensors").unlink()
    tab.page.click("#apply")
    tab.page.locator(".toast.error").get_by_text("There is no model yet").wait_for()
    tab.page.locator("#apply[disabled]").wait_for()
    tab.page.locator("#job-text").get_by_text("Teach a model, then apply it").wait_for()


DROP = """([kind, files]) => {
    const data = new DataTransfer();
    for (const [name, bytes] of files) data.items.add(new File([new Uint8Array(bytes)], name));
    document.body.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


def test_pictures_dropped_into_an_empty_window_open_before_all_have_come(browser, tmp_path):
    dropped = [[path.name, list(path.read_bytes())] for path in sorted(pictures(tmp_path / "there", 2).iterdir())]
    (tmp_path / "empty").mkdir()
    server = Served(tmp_path / "empty", tmp_path / "state")
    try:
        tab = BrowserTab(browser.new_context(), server, "")
        assert tab.page.locator("#empty").is_visible()
        assert tab.page.locator("#low").is_disabled()
        late = []
        tab.page.route("**/api/pictures?file=p1.png", lambda route: late.append(route))
        tab.page.evaluate(DROP, ["dragover", dropped])
        assert tab.page.locator("#drop-veil").is_visible()
        assert not tab.page.locator("#empty").is_visible()  # its words would show through
        tab.page.evaluate(DROP, ["drop", dropped])
        tab.until("state.picture?.name === 'p0'")
        assert tab.page.locator("#low").is_enabled()
        while not late:
            tab.page.wait_for_timeout(20)
        late[0].continue_()
        tab.until("state.project.pictures.length === 2")
        assert tab.get("state.picture.name") == "p0"
        assert {path.name for path in (server.folder / "pictures").iterdir()} == {"p0.png", "p1.png"}
        assert tab.errors == []
    finally:
        server.kill()


def test_what_is_drawn_while_the_server_is_dead_arrives_when_it_is_back(tab, served):
    tab.keys("1")
    tab.draw((12, 12), (20, 50))
    tab.stored()
    served.kill()
    tab.until("!state.connected")
    assert tab.page.locator("#connection").is_visible()
    tab.keys("2")
    tab.draw((70, 12), (80, 50))
    assert tab.get("state.pending.length") == 1
    served.start()
    tab.until("state.connected")
    tab.refined()
    assert [stroke["region"] for stroke in served.strokes("p0")] == [3, 7]


def test_what_was_drawn_on_one_folder_never_gets_into_another_that_is_served_next(tab, served, tmp_path):
    served.kill()
    tab.until("!state.connected")
    tab.keys("1")
    tab.draw((12, 12), (20, 50))
    assert tab.get("state.pending.length") == 1
    served.folder = named_classes(pictures(tmp_path / "other", count=2))
    served.start()
    tab.page.wait_for_function("() => window.shapetailor?.state.project?.name === 'other'")
    tab.ready()
    assert tab.get("state.pending.length + state.strokes.length") == 0
    assert served.strokes("p0") == []
    assert not (served.folder / "marks").exists()
