"""Shelly smart plugs, asked for their watts over the local network.

    GET /rpc/Switch.GetStatus?id=0   {"id": 0, "output": true, "apower": 8.9, "voltage": 237.5,
                                      "aenergy": {"total": 6.532, ...}, ...}      Gen2 and later
    GET /rpc/PM1.GetStatus?id=0      {"id": 0, "apower": 8.9, ...}   those that cannot switch
    GET /meter/0                     {"power": 8.9, "is_valid": true, "total": 394, ...}    Gen1

Watts are integrated: the totals, watt-hours and watt-minutes, move once a minute. A plug answers
{"code": 404, "message": "No handler for ..."} to a method that it does not have. Its passwords are
not supported: Gen2 wants digests that old Pythons cannot make.
"""

from __future__ import annotations

import http.client
import json
import math
import socket
import threading
import time
from contextlib import suppress
from typing import Any, ClassVar

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Provenance
from ampere.meters.integration import PowerMeter

METHODS = {
    "/rpc/Switch.GetStatus?id={}": "apower",
    "/rpc/PM1.GetStatus?id={}": "apower",
    "/meter/{}": "power",
}
TIMEOUT_S = 3.0  # of a whole answer, however slowly it drips
MOST_BYTES = 65536


class ShellyMeter(PowerMeter):
    """Joules of everything that is plugged into a smart plug, the power supply included."""

    name: ClassVar[str] = "shelly"
    rung: ClassVar[int] = 80
    provenance: ClassVar[Provenance] = Provenance.EXTERNAL
    summary: ClassVar[str] = "a Shelly smart plug (shelly:url=http://192.168.1.20)"
    addresses: ClassVar[tuple[str, ...]] = ("url",)
    outside: ClassVar[bool] = True
    frozen_s: ClassVar[float] = 600.0  # its digits are coarse

    def __init__(
        self, url: str, switch: float = 0, period_s: float = 1.0, idle_w: float = 0.0
    ) -> None:
        self._url = str(url).rstrip("/")
        scheme, _, address = self._url.partition("://")
        self._secure = scheme == "https"
        self._host, slash, folder = address.partition("/")
        self._folder = slash + folder
        if scheme not in ("http", "https") or not self._host:
            raise MeterError(f"meter shelly: url={url} must begin with http:// and a name")
        if switch not in range(100):
            raise MeterError(f"meter shelly: switch={switch} must be 0, 1, 2 and so on")
        self._path, self._field = self._find_method(int(switch))
        super().__init__(period_s, idle_w)

    @classmethod
    def obstacle(cls) -> str | None:
        """It cannot know by itself where the plug is."""
        return "give it the plug's address: --meter shelly:url=http://192.168.1.20"

    def power_w(self) -> float:
        """Watts now; NaN if the plug says that it does not know them."""
        answer = self._ask(self._path)
        power_w = answer.get(self._field, "nothing")
        if power_w is None or answer.get("is_valid") is False:
            return math.nan
        if not isinstance(power_w, float):
            raise MeterError(f"{self._url}{self._path} shows {power_w!r:.40}, not watts; check it")
        return power_w

    def _find_method(self, switch: int) -> tuple[str, str]:
        """The first path that shows watts, and their field."""
        answers = []
        for path, field in METHODS.items():
            answer = self._ask(path.format(switch))
            if field in answer:
                return path.format(switch), field
            answers.append(str(answer.get("message", answer)))
        raise MeterError(
            f"{self._url} is no Shelly that measures the power of switch {switch} (it says "
            f"{answers[0][:80]!r}); check url and switch"
        )

    def _ask(self, path: str) -> dict[str, Any]:
        """What the plug answers: an object, even where it is an error's."""
        begin_s = time.monotonic()
        try:
            status, text = self._get(path, begin_s + TIMEOUT_S)
        except (OSError, http.client.HTTPException, ValueError) as error:
            # Wireless plugs fall silent now and then.
            if "timed out" in str(error) or time.monotonic() > begin_s + TIMEOUT_S:
                raise MeterFault(
                    f"{self._url} did not answer within {TIMEOUT_S:g} s; is it in reach?"
                ) from None
            raise MeterError(
                f"{self._url} cannot be reached ({error!s:.80}); check url and network"
            ) from error
        if status == 401:
            raise MeterError(
                f"{self._url} wants a password; turn its authentication off while measuring"
            )
        if status in range(300, 400):
            raise MeterError(f"{self._url} sends us elsewhere ({status}); give that address as url")
        if status == 404 and not text.startswith(b"{"):
            return {}
        try:
            answer = json.loads(text, parse_int=float)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise MeterError(f"{self._url} answers {text[:40]!r}; is it a Shelly?")
        return answer

    def _get(self, path: str, deadline_s: float) -> tuple[int, bytes]:
        """Status and body of an answer; a socket's own timeout begins anew with every byte."""
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, timeout=TIMEOUT_S)  # to connect, and to shake hands
        connection.connect()
        alarm = threading.Timer(deadline_s - time.monotonic(), _cut, [connection.sock])
        alarm.daemon = True
        alarm.start()
        try:
            connection.request("GET", self._folder + path, headers={"Connection": "close"})
            with connection.getresponse() as reply:
                text = reply.read(MOST_BYTES)
            if time.monotonic() > deadline_s:  # what was cut off looks like an answer's end
                raise TimeoutError("timed out")
            return reply.status, text
        finally:
            alarm.cancel()
            connection.close()


def _cut(line: socket.socket) -> None:
    """End a connection under whoever waits for it; a TLS one has no time for courtesies."""
    with suppress(OSError):
        socket.socket.shutdown(line, socket.SHUT_RDWR)
