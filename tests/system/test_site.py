"""The site of the docs: every page has its place, and fits a desk and a phone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from browser import DESK, PHONE, needs_chromium, open_browser, open_file

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
sys.path.append(str(ROOT / "website"))

import conf  # noqa: E402

BEYOND = (
    "[document.documentElement.scrollWidth, document.body.scrollWidth]"
    ".map(width => width - document.documentElement.clientWidth)"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


def test_no_page_is_left_over() -> None:
    """A page without a place would stand at the end, below "More"."""
    assert "More" not in conf.contents()
    for pages in conf.PARTS.values():
        for page in pages.split():
            assert (ROOT / "docs" / f"{page}.md").is_file(), page


@needs_chromium
@pytest.mark.slow  # it needs the site: `make docs-check` builds it first
@pytest.mark.parametrize("screen", [DESK, PHONE], ids=["desk", "phone"])
def test_no_page_is_wider_than_its_screen(browser: Browser, screen: dict[str, Any]) -> None:
    pages = sorted(SITE.rglob("*.html"))
    if not pages:
        pytest.skip("there is no site: make docs")
    for file in pages:
        with open_file(browser, file, **screen) as watched:
            assert watched.page.evaluate(BEYOND) == [0, 0], file.relative_to(SITE)
            assert all(each.startswith(("file:", "data:")) for each in watched.requests)
