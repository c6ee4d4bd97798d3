"""Report: a page of sections as one HTML file that needs nothing else, and its charts as files.

No request leaves the page (a content security policy forbids that, and any script but ours), it
works from a disk, on a phone, in the dark, on paper, and its tables and charts without JavaScript.
Texts come from files of others: the templates escape whatever is no `Markup`.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ampere import __version__
from ampere.core.boundary.files import is_there, write_whole
from ampere.core.page import escaped
from ampere.errors import DataError
from ampere.reports.parts import Figure, Section
from ampere.reports.svg import chart_style, png, standalone

SCRIPTS = ("surface.js", "toggles.js")


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
        return tuple(figure for section in self.sections for figure in section.figures)

    def html(self) -> str:
        """The whole file."""
        style = chart_style() + static_text("style.css")
        script = "".join(map(static_text, SCRIPTS))
        policy = (
            f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}';"
            " img-src data:; base-uri 'none'; form-action 'none'"
        )
        return (
            templates()
            .get_template("report.html")
            .render(
                report=self,
                policy=Markup(policy),
                style=Markup(style),
                script=Markup(script),
                version=__version__,
            )
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a new file."""
        refuse_to_overwrite(Path(path))
        write_page(Path(path), self.html())

    def save_figures(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write its charts to a folder, on white, for papers; none is overwritten.

        As SVG, and as PNG where there is what draws it (`ampere-energy[figures]`).
        """
        home = Path(folder)
        contents: dict[Path, str | bytes] = {}
        for name, figure in zip(_file_names(self.figures), self.figures, strict=True):
            svg = standalone(figure.svg, figure.caption)
            contents[home / f"{name}.svg"] = svg
            if dots := png(svg):
                contents[home / f"{name}.png"] = dots
        try:
            home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"cannot make {home}: {error.strerror or error}") from None
        for path in contents:
            refuse_to_overwrite(path)
        with written_together() as written:
            for path, content in contents.items():
                write_page(path, content)
                written.append(path)
        return written


@contextmanager
def written_together() -> Iterator[list[Path]]:
    """A list of new files: if writing all of them fails, none of them stays in the way."""
    written: list[Path] = []
    try:
        yield written
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


@lru_cache(maxsize=1)
def templates() -> Environment:
    """Whatever makes HTML of texts."""
    environment = Environment(
        loader=PackageLoader("ampere.reports"),
        autoescape=True,
        finalize=_harmless,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"with_code": _with_code, "base64": _base64}
    return environment


def _harmless(value: object) -> Markup:
    """What a template shows: besides HTML, letters that steer a reader's terminal are escaped."""
    return value if isinstance(value, Markup) else Markup(escaped(str(value)))


def _with_code(text: str) -> Markup:
    """A text in which what stands between ` and ` is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped(text)))


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def static_text(name: str) -> str:
    """A style or a script of ours."""
    return (files("ampere.reports") / "static" / name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """What a content security policy knows an inline text by."""
    return "sha256-" + _base64(hashlib.sha256(text.encode()).digest())


def _file_names(figures: Sequence[Figure]) -> Iterator[str]:
    """Names of files, each once, whatever the figures are called."""
    uses: dict[str, int] = {}
    for figure in figures:
        name = re.sub(r"[^A-Za-z0-9]+", "-", figure.name).strip("-").lower()[:60] or "figure"
        uses[name] = uses.get(name, 0) + 1
        yield name if uses[name] == 1 else f"{name}-{uses[name]}"


def refuse_to_overwrite(path: Path) -> None:
    """Raise if something is there already, or cannot be."""
    if is_there(path):
        raise DataError(f"{path} exists: choose another name, or remove it first")
    if not path.absolute().parent.is_dir():
        raise DataError(f"cannot write {path}: {path.parent} is no folder")


def write_page(path: Path, content: str | bytes) -> None:
    """Write a new file, whole or not at all."""
    try:
        write_whole(path, content, new=True)
    except FileExistsError:
        raise DataError(f"{path} exists: choose another name, or remove it first") from None
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from None
