"""A real browser without a window, spoken to through a pipe: neither a driver nor a package.

Chrome's DevTools protocol: JSON objects, each ended by a zero byte. Whatever a page asks for,
prints or throws is kept in `events`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE_S = 60.0


class Page:
    """One tab."""

    def __init__(self, process: subprocess.Popen[bytes], into: int, out: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._process, self._into, self._out = process, into, out
        self._buffer, self._number, self._session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """Ask the browser, and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._into, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path: Path) -> None:
        """Load a file, and wait until it is there."""
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next()

    def js(self, expression: str) -> Any:
        """The value of an expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def drag(self, selector: str, across: int, up: int = 0) -> None:
        """Press the mouse in the middle of something, move it, let go."""
        x, y = self._middle(selector)
        for kind, dx, dy in (
            ("mousePressed", 0, 0),
            ("mouseMoved", across // 2, up // 2),
            ("mouseMoved", across, up),
            ("mouseReleased", across, up),
        ):
            self.call("Input.dispatchMouseEvent", type=kind, x=x + dx, y=y + dy, button="left",
                      buttons=1, clickCount=1)  # fmt: skip

    def swipe(self, selector: str, across: int) -> None:
        """The same with a finger."""
        x, y = self._middle(selector)
        for kind, dx in (("touchStart", 0), *(("touchMove", across * n // 5) for n in range(1, 6))):
            self.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x + dx, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key: str) -> None:
        """A key of the keyboard."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def look(
        self, width: int, height: int = 900, *, dark: bool = False, phone: bool = False
    ) -> None:
        """As on a screen of this width, by day or night."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=phone)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def shoot(self, path: Path, *, whole: bool = True) -> None:
        """A picture of the page."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def complaints(self) -> list[Any]:
        """What the page printed or threw, and what the browser says against it."""
        wrong = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event for event in self.events if event["method"] in wrong]

    def requests(self) -> list[str]:
        """What the page asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def _middle(self, selector: str) -> tuple[float, float]:
        self.js(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center',"
                " behavior: 'instant'})")  # fmt: skip
        box = self.js(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def _next(self) -> dict[str, Any]:
        """The next message; events are kept."""
        end = time.monotonic() + PATIENCE_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._out], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self._out, 1 << 20) if ready else b""
            if not chunk:
                raise AssertionError(f"chromium says nothing (ended with {self._process.poll()})")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        if "method" in found:
            self.events.append(found)
        return found


@contextlib.contextmanager
def open_browser(folder: Path) -> Iterator[Page]:
    """A browser whose traces are all in this folder, and its page."""
    assert CHROMIUM is not None
    their_in, into = os.pipe()
    out, their_out = os.pipe()
    line = f'exec "$0" "$@" 3<&{their_in} 4>&{their_out}'  # where chromium listens and speaks
    process = subprocess.Popen(
        ["bash", "-c", line, CHROMIUM, *OPTIONS, f"--user-data-dir={folder}", "about:blank"],
        pass_fds=(their_in, their_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)},
    )
    os.close(their_in)
    os.close(their_out)
    try:
        yield Page(process, into, out)
    finally:
        os.close(into)  # it ends when nobody speaks to it any more
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(out)
