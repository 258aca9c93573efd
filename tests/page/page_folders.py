"""Folders of small pictures and pages that serve them, for the tests of the page."""

import json
from contextlib import contextmanager

import numpy as np
from class_pictures import CLASSES, picture
from PIL import Image
from starlette.testclient import TestClient

from shapetailor.page.app import Page
from shapetailor.page.guard import Guard, hosts_of
from shapetailor.page.workspace import Workspace

HOST, PORT, TOKEN = "127.0.0.1", 8317, "the-token-of-the-tests"
URL = f"http://{HOST}:{PORT}"
ORIGIN = {"Origin": URL}
LIVE = f"ws://{HOST}:{PORT}/api/live"
LEFT = {"region": 3, "kind": "brush", "radius": 3, "points": [[5, 5], [30, 60]]}
RIGHT = {"region": 7, "kind": "brush", "radius": 3, "points": [[60, 5], [90, 60]]}


def pictures(folder, count=3):
    """Write pictures, smooth on the left and grainy on the right."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        Image.fromarray(picture(number, 40 + 4 * number)[0]).save(folder / f"p{number}.png")
    return folder


def named_classes(folder):
    """Make a folder a project whose classes have the values 3 and 7."""
    (folder / "classes.json").write_text(json.dumps({"version": 1, "classes": CLASSES}))
    (folder / "pictures.txt").write_text("".join(f"{path.name}\n" for path in sorted(folder.glob("*.png"))))
    return folder


@contextmanager
def page(folder, known=True, password=None):
    """Serve a folder in this process; `known`: with the cookie. Yields the client, which has the `page`."""
    served = Page(Workspace(folder))
    app = Guard(served.app, hosts_of(HOST, PORT), PORT, TOKEN, password)
    with TestClient(app, URL, raise_server_exceptions=False) as client:
        client.page = served
        if known:
            client.cookies.set(app.cookie, app._key)
        yield client


class Tab:
    """A socket as a test uses it."""

    def __init__(self, socket):
        self.socket = socket
        self._number = 0

    def say(self, **message):
        self.socket.send_text(json.dumps(message))

    def change(self, kind, picture, **more):
        """Send a change and return its answer."""
        self._number += 1
        name = more.pop("id", f"{id(self)}-{self._number}")
        self.say(type=kind, picture=picture, id=name, **more)
        return self.until(lambda heard: heard.get("id") == name)

    def draw(self, picture, stroke, **more):
        return self.change("stroke", picture, stroke=stroke, **more)

    def until(self, wanted):
        """Hear messages until one is wanted; frames are painted at once."""
        while True:
            heard = self.hear()
            if wanted(heard):
                return heard

    def hear(self):
        """The next message; of a frame its header with the PNG as `png`."""
        got = self.socket.receive()
        assert got["type"] == "websocket.send", got
        if got.get("text") is not None:
            return json.loads(got["text"])
        content = got["bytes"]
        size = int.from_bytes(content[:4], "little")
        header = json.loads(content[4 : 4 + size])
        if header["type"] == "labels":
            self.say(type="painted", picture=header["picture"], revision=header["revision"], stage=header["stage"])
        return header | {"png": content[4 + size :]}


@contextmanager
def tab(client):
    """Open a socket."""
    with client.websocket_connect(LIVE, headers=ORIGIN) as socket:
        yield Tab(socket)


def shown(header):
    """The label map of a frame."""
    from io import BytesIO

    with Image.open(BytesIO(header["png"])) as image:
        return np.asarray(image)
