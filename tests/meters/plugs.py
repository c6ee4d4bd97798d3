"""Shelly plugs on the loopback: an HTTP server that answers as they do, or worse."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GEN2 = "/rpc/Switch.GetStatus?id=0"
PM1 = "/rpc/PM1.GetStatus?id=0"
GEN1 = "/meter/0"


def gen2(watts: Any, switch: int = 0) -> dict[str, Any]:
    return {
        "id": switch,
        "source": "init",
        "output": True,
        "apower": watts,
        "voltage": 237.5,
        "current": 0.04,
        "aenergy": {"total": 6.532, "by_minute": [45.199, 47.141, 88.397], "minute_ts": 1626935779},
        "temperature": {"tC": 23.5, "tF": 74.4},
    }


def gen1(watts: Any, valid: bool = True) -> dict[str, Any]:
    return {
        "power": watts,
        "overpower": 0.0,
        "is_valid": valid,
        "timestamp": 1606215925,
        "counters": [48.663, 48.776, 46.173],
        "total": 394,
    }


class Plug:
    """A plug on the loopback: what it answers to a path, else what a Gen2 or a Gen1 plug says."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}  # JSON, or bytes as they are
        self.status = 200
        self.headers: dict[str, str] = {}
        self.delay_s = 0.0
        self.drip: tuple[bytes, bytes] | None = None  # sent at once, and then again and again
        self.requests: list[str] = []
        self.stopped = threading.Event()
        plug = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                plug.requests.append(self.path)
                time.sleep(plug.delay_s)
                if plug.drip is not None:
                    with suppress(OSError):  # whoever asked has gone
                        self.drip(*plug.drip)
                    return
                status, body = plug.reply(self.path)
                self.send_response(status)
                for header in plug.headers.items():
                    self.send_header(*header)
                self.end_headers()
                self.wfile.write(body)

            def drip(self, first: bytes, drop: bytes) -> None:
                self.wfile.write(first)
                while not plug.stopped.wait(0.02):
                    self.wfile.write(drop)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *args: None  # whoever hangs up has seen enough
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def reply(self, path: str) -> tuple[int, bytes]:
        if path in self.answers:
            answer = self.answers[path]
            return self.status, answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        if GEN1 in self.answers:
            return 404, b"Not Found"
        method = path[len("/rpc/") :].partition("?")[0]
        return 404, json.dumps({"code": 404, "message": f"No handler for {method}"}).encode()

    def stop(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
