"""`shapetailor bench page`: strokes in a real browser, from the pointer's release to the painted preview."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ..classes.names import as_classes, write_classes
from ..datasets import Sample
from ..io.images import write_image
from .measure import Outcome, chosen_sizes, machine, progress
from .report import Data, duration, megabytes, page, text_table, verdict
from .strokes import FAMILIES, REGIONS, mosaic_of

CHROMIUM = "/usr/bin/chromium"
SIZES, QUICK_SIZES = (512, 2048), (256,)
#: Size → seconds wanted from the pointer's release to the painted preview, median.
WANTED = {512: 0.25, 2048: 0.7}
#: Strokes that are timed, after one of each class.
STROKES, QUICK_STROKES = 20, 3
#: Seconds that such a stroke takes, about as long as a hand needs.
STROKE = 0.5
#: Side of the picture that frames are timed on while it is painted, and milliseconds wanted for the longest.
LARGE, QUICK_LARGE, LONGEST_FRAME = 10_000, 2048, 50
#: Pictures that memory is measured after, and every how many of them are drawn on.
PICTURES, QUICK_PICTURES, DRAWN = 200, 10, 10
PATIENCE = 120_000
WORDS = (
    "Chromium without a window, real pointer events. Preview: from the pointer's release to the painted labels, of\n"
    "strokes of half a second on a mosaic of four textures, two of which are one class. Frames: the longest time\n"
    "between two while a stroke is painted on a large picture. Memory: the server's, after the pictures of a folder\n"
    f"were looked at (512², information, thumbnail and tile of each; every {DRAWN}th was drawn on)."
)
#: Keeps the time when each revision was first painted.
WATCH = """() => {
  window.firstPainted = {};
  const look = () => {
    const painted = window.shapetailor.lastPainted;
    if (painted && !(painted.revision in firstPainted)) firstPainted[painted.revision] = painted.time;
    requestAnimationFrame(look);
  };
  look();
}"""
PLACE = """([x, y]) => {
  const {view} = window.shapetailor, box = document.getElementById("pen").getBoundingClientRect();
  return [box.left + (x + 0.5 - view.x) * view.scale, box.top + (y + 0.5 - view.y) * view.scale];
}"""


def run(sizes: Sequence[int] | None = None, quick: bool = False) -> Outcome:
    """Measure everything and report it."""
    chosen = chosen_sizes(sizes, QUICK_SIZES if quick else SIZES)
    where, count = machine(), QUICK_STROKES if quick else STROKES
    rows: list[Data] = []
    with _browser() as browser:
        for size in chosen:
            progress(f"strokes at {size}²")
            rows.append({"size": size, **_previews(browser, size, count)})
        large = QUICK_LARGE if quick else LARGE
        progress(f"frames at {large}²")
        frame = _longest_frame(browser, large)
    pictures = QUICK_PICTURES if quick else PICTURES
    progress(f"memory after {pictures} pictures")
    memory = _memory(pictures)
    targets = [
        verdict(f"median preview at {row['size']}², s", row["median"], WANTED[row["size"]], at_least=False)
        for row in rows
        if row["size"] in WANTED
    ] + [verdict(f"longest frame at {large}², ms", frame, LONGEST_FRAME, at_least=False)]
    data: Data = {
        "benchmark": "page",
        "machine": where,
        "rows": rows,
        "frame": {"size": large, "longest_ms": frame},
        "memory": {"pictures": pictures, **memory},
        "targets": targets,
    }
    previews = text_table(
        ["size", "strokes", "median", "95th percentile", "slowest"],
        [
            [f"{row['size']}²", str(count), *(duration(row[key]) for key in ("median", "p95", "slowest"))]
            for row in rows
        ],
    )
    others = text_table(
        ["", "measured"],
        [
            [f"longest frame while painting, {large}²", f"{frame:.0f} ms"],
            [f"server's memory after {pictures} pictures", megabytes(memory["resident"])],
            ["its peak until then", megabytes(memory["peak"])],
        ],
    )
    return Outcome(page("shapetailor bench page", where, WORDS, [previews, others], targets), data, True)


@contextmanager
def _browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise ValueError("bench page drives a browser: pip install playwright") from error
    if not Path(CHROMIUM).exists():
        raise FileNotFoundError(f"{CHROMIUM}: bench page needs Debian's chromium")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def _served(folder: Path) -> Iterator[tuple[str, int]]:
    """Serve a folder; yield the link and the process."""
    write_classes(folder / "classes.json", as_classes([f"class {n + 1}" for n in range(REGIONS)]))
    command = [sys.executable, "-m", "shapetailor.cli", "serve", str(folder), "--no-browser", "--port", "0"]
    environment = os.environ | {"XDG_STATE_HOME": str(folder / ".state")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.kill()


@contextmanager
def _tab(browser: Any, sample: Sample) -> Iterator[Any]:
    """Serve one picture and open it in a tab."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pictures").mkdir()
        write_image(Path(folder) / "pictures" / "mosaic.png", sample.image)
        with _served(Path(folder)) as (link, _):
            tab = browser.new_page(viewport={"width": 1280, "height": 720})
            tab.set_default_timeout(PATIENCE)
            tab.goto(f"{link}#mosaic")
            tab.evaluate("window.shapetailor.ready")
            tab.wait_for_function("() => window.shapetailor.state.connected && window.shapetailor.state.picture")
            tab.evaluate(WATCH)
            yield tab
            tab.close()


def _draw(tab: Any, points: Sequence[tuple[float, float]], steps: int = 4, seconds: float = 0.0) -> None:
    places = [tab.evaluate(PLACE, list(point)) for point in points]
    tab.mouse.move(*places[0])
    tab.mouse.down()
    tab.wait_for_timeout(1000 * seconds)
    for place in places[1:]:
        tab.mouse.move(*place, steps=steps)
    tab.mouse.up()


def _previews(browser: Any, size: int, count: int) -> dict[str, float]:
    """Mark each texture, then draw more strokes and time each until it is painted."""
    sample, rng = mosaic_of(size), np.random.default_rng(0)
    textures, times = sample.truths[0], []
    with _tab(browser, sample) as tab:
        for number in range(len(FAMILIES) + count):
            places = np.argwhere(textures == number % len(FAMILIES))
            y, x = places[rng.integers(len(places))].tolist()
            tab.keyboard.press(str(1 + number % len(FAMILIES) % REGIONS))
            _draw(tab, [(x, y), (x + 1, y)], seconds=STROKE)
            painted = " && state.revision in firstPainted" if number + 1 >= REGIONS else ""
            tab.wait_for_function(f"() => {{ const {{state}} = shapetailor; return !state.pending.length{painted}; }}")
            if number >= len(FAMILIES):
                script = "() => firstPainted[shapetailor.state.revision] - shapetailor.lastStroke.time"
                times.append(tab.evaluate(script) / 1000)
    return {"median": median(times), "p95": float(np.percentile(times, 95)), "slowest": max(times)}


def _longest_frame(browser: Any, size: int) -> float:
    """Paint long strokes on a large picture; return the longest frame in milliseconds."""
    part = mosaic_of(512).image
    whole = np.tile(part, (-(-size // 512), -(-size // 512), 1))[:size, :size]
    with _tab(browser, Sample(whole, (), "large")) as tab:
        tab.wait_for_timeout(3000)  # tiles
        tab.evaluate("() => shapetailor.resetFrames()")
        for turn in range(4):
            tab.keyboard.press(str(1 + turn % 2))
            y = size * (turn + 1) / 6
            _draw(tab, [(size * (0.2 + 0.06 * k), y + size * 0.03 * (k % 2)) for k in range(10)], steps=10)
        return float(tab.evaluate("() => shapetailor.longestFrame"))


def _memory(pictures: int) -> dict[str, int | None]:
    """Look at all pictures of a folder, draw on some, and read the server's memory."""
    from websockets.sync.client import connect
    from websockets.typing import Origin

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pictures").mkdir()
        image = mosaic_of(512).image
        for number in range(pictures):
            write_image(folder / "pictures" / f"p{number:03d}.png", np.roll(image, 7 * number, axis=1))
        with _served(folder) as (link, process):
            base, cookie = _entered(link)
            live = f"{base.replace('http', 'ws')}/api/live"
            with connect(live, additional_headers=cookie, origin=Origin(base), proxy=None, max_size=None) as socket:
                for number in range(pictures):
                    _look_at(base, cookie, f"p{number:03d}")
                    if number % DRAWN == 0:
                        _draw_over(socket, f"p{number:03d}")
            return {"resident": _status(process, "VmRSS"), "peak": _status(process, "VmHWM")}


def _entered(link: str) -> tuple[str, dict[str, str]]:
    """Follow the link; return the address and the cookie."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    opener = urllib.request.build_opener(Stay, urllib.request.ProxyHandler({}))
    try:
        opener.open(link)
    except urllib.error.HTTPError as answer:
        with answer:
            return link.split("/?")[0], {"Cookie": answer.headers["Set-Cookie"].split(";")[0]}
    raise OSError(f"{link}: it gave no cookie")


def _look_at(base: str, cookie: dict[str, str], picture: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for what in ("", "/thumb.jpg", "/tiles/0/0_0.jpg"):
        with opener.open(urllib.request.Request(f"{base}/api/pictures/{picture}{what}", headers=cookie)) as answer:
            answer.read()


def _draw_over(socket: Any, picture: str) -> None:
    """Draw two classes and wait for the refined labels."""
    socket.send(json.dumps({"type": "open", "picture": picture}))
    for value, x in ((1, 100), (2, 400)):
        stroke = {"region": value, "kind": "brush", "radius": 5, "points": [[x, 100], [x, 300]]}
        message = {"type": "stroke", "picture": picture, "id": f"{picture}-{value}", "stroke": stroke}
        socket.send(json.dumps(message))
    while True:
        heard = socket.recv()
        if isinstance(heard, bytes):
            header = json.loads(heard[4 : 4 + int.from_bytes(heard[:4], "little")])
            socket.send(json.dumps({"type": "painted"}))
            if header["stage"] == "refined" and header["picture"] == picture:
                return


def _status(process: int, field: str) -> int | None:
    path = Path(f"/proc/{process}/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field + ":")), None)
