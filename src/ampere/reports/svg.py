"""SVG: pictures as texts, each complete by itself, all in one style (static/chart.css).

Colours are classes, which a page sets for light and dark; `standalone` gives a picture its own, for
a file. What is put into an element is `Markup`, or a text, which is escaped here.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from markupsafe import Markup

from ampere.core.page import escaped, printable

Svg: TypeAlias = Markup  # well-formed, and safe to stand in a page

NAMESPACE = "http://www.w3.org/2000/svg"
WIDTH = 360
CAPTION_LETTERS, CAPTION_HEIGHT = 56, 14
PNG_ZOOM = 3


def chart(
    height: float,
    title: str,
    description: str,
    *inside: Svg,
    class_: str = "chart",
    **attributes: str | float,
) -> Svg:
    """A whole SVG with what a screen reader says of it."""
    return element(
        "svg",
        element("title", title),
        element("desc", description),
        *inside,
        xmlns=NAMESPACE,
        viewBox=f"0 0 {WIDTH} {coordinate(height)}",
        role="img",
        class_=class_,
        **attributes,
    )


def element(name: str, *inside: Svg | str, **attributes: str | float | None) -> Svg:
    """An element; attributes and texts in it are escaped, an attribute that is None is left out."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    content = "".join(each if isinstance(each, Markup) else escaped(each) for each in inside)
    return Markup(f"<{name}{shown}>{content}</{name}>" if inside else f"<{name}{shown}/>")


def group(*inside: Svg, **attributes: str | float) -> Svg:
    """Things that belong together."""
    return element("g", *inside, **attributes)


def joined(elements: Iterable[Svg]) -> Svg:
    """Things one after the other."""
    return Markup("").join(elements)


def text(x: float, y: float, content: str, **attributes: str | float) -> Svg:
    """Letters at a place."""
    return element("text", content, x=x, y=y, **attributes)


def line(class_: str, *places: tuple[float, float]) -> Svg:
    """A line from place to place."""
    return element("polyline", points=points(places), class_=class_)


def points(places: Iterable[tuple[float, float]]) -> str:
    """Places as polygons and lines take them."""
    return " ".join(f"{coordinate(x)},{coordinate(y)}" for x, y in places)


def coordinate(value: float) -> str:
    """A number as short as a tenth of a unit allows."""
    short = f"{value:.1f}".removesuffix(".0")
    return "0" if short == "-0" else short


def _attribute(value: str | float) -> str:
    return escaped(value) if isinstance(value, str) else coordinate(value)


def chart_style() -> str:
    """The style of all charts."""
    return (files("ampere.reports") / "static" / "chart.css").read_text(encoding="utf-8")


def standalone(svg: Svg, caption: str) -> str:
    """The same chart as a file of its own, on white, with its colours and what it shows in it."""
    style = re.sub(r"var\(--[\w-]+, ([^()]+)\)", r"\1", chart_style())
    view = svg.partition('viewBox="')[2].partition('"')[0]
    height = float(view.split()[-1])
    lines = textwrap.wrap(printable(caption), CAPTION_LETTERS)
    below = joined(
        text(0, height + CAPTION_HEIGHT * number, content, class_="pale")
        for number, content in enumerate(lines, 1)
    )
    tall = coordinate(height + CAPTION_HEIGHT * (len(lines) + 0.5))
    size = f'0 0 {WIDTH} {tall}" width="{WIDTH}" height="{tall}'
    tag, _, body = str(svg).partition(">")
    root, body = tag.replace(view, size, 1), body.removesuffix("</svg>")
    paper = '<rect width="100%" height="100%" fill="#fff"/>'
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f"{head}{root}><style>{style}</style>{paper}{body}{below}</svg>\n"


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
