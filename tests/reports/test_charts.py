"""Charts: well-formed, escaped, inside their picture, whatever the numbers are.

`UPDATE_GOLDEN=1 pytest tests/test_charts.py` writes the golden file anew; look at it in a browser.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.reports.charts import LETTERS, Bar, Dot, Item, Scale, band, bars, scatter, strip
from ampere.reports.surface import Camera, Peak, surface
from ampere.reports.svg import WIDTH, Svg, standalone
from reported import HOSTILE

GOLDEN = Path(__file__).parents[1] / "golden"
ANY = st.floats(allow_nan=False, allow_infinity=False)
SOME = st.lists(ANY, min_size=3, max_size=12)
TAG = "{http://www.w3.org/2000/svg}"


def draw_bars(values: Sequence[float], label: str = "conv1") -> Svg:
    rows = [Bar(label, label, v, w, v, 0.5, 0, (0.5, 0.3, 0.2)) for v, w in _pairs(values)]
    return bars(rows, label, label, ("forward", "backward", label))


def draw_scatter(values: Sequence[float], label: str = "a network") -> Svg:
    return scatter([Dot(v, w, w, v, label) for v, w in _pairs(values)], label, label, label, "y")


def draw_band(values: Sequence[float], label: str = "out") -> Svg:
    three = [(value, value, value) for value in values]
    dots = [Dot(values[0], values[-1], label=label)]
    return band(sorted(values), three, dots, label, label, label, label)


def draw_strip(values: Sequence[float], label: str = "variant") -> Svg:
    items = [Item(label, i % 2, abs(v), abs(w)) for i, (v, w) in enumerate(_pairs(values))]
    return strip(items, (label, "network"), label, label)


def draw_surface(values: Sequence[float], label: str = "in") -> Svg:
    x, y = sorted(values), sorted(values[:3])
    z = [[a / 2 + b / 2 for b in y] for a in x]
    peaks = [Peak(values[0], values[1], values[2], label)]
    return surface(x, y, z, peaks, label, label, (label, "out"))


DRAWN: list[Callable[..., Svg]] = [draw_bars, draw_scatter, draw_band, draw_strip, draw_surface]
drawn = pytest.mark.parametrize("draw", DRAWN)


def _pairs(values: Sequence[float]) -> list[tuple[float, float]]:
    return list(itertools.pairwise([*values, values[0]]))


def numbers(svg: Svg) -> list[float]:
    """All coordinates and lengths on a chart."""
    names = ("x", "y", "cx", "cy", "r", "width", "height", "points", "transform", "viewBox")
    found = [each.get(name, "") for each in ElementTree.fromstring(svg).iter() for name in names]
    text = re.sub(r"translate|[(),]", " ", " ".join(found))
    return [float(word) for word in text.split()]


@drawn
@given(SOME)
def test_finite_numbers_stand_on_the_picture(draw: Callable[..., Svg], values: list[float]) -> None:
    svg = draw(values)
    height = float(ElementTree.fromstring(svg).get("viewBox", "").split()[-1])
    for number in numbers(svg):
        assert -60 <= number <= max(WIDTH, height) + 60


@drawn
@given(SOME)
def test_lengths_are_never_negative(draw: Callable[..., Svg], values: list[float]) -> None:
    for rect in ElementTree.fromstring(draw(values)).iter(f"{TAG}rect"):
        assert float(rect.get("width", "-1")) >= 0
        assert float(rect.get("height", "-1")) >= 0


@drawn
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


@drawn
def test_a_file_has_its_own_colours(draw: Callable[..., Svg]) -> None:
    svg = draw([1.0, 2.0, 3.0])
    file = standalone(svg, f"simulated joules {HOSTILE} " * 9)
    root = ElementTree.fromstring(file.encode())
    assert root.get("width") == str(WIDTH) and float(root.get("height", "0")) > 50
    assert "var(" not in file and "#0072b2" in file
    assert "<style" not in svg


def test_a_scatter_is_drawn_as_agreed_on() -> None:
    dots = [
        Dot(0.010, 0.011, 0.009, 0.013, "first & foremost"),
        Dot(0.020, 0.019, 0.017, 0.021, "second"),
        Dot(0.055, 0.055, 0.040, 0.070, "third"),
    ]
    said = standalone(
        scatter(dots, "Three networks", "an example", "modelled", "estimated"), "Modelled joules."
    )
    path = GOLDEN / "scatter.svg"
    if "UPDATE_GOLDEN" in os.environ:
        path.write_text(said, encoding="utf-8")
    assert said == path.read_text(encoding="utf-8")


def test_bars_are_as_long_as_their_joules_and_as_divided() -> None:
    rows = [
        Bar("a", "", 2.0, 1.8, 2.2, 2 / 3, 0, (0.25, 0.5, 0.25)),
        Bar("b", "", 1.0, 0.9, 1.1, 1 / 3, 1),
    ]
    root = ElementTree.fromstring(bars(rows, "", "", ("forward", "backward", "update")))
    groups = [each for each in root.iter(f"{TAG}g") if each.get("class") == "row"]
    lengths = [[float(r.get("width", "")) for r in g.iter(f"{TAG}rect")] for g in groups]
    assert sum(lengths[0]) == pytest.approx(2 * sum(lengths[1]), abs=0.3)
    assert lengths[0][1] == pytest.approx(2 * lengths[0][0], abs=0.2)
    assert [g.get("data-j") for g in groups] == ["2.0", "1.0"]
    assert [g.get("data-group") for g in groups] == ["0", "1"]
    texts = " ".join(each.text or "" for each in root.iter(f"{TAG}text"))
    assert "2 J · 66.7 %" in texts and "forward" in texts


def test_long_labels_are_cut_and_told_in_full() -> None:
    svg = bars([Bar("x" * 90, "its kind", 1.0, 1.0, 1.0, 1.0, 0)], "", "")
    assert f">{'x' * (LETTERS - 1)}…<" in svg
    assert f">{'x' * 90}: its kind<" in svg


def test_where_both_agree_is_the_diagonal() -> None:
    svg = scatter([Dot(1.0, 1.0), Dot(2.0, 2.0), Dot(9.0, 9.0)], "", "", "x", "y")
    root = ElementTree.fromstring(svg)
    (line,) = [e for e in root.iter(f"{TAG}polyline") if e.get("class") == "diagonal"]
    (x0, y0), (x1, y1) = [map(float, p.split(",")) for p in line.get("points", "").split()]
    for dot in root.iter(f"{TAG}circle"):
        x, y = float(dot.get("cx", "")), float(dot.get("cy", ""))
        assert (y - y0) / (y1 - y0) == pytest.approx((x - x0) / (x1 - x0), abs=0.01)


def test_nothing_that_was_not_known_is_drawn() -> None:
    svg = strip([Item("told", 0, 0.0, 3.0), Item("told", 0, 0.0, 2.0)], ("network",), "", "")
    assert "joules of each (J)" in svg and "seconds" not in svg


@given(ANY, ANY)
def test_ticks_are_few_rising_and_inside(a: float, b: float) -> None:
    scale = Scale.over([a, b], 0.0, 100.0)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 12
    assert ticks == sorted(set(ticks))
    slack = 1e-6 * (abs(scale.low) + abs(scale.high))
    assert scale.low - slack <= ticks[0] <= ticks[-1] <= scale.high + slack


def test_round_ticks() -> None:
    assert Scale(0.0, 10.0, 0.0, 1.0).ticks() == [0, 2, 4, 6, 8, 10]
    assert Scale(0.0, 0.07, 0.0, 1.0).ticks(4) == pytest.approx([0, 0.02, 0.04, 0.06])
    assert Scale.over([1e-3, 2.0], 0.0, 1.0).ticks() == pytest.approx([1e-3, 1e-2, 0.1, 1.0])
    assert Scale(3.0, 3.0, 0.0, 1.0).ticks() == [3.0]


def test_a_wide_range_is_logarithmic_and_a_narrow_one_is_not() -> None:
    assert Scale.over([1.0, 100.0], 0.0, 1.0).at(10.0) == pytest.approx(0.5)
    assert Scale.over([1.0, 3.0], 0.0, 1.0).at(2.0) == pytest.approx(0.5)
    assert Scale.over([1.0, 100.0], 0.0, 1.0, zero=True).at(50.0) == pytest.approx(0.5)


@given(st.floats(-20, 20), st.floats(0.05, 1.5))
def test_one_corner_and_two_sides_have_numbers_from_wherever_it_is_seen(
    turn: float, tilt: float
) -> None:
    camera = Camera(turn, tilt)
    sides = camera.sides()
    assert sorted(map(len, sides)) == [2, 2, 4]
    (corner,) = (side for side in sides if len(side) == 4)
    corners = {f"x{x}y{y}": camera.see((x, y, 0))[0] for x in (0, 1) for y in (0, 1)}
    assert corners[corner] == pytest.approx(min(corners.values()), abs=1e-6)
    (side,) = (side for side in sides if side in ("x0", "x1"))
    other = {"x0": "x1", "x1": "x0"}[side]
    near, far = (camera.nearness([(int(s[1]), 0.5, 0)]) for s in (side, other))
    assert near >= far - 1e-9


def test_what_is_near_is_drawn_last() -> None:
    camera = Camera()
    svg = surface([1, 2, 3], [1, 2, 3], [[1, 2, 3]] * 3, [], "", "", ("in", "out"))
    faces = [e for e in ElementTree.fromstring(svg).iter() if e.get("class") == "face"]
    assert len(faces) == 4
    places = [list(map(float, face.get("data-at", "").split())) for face in faces]
    near = [camera.nearness(list(zip(p[::3], p[1::3], p[2::3], strict=True))) for p in places]
    assert near == sorted(near)
    assert math.isclose(max(max(p[2::3]) for p in places), 1.0)
