"""A page as a browser reads it."""

from __future__ import annotations

from html.parser import HTMLParser

from ampere.reports.html import Report
from ampere.reports.parts import Table

VOID = {"meta", "input", "br", "img", "link"}


class Reader(HTMLParser):
    """What a browser makes of a page: its tags, each closed, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def within(self, tag: str) -> list[str]:
        return [text for home, text in self.texts if home == tag]

    @property
    def text(self) -> str:
        return " ".join(text for home, text in self.texts if home not in ("style", "script"))


def table_of(page: Report, section: str, number: int = 0) -> Table:
    """A table of a section, before it became HTML."""
    (titled,) = [each for each in page.sections if each.title == section]
    return [part for part in titled.parts if isinstance(part, Table)][number]
