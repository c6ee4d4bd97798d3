"""Handler: one request of a browser, to read and nothing else.

    /               all runs, or the one that there is
    /run/KEY        one run
    /events/KEY     its news as server-sent events; KEY may be `all`
    /state/KEY      the same once, for whoever cannot follow events

A path is looked up in this list and never on a disk.
"""

from __future__ import annotations

import re
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from ampere.reports.live.desk import ALL
from ampere.reports.live.door import token_of
from ampere.reports.live.page import policy

if TYPE_CHECKING:
    from ampere.reports.live.server import WatchServer

TURN_S = 1.0  # between news
BEAT_S = 15.0  # after which a word is sent in any case: a client that has left is noticed
ROUTE = re.compile(r"/(?:(run|events|state)/([a-z0-9]{1,40}))?")
HTML = "text/html; charset=utf-8"
ALWAYS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD; whatever else is asked for is refused."""

    server: WatchServer
    server_version = "ampere"
    sys_version = ""
    timeout = 20.0  # for a client that neither asks nor listens
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"

    def do_GET(self) -> None:
        """A page, or news of it."""
        if self._may_enter():
            self._answer()

    def do_HEAD(self) -> None:
        """The same without its body."""
        self.do_GET()

    def _refuse_method(self) -> None:
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED, "pages are only read: GET or HEAD")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse_method  # noqa: N815

    def end_headers(self) -> None:
        """What stands above every answer, refusals among them."""
        for name, value in ALWAYS.items():
            self.send_header(name, value)
        if self.command not in ("GET", "HEAD"):
            self.send_header("Allow", "GET, HEAD")
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing is logged: what is asked for is anybody's text."""

    def _may_enter(self) -> bool:
        door, path = self.server.door, self.path.partition("?")
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not door.knows(hosts[0]):
            self.send_error(HTTPStatus.FORBIDDEN, "this server is not known by that name")
            return False
        if door.token is None:
            return True
        offered = parse_qs(path[2]).get("token", [""])[0]
        if offered and door.opens(offered):  # from now on in a cookie, and out of sight
            self.send_response(HTTPStatus.SEE_OTHER)
            self.send_header("Set-Cookie", door.cookie(self.server.port))
            self.send_header("Location", path[0] if ROUTE.fullmatch(path[0]) else "/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return False
        if door.opens(token_of(self.headers.get("Cookie"), self.server.port)):
            return True
        self.send_error(HTTPStatus.FORBIDDEN, "open the address that ampere watch has printed")
        return False

    def _answer(self) -> None:
        found = ROUTE.fullmatch(self.path.partition("?")[0])
        route, key = found.groups() if found else ("", "")
        desk = self.server.desk
        if route == "events":
            self._stream(key)
            return
        content: str | None = None
        if route == "state":
            content = desk.pieces(key)
        elif found and (page := desk.page(key or ALL)):
            content = page.html("connecting", address=f"/{key or ALL}")
        if content is None:
            self.send_error(HTTPStatus.NOT_FOUND, "there is nothing of that name")
        elif route == "state":
            self._send(content, "application/json")
        else:
            rules = f"{policy(live=True)}; frame-ancestors 'none'"
            self._send(content, HTML, {"Content-Security-Policy": rules})

    def _send(self, content: str, kind: str, headers: dict[str, str] | None = None) -> None:
        body = content.encode()
        self.send_response(HTTPStatus.OK)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, key: str) -> None:
        pieces = self.server.desk.pieces(key)
        if pieces is None:
            self.send_error(HTTPStatus.NOT_FOUND, "there is nothing of that name")
        elif not self.server.streams.acquire(blocking=False):
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages follow already")
        else:
            try:
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                if self.command != "HEAD":
                    self._send_news(key, pieces)
            finally:
                self.server.streams.release()

    def _send_news(self, key: str, pieces: str | None) -> None:
        """Send what has changed, until the client leaves or the server ends."""
        told, told_s = "", 0.0
        while pieces is not None:
            if pieces != told:
                self.wfile.write(f"data: {pieces}\n\n".encode())
                told, told_s = pieces, time.monotonic()
            elif time.monotonic() - told_s >= BEAT_S:
                self.wfile.write(b":\n\n")
                told_s = time.monotonic()
            if self.server.ending.wait(TURN_S):
                return
            pieces = self.server.desk.pieces(key)
