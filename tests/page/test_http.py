"""Pages, pictures and files over HTTP: who is let in, what is refused and in which words."""

import json
import re
import zlib
from io import BytesIO

import numpy as np
import pytest
from page_folders import HOST, PORT, TOKEN, named_classes, page, pictures
from PIL import Image

from shapetailor.page import uploads
from shapetailor.page.guard import hosts_of, is_loopback


@pytest.fixture
def client(tmp_path):
    with page(pictures(tmp_path / "folder")) as opened:
        yield opened


@pytest.fixture
def stranger(tmp_path):
    with page(pictures(tmp_path / "folder"), known=False, password="correct horse") as opened:
        opened.follow_redirects = False
        yield opened


PATHS = ["/", "/static/main.js", "/api/project", "/api/pictures/p0", "/api/pictures/p0/thumb.jpg", "/nothing"]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_shown_without_the_cookie(stranger, path):
    assert stranger.get(path).status_code == 403
    stranger.cookies.set(f"shapetailor-{PORT}", "wrong")
    assert stranger.get(path).status_code == 403


def test_whoever_is_not_let_in_sees_a_page_in_the_page_s_colours(stranger):
    answer = stranger.get("/")
    assert 'type="password"' in answer.text
    for path in re.findall(r'href="([^"]+)"', answer.text):
        assert stranger.get(path).status_code == 200


def test_the_link_gives_a_cookie_that_scripts_do_not_get_nor_what_other_sites_embed(stranger):
    answer = stranger.get(f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert re.search(r"HttpOnly.*SameSite=lax", answer.headers["set-cookie"])
    assert stranger.get("/api/project").status_code == 200


def test_the_cookie_is_found_beside_those_of_other_programs(stranger):
    stranger.get(f"/?token={TOKEN}")
    ours = stranger.cookies[f"shapetailor-{PORT}"]
    stranger.cookies.clear()
    header = {"Cookie": f'_xsrf={{"a": 1}}; odd name="x,y"; shapetailor-{PORT}={ours}; other=[1]'}
    assert stranger.get("/api/project", headers=header).status_code == 200


def test_a_wrong_token_is_refused_in_words(stranger):
    answer = stranger.get("/?token=wrong")
    assert answer.status_code == 403
    assert "shapetailor serve" in answer.text
    assert "set-cookie" not in answer.headers


def test_the_password_lets_in_and_a_wrong_one_does_not(stranger, monkeypatch):
    monkeypatch.setattr("shapetailor.page.guard.WRONG", 0)
    assert stranger.post("/login", data={"password": "wrong"}).status_code == 403
    assert stranger.get("/api/project").status_code == 403
    assert stranger.post("/login", data={"password": "wröng →"}).status_code == 403
    assert stranger.post("/login", content=b"\xff" * 5000).status_code == 403
    assert stranger.post("/login", data={"password": "correct horse"}).status_code == 303
    assert stranger.get("/api/project").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", f"{HOST}:1", "", f"a@{HOST}:{PORT}", "[::1"])
def test_a_request_for_another_host_is_refused(client, host):
    assert client.get("/api/project", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", f"https://{HOST}:{PORT}", f"http://{HOST}:1", "null"])
def test_a_request_of_another_origin_is_refused(client, origin):
    assert client.get("/api/project", headers={"Origin": origin}).status_code == 403
    assert client.delete("/api/jobs", headers={"Origin": origin}).status_code == 403


def test_what_another_site_embeds_is_refused(client):
    assert client.get("/api/pictures/p0/thumb.jpg", headers={"Sec-Fetch-Site": "same-site"}).status_code == 403
    assert client.get("/api/pictures/p0/thumb.jpg", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_a_server_that_listens_everywhere_takes_addresses_but_no_unknown_names():
    everywhere = hosts_of("0.0.0.0", PORT)
    assert everywhere(f"192.168.1.5:{PORT}")
    assert everywhere(f"localhost:{PORT}")
    assert not everywhere(f"rebound.example:{PORT}")
    assert not hosts_of(HOST, PORT)(f"192.168.1.5:{PORT}")
    assert [is_loopback(each) for each in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")] == [True] * 3 + [
        False
    ] * 2


@pytest.mark.parametrize("path", [*PATHS, "/?token=wrong"])
def test_every_answer_forbids_inline_scripts_sniffing_and_referrers_elsewhere(client, path):
    headers = client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/api/pictures/..%2f..%2fetc%2fpasswd/thumb.jpg",
        "/api/pictures/%2e%2e/thumb.jpg",
        "/api/pictures/p0%00/thumb.jpg",
        "/api/pictures/p0/download/..%2f..%2fclasses.json",
        "/api/download/..%2fmodel.safetensors",
        "/api/download/%2fetc%2fpasswd",
    ],
)
def test_names_never_become_paths(client, path):
    answer = client.get(path)
    assert answer.status_code in (404, 405)
    assert "root:" not in answer.text


def test_the_project_lists_its_pictures_and_usual_classes(client):
    found = client.get("/api/project").json()
    assert found["kind"] == "folder"
    assert [each["name"] for each in found["pictures"]] == ["p0", "p1", "p2"]
    assert [(each["value"], each["name"]) for each in found["classes"]] == [(1, "class 1"), (2, "class 2")]
    assert (found["pictures"][0]["width"], found["pictures"][0]["height"]) == (96, 72)


def test_a_picture_says_its_size_levels_and_range(client):
    found = client.get("/api/pictures/p0").json()
    assert {key: found[key] for key in ("width", "height", "channels", "levels", "tile", "dtype")} == {
        "width": 96,
        "height": 72,
        "channels": 1,
        "levels": 1,
        "tile": 512,
        "dtype": "uint8",
    }
    assert (found["range"], found["strokes"], found["revision"], found["editable"]) == ([0, 255], [], 0, True)


def test_a_tile_is_the_picture(client):
    with Image.open(BytesIO(client.get("/api/pictures/p0/tiles/0/0_0.jpg").content)) as tile:
        assert tile.size == (96, 72)
    assert client.get("/api/pictures/p0/tiles/0/5_5.jpg").status_code == 404
    assert client.get("/api/pictures/p0/tiles/0/0_0.jpg?low=nan&high=1").status_code == 400


def test_classes_are_replaced_and_bad_ones_refused_in_words(client):
    wanted = [{"value": 1, "name": "rock", "color": ""}, {"value": 9, "name": "soil", "color": "#ff0000"}]
    answer = client.put("/api/classes", json={"classes": wanted})
    assert answer.status_code == 200
    assert [(each["value"], each["name"]) for each in answer.json()["classes"]] == [(1, "rock"), (9, "soil")]
    for bad in ([], [1, 2], [{"value": 0, "name": "x"}] * 2, "x", None):
        refused = client.put("/api/classes", json={"classes": bad})
        assert refused.status_code == 400
        assert refused.json()["error"]


def png(width=20, height=10):
    content = BytesIO()
    Image.new("L", (width, height)).save(content, "PNG")
    return content.getvalue()


def test_a_dropped_picture_is_in_the_project(client):
    assert client.post("/api/pictures?file=new.png", content=png()).json() == {"name": "new"}
    assert client.get("/api/pictures/new").json()["width"] == 20
    assert client.post("/api/pictures?file=new.jpg", content=png()).status_code == 409


def test_pictures_can_be_dropped_where_there_is_no_folder_yet(tmp_path):
    with page(tmp_path / "none") as client:
        assert client.get("/api/project").json()["kind"] == "empty"
        assert client.post("/api/pictures?file=new.png", content=png()).status_code == 200
        assert [each["name"] for each in client.get("/api/project").json()["pictures"]] == ["new"]


def test_an_upload_that_is_too_large_or_no_picture_leaves_nothing(client, monkeypatch):
    monkeypatch.setattr(uploads, "MOST_BYTES", 5000)
    folder = client.page.workspace.folder
    before = sorted(path.name for path in folder.iterdir() if path.name != ".page.lock")
    noise = np.random.default_rng(0).bytes(6000)
    bomb = bytearray(png())
    bomb[16:24] = (100_000).to_bytes(4) * 2  # the header claims 10,000 megapixels
    bomb[29:33] = zlib.crc32(bomb[12:29]).to_bytes(4)
    for status, content, headers in (
        (413, noise, {}),
        (413, (noise[:3000] for _ in range(2)), {}),
        (413, b"x", {"Content-Length": "999999999999"}),
        (413, bytes(bomb), {}),
        (415, b"no picture", {}),
        (415, png()[:40], {}),
        (415, b"", {}),
    ):
        answer = client.post("/api/pictures?file=big.png", content=content, headers=headers)
        assert (answer.status_code, bool(answer.json()["error"])) == (status, True)
    assert sorted(path.name for path in folder.iterdir() if path.name != ".page.lock") == before


def test_a_picture_that_cannot_be_read_is_answered_in_words(client):
    (client.page.workspace.folder / "bad.png").write_bytes(b"no picture")
    for path in ("/api/pictures/bad", "/api/pictures/bad/thumb.jpg", "/api/pictures/bad/tiles/0/0_0.jpg"):
        answer = client.get(path)
        assert answer.status_code == 422
        assert "bad.png" in answer.json()["error"]


def test_results_that_are_not_there_yet_are_answered_in_words(client):
    for path in (
        "/api/pictures/p0/labels.png",
        "/api/pictures/p0/labels.png?source=applied",
        "/api/pictures/p0/table",
        "/api/pictures/p0/metrics",
        "/api/pictures/p0/download/geojson",
        "/api/pictures/p0/download/strokes.json",
        "/api/download/model.safetensors",
        "/api/download/results.zip",
        "/api/download/nonsense",
    ):
        answer = client.get(path)
        assert (answer.status_code, bool(answer.json()["error"])) == (404, True), path
    assert client.get("/api/pictures/p0/labels.png?source=x").status_code == 400
    assert client.post("/api/jobs", json={"kind": "teach"}).status_code == 409
    assert client.post("/api/jobs", json={"kind": "apply"}).status_code == 409
    assert client.delete("/api/jobs").status_code == 409


def test_a_truth_is_compared_with_what_was_applied(tmp_path):
    folder = named_classes(pictures(tmp_path))
    truth = np.where(np.arange(96) < 40, 3, 7).astype(np.uint8) * np.ones((72, 1), np.uint8)
    found = truth.copy()
    found[:, 40:44] = 3
    for name, content in (("truth", truth), ("results", found)):
        (folder / name).mkdir()
        Image.fromarray(content).save(folder / name / "p0.png")
    with page(folder) as client:
        judged = client.get("/api/pictures/p0/metrics?source=applied").json()
        rows = client.get("/api/pictures/p0/table?source=applied").json()["rows"]
    assert judged["accuracy"] == pytest.approx(92 / 96)
    assert judged["iou"] == {"smooth": pytest.approx(40 / 44), "grainy": pytest.approx(52 / 56)}
    assert [(row["class"], row["pixels"]) for row in rows] == [("smooth", 44 * 72), ("grainy", 52 * 72)]


def test_what_is_sent_as_json_must_be_an_object(client):
    for content in (b"", b"[]", b"nonsense", b"\xff\xfe", b"[" * 100_000, json.dumps({"kind": "x"}).encode()):
        answer = client.post("/api/jobs", content=content)
        assert answer.status_code in (400, 409)
        assert answer.json()["error"]
    assert client.post("/api/jobs", content=b" " * (2**20 + 1)).status_code == 413
