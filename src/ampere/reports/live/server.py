"""Server: the pages of runs over HTTP, for a bounded number of clients."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from http.server import ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from ampere.errors import DataError
from ampere.reports.live.desk import Desk
from ampere.reports.live.door import Door
from ampere.reports.live.handler import Handler

MOST_CLIENTS = 40
MOST_STREAMS = 24  # of them: pages and questions find room beside those that follow
FULL = b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n"


class WatchServer(ThreadingHTTPServer):
    """Serves the pages of a desk.

    Args:
        desk: What it shows.
        door: Whom it lets in.
        port: 0 for any that is free.

    Raises:
        DataError: The port cannot be had.
    """

    daemon_threads = True
    block_on_close = False  # streams end by themselves once `ending` is set
    request_queue_size = 32

    def __init__(self, desk: Desk, door: Door, port: int) -> None:
        self.desk, self.door = desk, door
        self.ending = threading.Event()
        self.streams = threading.BoundedSemaphore(MOST_STREAMS)
        self._clients = threading.BoundedSemaphore(MOST_CLIENTS)
        self.address_family = socket.AF_INET6 if ":" in door.address else socket.AF_INET
        try:
            super().__init__((door.address, port), Handler)
        except OSError as error:
            raise DataError(
                f"cannot listen on {door.address}, port {port}: {error.strerror or error};"
                " --port 0 takes any that is free"
            ) from None

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """What to open in a browser."""
        return self.door.url(self.port)

    def serve(self) -> None:
        """Serve until interrupted; then all streams end."""
        try:
            self.serve_forever(poll_interval=0.2)
        finally:
            self.ending.set()
            self.server_close()

    def server_bind(self) -> None:
        """Bind without asking the network for the name of this machine, which may take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.door.address, self.port

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; a client too many is told so at once."""
        if not self._clients.acquire(blocking=False):
            request.settimeout(0.2)
            with contextlib.suppress(OSError):
                request.sendall(FULL)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._clients.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """What a thread does for a client."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._clients.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell of an error, unless it is only that a client has left."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)
