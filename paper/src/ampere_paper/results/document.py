"""Document: what a run found, as Markdown and as a report.

Both have the same parts: the side-by-side table, then for each experiment the paper's claim, what
was found, its figures and its table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ampere.core.boundary.files import read_whole
from ampere.core.page import Page, printable
from ampere.errors import DataError
from ampere.reports.html import Report
from ampere.reports.parts import Facts, Part, Picture, Quote, Section, Table, Text

MOST_PICTURE = 2**25  # bytes; the largest of the paper's has 400 kB


@dataclass(frozen=True)
class Chapter:
    """A part of a document.

    `claim` is the paper's, `finding` ours; figures are files, without suffix; `parts` are for
    browsers only.
    """

    title: str
    claim: str = ""
    finding: str = ""
    figures: Sequence[Path] = ()
    table: Page | None = None
    parts: Sequence[Part] = ()

    def markdown(self, folder: Path) -> Iterator[str]:
        """Its paragraphs."""
        yield f"## {self.title}"
        if self.claim:
            yield f"> The paper: {self.claim}"
        yield harmless(self.finding)
        for figure in self.figures:
            yield f"![{self.title}]({figure.relative_to(folder).as_posix()}.svg)"
        if self.table is not None:
            yield markdown_table(self.table)

    def report_parts(self) -> Iterator[Part]:
        """The same for a report."""
        if self.claim:
            yield Quote(f"The paper: {self.claim}")
        if self.finding:
            yield Text(self.finding)
        yield from self.parts
        for figure in self.figures:
            yield Picture(_picture(figure.with_suffix(".svg")), self.title)
        if self.table is not None:
            sides = self.table.align or "<" * len(self.table.headers)
            yield Text(f"{self.table.title}:")
            yield Table(self.table.headers, self.table.rows, sides)


@dataclass(frozen=True)
class Document:
    """A page: what it is about, its most important numbers, facts for all of it, its sections."""

    title: str
    lead: str
    facts: Sequence[tuple[str, str]] = ()
    chapters: Sequence[Chapter] = field(default=())
    highlights: Sequence[tuple[str, str]] = ()

    def markdown(self, folder: Path) -> str:
        """As Markdown, with figures by their place relative to the folder."""
        parts = [f"# {self.title}", self.lead]
        parts.append("\n".join(f"- {name}: {harmless(text)}" for name, text in self.facts))
        parts += [text for chapter in self.chapters for text in chapter.markdown(folder)]
        return "\n\n".join(filter(None, parts)) + "\n"

    def report(self) -> Report:
        """As a report, with figures inside."""
        sections = [Section(each.title, tuple(each.report_parts())) for each in self.chapters]
        if self.facts:
            sections.insert(0, Section("This run", (Facts(self.facts),)))
        return Report(self.title, self.lead, tuple(self.highlights), tuple(sections))


def harmless(text: str) -> str:
    """A text of others in Markdown: neither HTML nor a link, nor the end of a cell."""
    return re.sub(r"([\\|\[])", r"\\\1", printable(text)).replace("&", "&amp;").replace("<", "&lt;")


def markdown_table(page: Page) -> str:
    """A table with its title, in Markdown."""
    sides = page.align or "<" * len(page.headers)
    rule = ["---:" if side == ">" else "---" for side in sides]
    lines = [_line(page.headers), "|" + "|".join(rule) + "|", *map(_line, page.rows)]
    return f"{harmless(page.title)}:\n\n" + "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(harmless, cells))} |"


def _picture(file: Path) -> bytes:
    """A figure of the folder, which may be somebody else's."""
    try:
        return read_whole(file, MOST_PICTURE, own=True)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from None
    except DataError as error:
        raise DataError(f"{file} cannot be read: {error}") from None
