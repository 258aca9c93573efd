"""The page in a real browser: drawing, classes, several tabs, large pictures, small windows, keys alone."""

import json

import numpy as np
import pytest
from browser_tab import BrowserTab, Served, chromium
from class_pictures import SHAPE, picture
from page_folders import named_classes, pictures
from PIL import Image

#: Sides of the large picture.
LARGE = 10_000
#: Inside the smooth class (3) and the grainy one (7).
LEFT, RIGHT = [(12, 12), (20, 50)], [(70, 12), (80, 50)]


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def served(tmp_path_factory, browser):
    folder = pictures(tmp_path_factory.mktemp("pages") / "steel", count=22)
    tile = np.tile(picture(0)[0][:64, :64], (LARGE // 64 + 1, LARGE // 64 + 1))[:LARGE, :LARGE]
    Image.fromarray(tile).save(folder / "large.png", compress_level=1)
    deep = picture(1)[0].astype(np.uint16) * 20 + 1000
    Image.fromarray(deep).save(folder / "deep.png")
    (folder / "results").mkdir()  # p12 has a result, as "apply" writes it
    Image.fromarray(np.where(np.arange(SHAPE[1]) < 88, 3, np.full(SHAPE, 7)).astype(np.uint8)).save(
        folder / "results/p12.png"
    )
    Image.fromarray(np.zeros(SHAPE, np.uint8)).save(folder / "results/p12.uncertainty.png")
    server = Served(named_classes(folder), tmp_path_factory.mktemp("state"))
    yield server
    server.kill()


@pytest.fixture
def open_tab(browser, served):
    """Open tabs; afterwards none of them has complained, of blocked scripts and styles neither."""
    opened = []

    def open_one(name, width=1280, height=720, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        opened.append(BrowserTab(context, served, name))
        return opened[-1]

    yield open_one
    for tab in opened:
        tab.context.close()
    assert [error for tab in opened for error in tab.errors] == []


def mark(tab):
    """Draw a stroke of each class."""
    tab.keys("1")
    tab.draw(*LEFT)
    tab.keys("2")
    tab.draw(*RIGHT)


def test_two_strokes_become_labels_of_their_classes(open_tab, served):
    tab = open_tab("p0")
    mark(tab)
    values = tab.refined()
    assert values.shape == SHAPE
    assert (values[:, :30] == 3).mean() > 0.95
    assert (values[:, 60:] == 7).mean() > 0.95
    np.testing.assert_array_equal(values, tab.served_values())
    assert [stroke["region"] for stroke in served.strokes("p0")] == [3, 7]
    share = tab.page.locator('#areas tr[data-value="7"] .share').inner_text()
    assert share == f"{100 * (values == 7).mean():.1f} %"


def test_undo_and_redo_change_the_file_and_the_labels(open_tab, served):
    tab = open_tab("p1")
    mark(tab)
    before = tab.refined()
    tab.draw((24, 60), (34, 60))  # grainy, where it was smooth
    assert (tab.refined() != before).any()
    tab.keys("Control+z")
    np.testing.assert_array_equal(tab.refined(), before)
    assert len(served.strokes("p1")) == 2
    tab.keys("Control+Shift+z")
    tab.stored()
    assert len(served.strokes("p1")) == 3


def test_a_stroke_mends_a_result_and_without_it_the_result_is_shown_again(open_tab):
    tab = open_tab("p12")
    tab.until("painted?.stage === 'applied'")
    result = tab.values()
    np.testing.assert_array_equal(result, tab.served_values("applied"))
    tab.keys("2")
    tab.draw(*RIGHT)
    assert (tab.refined()[12:50, 70:80] == 7).any()
    tab.keys("Control+z")
    tab.until("painted?.stage === 'applied'")
    np.testing.assert_array_equal(tab.values(), result)


def test_a_result_stays_on_view_until_the_mended_one_is_there(open_tab):
    tab = open_tab("p12")
    tab.until("painted?.stage === 'applied'")
    watch = """() => {
        window.stages = new Set();
        const look = () => { stages.add(shapetailor.labels()?.stage ?? "nothing"); requestAnimationFrame(look); };
        look();
    }"""
    tab.page.evaluate(watch)
    tab.keys("2")
    tab.draw(*RIGHT)
    tab.refined()
    assert tab.page.locator("#guide").inner_text().startswith("Draw where it is wrong")  # one class is enough
    tab.keys("Control+z")
    tab.until("painted?.stage === 'applied'")
    assert set(tab.get("[...stages]")) <= {"applied", "preview", "refined"}
    tab.draw(*RIGHT)
    tab.keys("Control+z")  # perhaps before it is mended
    tab.stored()
    assert "nothing" not in tab.get("[...stages]")


def test_each_tool_makes_its_kind_of_stroke(open_tab, served):
    tab = open_tab("p2")
    tab.keys("1", "l")
    tab.draw((10, 10), (30, 12), (20, 30))
    tab.keys("r")
    tab.draw((50, 10), (60, 20))
    tab.keys("e", "]")
    tab.draw((10, 10))
    tab.stored()
    drawn = served.strokes("p2")
    assert [(stroke["kind"], stroke["region"]) for stroke in drawn] == [("lasso", 3), ("box", 3), ("brush", -1)]
    assert np.allclose(drawn[1]["points"], [[50, 10], [60, 20]], atol=0.5)
    assert drawn[2]["radius"] == tab.get("state.radius")


def press_at(tab, *points):
    """Begin a stroke and leave the button down."""
    places = [tab.on_screen(*point) for point in points]
    tab.page.mouse.move(*places[0])
    tab.page.mouse.down()
    for place in places[1:]:
        tab.page.mouse.move(*place, steps=4)


def test_undo_in_the_middle_of_a_stroke_forgets_that_stroke_only(open_tab, served):
    tab = open_tab("p13")
    tab.keys("1")
    tab.draw(*LEFT)
    tab.stored()
    press_at(tab, *RIGHT)
    tab.keys("Control+z")
    tab.page.mouse.up()
    tab.stored()
    assert np.allclose([served.strokes("p13")[0]["points"][0]], [LEFT[0]], atol=1)
    assert len(served.strokes("p13")) == 1
    assert tab.page.locator("#redo").is_disabled()


def test_a_stroke_does_not_land_on_the_picture_that_is_opened_meanwhile(open_tab, served):
    tab = open_tab("p14")
    press_at(tab, *LEFT)
    tab.keys("n")
    tab.until("state.picture.name !== 'p14'")
    tab.page.mouse.up()
    tab.stored()
    assert tab.get("state.strokes.length") == 0
    assert served.strokes("p14") == []


def test_a_stroke_goes_on_where_it_was_when_the_window_changes_its_size(open_tab, served):
    tab = open_tab("p15")
    press_at(tab, *LEFT)
    tab.page.set_viewport_size({"width": 900, "height": 1000})
    tab.page.wait_for_function("() => document.getElementById('pen').width !== 828")
    tab.page.mouse.move(*tab.on_screen(*RIGHT[1]))
    tab.page.mouse.up()
    tab.stored()
    points = served.strokes("p15")[0]["points"]
    np.testing.assert_allclose([points[0], points[-1]], [LEFT[0], RIGHT[1]], atol=1)


def test_a_very_long_stroke_goes_on_as_another(open_tab, served):
    tab = open_tab("p15")
    before = len(served.strokes("p15"))
    script = """([x, y]) => {
        const pen = document.getElementById("pen");
        const where = (x, y) => ({clientX: x, clientY: y, pointerId: 1, buttons: 1, bubbles: true});
        const at = (kind, x, y) => pen.dispatchEvent(new PointerEvent(kind, where(x, y)));
        at("pointerdown", x, y);
        for (let k = 0; k < 20050; k += 1) at("pointermove", x + 100 * (k % 2), y + (k % 37));
        at("pointerup", x, y);
    }"""
    tab.page.evaluate(script, tab.on_screen(20, 20))
    tab.stored()
    drawn = served.strokes("p15")[before:]
    assert [len(each["points"]) > 40 for each in drawn] == [True, True]
    np.testing.assert_allclose(drawn[0]["points"][-1], drawn[1]["points"][0])


def test_a_picture_that_is_removed_while_it_is_open_is_named(open_tab, served):
    path = served.folder / "p16.png"
    content = path.read_bytes()
    tab = open_tab("p16")
    path.unlink()
    tab.page.locator("#low").fill("20")  # other tiles are needed
    tab.page.locator(".toast.error").get_by_text("p16.png is gone from the folder").wait_for()
    path.write_bytes(content)
    tab.errors.clear()  # the browser itself notes the refusals


def test_a_picture_that_ends_too_early_has_its_badge_before_it_is_opened_and_none_once_it_is_mended(open_tab, served):
    path = served.folder / "p16.png"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    tab = open_tab("p15")
    thumb = tab.page.locator('.thumb[data-name="p16"]')
    thumb.locator(".badge.failed").wait_for(state="attached")
    assert thumb.locator("img").is_hidden()
    tab.keys("n")
    tab.until("state.picture.name === 'p17'")
    path.write_bytes(content)
    tab.page.evaluate("import('/static/opening.js').then(({refreshProject}) => refreshProject())")
    tab.until("!state.unreadable.size")
    tab.keys("p")
    tab.until("state.picture.name === 'p16'")
    tab.errors.clear()  # the browser itself notes the refusals


def test_why_a_file_cannot_be_had_is_said_in_words(open_tab):
    tab = open_tab("p12")
    tab.until("painted?.stage === 'applied'")
    words = "ImageJ regions need roifile"
    tab.page.route("**/download/rois.zip*", lambda route: route.fulfill(status=422, json={"error": words}))
    tab.page.click("#downloads summary")
    tab.page.get_by_role("link", name="Regions for ImageJ ZIP", exact=True).click()
    tab.page.locator(".toast.error").get_by_text(words).wait_for()
    tab.errors.clear()  # the browser itself notes the refusal


def test_found_regions_can_be_put_away(open_tab):
    tab = open_tab("p17")
    mark(tab)
    before = tab.refined()
    tab.page.select_option("#region-count", "2")
    tab.page.click("#find")
    tab.until("painted?.stage === 'evolving' && !state.evolving")
    tab.page.locator("#guide").get_by_text("These regions are only to look at.").wait_for(state="attached")
    tab.page.click("#find-hide")
    tab.until("painted?.stage === 'refined'")
    np.testing.assert_array_equal(tab.values(), before)


def test_a_picture_s_name_does_not_hide_how_many_are_done(open_tab):
    tab = open_tab("p0")
    job = {"kind": "teach", "state": "running", "done": 1, "total": 4, "curve": [], "failures": []}
    for text, told in (("Looking at p4.png", "Looking at p4.png (1 of 4)"), ("1 of 4 pictures", "1 of 4 pictures")):
        tab.page.evaluate("job => import('/static/jobs.js').then(({takeJob}) => takeJob(job))", job | {"text": text})
        assert tab.page.locator("#job-text").inner_text() == told


def test_the_page_says_what_to_do_next(open_tab):
    tab = open_tab("p18")
    guide = tab.page.locator("#guide")
    guide.get_by_text("Choose a class").wait_for()
    tab.keys("1")
    tab.draw(*LEFT)
    guide.get_by_text("Now choose another class").wait_for()
    tab.keys("2")
    tab.draw(*RIGHT)
    guide.get_by_text("Draw where it is wrong").wait_for()
    third = {"value": 9, "name": "coarse", "color": "#000000"}
    tab.page.evaluate("third => { const {state} = shapetailor; state.project.classes.push(third); }", third)
    tab.draw((14, 12), (18, 12))
    guide.get_by_text("If coarse is in this picture, draw it too.").wait_for()


def test_a_button_that_was_clicked_does_not_keep_the_space_bar_from_moving_the_picture(open_tab):
    tab = open_tab("p20")
    tab.keys("1")
    tab.draw(*LEFT)
    tab.stored()
    tab.page.click("#zoom-in")
    place = tab.on_screen(*LEFT[0])
    tab.page.keyboard.down(" ")
    tab.draw(*RIGHT)
    tab.page.keyboard.up(" ")
    tab.stored()
    assert tab.get("state.strokes.length") == 1
    assert tab.on_screen(*LEFT[0]) != place
    tab.page.locator("#undo").focus()
    tab.keys(" ")  # without a pointer the bar presses the button
    tab.until("state.strokes.length === 0")


def test_zoom_stays_after_a_stroke(open_tab):
    tab = open_tab("p3")
    tab.page.mouse.move(*tab.on_screen(30, 30))
    tab.page.mouse.wheel(0, -400)
    view = tab.get("({...shapetailor.view})")
    tab.draw((28, 28), (34, 34))
    tab.stored()
    assert tab.get("({...shapetailor.view})") == view


def test_what_is_said_of_the_place_under_the_pointer_goes_with_the_labels(open_tab):
    tab = open_tab("p19")
    mark(tab)
    tab.refined()
    tab.page.locator("#place").get_by_text("· grainy").wait_for()
    tab.keys("Control+z")
    tab.until("!shapetailor.labels()")
    assert "·" not in tab.page.locator("#place").inner_text()


def test_the_wheel_zooms_towards_the_pointer(open_tab):
    tab = open_tab("p3")
    before, scale = tab.on_screen(30, 30), tab.get("shapetailor.view.scale")
    tab.page.mouse.move(*before)
    tab.page.mouse.wheel(0, -400)
    tab.until(f"shapetailor.view.scale > {scale}")
    np.testing.assert_allclose(tab.on_screen(30, 30), before, atol=1)  # wheel events have whole pixels


def test_a_new_class_has_a_key_and_is_stored(open_tab, served):
    tab = open_tab("p4")
    tab.keys("c")
    tab.page.fill("#class-name", "scale bar")
    tab.page.check("#class-ignored")
    tab.page.click("#class-dialog button[value=keep]")
    tab.until("state.project.classes.length === 3")
    tab.keys("1", "3")
    tab.draw((5, 5), (9, 9))
    tab.stored()
    added = json.loads((served.folder / "classes.json").read_text())["classes"][0]
    assert (added["value"], added["name"], added["ignored"]) == (1, "scale bar", True)
    assert served.strokes("p4")[0]["region"] == 7  # keys follow the list, which is in the order of values
    tab.keys("Control+z", "Escape")
    tab.stored()
    tab.page.click('[aria-label="Edit scale bar"]')
    tab.page.click("#class-remove")
    tab.until("state.project.classes.length === 2")


def test_a_class_in_use_is_not_removed_and_the_page_says_so(open_tab):
    tab = open_tab("p0")
    tab.draw((5, 5), (9, 9))
    tab.stored()
    tab.page.click('[aria-label="Edit smooth"]')
    tab.page.click("#class-remove")
    tab.page.locator("#class-error:not(:empty)").wait_for()
    assert tab.get("state.project.classes.length") == 2
    tab.page.fill("#class-name", " ")
    tab.keys("Enter")
    tab.page.locator("#class-error").get_by_text("Give the class a name.").wait_for()
    tab.page.fill("#class-name", "grainy")
    tab.keys("Enter")
    tab.page.locator("#class-error").get_by_text("grainy comes twice").wait_for()
    assert tab.page.input_value("#class-name") == "grainy"  # the dialog stays, with what was typed
    tab.errors.clear()  # the browser itself notes the refusals


def test_strokes_are_there_after_a_reload(open_tab):
    tab = open_tab("p5")
    mark(tab)
    tab.stored()
    tab.page.reload()
    tab.ready()
    assert tab.get("state.picture.name") == "p5"
    assert tab.get("state.strokes.length") == 2
    assert set(np.unique(tab.refined())) == {3, 7}


def test_two_tabs_see_each_others_strokes(open_tab):
    first, second = open_tab("p6"), open_tab("p6")
    mark(first)
    second.until("state.strokes.length === 2")
    second.keys("2")
    second.draw((60, 60), (70, 66))
    first.until("state.strokes.length === 3")
    np.testing.assert_array_equal(first.refined(), second.refined())
    first.keys("Control+z")
    second.until("state.strokes.length === 2")


def test_a_slow_client_ends_with_the_newest_labels(open_tab):
    tab = open_tab("p7")
    network = tab.context.new_cdp_session(tab.page)
    network.send("Network.enable")
    slow = {"offline": False, "latency": 300, "downloadThroughput": 20_000, "uploadThroughput": 20_000}
    network.send("Network.emulateNetworkConditions", slow)
    mark(tab)
    for row in (20, 30, 40, 50):
        tab.draw((66, row), (72, row + 3))
    values = tab.refined()
    assert tab.get("state.strokes.length") == 6
    np.testing.assert_array_equal(values, tab.served_values())


def test_a_picture_of_a_hundred_megapixels_opens_and_pans_in_tiles(open_tab):
    tab = open_tab("p8")
    asked = []
    tab.page.on("request", lambda request: asked.append(request.url) if "/tiles/" in request.url else None)
    tab.page.click('.thumb[data-name="large"]')
    tab.until("state.picture.name === 'large'")
    with tab.page.expect_response(lambda answer: "/large/tiles/0/" in answer.url):
        for _ in range(7):
            tab.page.mouse.move(*tab.on_screen(5000, 5000))
            tab.page.mouse.wheel(0, -240)
    with tab.page.expect_response(lambda answer: "/large/tiles/0/" in answer.url):
        tab.keys("v")
        start = tab.on_screen(5000, 5000)
        tab.page.mouse.move(*start)
        tab.page.mouse.down()
        tab.page.mouse.move(start[0] - 600, start[1], steps=10)
        tab.page.mouse.up()
    tab.page.wait_for_load_state("networkidle")
    assert 4 < len(asked) < 150
    widest = "Math.max(...[...document.querySelectorAll('canvas')].map(each => each.width * each.height))"
    assert tab.page.evaluate(widest) <= 1280 * 720


def test_brightness_of_16_bits_asks_for_other_tiles(open_tab):
    tab = open_tab("deep")
    assert tab.get("state.picture.dtype") == "uint16"
    with tab.page.expect_request(lambda request: "low=2000" in request.url):
        tab.page.locator("#low").fill("2000")


@pytest.mark.parametrize(("width", "height"), [(360, 640), (480, 900), (820, 1180), (1024, 768), (1280, 720)])
def test_no_window_is_too_narrow(open_tab, width, height):
    tab = open_tab("p0", width, height)
    assert tab.page.evaluate("document.documentElement.scrollWidth") == width
    viewer = tab.page.locator("#viewer").bounding_box()
    assert viewer["height"] > 250
    assert viewer["width"] > width / 2
    beyond = """[...document.querySelectorAll("#toolbar button")].filter((each) =>
        each.getBoundingClientRect().right > document.getElementById("toolbar").getBoundingClientRect().right)"""
    assert tab.page.evaluate(f"{beyond}.map((each) => each.id)") == []


def test_the_keyboard_alone_marks_two_classes(open_tab, served):
    tab = open_tab("p9")
    tab.keys("1", "k", *["ArrowLeft"] * 16, "Enter", *["ArrowUp"] * 4, "Enter")
    tab.keys("2", *["ArrowRight"] * 34, "Enter", *["ArrowDown"] * 6, "Enter")
    values = tab.refined()
    assert [stroke["region"] for stroke in served.strokes("p9")] == [3, 7]
    assert {3, 7} == set(np.unique(values))
    tab.keys("p")
    tab.until("state.picture.name !== 'p9'")


def test_the_cursor_of_the_keys_draws_whatever_tool_was_chosen(open_tab, served):
    tab = open_tab("p21")
    tab.keys("1", "v", "k", "Enter", "ArrowDown", "Enter")
    tab.stored()
    assert [stroke["kind"] for stroke in served.strokes("p21")] == ["brush"]


def test_a_mouse_that_is_touched_does_not_disturb_a_stroke_by_keys(open_tab, served):
    tab = open_tab("p18")
    before = len(served.strokes("p18"))
    tab.keys("1", "k", "Enter", "ArrowDown")
    tab.page.mouse.move(*tab.on_screen(12, 12), steps=4)
    tab.page.mouse.click(*tab.on_screen(14, 14))
    tab.keys("ArrowDown", "Enter")
    tab.stored()
    (drawn,) = served.strokes("p18")[before:]
    assert len({x for x, _ in drawn["points"]}) == 1
    assert tab.page.locator("#place").inner_text().startswith("{:.0f}, {:.0f}".format(*drawn["points"][-1]))
    assert "Arrow keys" in tab.page.locator("#status-text").inner_text()
    tab.page.mouse.move(*tab.on_screen(20, 20), steps=4)
    assert tab.page.locator("#status-text").inner_text() == ""  # the pointer draws again


def test_nothing_jumps_when_a_picture_with_a_result_opens(open_tab):
    tab = open_tab("p12")
    tab.until("painted?.stage === 'applied'")
    shifts = """() => new Promise((tell) => {
        const watch = new PerformanceObserver((list) => tell(list.getEntries().map((each) => each.value)));
        watch.observe({ type: "layout-shift", buffered: true });
        setTimeout(() => tell([]), 500);
    })"""
    assert sum(tab.page.evaluate(shifts)) < 0.001


def test_the_strip_is_one_stop_of_the_tab_key_and_arrows_walk_in_it(open_tab):
    tab = open_tab("p0")
    tab.page.locator('.thumb[tabindex="0"]').focus()
    assert tab.page.locator('.thumb[tabindex="0"]').count() == 1
    tab.keys("ArrowDown", "ArrowDown", "ArrowUp", "Enter")
    tab.until("state.picture.name === document.activeElement.dataset.name")
    assert tab.get("state.picture.name") == "p1"
    tab.keys("Tab")
    assert not tab.page.evaluate("document.activeElement.matches('.thumb')")


FOCUS = "document.activeElement.ariaLabel ?? document.activeElement.textContent"


def test_the_focus_stays_where_it_is_when_lists_are_made_anew(open_tab):
    tab = open_tab("p21")
    tab.page.locator("#class-list .class").last.focus()
    tab.keys("Enter")
    tab.until("state.classValue === 7")
    assert "grainy" in tab.page.evaluate(FOCUS)
    tab.keys("Tab", "Enter")
    tab.page.fill("#class-name", "coarse")
    tab.keys("Enter")
    tab.until("state.project.classes[1].name === 'coarse' && !document.querySelector('dialog[open]')")
    assert tab.page.evaluate(FOCUS) == "Edit coarse"
    tab.keys("Enter")
    tab.page.fill("#class-name", "grainy")
    tab.keys("Enter")
    tab.until("state.project.classes[1].name === 'grainy' && !document.querySelector('dialog[open]')")
    refresh = "import('/static/opening.js').then(({refreshProject}) => refreshProject())"
    tab.keys("Enter")
    tab.page.evaluate(refresh)
    tab.keys("Escape")
    tab.page.wait_for_function(f"() => ({FOCUS}) === 'Edit grainy'")
    tab.page.locator("#downloads summary").focus()
    tab.keys("Enter", "Tab")
    focused = tab.page.evaluate(FOCUS)
    tab.page.evaluate(refresh)
    assert tab.page.evaluate(FOCUS) == focused != ""
    tab.keys("Escape")
    assert tab.page.locator("#downloads").get_attribute("open") is None


def test_fingers_draw_alone_and_zoom_in_pairs(open_tab, served):
    tab = open_tab("p10", has_touch=True)
    touch = tab.context.new_cdp_session(tab.page)

    def fingers(kind, *points):
        places = [tab.on_screen(*point) for point in points]
        spots = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(places)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": spots})

    fingers("touchStart", (10, 10))
    fingers("touchMove", (20, 20))
    fingers("touchEnd")
    tab.stored()
    assert len(served.strokes("p10")) == 1
    scale = tab.get("shapetailor.view.scale")
    fingers("touchStart", (40, 30))
    fingers("touchStart", (40, 30), (50, 30))
    fingers("touchMove", (30, 30), (60, 30))
    fingers("touchEnd")
    assert tab.get("shapetailor.view.scale") > 1.5 * scale
    tab.stored()
    assert len(served.strokes("p10")) == 1


def test_regions_evolve_without_strokes_until_stopped(open_tab):
    tab = open_tab("p11")
    tab.page.select_option("#region-count", "2")
    tab.page.click("#find")
    tab.until("painted?.stage === 'evolving' && !state.evolving")
    assert set(np.unique(tab.values())) == {1, 2}
    assert tab.page.locator("#find").inner_text() == "Find regions"


def test_everything_that_can_be_pressed_has_a_name(open_tab):
    tab = open_tab("p0")
    nameless = """[...document.querySelectorAll("button, input, select, summary, a, canvas[tabindex]")].filter(each =>
        !(each.textContent.trim() || each.getAttribute("aria-label") || each.labels?.length || each.hidden))"""
    assert tab.page.evaluate(f"{nameless}.map(each => each.outerHTML)") == []


def test_an_added_picture_opens_and_a_bad_one_is_refused_in_words(open_tab, tmp_path):
    tab = open_tab("p0")
    Image.fromarray(picture(20)[0]).save(tmp_path / "fresh.png")
    (tmp_path / "no-picture.png").write_bytes(b"not a picture at all")
    tab.page.set_input_files("#file-input", [tmp_path / "no-picture.png", tmp_path / "fresh.png"])
    tab.until("state.picture.name === 'fresh'")
    assert "no-picture.png" in tab.page.locator(".toast.error p").inner_text()
    assert tab.page.locator('.thumb[data-name="fresh"]').count() == 1
    tab.errors.clear()  # the browser itself notes the refusal
