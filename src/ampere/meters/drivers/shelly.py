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

import json
import math
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, ClassVar

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Provenance
from ampere.meters.integration import PowerMeter

METHODS = {
    "/rpc/Switch.GetStatus?id={}": "apower",
    "/rpc/PM1.GetStatus?id={}": "apower",
    "/meter/{}": "power",
}
TIMEOUT_S = 3.0


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
        if not self._url.startswith(("http://", "https://")):
            raise MeterError(f"meter shelly: url={url} must begin with http://")
        if switch not in range(100):
            raise MeterError(f"meter shelly: switch={switch} must be 0, 1, 2 and so on")
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))
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
        try:
            with self._http.open(self._url + path, timeout=TIMEOUT_S) as reply:
                text = reply.read(65536)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(65536)
            if error.code == 401:
                raise MeterError(
                    f"{self._url} wants a password; turn its authentication off while measuring"
                ) from None
            if error.code == 404 and not text.startswith(b"{"):
                return {}
        except (OSError, HTTPException, ValueError) as error:
            raise self._silent(error) from error
        try:
            answer = json.loads(text, parse_int=float)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise MeterError(f"{self._url} answers {text[:40]!r}; is it a Shelly?")
        return answer

    def _silent(self, error: Exception) -> MeterError:
        reason = getattr(error, "reason", error)
        if "timed out" in str(reason):  # wireless plugs do that now and then
            return MeterFault(f"{self._url} did not answer for {TIMEOUT_S:g} s; is it in reach?")
        return MeterError(f"{self._url} cannot be reached ({reason!s:.80}); check url and network")
