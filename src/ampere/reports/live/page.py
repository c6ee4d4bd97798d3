"""LivePage: the page of runs as one HTML file, and in pieces that are replaced as runs go on.

What is served and what is saved are the same file: it needs nothing else, and asks nobody but the
server that it came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from ampere import __version__
from ampere.core.page import printable
from ampere.core.types import Json
from ampere.reports.html import digest, static_text, templates
from ampere.reports.live.standing import Standing
from ampere.reports.parts import Section
from ampere.reports.svg import chart_style

UPLOT = "1.6.32"


@dataclass(frozen=True)
class Panel:
    """A section that is replaced by itself, known by its key."""

    key: str
    section: Section
    href: str = ""  # where its heading leads
    standing: Standing | None = None


@dataclass(frozen=True)
class LivePage:
    """One run, or several side by side, at one moment."""

    title: str
    lead: str
    origin: str  # what its joules are: always in sight
    standings: tuple[Standing, ...]
    highlights: tuple[tuple[str, str], ...]  # a number, and what it is
    panels: tuple[Panel, ...]
    home: bool = False  # there is a page of all runs to go back to

    def pieces(self) -> dict[str, Json]:
        """What a page that is open needs to look like this one."""
        made: Any = templates().get_template("live_parts.html").module
        return {
            "title": printable(self.title),
            "bar": str(made.bar(self)),
            "head": str(made.head(self)),
            "panels": [[panel.key, str(made.panel(panel))] for panel in self.panels],
        }

    def html(self, link: str, address: str = "") -> str:
        """The whole file.

        Args:
            link: What it says of its connection.
            address: Where news are to be had; empty if there will be none.
        """
        style, script = _assets()
        return (
            templates()
            .get_template("live.html")
            .render(
                page=self,
                policy=Markup(policy(live=bool(address))),
                style=Markup(style),
                script=Markup(script),
                link=link,
                address=address,
                version=__version__,
                uplot=UPLOT,
            )
        )


@lru_cache(maxsize=2)
def policy(live: bool) -> str:
    """What a page may do: run our script, show our style, and ask its own server if it is live."""
    style, script = map(digest, _assets())
    connect = " connect-src 'self';" if live else ""
    return (
        f"default-src 'none'; style-src '{style}'; script-src '{script}';{connect}"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )


@lru_cache(maxsize=1)
def _assets() -> tuple[str, str]:
    """All styles, and all scripts."""
    home = files("ampere.reports") / "live"

    def own(*names: str) -> str:
        return home.joinpath(*names).read_text(encoding="utf-8")

    styles = (chart_style(), static_text("style.css"), own("uplot", "uPlot.min.css"))
    style = "\n".join((*styles, own("static", "live.css")))
    return style, own("uplot", "uPlot.iife.min.js") + own("static", "live.js")
