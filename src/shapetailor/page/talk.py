"""What a tab says over its socket, and what is answered."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..strokes.marks import THINNEST, Stroke
from .history import History
from .hub import Hub, Tab
from .live import Engine
from .refusal import Refusal, words
from .views import Views
from .workspace import Workspace

#: Longest message, in bytes, and longest name of a change.
LONGEST_MESSAGE, LONGEST_ID = 2**23, 100
MOST_REGIONS = 32


class Talk:
    """The conversation with all tabs about one workspace."""

    def __init__(self, workspace: Workspace, views: Views, engine: Engine, hub: Hub) -> None:
        self.workspace, self.views, self.engine, self.hub = workspace, views, engine, hub
        engine.is_followed = lambda name: bool(hub.following(name))

    async def serve(self, socket: WebSocket) -> None:
        """Talk to one tab until it goes."""
        await socket.accept()
        tab = Tab(socket)
        self.hub.tabs.add(tab)
        sender = asyncio.create_task(tab.send())
        try:
            while not sender.done():
                message = await socket.receive()
                if message["type"] == "websocket.disconnect":
                    break
                await self._hear(tab, message.get("text"))
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            self.hub.tabs.discard(tab)
            self._leave(tab)
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    def _leave(self, tab: Tab) -> None:
        left = tab.picture
        tab.follow(None)
        if left is not None and not self.hub.following(left):
            self.engine.drop(left)
            self.engine.stop(left)

    async def _hear(self, tab: Tab, text: str | None) -> None:
        """Answer one message; a bad one is answered with words."""
        said: Any = None
        try:
            said = _parsed(text)
            await self._answer(tab, said)
        except (Refusal, ValueError, TypeError, OSError, OverflowError, MemoryError) as error:
            named = _name(said)
            if named is not None:
                tab.say({"type": "refused", "id": named, "picture": said.get("picture"), "error": words(error)})
            else:
                tab.say({"type": "error", "text": words(error)})

    async def _answer(self, tab: Tab, said: dict[str, Any]) -> None:
        what = said.get("type")
        if what == "painted":
            tab.painted()
        elif what == "drawing":
            await self._begin(tab)
        elif what == "stop":
            if tab.picture is not None:
                self.engine.stop(tab.picture)
        elif what == "open":
            await self._open(tab, _picture(said))
        elif what == "evolve":
            regions = said.get("regions", "auto")
            whole = isinstance(regions, int) and not isinstance(regions, bool) and 1 <= regions <= MOST_REGIONS
            if not whole and regions != "auto":
                raise Refusal(400, f'"regions" is a number from 1 to {MOST_REGIONS}, or "auto".')
            self.workspace.picture(_picture(said))
            self.engine.want(_picture(said), regions)
        elif what in ("stroke", "undo", "redo", "clear"):
            await self._change(tab, said)
        else:
            raise Refusal(400, f"The server does not know the message {what!r:.40}.")

    async def _open(self, tab: Tab, name: str) -> None:
        history = await run_in_threadpool(self.workspace.history, name)
        self._leave(tab)
        tab.follow(name)
        tab.say(_strokes(name, history))
        known = self.engine.answer(name)
        if known is not None:
            tab.show(await run_in_threadpool(self.engine.frame, name, known))
        marks = self.workspace.marks_kind(name)
        if marks == "strokes" or (marks == "none" and self.workspace.applied(name) is None):
            self._say_if_not_ready(tab)
            self.engine.want(name)
        # else it is only looked at, until a stroke begins

    async def _begin(self, tab: Tab) -> None:
        """A stroke has begun."""
        if tab.picture is not None:
            self._say_if_not_ready(tab)
            await run_in_threadpool(self.engine.begin, tab.picture)

    def _say_if_not_ready(self, tab: Tab) -> None:
        if not self.engine.is_ready:
            text = "Getting ready… The first start on a machine takes about a minute."
            tab.say({"type": "status", "picture": tab.picture, "text": text})

    async def _change(self, tab: Tab, said: dict[str, Any]) -> None:
        """Store a change, acknowledge it, tell the other tabs, and ask for new labels."""
        name, named = _picture(said), _name(said)
        if named is None:
            raise Refusal(400, f'A change needs an "id", a text of at most {LONGEST_ID} characters.')
        listed = self._listed(name)
        history, changed = await run_in_threadpool(self._store, name, named, said)
        whole = [stroke.to_dict() for stroke in history.strokes]
        count: Any = len(whole) if said["type"] == "stroke" else whole
        stored = {"type": "stored", "picture": name, "id": named, "revision": history.revision, "strokes": count}
        tab.say(stored | {"depth": history.depth})
        if changed:
            for other in self.hub.following(name):
                if other is not tab:
                    other.say(_strokes(name, history))
            self.engine.want(name)
        if self._listed(name) != listed:
            self.hub.tell(None, {"type": "project"})

    def _listed(self, name: str) -> tuple[bool, str]:
        """What a change of marks may change in the list of pictures."""
        return self.workspace.is_project, self.workspace.marks_kind(name)

    def _store(self, name: str, named: str, said: dict[str, Any]) -> tuple[History, bool]:
        if self.workspace.marks_kind(name) == "map":
            raise Refusal(409, f"{name} is marked by a picture in the folder marks; remove that to draw here.")
        history = self.workspace.history(name)
        before = history.revision
        if said["type"] == "stroke":
            history.add(self._stroke(name, said.get("stroke")), named)
        else:
            getattr(history, said["type"])(named)
        return history, history.revision != before

    def _stroke(self, name: str, given: Any) -> Stroke:
        """Check a stroke: `teach` must understand everything that is stored."""
        stroke = Stroke.from_dict(given)
        values = [each.value for each in self.workspace.classes]
        if stroke.region != -1 and stroke.region not in values:
            raise Refusal(400, f"There is no class of the value {stroke.region}; classes are {values}.")
        width, height = self.views.get(self.workspace.picture(name)).size
        if not covers(stroke, (height, width)):
            raise Refusal(400, "The stroke lies outside the picture.")
        return stroke


def covers(stroke: Stroke, shape: tuple[int, int]) -> bool:
    """Whether a stroke covers a pixel; only the part of the picture around it is looked at.

    >>> covers(Stroke(1, [(1000, 5)]), (10, 1200)), covers(Stroke(1, [(-9, 5)]), (10, 1200))
    (True, False)
    """
    height, width = shape
    xs, ys = zip(*stroke.points, strict=True)
    if stroke.kind == "box":
        return _has_whole(min(xs), max(xs), width) and _has_whole(min(ys), max(ys), height)
    if any(0 <= x < width and 0 <= y < height for x, y in stroke.points):  # no pixel's centre is far from there
        return True
    reach = max(stroke.radius if stroke.kind == "brush" else 0.0, THINNEST) + 1
    left, top = max(0, math.floor(min(xs) - reach)), max(0, math.floor(min(ys) - reach))
    right, bottom = min(width, math.ceil(max(xs) + reach)), min(height, math.ceil(max(ys) + reach))
    if left >= right or top >= bottom:
        return False
    moved = Stroke(stroke.region, tuple((x - left, y - top) for x, y in stroke.points), stroke.radius, stroke.kind)
    return bool(moved.mask((bottom - top, right - left)).any())


def _has_whole(low: float, high: float, size: int) -> bool:
    """Whether a whole number from 0 to size − 1 lies between two numbers."""
    return max(0, math.ceil(low)) <= min(size - 1, math.floor(high))


def _parsed(text: str | None) -> dict[str, Any]:
    if text is None or len(text) > LONGEST_MESSAGE:
        raise Refusal(400, f"A message is JSON text of at most {LONGEST_MESSAGE} characters.")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise Refusal(400, "A message is JSON text.") from None
    if not isinstance(said, dict):
        raise Refusal(400, "A message is a JSON object.")
    return said


def _picture(said: dict[str, Any]) -> str:
    name = said.get("picture")
    if not isinstance(name, str):
        raise Refusal(400, 'The message needs the name of a "picture".')
    return name


def _name(said: Any) -> str | None:
    named = said.get("id") if isinstance(said, dict) else None
    return named if isinstance(named, str) and 0 < len(named) <= LONGEST_ID else None


def _strokes(name: str, history: History) -> dict[str, Any]:
    strokes = [stroke.to_dict() for stroke in history.strokes]
    news = {"type": "strokes", "picture": name, "revision": history.revision, "strokes": strokes}
    return news | {"depth": history.depth}
