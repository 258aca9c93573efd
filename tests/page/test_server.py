"""A server in a process of its own: connections that break off leave no trace in its log, and Ctrl-C ends it."""

import json
import signal
import socket
from contextlib import suppress

import httpx
import pytest
from page_folders import LEFT, named_classes, pictures
from test_kill import cookie, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from shapetailor.cli import main


def raw(port, content):
    """Send bytes and hang up."""
    with socket.create_connection(("127.0.0.1", port)) as wire:
        wire.sendall(content)


def test_broken_connections_are_survived_without_a_traceback_and_an_interrupt_ends_it(tmp_path):
    process, link = serve(named_classes(pictures(tmp_path)))
    try:
        base, headers = cookie(link)
        port = int(base.rsplit(":", 1)[1])
        head = f"Host: 127.0.0.1:{port}\r\nCookie: {headers['Cookie']}\r\nContent-Length: 5000\r\n\r\nshort".encode()
        raw(port, b"POST /api/pictures?file=a.png HTTP/1.1\r\n" + head)
        raw(port, b"PUT /api/classes HTTP/1.1\r\n" + head)
        raw(port, b"\x16\x03\x01nonsense\r\n\r\n")
        raw(port, b"GET /" + b"x" * 100_000)
        live = base.replace("http", "ws") + "/api/live"
        with connect(live, additional_headers=headers, origin=base, proxy=None) as wire:
            wire.socket.shutdown(socket.SHUT_RDWR)
        with connect(live, additional_headers=headers, origin=base, proxy=None) as wire:
            with suppress(ConnectionClosed):
                wire.send("x" * (2**23 + 1))
            with pytest.raises(ConnectionClosed):
                wire.recv(timeout=20)
        with pytest.raises(InvalidStatus):
            connect(live, additional_headers=headers, origin="http://evil.example", proxy=None)
        with connect(live, additional_headers=headers, origin=base, proxy=None) as wire:
            wire.send(json.dumps({"type": "stroke", "picture": "p0", "id": "1", "stroke": LEFT}))
            assert json.loads(wire.recv(timeout=20))["type"] == "stored"
        assert httpx.get(f"{base}/api/project", headers=headers, trust_env=False).json()["kind"] == "project"
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert "Traceback" not in log
    assert process.returncode in (0, 130)


def test_listening_beyond_this_machine_demands_a_decision(tmp_path, capsys):
    assert main(["serve", str(tmp_path), "--host", "0.0.0.0"]) == 2
    assert "--password or --i-know-what-i-do" in capsys.readouterr().err


def test_a_short_password_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SHAPETAILOR_PASSWORD", "short")
    assert main(["serve", str(tmp_path), "--host", "0.0.0.0", "--password"]) == 2
    assert "at least 8 characters" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_named(tmp_path, capsys):
    assert main(["serve", str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["serve", str(tmp_path), "--no-browser", "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot listen there" in capsys.readouterr().err
