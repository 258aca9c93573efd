"""A server in a process of its own and tabs of a real browser, for the tests of the page."""

import json
import multiprocessing
import os
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

CHROMIUM = "/usr/bin/chromium"
#: Milliseconds after which something that should happen has not.
PATIENCE = 60_000


@contextmanager
def chromium():
    """Start the browser, or skip and say what is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"needs {CHROMIUM} (apt install chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


#: Has imported what servers need, and is forked for each: that spares their starts.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["shapetailor.cli.serve", "shapetailor.page.server"])


def _serve(words, environment, said):
    """What a server's process does; `said` gets its output."""
    from shapetailor.cli import main

    os.environ.update(environment)
    sys.stdout = os.fdopen(os.dup(said.fileno()), "w")
    sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.exit(main(words))


class Served:
    """`shapetailor serve FOLDER` in a process of its own."""

    def __init__(self, folder, state, *options):
        self.folder, self.port, self._options = Path(folder), 0, options
        password = os.environ.get("SHAPETAILOR_PASSWORD")
        self._environment = {"XDG_STATE_HOME": str(state)} | ({"SHAPETAILOR_PASSWORD": password} if password else {})
        self.start()

    def start(self):
        """Start it, on the former port if there was one."""
        words = ["serve", str(self.folder), "--no-browser", "--port", str(self.port), *self._options]
        heard, said = FORKS.Pipe(duplex=False)
        self.process = FORKS.Process(target=_serve, args=(words, self._environment, said))
        self.process.start()
        said.close()
        with heard:
            self._output = os.fdopen(os.dup(heard.fileno()))
        self.link = self._output.readline().strip()
        assert self.link.startswith("http://"), self.link
        self.port = int(self.link.split(":")[2].split("/")[0])

    def kill(self):
        """End it as a power cut would."""
        self.process.kill()
        self.process.join()
        self._output.close()

    def strokes(self, picture):
        """The strokes in the project's file of marks."""
        path = self.folder / "marks" / f"{picture}.json"
        return json.loads(path.read_text())["strokes"] if path.exists() else []


class BrowserTab:
    """A tab with a picture open; coordinates are the picture's pixels."""

    def __init__(self, context, served, picture):
        self.context, self.served, self.picture = context, served, picture
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.errors = []
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(f"{served.link}#{picture}")
        self.ready()

    def ready(self):
        """Wait until the picture is open and the socket too."""
        self.page.evaluate("window.shapetailor.ready")
        self.until("state.connected && (state.picture || !state.project.pictures.length)")

    def until(self, condition):
        """Wait until an expression of `state`, `painted` and `shapetailor` is true."""
        self.page.wait_for_function(
            f"() => {{ const {{state, lastPainted: painted}} = window.shapetailor; return {condition}; }}",
            polling=50,
        )

    def get(self, expression):
        """The value of an expression of `state`, `painted` and `shapetailor`."""
        return self.page.evaluate(
            f"() => {{ const {{state, lastPainted: painted}} = shapetailor; return {expression}; }}"
        )

    def keys(self, *names):
        for name in names:
            self.page.keyboard.press(name)

    def on_screen(self, x, y):
        """Where a pixel of the picture is in the window."""
        script = """([x, y]) => {
            const {view} = window.shapetailor, box = document.getElementById("pen").getBoundingClientRect();
            return [box.left + (x + 0.5 - view.x) * view.scale, box.top + (y + 0.5 - view.y) * view.scale];
        }"""
        return self.page.evaluate(script, [x, y])

    def draw(self, *points):
        """Draw with the mouse."""
        places = [self.on_screen(*point) for point in points]
        self.page.mouse.move(*places[0])
        self.page.mouse.down()
        for place in places[1:]:
            self.page.mouse.move(*place, steps=4)
        self.page.mouse.up()

    def stored(self):
        """Wait until the server has all that was drawn."""
        self.until("state.pending.length === 0")

    def refined(self):
        """Wait for the labels that belong to the strokes as they are; return their values."""
        self.stored()
        newest = "painted.picture === state.picture.name && painted.revision === state.revision"
        self.until(f"painted?.stage === 'refined' && {newest}")
        return self.values()

    def values(self):
        """The label map that is shown."""
        found = self.get("(({width, height, values}) => ({width, height, values: [...values]}))(shapetailor.labels())")
        return np.reshape(found["values"], (found["height"], found["width"]))

    def served_values(self, source="live"):
        """The label map that the server sends for the same picture."""
        from io import BytesIO

        from PIL import Image

        address = f"http://127.0.0.1:{self.served.port}/api/pictures/{self.picture}/labels.png?source={source}"
        with Image.open(BytesIO(self.context.request.get(address).body())) as image:
            return np.asarray(image)
