"""Report: headings, texts, tables and charts as one HTML file that needs nothing else.

No request leaves it (a content security policy forbids that, and any script but ours), it works
from a disk, on a phone, in the dark, on paper, and its tables and charts without JavaScript. Texts
come from files of others: everything is escaped here, once, where it becomes HTML.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Protocol

from ampere import __version__
from ampere.core.page import escaped
from ampere.errors import DataError
from ampere.reports.svg import Svg, png, standalone, style

SCRIPTS = ("surface.js", "toggles.js")
TURNING = "Surfaces turn: drag them, or use the arrow keys; Home turns them back."
LONG = 32  # letters of a text that is broken into lines


class Part(Protocol):
    """What a section is made of."""

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The charts in it."""
        ...

    def html(self) -> str:
        """As HTML, with everything escaped."""
        ...


@dataclass(frozen=True)
class Text:
    """A paragraph, or a warning; what stands between ` and ` is code."""

    text: str
    warning: bool = False
    figures: tuple[Figure, ...] = field(default=(), init=False)

    def html(self) -> str:
        """As a paragraph."""
        kind = ' class="warning"' if self.warning else ""
        text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped(self.text))
        return f"<p{kind}>{text}</p>"


@dataclass(frozen=True)
class Quote:
    """What somebody else says."""

    text: str
    figures: tuple[Figure, ...] = field(default=(), init=False)

    def html(self) -> str:
        """As a block of its own."""
        return f"<blockquote>{escaped(self.text)}</blockquote>"


@dataclass(frozen=True)
class Facts:
    """Names and what there is to say of each."""

    rows: Sequence[tuple[str, str]]
    figures: tuple[Figure, ...] = field(default=(), init=False)

    def html(self) -> str:
        """As a list."""
        rows = "".join(
            f"<div><dt>{escaped(name)}</dt><dd>{escaped(text)}</dd></div>"
            for name, text in self.rows
        )
        return f"<dl>{rows}</dl>"


@dataclass(frozen=True)
class Table:
    """Rows of texts; `align` has `<` or `>` for each column. A long one scrolls."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str
    figures: tuple[Figure, ...] = field(default=(), init=False)

    def html(self) -> str:
        """As a table that scrolls by itself."""
        head = self._row("th", self.headers)
        body = "".join(self._row("td", row) for row in self.rows)
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="table">'
            f"<table><thead>{head}</thead><tbody>{body}</tbody></table></div>"
        )

    def _row(self, tag: str, cells: Sequence[str]) -> str:
        row = "".join(
            f'<{tag} class="{kind}">{escaped(cell)}</{tag}>'
            for cell, kind in zip(cells, self._kinds(), strict=True)
        )
        return f"<tr>{row}</tr>"

    def _kinds(self) -> Iterator[str]:
        """Of the columns: numbers, texts in a line each, and long texts, which need some room."""
        for column, side in zip(
            zip(self.headers, *self.rows, strict=True), self.align, strict=True
        ):
            texts = "long" if max(map(len, column)) > LONG else "short"
            yield "number" if side == ">" else texts


@dataclass(frozen=True)
class Figure:
    """A chart with what stands below it; its name is that of its file."""

    name: str
    svg: Svg
    caption: str
    label: str = ""  # by which it is chosen among others

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Itself."""
        return (self,)

    def html(self) -> str:
        """As a figure."""
        caption = f"<figcaption>{escaped(self.caption)}</figcaption>"
        label = escaped(self.label or self.name)
        return f'<figure data-label="{label}">{self.svg}{caption}</figure>'


@dataclass(frozen=True)
class Picture:
    """A drawing of another program, an SVG file that stays as it is; `text` is what it shows."""

    svg: bytes
    text: str
    figures: tuple[Figure, ...] = field(default=(), init=False)

    def html(self) -> str:
        """As a picture, inside which nothing can run."""
        data = base64.b64encode(self.svg).decode()
        image = f'<img alt="{escaped(self.text)}" src="data:image/svg+xml;base64,{data}">'
        return f'<figure class="picture">{image}</figure>'


@dataclass(frozen=True)
class Chooser:
    """Several figures of which one is seen at a time; without JavaScript, all."""

    figures: tuple[Figure, ...]

    def html(self) -> str:
        """As figures in a box."""
        return f'<div class="chooser">{"".join(figure.html() for figure in self.figures)}</div>'


@dataclass(frozen=True)
class Toggles:
    """A bar chart whose groups can be hidden, with what the rest costs together."""

    figure: Figure
    groups: Sequence[str]
    total: str
    unit: str
    size: float  # of the unit, in joules

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Its chart."""
        return (self.figure,)

    def html(self) -> str:
        """As boxes to tick beside the chart; they are of no use, so hidden, without JavaScript."""
        boxes = "".join(
            f'<label><input type="checkbox" value="{number}" checked> {escaped(name)}</label>'
            for number, name in enumerate(self.groups)
        )
        return (
            f'<div class="toggles" data-unit="{escaped(self.unit)}"'
            f' data-size="{self.size!r}">'
            f'<p class="total">Shown: <output>{escaped(self.total)}</output></p>'
            f"<fieldset hidden><legend>Show</legend>{boxes}</fieldset>{self.figure.html()}</div>"
        )


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; on a wide screen two halves stand side by side."""

    title: str
    parts: tuple[Part, ...]
    half: bool = False

    def html(self, number: int) -> str:
        """As a section that can be linked to."""
        title = escaped(self.title)
        parts = "".join(part.html() for part in self.parts)
        kind = ' class="half"' if self.half else ""
        return f'<section id="section-{number}"{kind}><h2>{title}</h2>{parts}</section>'


@dataclass(frozen=True)
class Report:
    """A page: what it is about, the numbers that matter most, and its sections."""

    title: str
    lead: str
    highlights: tuple[tuple[str, str], ...]  # a number, and what it is
    sections: tuple[Section, ...]

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All charts, in the order in which they stand."""
        return tuple(
            figure for section in self.sections for part in section.parts for figure in part.figures
        )

    def html(self) -> str:
        """The whole file."""
        css = style() + _own("style.css")
        script = "".join(map(_own, SCRIPTS))
        policy = (
            f"default-src 'none'; style-src '{_digest(css)}'; script-src '{_digest(script)}';"
            " img-src data:; base-uri 'none'; form-action 'none'"
        )
        title = escaped(self.title)
        numbers = "".join(
            f"<div><b>{escaped(number)}</b><span>{escaped(what)}</span></div>"
            for number, what in self.highlights
        )
        links = "".join(
            f'<a href="#section-{number}">{escaped(section.title)}</a>'
            for number, section in enumerate(self.sections)
        )
        sections = "".join(section.html(n) for n, section in enumerate(self.sections))
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>{title}</title><style>{css}</style></head><body>"
            f"<header><h1>{title}</h1><p>{escaped(self.lead)}</p>"
            f'<div class="highlights">{numbers}</div><nav>{links}</nav></header>'
            f"<main>{sections}</main><footer>ampere {__version__}</footer>"
            f"<script>{script}</script></body></html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a new file."""
        _write(Path(path), self.html())

    def save_figures(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write its charts to a folder, on white, for papers; none is overwritten.

        As SVG, and as PNG where there is what draws it (`ampere-energy[figures]`).
        """
        home = Path(folder)
        names = list(_file_names(self.figures))
        written: dict[Path, str | bytes] = {}
        for name, figure in zip(names, self.figures, strict=True):
            svg = standalone(figure.svg, figure.caption)
            written[home / f"{name}.svg"] = svg
            if dots := png(svg):
                written[home / f"{name}.png"] = dots
        try:
            home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"cannot make {home}: {error.strerror or error}") from None
        for path in written:
            refuse_to_overwrite(path)
        for path, content in written.items():
            _write(path, content)
        return list(written)


def _own(name: str) -> str:
    return (files("ampere.reports") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What a content security policy knows an inline text by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _file_names(figures: Sequence[Figure]) -> Iterator[str]:
    """Names of files, each once, whatever the figures are called."""
    seen: dict[str, int] = {}
    for figure in figures:
        name = re.sub(r"[^A-Za-z0-9]+", "-", figure.name).strip("-").lower()[:60] or "figure"
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name}-{seen[name]}"


def refuse_to_overwrite(path: Path) -> None:
    """Raise if something is there already, or cannot be."""
    if path.exists():
        raise DataError(f"{path} exists: choose another name, or remove it first")
    if not path.absolute().parent.is_dir():
        raise DataError(f"cannot write {path}: {path.parent} is no folder")


def _write(path: Path, content: str | bytes) -> None:
    refuse_to_overwrite(path)
    try:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from None
