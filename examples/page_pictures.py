"""The guide's pictures of the page: draw on `examples/page.py`'s mosaics in a browser, teach, apply, look.

``python examples/page_pictures.py --out docs/images`` (needs playwright and Debian's chromium).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from scipy import ndimage

from shapetailor.io.files import atomic
from shapetailor.io.images import read_labels

WINDOW = {"width": 1180, "height": 680}
PLACE = """([x, y]) => {
  const {view} = window.shapetailor, box = document.getElementById("pen").getBoundingClientRect();
  return [box.left + (x + 0.5 - view.x) * view.scale, box.top + (y + 0.5 - view.y) * view.scale];
}"""


def until(page: Page, condition: str) -> None:
    """Wait until an expression of the page's `state` and of what was painted is true."""
    words = f"() => {{ const {{state, lastPainted: painted}} = window.shapetailor; return {condition}; }}"
    page.wait_for_function(words, timeout=300_000)


def mark(page: Page, truth: Path) -> None:
    """Draw a wave in the deepest place of each class, and wait for the regions."""
    labels = read_labels(truth)
    for value in np.unique(labels):
        depth = ndimage.distance_transform_edt(np.pad(labels == value, 1))[1:-1, 1:-1]
        row, column = np.unravel_index(depth.argmax(), depth.shape)
        reach = 0.55 * depth.max()
        page.click(f'#class-list button[data-value="{value}"]')
        for number, step in enumerate(np.linspace(-1, 1, 24)):
            place = [column + reach * step, row + 0.35 * reach * np.sin(4 * step)]
            page.mouse.move(*page.evaluate(PLACE, place))
            if number == 0:
                page.mouse.down()
        page.mouse.up()
    until(page, "!state.pending.length && painted?.stage === 'refined' && painted.revision === state.revision")
    page.wait_for_timeout(400)


def show(page: Page, picture: str) -> None:
    """Open a picture."""
    page.click(f'.thumb[data-name="{picture}"]')
    until(page, f"state.picture.name === '{picture}'")


def keep(page: Page, path: Path) -> None:
    """Write what is on the screen, in few colours."""
    page.wait_for_timeout(600)
    image = Image.open(BytesIO(page.screenshot())).convert("RGB")
    with atomic(path) as temporary:
        image.quantize(256, dither=Image.Dither.NONE).save(temporary, optimize=True)


def take(browser: Any, link: str, project: Path, out: Path) -> None:
    """Draw, teach, apply, and write three pictures."""
    page = browser.new_page(viewport=WINDOW, color_scheme="light")
    page.goto(f"{link}#mosaic-5")
    page.evaluate("window.shapetailor.ready")
    mark(page, project / "truth" / "mosaic-5.png")
    keep(page, out / "page-draw.png")
    show(page, "mosaic-1")
    mark(page, project / "truth" / "mosaic-1.png")
    for button, kind in (("#teach", "teach"), ("#apply", "apply")):
        page.locator(f"{button}:not([disabled])").click()
        until(page, f"state.job?.kind === '{kind}' && state.job.state === 'done'")
    show(page, "mosaic-2")
    until(page, "painted?.stage === 'applied' && painted.picture === 'mosaic-2'")
    page.click("#truth summary")
    page.locator(".toast").first.wait_for(state="detached")
    page.mouse.move(*page.evaluate(PLACE, [330, 60]))
    keep(page, out / "page-results.png")
    page.emulate_media(color_scheme="dark")
    page.keyboard.press("s")
    page.keyboard.press("u")
    show(page, "mosaic-5")
    page.click('#source [data-source="live"]')
    until(page, "painted?.stage === 'refined' && painted.picture === 'mosaic-5'")
    page.locator("#hint").wait_for(state="hidden")
    page.click("#truth summary")
    until(page, "document.getElementById('truth-line').textContent !== '–'")
    keep(page, out / "page-dark.png")


def main() -> None:
    """Serve the mosaics and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        project = Path(folder) / "mosaics"
        subprocess.run([sys.executable, Path(__file__).with_name("page.py"), "--out", project], check=True)
        words = ["-m", "shapetailor.cli", "serve", str(project), "--no-browser", "--port", "0"]
        with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            try:
                take(browser, server.stdout.readline().strip(), project, out)
            finally:
                browser.close()
                server.terminate()


if __name__ == "__main__":
    main()
