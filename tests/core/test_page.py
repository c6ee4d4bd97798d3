from __future__ import annotations

import math
import re

from ampere.core.page import Page, Range, bar, escaped, printable, table


def test_a_table_is_aligned() -> None:
    text = table(("name", "n"), (("a", "1"), ("bcd", "200")), "<>", ("total", "201"))
    assert text.splitlines() == [
        "name     n",
        "──────────",
        "a        1",
        "bcd    200",
        "──────────",
        "total  201",
    ]


def test_bars_are_as_long_as_their_values() -> None:
    assert [len(bar(value, 4.0, 8)) for value in (4.0, 2.0, 0.0, -1.0)] == [8, 4, 0, 0]
    assert bar(0.0, 0.0) == ""


def test_a_page_is_its_title_table_and_facts() -> None:
    page = Page(
        "Two",
        headers=("name", "n"),
        rows=(("a", "1"),),
        align="<>",
        facts=(("of", "them"), ("device", "pi")),
    )
    assert page.text().splitlines() == [
        "Two",
        "",
        "name  n",
        "───────",
        "a     1",
        "",
        "of      them",
        "device  pi",
    ]
    assert Page("Only a title").text() == "Only a title"


def test_names_of_others_steer_neither_a_terminal_nor_a_browser() -> None:
    assert printable("\x1b[2Jname\n") == "�[2Jname�"
    assert escaped('<b class="x">\n') == "&lt;b class=&quot;x&quot;&gt;�"
    hostile = Page(
        "<i>", headers=("<i>",), rows=(("<i>",),), total=("<i>",), facts=(("<i>", "<i>"),)
    )
    assert "<i>" not in hostile.html()


def a_drawn_page() -> Page:
    return Page(
        "Two",
        headers=("name", "share"),
        rows=(("a", "40 %"), ("b", "unknown"), ("c", "3")),
        align="<>",
        total=("total", "100 %"),
        bars={"share": (0.4, None, 3.0)},
        ranges=(Range("energy", 1.0, 2.0, 4.0, "1 to 4"), Range("lost", 1.0, math.nan, 2.0, "?")),
    )


def test_a_notebook_draws_shares_and_intervals() -> None:
    page = a_drawn_page().html()
    assert page.count("<span") == 3  # two shares and one interval: what is unknown has none
    assert "#2f86c6 40.0%" in page and "#2f86c6 100.0%" in page
    assert "currentColor 49.4%" in page  # the value, on a scale from 0 to the largest
    assert a_drawn_page()._repr_html_() == page
    assert repr(a_drawn_page()) == a_drawn_page().text()
    assert "energy" not in a_drawn_page().text()


def test_a_notebook_needs_no_style_of_its_own() -> None:
    """It is read in light and in dark: no colour of text or ground, no script, no class."""
    page = a_drawn_page().html()
    assert re.findall(r"[^-]color:([^;\"]*)", page) == ["inherit"]
    assert set(re.findall(r"background:(\w+)", page)) == {"none", "linear"}
    assert "<style" not in page and "<script" not in page and "class=" not in page


def test_a_range_is_as_harmless_as_the_rest() -> None:
    page = Page("a", ranges=(Range("<i>", 0.0, 0.0, 0.0, "<i>"),)).html()
    assert "<i>" not in page and page.count("&lt;i&gt;") == 2
