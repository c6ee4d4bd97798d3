"""A real browser without a window (playwright drives it), and pages that are watched.

Whatever a page asks for, prints or throws is kept, so that tests can say that it does nothing.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage",
)  # fmt: skip
DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
}

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed: make setup-system"
)


@dataclass(frozen=True)
class Watched:
    """A page that is open in a tab, what it asked for and what it complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def drag(self, selector: str, across: int) -> None:
        """Press the mouse in the middle of something, move it, let go."""
        x, y = self._middle(selector)
        mouse = self.page.mouse
        mouse.move(x, y)
        mouse.down()
        mouse.move(x + across, y, steps=2)
        mouse.up()

    def swipe(self, selector: str, across: int) -> None:
        """The same with a finger: playwright only taps, so the browser itself is told."""
        x, y = self._middle(selector)
        finger = self.page.context.new_cdp_session(self.page)
        for kind, dx in (("touchStart", 0), *(("touchMove", across * n // 5) for n in range(1, 6))):
            point = {"x": x + dx, "y": y}
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
        finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    def _middle(self, selector: str) -> tuple[float, float]:
        found = self.page.locator(selector).first
        found.scroll_into_view_if_needed()
        box = found.bounding_box()
        assert box is not None
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser that ends with the block."""
    assert CHROMIUM is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


def open_file(
    browser: Browser, path: Path, **screen: Any
) -> contextlib.AbstractContextManager[Watched]:
    """A file in a tab that shares nothing with others; `screen` as `DESK` and `PHONE`."""
    return open_address(browser, path.resolve().as_uri(), **screen)


@contextlib.contextmanager
def open_address(browser: Browser, address: str, **screen: Any) -> Iterator[Watched]:
    """The same for what a server shows."""
    with browser.new_context(**(screen or DESK)) as context:
        watched = Watched(context.new_page())
        watched.page.on("request", lambda request: watched.requests.append(request.url))
        watched.page.on("console", lambda message: watched.complaints.append(message.text))
        watched.page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        watched.page.goto(address)
        yield watched
