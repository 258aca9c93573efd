"""The socket: strokes are on disk when they are acknowledged, other tabs hear of them, labels follow."""

import json
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_folders import LEFT, LIVE, ORIGIN, RIGHT, named_classes, page, pictures, shown, tab
from PIL import Image
from starlette.websockets import WebSocketDisconnect

from shapetailor import Segmenter, Stroke
from shapetailor.page import live
from shapetailor.page.frames import Frame
from shapetailor.page.hub import Tab as ServerTab
from shapetailor.page.opened import reduced
from shapetailor.page.talk import covers
from shapetailor.segmentation.session import Session
from shapetailor.strokes.files import read_strokes


@pytest.fixture
def folder(tmp_path):
    return named_classes(pictures(tmp_path / "steel"))


@pytest.fixture
def client(folder):
    with page(folder) as opened:
        yield opened


@pytest.fixture
def idle(client, monkeypatch):
    """A page whose engine does nothing."""
    monkeypatch.setattr(client.page.engine, "want", lambda *_: None)
    return client


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://evil.example"}, {**ORIGIN, "Host": "evil.example"}])
def test_a_socket_of_another_origin_is_refused(client, headers):
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(LIVE, headers=headers):
        pass


def test_a_socket_without_the_cookie_is_refused(folder):
    with (
        page(folder, known=False) as client,
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect(LIVE, headers=ORIGIN),
    ):
        pass


def test_a_stroke_is_on_disk_when_it_is_acknowledged(idle, folder):
    with tab(idle) as mine:
        assert mine.draw("p0", LEFT)["type"] == "stored"
        assert read_strokes(folder / "marks" / "p0.json") == [Stroke.from_dict(LEFT)]


def test_undo_and_redo_answer_with_all_strokes(idle):
    with tab(idle) as mine:
        mine.draw("p0", LEFT)
        mine.draw("p0", RIGHT)
        counts = [len(mine.change(kind, "p0")["strokes"]) for kind in ("undo", "undo", "undo", "redo", "clear", "undo")]
    assert counts == [1, 0, 0, 1, 0, 1]


def test_a_stroke_that_is_sent_again_is_stored_once(idle):
    with tab(idle) as mine:
        first = mine.draw("p0", LEFT, id="same")
        assert mine.draw("p0", LEFT, id="same") == first


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"region": 4}, "no class of the value 4"),
        ({"region": 0}, "no class of the value 0"),
        ({"points": [[500, 500]]}, "outside the picture"),
        ({"points": []}, "points"),
        ({"points": [[float("nan"), 1]]}, "finite"),
        ({"radius": -1}, "radius"),
        ({"kind": "spray"}, "kind"),
        ({"more": 1}, "unknown"),
    ],
)
def test_a_stroke_that_teaching_would_refuse_is_refused_in_words(idle, folder, change, words):
    with tab(idle) as mine:
        answer = mine.draw("p0", LEFT | change)
    assert answer["type"] == "refused"
    assert words in answer["error"]
    assert not (folder / "marks" / "p0.json").exists()


def test_a_picture_that_is_marked_by_a_map_is_not_drawn_on(idle, folder):
    (folder / "marks").mkdir()
    Image.new("L", (96, 72), 3).save(folder / "marks" / "p0.png")
    with tab(idle) as mine:
        assert "marked by a picture" in mine.draw("p0", LEFT)["error"]
    assert idle.get("/api/pictures/p0").json()["editable"] is False


@pytest.mark.parametrize("name", ["../p0", "../../steel/p0", "/etc/passwd", "p0\0"])
def test_a_name_that_leads_elsewhere_is_no_picture_whether_a_file_is_there_or_not(idle, folder, name):
    (folder / "marks").mkdir()
    with tab(idle) as mine:
        assert mine.draw(name, LEFT)["error"].startswith("There is no picture called")


def test_another_tab_on_the_same_picture_hears_of_a_stroke(idle):
    with tab(idle) as mine, tab(idle) as other:
        other.say(type="open", picture="p0")
        assert other.until(lambda heard: heard["type"] == "strokes")["strokes"] == []
        mine.draw("p0", LEFT)
        heard = other.until(lambda heard: heard["type"] == "strokes")
    assert [Stroke.from_dict(each) for each in heard["strokes"]] == [Stroke.from_dict(LEFT)]


def test_tabs_hear_of_the_list_whenever_a_picture_begins_or_ceases_to_be_marked(idle):
    with tab(idle) as mine:

        def told(kind, **more):
            """Whether a change is followed by news of the list; the next answer would come after them."""
            mine.change(kind, "p0", **more)
            mine.say(type="nonsense")
            news = mine.until(lambda heard: heard["type"] in ("project", "error"))["type"]
            return news == "project" and mine.until(lambda heard: heard["type"] == "error") is not None

        erased = LEFT | {"region": -1}
        assert not any([told("stroke", stroke=erased), told("stroke", stroke=erased)][1:])
        assert told("stroke", stroke=LEFT)
        assert not told("stroke", stroke=RIGHT)
        assert told("clear")
        assert told("undo")
        assert not told("undo")


def test_strokes_of_two_tabs_at_once_are_all_kept(idle, folder):
    def draw(number):
        with tab(idle) as mine:
            for step in range(8):
                mine.draw("p0", LEFT | {"radius": 1 + number + step / 10})

    threads = [threading.Thread(target=draw, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = [stroke.radius for stroke in read_strokes(folder / "marks" / "p0.json")]
    assert sorted(kept) == sorted(1 + number + step / 10 for number in range(2) for step in range(8))


def test_labels_follow_two_strokes_as_the_engine_gives_them(client, folder):
    with tab(client) as mine:
        mine.say(type="open", picture="p0")
        mine.draw("p0", LEFT)
        mine.until(lambda heard: "second class" in heard.get("text", ""))
        mine.draw("p0", RIGHT)
        preview = mine.until(lambda heard: heard.get("stage") == "preview")
        refined = mine.until(lambda heard: heard.get("stage") == "refined")
        unsure = mine.until(lambda heard: heard["type"] == "uncertainty")
    session = Segmenter.from_pretrained("texture").open(folder / "p0.png")
    for region, stroke in enumerate((LEFT, RIGHT)):
        session.add(stroke | {"region": region})
    assert np.array_equal(shown(preview), np.array([3, 7])[session.result(refine=False).labels])
    assert np.array_equal(shown(refined), np.array([3, 7])[session.result().labels])
    assert shown(unsure).shape == (72, 96)
    assert (refined["revision"], refined["scale"], refined["width"], refined["height"]) == (2, 1, 96, 72)
    assert sum(row["pixels"] for row in refined["table"]) == 72 * 96
    with Image.open(folder / "p0.png") as image:
        assert image.size == (96, 72)
    table = client.get("/api/pictures/p0/table").json()["rows"]
    assert [row["pixels"] for row in table] == [row["pixels"] for row in refined["table"]]
    assert client.get("/api/pictures/p0/labels.png").headers["x-scale"] == "1"
    for kind in ("labels.png", "overlay.png", "uncertainty.png", "table.csv", "geojson", "coco.json", "rois.zip",
                 "ome.tif", "strokes.json"):  # fmt: skip
        answer = client.get(f"/api/pictures/p0/download/{kind}")
        assert answer.status_code == 200
        assert answer.content
        assert "attachment" in answer.headers["content-disposition"]


def test_the_wish_for_a_second_class_goes_before_its_labels_come(client):
    with tab(client) as mine:
        mine.say(type="open", picture="p0")
        mine.draw("p0", LEFT)
        mine.until(lambda heard: "second class" in heard.get("text", ""))
        mine.draw("p0", RIGHT)
        heard = []
        mine.until(lambda news: heard.append(news.get("text")) or news["type"] == "labels")
    assert heard == ["", None]


def test_a_new_tab_sees_the_labels_that_are_known(client):
    with tab(client) as mine:
        mine.say(type="open", picture="p0")
        mine.draw("p0", LEFT)
        mine.draw("p0", RIGHT)
        mine.until(lambda heard: heard.get("stage") == "refined")
        with tab(client) as other:
            other.say(type="open", picture="p0")
            assert other.until(lambda heard: heard["type"] == "labels")["stage"] == "refined"


@pytest.fixture
def halves(folder):
    """p0 has a result: the left is smooth, the right grainy."""
    halves = np.where(np.arange(96) < 40, 3, 7).astype(np.uint8) * np.ones((72, 1), np.uint8)
    (folder / "results").mkdir()
    Image.fromarray(halves).save(folder / "results" / "p0.png")
    return halves


def test_pictures_that_are_only_looked_at_are_not_described(idle, folder, halves, monkeypatch):
    (folder / "marks").mkdir()
    Image.new("L", (96, 72), 3).save(folder / "marks" / "p1.png")
    described = []
    monkeypatch.setattr(idle.page.engine, "want", described.append)
    with tab(idle) as mine:
        for name in ("p0", "p1", "p2"):  # with a result, marked by a map, untouched
            mine.say(type="open", picture=name)
            mine.until(lambda heard: heard["type"] == "strokes")
        mine.draw("p2", LEFT)
        assert described == ["p2", "p2"]
        mine.draw("p0", LEFT)
        mine.say(type="open", picture="p0")  # it has a result and strokes
        mine.draw("p2", RIGHT)
    assert described == ["p2", "p2", "p0", "p0", "p2"]


def test_a_result_is_described_when_a_stroke_begins(client, halves):
    with tab(client) as mine:
        mine.say(type="open", picture="p0")
        mine.say(type="drawing")
        mine.until(lambda heard: heard.get("text") == "Describing the picture…")
        assert mine.until(lambda heard: heard["type"] == "status")["text"] == ""
        mine.draw("p0", LEFT)
        heard = []
        mine.until(lambda news: heard.append(news.get("text")) or news.get("stage") == "refined")
    assert not any(heard)  # it was described already


def test_a_result_stays_unsure_where_the_model_was_and_no_stroke_is(client, folder, halves):
    doubt = np.where(halves == 3, 90, 0).astype(np.uint8)
    Image.fromarray(doubt).save(folder / "results" / "p0.uncertainty.png")
    with tab(client) as mine:
        mine.say(type="open", picture="p0")
        mine.draw("p0", LEFT)  # it agrees with the result
        found = shown(mine.until(lambda heard: heard["type"] == "uncertainty" and heard["stage"] == "refined"))
    drawn = Stroke.from_dict(LEFT).mask((72, 96))
    assert (found[:, :38][~drawn[:, :38]] >= 90).all()
    assert (found[drawn] == 0).all()


def test_a_stroke_mends_an_applied_result_and_leaves_the_rest(client, halves):
    with tab(client) as mine:
        for stroke in (LEFT, RIGHT):
            mine.draw("p0", stroke)
        box = mine.draw("p0", {"region": 7, "kind": "box", "points": [[0, 0], [6, 6]]})
        mine.say(type="open", picture="p0")
        mended = mine.until(lambda heard: heard.get("stage") == "refined" and heard["revision"] == box["revision"])
    mended = shown(mended)
    assert (mended[:7, :7] == 7).all()
    assert (mended == halves).mean() > 0.8


def test_regions_evolve_without_marks_until_they_are_done(client):
    with tab(client) as mine:
        mine.say(type="open", picture="p0")
        mine.say(type="evolve", picture="p0", regions=2)
        frames = [mine.until(lambda heard: heard.get("stage") == "evolving")]
        while not frames[-1]["finished"]:
            frames.append(mine.until(lambda heard: heard.get("stage") == "evolving"))
    assert frames[-1]["regions"] == 2
    assert set(np.unique(shown(frames[-1]))) == {1, 2}
    assert len(frames[-1]["energy"]) > 1


@pytest.mark.parametrize("news", [{"type": "stop"}, {"type": "stroke", "picture": "p0", "id": "1", "stroke": LEFT}])
def test_regions_that_are_given_up_before_they_evolve_are_said_to_be(client, monkeypatch, news):
    with tab(client) as mine:
        engine, busy, go_on = client.page.engine, threading.Event(), threading.Event()
        load = engine._loaded
        monkeypatch.setattr(engine, "_loaded", lambda: busy.set() or (go_on.wait(60) and load()))
        mine.draw("p0", LEFT)
        assert busy.wait(60)
        for kind in ("open", "evolve"):
            mine.say(type=kind, picture="p0")
        mine.say(**news)
        mine.say(type="nonsense")
        heard = []
        mine.until(lambda each: heard.append(each) or each["type"] == "error")  # all was understood
        go_on.set()
        mine.until(lambda each: heard.append(each) or "second class" in each.get("text", ""))
    assert {"type": "stopped", "picture": "p0"} in heard


def test_a_newer_stroke_stops_the_refinement_of_an_older_one(client, monkeypatch):
    calls, engine = [], client.page.engine
    refining = threading.Event()
    true_result = Session.result

    def result(session, refine=True, callback=None, **more):
        calls.append(refine)
        if refine and not refining.is_set():
            refining.set()
            with engine._change:
                assert engine._change.wait_for(lambda: engine._wanted, 10)
            assert callback(0, None, 0.0) is True
        return true_result(session, refine, callback=callback, **more)

    monkeypatch.setattr(Session, "result", result)
    with tab(client) as mine:
        mine.say(type="open", picture="p0")
        mine.draw("p0", LEFT)
        mine.draw("p0", RIGHT)
        assert refining.wait(60)
        mine.draw("p0", LEFT | {"points": [[10, 60]]})
        refined = mine.until(lambda heard: heard.get("stage") == "refined")
    assert refined["revision"] == 3
    assert calls == [False, True, False, True]


def test_a_stroke_that_begins_stops_the_refinement_and_the_next_answer_goes_on(client, monkeypatch):
    monkeypatch.setattr(live, "STROKE", 1.0)
    refined, engine, true_result = [], client.page.engine, Session.result

    def result(session, refine=True, callback=None, **more):
        if refine:
            refined.append(time.monotonic())
            if len(refined) == 1:
                mine.say(type="drawing")
                while not callback(0, None, 0.0):
                    time.sleep(0.01)
        return true_result(session, refine, callback=callback, **more)

    monkeypatch.setattr(Session, "result", result)
    with tab(client) as mine:
        mine.say(type="open", picture="p0")
        mine.draw("p0", LEFT)
        mine.draw("p0", RIGHT)
        assert mine.until(lambda heard: heard.get("stage") == "refined")["revision"] == 2
    assert len(refined) == 2
    assert refined[1] >= engine._hold_until


def test_a_slow_tab_gets_the_newest_frame_only():
    import asyncio

    class Slow:
        def __init__(self):
            self.sent, self.gate = [], asyncio.Event()

        async def send_text(self, text):
            self.sent.append(json.loads(text))

        async def send_bytes(self, content):
            self.sent.append(content)

    async def scene():
        socket = Slow()
        tab = ServerTab(socket)
        sending = asyncio.create_task(tab.send())
        for number in range(5):
            tab.show(Frame({}, (bytes([number]),)))
            tab.say({"n": number})
            await asyncio.sleep(0.01)
        tab.painted()
        await asyncio.sleep(0.01)
        sending.cancel()
        return socket.sent

    sent = asyncio.run(scene())
    assert [each for each in sent if isinstance(each, bytes)] == [b"\x00", b"\x04"]
    assert [each["n"] for each in sent if isinstance(each, dict)] == [0, 1, 2, 3, 4]


def test_strokes_on_a_reduced_picture_lie_where_they_were_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(live, "MOST_PIXELS", 40 * 40)
    wide = np.kron(np.arange(1, 5, dtype=np.uint8).reshape(2, 2), np.ones((300, 300), np.uint8)) * 60
    folder = pictures(tmp_path, 0)
    Image.fromarray(wide).save(folder / "wide.png")
    strokes = [
        {"region": 1, "kind": "brush", "radius": 1, "points": [[10, 10], [250, 10]]},
        {"region": 2, "kind": "box", "points": [[590.4, 590.4], [590.6, 590.6]]},
    ]
    with page(folder) as client, tab(client) as mine:
        mine.say(type="open", picture="wide")
        assert mine.draw("wide", strokes[0])["type"] == "stored"
        assert mine.draw("wide", strokes[1] | {"points": [[580, 580], [599, 599]]})["type"] == "stored"
        found = mine.until(lambda heard: heard.get("stage") == "preview")
        labels = shown(found)
    assert found["scale"] == 2  # one level is all that a picture of two tiles has
    assert labels.shape == (300, 300)
    assert labels[5, 60] == 1
    assert labels[295, 295] == 2
    thin = reduced(Stroke.from_dict(strokes[1]), 3)
    assert thin.mask((75, 75)).sum() == 1


NONSENSE = [
    "",
    "{",
    "[]",
    "null",
    '"x"',
    "{}",
    '{"type": 1}',
    '{"type": "open"}',
    '{"type": "open", "picture": []}',
    '{"type": "open", "picture": "../p0"}',
    '{"type": "stroke", "picture": "p0"}',
    '{"type": "stroke", "picture": "p0", "id": "x"}',
    '{"type": "evolve", "picture": "p0", "regions": -1}',
    "[" * 10**5,
]


def test_hearing_is_not_stopped_by_nonsense(idle):
    with tab(idle) as mine:
        for text in NONSENSE:
            mine.socket.send_text(text)
            heard = mine.hear()
            assert heard["type"] in ("error", "refused"), text
            assert heard.get("text") or heard.get("error")
        mine.socket.send_bytes(b"\x00\x01")
        assert mine.hear()["type"] == "error"
        assert mine.draw("p0", LEFT)["type"] == "stored"


@given(
    kind=st.sampled_from(["brush", "lasso", "box"]),
    points=st.lists(st.tuples(st.floats(-9, 19), st.floats(-9, 14)), min_size=3, max_size=5),
    radius=st.floats(0.1, 6),
)
def test_a_stroke_covers_a_pixel_exactly_if_its_mask_does(kind, points, radius):
    stroke = Stroke(1, points[:2] if kind == "box" else points, radius, kind)
    assert covers(stroke, (6, 10)) == stroke.mask((6, 10)).any()


def test_what_has_no_regions_is_answered_at_once(client):
    with tab(client) as mine:
        mine.draw("p0", LEFT)
        mine.draw("p0", RIGHT)
        mine.draw("p0", {"region": -1, "kind": "box", "points": [[45, 0], [95, 71]]})
    answer = client.get("/api/pictures/p0/download/labels.png")
    assert answer.status_code == 404
    assert "second class" in answer.json()["error"]
    (client.page.workspace.folder / "p1.png").write_bytes(b"no picture any more")
    assert client.get("/api/pictures/p1/table").status_code == 404
