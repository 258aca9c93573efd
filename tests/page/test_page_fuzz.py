"""Anything may be sent to the server: it answers in words, keeps no bad stroke, and logs no traceback."""

import json
import logging
from io import BytesIO

import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from page_folders import LEFT, LIVE, ORIGIN, URL, Tab, named_classes, page, pictures
from PIL import Image

from shapetailor.page.downloads import ARCHIVES, KINDS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
KEYS = st.sampled_from(["type", "picture", "id", "stroke", "regions", "revision", "stage"])
WORDS = st.sampled_from(
    ["open", "stroke", "undo", "redo", "clear", "evolve", "stop", "painted", "p0", "p9", "../p0", ""]
)
NUMBERS = st.floats() | st.integers(-100, 200)
POINTS = st.lists(st.lists(NUMBERS, min_size=1, max_size=3), max_size=5)
STROKES = st.fixed_dictionaries(
    {
        "region": st.sampled_from([3, 7, -1]),
        "kind": st.sampled_from(["brush", "brush", "lasso", "box", "x"]),
        "points": st.lists(st.lists(st.integers(0, 70), min_size=2, max_size=2), min_size=2, max_size=4) | POINTS,
        "radius": st.integers(1, 9) | st.floats(),
    },
) | st.fixed_dictionaries(
    {},
    optional={
        "region": st.integers(-3, 300) | JSON,
        "kind": st.sampled_from(["brush", "lasso", "box", "x"]) | JSON,
        "radius": st.floats() | JSON,
        "points": POINTS | JSON,
    },
)
#: Of the kind that the page sends, most of them wrong somewhere.
LIKELY = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["stroke", "stroke", "undo", "redo", "clear", "open", "evolve", "drawing", "stop"]),
        "picture": st.sampled_from(["p0", "p0", "p1", "p9", "../p0"]),
        "id": st.text(min_size=1, max_size=8),
        "stroke": STROKES,
    },
    optional={"regions": st.integers(-1, 40) | JSON},
)
WILD = st.dictionaries(KEYS, WORDS | STROKES | JSON, max_size=7)
SAID = LIKELY.map(json.dumps)
CUT = st.tuples(SAID, st.integers(0, 200)).map(lambda both: both[0][: both[1]])
NONSENSE = WILD.map(json.dumps) | CUT | st.text(max_size=50)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A project in which p0 has a result and a truth, and whose engine does nothing."""
    folder = named_classes(pictures(tmp_path_factory.mktemp("fuzz")))
    halves = np.where(np.arange(96) < 40, 3, 7).astype(np.uint8) * np.ones((72, 1), np.uint8)
    for name in ("results/p0.png", "results/p0.overlay.png", "results/p0.uncertainty.png", "truth/p0.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        Image.fromarray(halves).save(folder / name)
    for name in ("model.safetensors", "results/table.csv", "results/summary.csv"):
        (folder / name).write_bytes(b"whatever")
    with page(folder) as client:
        client.page.engine.want = lambda *_: None
        yield client


@given(
    likely=st.lists(SAID, min_size=4, max_size=12),
    nonsense=st.lists(NONSENSE, max_size=4),
    binary=st.binary(max_size=50),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_socket_says_it_is_answered_and_the_next_stroke_is_stored(served, caplog, likely, nonsense, binary):
    with served.websocket_connect(LIVE, headers=ORIGIN) as socket:
        mine = Tab(socket)
        for text in [*likely, *nonsense]:
            socket.send_text(text)
        socket.send_bytes(binary)
        assert mine.draw("p0", LEFT)["type"] == "stored"
        mine.change("clear", "p0")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


WHOLE = [*ARCHIVES, "results.zip", "project.zip", "model.safetensors", "table.csv", "summary.csv"]
ODD = ["", "..", "no", "%2e%2e", "p0\u0000"]


def _path(name, schema):
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _one_of(name, *known):
    return _path(name, {"enum": [*known, "none", "..", "%2e%2e"]})


NAME = _path("name", {"enum": ["p0", "p1", *ODD[1:]]})
SOURCE = {"name": "source", "in": "query", "schema": {"anyOf": [{"enum": ["applied", "live"]}, {"type": "string"}]}}


def _get(*parameters):
    return {"get": {"parameters": list(parameters), "responses": {"default": {"description": "any"}}}}


def _sent(method, schema, *parameters, media="application/json"):
    body = {"required": True, "content": {media: {"schema": schema}}}
    return {
        method: {"parameters": list(parameters), "requestBody": body, "responses": {"default": {"description": "any"}}}
    }


CLASS = {
    "type": "object",
    "required": ["value", "name", "color"],
    "properties": {
        "value": {"type": "integer", "minimum": 0, "maximum": 255},
        "name": {"type": "string"},
        "color": {"type": "string", "pattern": "^#[0-9a-f]{6}$"},
    },
}
CLASSES = {"type": "array", "items": CLASS, "minItems": 1, "maxItems": 4}
FILE = {
    "name": "file",
    "in": "query",
    "schema": {"anyOf": [{"enum": ["a.png", "../b.png", "/c.png"]}, {"type": "string"}]},
}
API = {
    "openapi": "3.1.0",
    "info": {"title": "page", "version": "1"},
    "servers": [{"url": URL}],
    "paths": {
        "/api/project": _get(),
        "/api/classes": _sent("put", {"type": "object", "required": ["classes"], "properties": {"classes": CLASSES}}),
        "/api/pictures": _sent("post", {"type": "string", "format": "binary"}, FILE, media="application/octet-stream"),
        "/api/jobs": _sent("post", {"type": "object", "properties": {"kind": {"enum": ["teach", "apply", "none"]}}}),
        "/api/pictures/{name}": _get(NAME),
        "/api/pictures/{name}/thumb.jpg": _get(NAME),
        "/api/pictures/{name}/tiles/{level}/{x}_{y}.jpg": _get(
            NAME,
            *(_path(each, {"type": "integer", "minimum": 0, "maximum": 1}) for each in ("level", "x", "y")),
            {"name": "low", "in": "query", "schema": {"type": "number"}},
            {"name": "high", "in": "query", "schema": {"type": "number"}},
        ),
        "/api/pictures/{name}/labels.png": _get(NAME, SOURCE),
        "/api/pictures/{name}/uncertainty.png": _get(NAME, SOURCE),
        "/api/pictures/{name}/table": _get(NAME, SOURCE),
        "/api/pictures/{name}/metrics": _get(NAME, SOURCE),
        "/api/pictures/{name}/download/{kind}": _get(NAME, _one_of("kind", *KINDS), SOURCE),
        "/api/download/{kind}": _get(_one_of("kind", *WHOLE)),
    },
}


async def _nothing(*_):
    """Start no job."""


schema = schemathesis.openapi.from_dict(API)


@pytest.mark.parametrize(
    "path",
    [
        "/api/project",
        "/api/pictures/p0",
        "/api/pictures/p0/thumb.jpg",
        "/api/pictures/p0/tiles/0/0_0.jpg?low=0&high=9",
        *(f"/api/pictures/p0/{kind}?source=applied" for kind in ("labels.png", "uncertainty.png", "table", "metrics")),
        *(f"/api/pictures/p0/download/{kind}?source=applied" for kind in KINDS if kind != "strokes.json"),
        *(f"/api/download/{kind}" for kind in WHOLE),
    ],
)
def test_what_is_asked_wildly_below_is_answered_when_it_is_asked_well(served, path):
    served.put("/api/classes", json={"classes": [{"value": 3, "name": "a"}, {"value": 7, "name": "b"}]})
    assert served.get(path).status_code == 200


@schema.parametrize()
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
def test_whatever_is_asked_over_http_is_answered_without_a_mistake_of_ours(case, served, caplog, monkeypatch):
    monkeypatch.setattr(served.page.jobs, "start", _nothing)
    body = case.body if isinstance(case.body, bytes) else json.dumps(case.body, default=str).encode()
    answer = served.request(case.method, case.formatted_path, params=dict(case.query or {}), content=body)
    assert answer.status_code < 500
    assert answer.status_code < 400 or answer.json()["error"]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def _encoded(kind):
    content = BytesIO()
    Image.fromarray(np.arange(600, dtype=np.uint8).reshape(20, 30)).save(content, kind)
    return content.getvalue()


SPOILT = st.tuples(
    st.sampled_from(["PNG", "JPEG", "TIFF", "BMP"]).map(_encoded),
    st.lists(st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=4)), max_size=3),
    st.integers(1, 2000),
)


@given(spoilt=SPOILT, name=st.sampled_from(["a.png", "b.tif", "c.jpg"]), claimed=st.none() | st.integers(0, 5000))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_uploaded_picture_is_whole_or_refused_and_leaves_nothing(served, caplog, spoilt, name, claimed):
    content, changes, kept = spoilt
    for place, put in changes:
        content = content[:place] + put + content[place + len(put) :]
    headers = {} if claimed is None else {"Content-Length": str(claimed)}
    folder = served.page.workspace.folder
    listed, before = (folder / "pictures.txt").read_bytes(), set(folder.rglob("*"))
    answer = served.post(f"/api/pictures?file={name}", content=content[:kept], headers=headers)
    new = set(folder.rglob("*")) - before - {folder / ".page.lock"}
    if answer.status_code == 200:
        assert [path.name for path in new] == [name]
        assert served.get(f"/api/pictures/{name[0]}/thumb.jpg").status_code == 200
        new.pop().unlink()
        (folder / "pictures.txt").write_bytes(listed)
    else:
        assert answer.status_code in (400, 413, 415)
        assert answer.json()["error"]
        assert not new
    # tifffile tells its log what is wrong with a file.
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR and each.name != "tifffile"]
