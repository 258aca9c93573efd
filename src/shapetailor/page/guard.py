"""Who may talk to the server: the right host, no foreign origin, and whoever has the link, the cookie or the password.

A page elsewhere in the same browser can send requests here, even under a name of its own that leads to this machine
(DNS rebinding). So every request and socket must name this server as `Host`, and as `Origin` where it has one; a socket
must have one.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: Seconds that a wrong password costs; one is tried at a time.
WRONG = 1.0
LONGEST_FORM = 4096
POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; connect-src 'self' ws://{host}; worker-src 'self'; "
    "script-src 'self'; style-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
#: What the page of whoever is not let in looks like.
PUBLIC = ("/static/base.css", "/static/icon.svg")
PLAIN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>shapetailor</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="/static/icon.svg">
<link rel="stylesheet" href="/static/base.css"><body class="door"><main><h1>shapetailor</h1>{body}</main></html>"""
HOW = "<p>Open the link that <code>shapetailor serve</code> printed: it holds the key to this page.</p>"
ENDED = "<p>This link is of a server that has ended.</p>"
FORM = """<form method="post" action="/login"><label>Password <input type="password" name="password" autofocus
autocomplete="current-password"></label> <button class="accent">Open</button></form>"""


class Guard:
    """Middleware that lets in who may.

    Parameters
    ----------
    app
    hosts : callable
        Whether a `Host` header names this server.
    port : int
        Names the cookie: browsers share cookies among the ports of a machine.
    token : str
        What the link holds.
    password : str, optional
        Another way in.
    """

    def __init__(
        self, app: ASGIApp, hosts: Callable[[str], bool], port: int, token: str, password: str | None = None
    ) -> None:
        self.app, self.is_host, self.token, self.password = app, hosts, token, password
        self.cookie = f"shapetailor-{port}"
        self._key = hmac.new(_own_key(), f"{port} {password or ''}".encode(), hashlib.sha256).hexdigest()
        self._trying = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request or socket and pass it on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        guarded = _with_headers(send, host if self.is_host(host) else "localhost")
        refused = self._stranger(scope, headers, host)
        if refused is None and scope["type"] == "http":
            entered = await self._enter(scope, receive, headers)
            if entered is not None:
                await entered(scope, receive, guarded)
                return
        if refused is None and not self._is_known(scope):
            refused = "This page needs the link that shapetailor serve printed."
        if refused is None:
            await self.app(scope, receive, send if scope["type"] == "websocket" else guarded)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refused})
        else:
            await self._refusal(scope, headers, refused)(scope, receive, guarded)

    def _stranger(self, scope: Scope, headers: Headers, host: str) -> str | None:
        """What is wrong with where a request comes from."""
        if not self.is_host(host):
            return "This server is not called so. Open the link that shapetailor serve printed."
        origin = headers.get("origin")
        if origin is None and scope["type"] == "websocket":
            return "A socket must say which page opens it."
        if origin is not None and origin != f"http://{host}":
            return "Another site sent this request."
        entering = scope["type"] == "http" and scope["path"] == "/" and scope["method"] == "GET"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not entering:
            return "Another site sent this request."
        return None

    async def _enter(self, scope: Scope, receive: Receive, headers: Headers) -> Response | None:
        """Give the cookie for the link or the password; None where neither is offered."""
        if scope["path"] == "/" and scope["method"] == "GET":
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token")
            if given is not None:
                return self._admit(given[0].encode(), self.token, ENDED + HOW)
        if scope["path"] == "/login" and scope["method"] == "POST" and self.password is not None:
            form = await _body(Request(scope, receive), LONGEST_FORM)
            given = parse_qs(form.decode("ascii", "replace")).get("password", [""])
            async with self._trying:
                answer = self._admit(given[0].encode(), self.password, '<p class="wrong">Wrong password.</p>' + FORM)
                if answer.status_code == 403:
                    await asyncio.sleep(WRONG)
                return answer
        return None

    def _admit(self, given: bytes, wanted: str, words: str) -> Response:
        if not hmac.compare_digest(given, wanted.encode()):
            return HTMLResponse(PLAIN.format(body=words), 403)
        answer = RedirectResponse("/", 303)
        # not "strict": the link may be followed from another site, such as a terminal in the browser
        answer.set_cookie(self.cookie, self._key, httponly=True, samesite="lax", path="/")
        return answer

    def _is_known(self, scope: Scope) -> bool:
        if scope["type"] == "http" and scope["path"] in PUBLIC:
            return True
        given = HTTPConnection(scope).cookies.get(self.cookie, "")
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._key.encode())

    def _refusal(self, scope: Scope, headers: Headers, words: str) -> Response:
        if scope["path"] == "/" and self.is_host(headers.get("host", "")):
            return HTMLResponse(PLAIN.format(body=FORM if self.password is not None else HOW), 403)
        return JSONResponse({"error": words}, 403)


def hosts_of(host: str, port: int) -> Callable[[str], bool]:
    """Which `Host` headers name a server that listens at `host`.

    Where it listens everywhere, any numeric address does: rebinding needs a name.
    """
    everywhere = host in ("0.0.0.0", "::", "")
    names = {*LOOPBACK, host.lower()} | (
        {socket.gethostname().lower(), socket.getfqdn().lower()} if everywhere else set()
    )

    def is_host(header: str) -> bool:
        try:
            parts = urlsplit(f"//{header}")
            name, given = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        if given != port or parts.username is not None or parts.path or parts.query or parts.fragment:
            return False
        return name in names or (everywhere and _is_address(name))

    return is_host


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach an address."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def new_token() -> str:
    """Return a token that nobody guesses."""
    return secrets.token_urlsafe(32)


def _own_key() -> bytes:
    """A secret of this user, made once, so that open tabs outlive the server; a fresh one where none can be kept."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "shapetailor"
    path = folder / "page-key"
    fresh = secrets.token_bytes(32)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(fresh)
        except FileExistsError:
            pass
        known = path.read_bytes()
    except (OSError, RuntimeError):
        return fresh
    return known if len(known) >= 32 else fresh


async def _body(request: Request, most: int) -> bytes:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > most:
            return b""
    return content


def _with_headers(send: Send, host: str) -> Send:
    """Add what every answer carries."""

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Content-Security-Policy"] = POLICY.format(host=host)
            headers["X-Content-Type-Options"] = "nosniff"
            headers["Referrer-Policy"] = "same-origin"
            headers["Cross-Origin-Resource-Policy"] = "same-origin"
            headers["Cross-Origin-Opener-Policy"] = "same-origin"
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sender
