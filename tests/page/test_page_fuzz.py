"""Anything may be sent to the server: it answers in words, keeps no bad stroke, and logs no traceback."""

import json
import logging

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from page_folders import LEFT, LIVE, ORIGIN, URL, Tab, named_classes, page, pictures

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
STROKES = st.fixed_dictionaries(
    {},
    optional={
        "region": st.integers(-3, 300) | JSON,
        "kind": st.sampled_from(["brush", "lasso", "box", "x"]),
        "radius": st.floats() | JSON,
        "points": st.lists(st.lists(st.floats() | st.integers(-100, 200), min_size=1, max_size=3), max_size=5) | JSON,
    },
)
MESSAGES = st.dictionaries(KEYS, WORDS | STROKES | JSON, max_size=7).map(json.dumps)
CUT = st.tuples(MESSAGES, st.integers(0, 200)).map(lambda both: both[0][: both[1]])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with page(named_classes(pictures(tmp_path_factory.mktemp("fuzz")))) as client:
        client.page.engine.want = lambda *_: None
        yield client


@given(texts=st.lists(MESSAGES | CUT | st.text(max_size=50), min_size=1, max_size=8), binary=st.binary(max_size=50))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_socket_says_it_is_answered_and_the_next_stroke_is_stored(served, caplog, texts, binary):
    with served.websocket_connect(LIVE, headers=ORIGIN) as socket:
        mine = Tab(socket)
        for text in texts:
            socket.send_text(text)
        socket.send_bytes(binary)
        assert mine.draw("p0", LEFT)["type"] == "stored"
        mine.change("clear", "p0")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "schema": {"enum": ["p0", "p1", "..", "no", "%2e%2e", "p0\u0000"]},
}
SOURCE = {"name": "source", "in": "query", "schema": {"type": "string"}}


def _path(name, kind="integer"):
    return {"name": name, "in": "path", "required": True, "schema": {"type": kind}}


def _one_of(name, *known):
    return {"name": name, "in": "path", "required": True, "schema": {"enum": [*known, "none", "..", "%2e%2e"]}}


def _get(*parameters):
    return {"get": {"parameters": list(parameters), "responses": {"default": {"description": "any"}}}}


def _sent(method, schema, *parameters, media="application/json"):
    body = {"required": True, "content": {media: {"schema": schema}}}
    return {
        method: {"parameters": list(parameters), "requestBody": body, "responses": {"default": {"description": "any"}}}
    }


CLASS = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "name": {"type": "string"}, "color": {"type": "string"}},
}
API = {
    "openapi": "3.1.0",
    "info": {"title": "page", "version": "1"},
    "servers": [{"url": URL}],
    "paths": {
        "/api/project": _get(),
        "/api/classes": _sent("put", {"type": "object", "properties": {"classes": {"type": "array", "items": CLASS}}}),
        "/api/pictures": _sent(
            "post",
            {"type": "string", "format": "binary"},
            {"name": "file", "in": "query", "schema": {"type": "string"}},
            media="application/octet-stream",
        ),
        "/api/jobs": _sent("post", {"type": "object", "properties": {"kind": {"type": "string"}}}),
        "/api/pictures/{name}": _get(NAME),
        "/api/pictures/{name}/thumb.jpg": _get(NAME),
        "/api/pictures/{name}/tiles/{level}/{x}_{y}.jpg": _get(
            NAME,
            *(_path(each) for each in ("level", "x", "y")),
            {"name": "low", "in": "query", "schema": {"type": "number"}},
            {"name": "high", "in": "query", "schema": {"type": "number"}},
        ),
        "/api/pictures/{name}/labels.png": _get(NAME, SOURCE),
        "/api/pictures/{name}/uncertainty.png": _get(NAME, SOURCE),
        "/api/pictures/{name}/table": _get(NAME, SOURCE),
        "/api/pictures/{name}/metrics": _get(NAME, SOURCE),
        "/api/pictures/{name}/download/{kind}": _get(NAME, _one_of("kind", *KINDS), SOURCE),
        "/api/download/{kind}": _get(_one_of("kind", *ARCHIVES, "results.zip", "project.zip", "model.safetensors")),
    },
}
schema = schemathesis.openapi.from_dict(API)


@schema.parametrize()
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
def test_whatever_is_asked_over_http_is_answered_without_a_mistake_of_ours(case, served, caplog):
    body = case.body if isinstance(case.body, bytes) else json.dumps(case.body, default=str).encode()
    answer = served.request(case.method, case.formatted_path, params=dict(case.query or {}), content=body)
    assert answer.status_code < 500
    assert answer.status_code < 400 or answer.json()["error"]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
