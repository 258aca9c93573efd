"""The open tabs: what is sent to each, in order, with at most one frame waiting for a slow one."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from .frames import Frame

#: Seconds after which a frame that nobody acknowledged is taken for painted: hidden tabs paint nothing.
PATIENCE = 5.0
#: Messages that may wait for a tab before it is given up.
MOST_WAITING = 2000


class Tab:
    """One socket: messages go out in order, frames when the last one is painted, the newest only."""

    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self.picture: str | None = None
        self._messages: deque[str] = deque()
        self._frame: Frame | None = None
        self._unpainted_since: float | None = None
        self._wake = asyncio.Event()

    def say(self, message: dict[str, Any]) -> None:
        """Send a message when its turn comes."""
        self._messages.append(json.dumps(message))
        self._wake.set()

    def show(self, frame: Frame) -> None:
        """Send a frame when the tab is ready for it; it replaces one that waits."""
        self._frame = frame
        self._wake.set()

    def follow(self, picture: str | None) -> None:
        """Look at another picture."""
        if picture != self.picture:
            self._frame, self._unpainted_since = None, None
        self.picture = picture

    def painted(self) -> None:
        """The tab has painted the last frame."""
        self._unpainted_since = None
        self._wake.set()

    async def send(self) -> None:
        """Send for ever; ends when the socket does."""
        with suppress(WebSocketDisconnect, RuntimeError, OSError):
            while len(self._messages) < MOST_WAITING:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), PATIENCE)
                self._wake.clear()
                while self._messages:
                    await self.socket.send_text(self._messages.popleft())
                ready = self._unpainted_since is None or time.monotonic() - self._unpainted_since > PATIENCE
                if self._frame is not None and ready:
                    frame, self._frame = self._frame, None
                    self._unpainted_since = time.monotonic()
                    for part in frame.parts:
                        await self.socket.send_bytes(part)


class Hub:
    """All tabs; `tell` may be called from any thread."""

    def __init__(self) -> None:
        self.tabs: set[Tab] = set()
        self.loop: asyncio.AbstractEventLoop | None = None

    def tell(self, picture: str | None, message: Frame | dict[str, Any]) -> None:
        """Send something to the tabs that follow a picture; None: to all."""
        if self.loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self.loop.call_soon_threadsafe(self._deliver, picture, message)

    def _deliver(self, picture: str | None, message: Frame | dict[str, Any]) -> None:
        for tab in self.following(picture):
            if isinstance(message, Frame):
                tab.show(message)
            else:
                tab.say(message)

    def following(self, picture: str | None) -> Iterable[Tab]:
        """The tabs that look at a picture."""
        return [tab for tab in self.tabs if picture is None or tab.picture == picture]
