"""The server over real sockets: what it answers, and what it refuses."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ampere.errors import DataError
from ampere.reports.live import handler, server
from ampere.reports.live.desk import Desk
from ampere.reports.live.door import Door
from ampere.reports.live.server import WatchServer
from ampere.reports.live.watch import Watch
from processes import until
from told_runs import append, finished, looks, started, write_run

TOKEN = "t" * 32


@contextlib.contextmanager
def serving(named: Path, door: Door | None = None) -> Iterator[WatchServer]:
    served = WatchServer(Desk(Watch([named])), door or Door.at("127.0.0.1"), 0)
    thread = threading.Thread(target=served.serve)
    thread.start()
    try:
        yield served
    finally:
        served.shutdown()
        thread.join(5)
    assert not thread.is_alive()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "runs" / "a", finished())
    write_run(tmp_path / "runs" / "b", [started(run="b"), *looks(until=100)])
    return tmp_path / "runs"


@pytest.fixture
def served(runs: Path) -> Iterator[WatchServer]:
    with serving(runs) as served:
        yield served


@contextlib.contextmanager
def client_of(served: WatchServer) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as client:
        yield client


def asked(served: WatchServer, request: str, *headers: str) -> str:
    """The whole answer to a request; `Host` is ours if no headers are given."""
    lines = [f"{request} HTTP/1.1", *(headers or ["Host: localhost"]), "", ""]
    parts = []
    with client_of(served) as client, contextlib.suppress(ConnectionResetError):
        client.sendall("\r\n".join(lines).encode())
        while part := client.recv(1 << 16):
            parts.append(part)
    return b"".join(parts).decode()


def code(answer: str) -> int:
    return int(answer.split()[1])


def head_of(answer: str) -> str:
    return answer.partition("\r\n\r\n")[0]


def body_of(answer: str) -> str:
    return answer.partition("\r\n\r\n")[2]


def test_pages_and_their_pieces(served: WatchServer) -> None:
    answer = asked(served, "GET /")
    assert code(answer) == 200 and "<h1>2 runs</h1>" in answer
    for words in ("default-src 'none'", "frame-ancestors 'none'", "nosniff", "no-store"):
        assert words in head_of(answer)
    assert "Access-Control" not in answer and "Python" not in head_of(answer)
    key, _ = re.findall(r'href="/run/([0-9a-f]+)"', answer)
    page = asked(served, f"GET /run/{key}?x=1")
    assert code(page) == 200 and "all runs" in page
    assert json.loads(body_of(asked(served, f"GET /state/{key}")))["title"] == "cnn5 on digits"
    assert json.loads(body_of(asked(served, "GET /state/all")))["title"] == "2 runs"
    head = asked(served, "HEAD /")
    assert (code(head), body_of(head)) == (200, "") and "Content-Length: " in head


@pytest.mark.parametrize(
    "headers",
    [
        ("Host: evil.example",),
        ("Host: evil.example:80", "X-Forwarded-Host: localhost"),
        ("Accept: */*",),
        ("Host: localhost", "Host: evil.example"),
        ("Host: 192.0.2.1",),
    ],
)
def test_another_name_of_this_address_is_refused(
    served: WatchServer, headers: tuple[str, ...]
) -> None:
    for path in ("/", "/state/all", "/events/all", "/nothing"):
        answer = asked(served, f"GET {path}", *headers)
        assert code(answer) == 403 and "runs" not in answer


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd", "/run/../../etc/passwd", "/run/%2e%2e%2fgate.jsonl", "//etc",
        "/run/", "/run/ALL", "/state/", "/events/", "/run/nothing", "/state/nothing", "/all",
        "/events/nothing", "/gate.jsonl", "/static/live.js", "http://localhost/", "*", "/\x00",
        "/run/" + "a" * 41, "/run/all/x", "/<script>alert(1)</script>",
    ],
)  # fmt: skip
def test_there_is_nothing_else(served: WatchServer, path: str) -> None:
    answer = asked(served, f"GET {path}")
    assert code(answer) == 404 and body_of(answer) == "404 there is nothing of that name\n"
    assert "text/plain" in head_of(answer)


def test_it_is_only_read(served: WatchServer, runs: Path) -> None:
    before = {path: path.read_bytes() for path in runs.rglob("*.jsonl")}
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        answer = asked(served, f"{method} /", "Host: localhost", "Content-Length: 2", "", "{}")
        assert code(answer) == 405 and "Allow: GET, HEAD" in answer
    assert code(asked(served, "BREW /")) == 501
    assert {path: path.read_bytes() for path in runs.rglob("*.jsonl")} == before


def test_a_token_is_asked_for_once(runs: Path) -> None:
    with serving(runs, Door("127.0.0.1", token=TOKEN)) as served:
        for path in (
            "/",
            "/?token=",
            "/?token=x",
            f"/?token={TOKEN}x",
            "/state/all",
            "/events/all",
        ):
            assert code(asked(served, f"GET {path}")) == 403
        assert code(asked(served, "GET /", "Host: localhost", "Cookie: a=b")) == 403
        assert code(asked(served, f"GET /?token={TOKEN}", "Host: evil.example")) == 403
        first = asked(served, f"GET /?token={TOKEN}")
        assert code(first) == 303 and "Location: /\r\n" in first and body_of(first) == ""
        cookie = re.search(r"Set-Cookie: ([^;]+); Path=/; HttpOnly; SameSite=Lax\r\n", first)
        assert cookie is not None
        headers = ("Host: localhost", f"Cookie: {cookie[1]}")
        assert code(asked(served, "GET /", *headers)) == 200
        assert code(asked(served, "GET /state/all", *headers)) == 200
        elsewhere = asked(served, f"GET //evil.example?token={TOKEN}")
        assert "Location: /\r\n" in elsewhere
        assert served.url == f"http://127.0.0.1:{served.port}/?token={TOKEN}"


def test_news_are_sent_as_they_come(
    runs: Path, served: WatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "TURN_S", 0.05)
    monkeypatch.setattr(handler, "BEAT_S", 0.2)
    with client_of(served) as client:
        client.sendall(b"GET /events/all HTTP/1.1\r\nHost: localhost\r\n\r\n")
        told = client.makefile("rb")
        lines = iter(told.readline, b"")
        assert b"200" in next(lines) and b"Content-Type: text/event-stream\r\n" in lines
        first = next(line for line in lines if line.startswith(b"data: "))
        assert b"step 640" not in first
        assert b":\n" in lines  # a word, though nothing is new
        *_, last = looks(until=640)
        append(runs / "b" / "gate.jsonl", last)
        news = next(line for line in lines if line.startswith(b"data: "))
        assert news != first and json.loads(news[6:])["title"] == "2 runs"
        served.ending.set()
        assert list(lines)[-1:] in ([b"\n"], [])


def test_clients_are_bounded(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CLIENTS", 2)
    with serving(runs) as served, client_of(served), client_of(served) as idle:
        until(lambda: code(asked(served, "GET /")) == 503, "a third one came in")
        idle.close()
        until(lambda: code(asked(served, "GET /")) == 200, "there is no room again")


def test_streams_leave_room_for_pages(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_STREAMS", 1)
    monkeypatch.setattr(handler, "TURN_S", 0.05)
    monkeypatch.setattr(handler, "BEAT_S", 0.05)
    with serving(runs) as served:
        with client_of(served) as client:
            client.sendall(b"GET /events/all HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" in client.recv(100)
            assert code(asked(served, "GET /events/all")) == 503
            assert code(asked(served, "GET /state/all")) == 200
        until(
            lambda: code(asked(served, "HEAD /events/all")) == 200,
            "a client that left still takes the only place",
        )


def test_who_says_nothing_is_not_waited_for(
    served: WatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler.Handler, "timeout", 0.2)
    begun_s = time.monotonic()
    with client_of(served) as client:
        client.sendall(b"GET / HT")
        assert client.recv(100) == b""
    assert time.monotonic() - begun_s < 4
    assert code(asked(served, "GET /" + "x" * 70_000)) == 414
    assert code(asked(served, "GET /", "Host: localhost", *["X: y"] * 200)) == 431


def test_a_port_that_is_taken_is_said(served: WatchServer, runs: Path) -> None:
    with pytest.raises(DataError, match=r"cannot listen on 127\.0\.0\.1, port \d+: .*--port 0"):
        WatchServer(Desk(Watch([runs])), Door.at("127.0.0.1"), served.port)
