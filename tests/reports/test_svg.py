from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from ampere.reports.svg import WIDTH, Svg, coordinate, element, joined, standalone, text
from reported import HOSTILE
from reports.drawn import TAG, of_every_chart


def test_texts_are_escaped_and_elements_are_not() -> None:
    assert element("g", "<b>") == "<g>&lt;b&gt;</g>"
    assert element("g", element("rect", x=1.0)) == '<g><rect x="1"/></g>'
    assert element("g", data_at='"', class_="a", fill=None) == '<g data-at="&quot;" class="a"/>'
    assert isinstance(joined([text(0, 1, "&"), text(2, 3, "é")]), Markup)
    assert joined([text(0, 1, "&")]) == '<text x="0" y="1">&amp;</text>'


@given(st.floats(-1e5, 1e5))
def test_coordinates_are_short_and_near(value: float) -> None:
    assert abs(float(coordinate(value)) - value) <= 0.0501
    assert coordinate(value) != "-0" and not coordinate(value).endswith(".0")


@of_every_chart
def test_whatever_is_written_is_escaped_and_said_to_screen_readers(
    draw: Callable[..., Svg],
) -> None:
    svg = draw([1.0, 2.0, 3.0], HOSTILE)
    root = ElementTree.fromstring(svg)
    assert {each.tag.removeprefix(TAG) for each in root.iter()} <= {
        *("svg", "title", "desc", "g", "rect", "text", "circle", "polyline", "polygon")
    }
    assert not [name for each in root.iter() for name in each.attrib if name.startswith("on")]
    assert root.get("role") == "img"
    assert [child.tag for child in root[:2]] == [f"{TAG}title", f"{TAG}desc"]
    assert all("alert(1)" in (child.text or "") for child in root[:2])
    assert "\x1b" not in svg and "\u202e" not in svg
    assert "&amp;lt;" not in svg  # escaped once


@of_every_chart
def test_a_file_has_its_own_colours(draw: Callable[..., Svg]) -> None:
    svg = draw([1.0, 2.0, 3.0])
    file = standalone(svg, f"simulated joules {HOSTILE} " * 9)
    root = ElementTree.fromstring(file.encode())
    assert root.get("width") == str(WIDTH) and float(root.get("height", "0")) > 50
    assert "var(" not in file and "#0072b2" in file
    assert "<style" not in svg
