from __future__ import annotations

from ampere.core.page import Page, bar, escaped, printable, table


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
