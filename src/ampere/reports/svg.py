"""SVG: pictures as texts, each complete by itself, all in one style (chart.css).

Colours are classes, which a page sets for light and dark; `standalone` gives a picture its own, for
a file. Whatever is written on one is escaped here.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import NewType

from ampere.core.page import escaped, printable

Svg = NewType("Svg", str)  # well-formed, and safe to stand in a page

NAMESPACE = "http://www.w3.org/2000/svg"
WIDTH = 360
CAPTION_LETTERS, CAPTION_HEIGHT = 56, 14
PNG_ZOOM = 3


def chart(
    height: float,
    title: str,
    description: str,
    *inside: str,
    class_: str = "chart",
    **attributes: str | float,
) -> Svg:
    """A whole SVG with what a screen reader says of it."""
    return Svg(
        element(
            "svg",
            element("title", escaped(title)),
            element("desc", escaped(description)),
            *inside,
            xmlns=NAMESPACE,
            viewBox=f"0 0 {WIDTH} {coordinate(height)}",
            role="img",
            class_=class_,
            **attributes,
        )
    )


def standalone(svg: Svg, caption: str) -> str:
    """The same chart as a file of its own, on white, with its colours and what it shows in it."""
    css = re.sub(r"var\(--[\w-]+, ([^()]+)\)", r"\1", style())
    view = svg.partition('viewBox="')[2].partition('"')[0]
    height = float(view.split()[-1])
    lines = textwrap.wrap(printable(caption), CAPTION_LETTERS)
    below = [
        text(0, height + CAPTION_HEIGHT * number, line, class_="pale")
        for number, line in enumerate(lines, 1)
    ]
    tall = coordinate(height + CAPTION_HEIGHT * (len(lines) + 0.5))
    start = svg.index(">") + 1
    size = f'0 0 {WIDTH} {tall}" width="{WIDTH}" height="{tall}'
    root, body = svg[:start].replace(view, size, 1), svg[start:].removesuffix("</svg>")
    paper = '<rect width="100%" height="100%" fill="#fff"/>'
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f"{head}{root}<style>{css}</style>{paper}{body}{''.join(below)}</svg>\n"


def png(svg: str) -> bytes | None:
    """A standalone chart in dots, 300 to an inch of a column; None where nothing can draw it."""
    try:
        from matplotlib import get_data_path
        from resvg_py import svg_to_bytes
    except ImportError:
        return None
    font = Path(get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")  # whatever the system has
    return svg_to_bytes(
        svg_string=svg,
        zoom=PNG_ZOOM,
        skip_system_fonts=True,
        font_files=[str(font)],
        sans_serif_family="DejaVu Sans",
    )


def style() -> str:
    """The style of all charts."""
    return (files("ampere.reports") / "chart.css").read_text(encoding="utf-8")


def element(name: str, *inside: str, **attributes: str | float | None) -> str:
    """An element: attributes are escaped, what is inside is SVG or escaped already."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{''.join(inside)}</{name}>" if inside else f"<{name}{given}/>"


def text(x: float, y: float, content: str, **attributes: str | float) -> str:
    """Letters at a place."""
    return element("text", escaped(content), x=x, y=y, **attributes)


def points(places: Iterable[tuple[float, float]]) -> str:
    """Places as polygons and lines take them."""
    return " ".join(f"{coordinate(x)},{coordinate(y)}" for x, y in places)


def coordinate(value: float) -> str:
    """A number as short as a tenth of a unit allows."""
    short = f"{value:.1f}".removesuffix(".0")
    return "0" if short == "-0" else short


def _attribute(value: str | float) -> str:
    return escaped(value) if isinstance(value, str) else coordinate(value)
