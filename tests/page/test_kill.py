"""A server that is killed at any moment loses nothing that it has acknowledged."""

import json
import os
import random
import subprocess
import sys
import time

import httpx
from page_folders import named_classes, pictures
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

#: `make fuzz` asks for more.
KILLS = int(os.environ.get("KILLS", "3"))


def serve(folder):
    """Start a server of its own; return its process and its link."""
    command = [sys.executable, "-m", "shapetailor.cli", "serve", str(folder), "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def cookie(link):
    base = link.split("/?")[0]
    answer = httpx.get(link, trust_env=False)
    return base, {"Cookie": answer.headers["set-cookie"].split(";")[0]}


def changes(rng):
    """Strokes of one class, so that the engine has little to do, with some undone."""
    number = 0
    while True:
        number += 1
        kind = rng.choice(["stroke", "stroke", "stroke", "undo", "redo"])
        stroke = {"region": 3, "kind": "brush", "radius": 2, "points": [[number % 90, 5 + number % 60]]}
        yield {"type": kind, "picture": "p0", "id": f"{rng.random()}"} | (
            {"stroke": stroke} if kind == "stroke" else {}
        )


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path):
    rng, folder = random.Random(0), named_classes(pictures(tmp_path))
    known, revision = [], 0
    for _ in range(KILLS):
        process, link = serve(folder)
        try:
            base, headers = cookie(link)
            found = httpx.get(f"{base}/api/pictures/p0", headers=headers, trust_env=False).json()
            # At most the one change that was under way may be there without having been acknowledged.
            assert found["revision"] in (revision, revision + 1)
            if found["revision"] == revision:
                assert found["strokes"] == known
            known, revision = found["strokes"], found["revision"]
            live = base.replace("http", "ws") + "/api/live"
            with connect(live, additional_headers=headers, origin=base, proxy=None) as socket:
                until = time.monotonic() + rng.uniform(0.05, 1.0)
                for change in changes(rng):
                    if time.monotonic() > until:
                        socket.send(json.dumps(change))
                        break
                    socket.send(json.dumps(change))
                    while (heard := json.loads(socket.recv())).get("id") != change["id"]:
                        pass
                    assert heard["type"] == "stored"
                    revision = heard["revision"]
                    known = [*known, change["stroke"]] if change["type"] == "stroke" else heard["strokes"]
                    known = [each | {"points": [list(map(float, p)) for p in each["points"]]} for each in known]
                process.kill()
        except ConnectionClosed:
            pass
        finally:
            process.kill()
            _, log = process.communicate()
        assert "Traceback" not in log
    assert revision > 5
