"""Charts: inside their picture, whatever the numbers are, and as agreed on (tests/golden/*.svg)."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.reports.charts import LETTERS, Bar, Dot, Item, band, bars, scatter, strip
from ampere.reports.surface import Peak, surface
from ampere.reports.svg import WIDTH, Svg, standalone
from golden_files import agreed
from reports.drawn import TAG, of_every_chart

SOME = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=12)


def numbers(svg: Svg) -> list[float]:
    """All coordinates and lengths on a chart."""
    names = ("x", "y", "cx", "cy", "r", "width", "height", "points", "transform", "viewBox")
    values = [each.get(name, "") for each in ElementTree.fromstring(svg).iter() for name in names]
    text = re.sub(r"translate|[(),]", " ", " ".join(values))
    return [float(word) for word in text.split()]


@of_every_chart
@given(SOME)
def test_finite_numbers_stand_on_the_picture(draw: Callable[..., Svg], values: list[float]) -> None:
    svg = draw(values)
    height = float(ElementTree.fromstring(svg).get("viewBox", "").split()[-1])
    for number in numbers(svg):
        assert -60 <= number <= max(WIDTH, height) + 60


@of_every_chart
@given(SOME)
def test_lengths_are_never_negative(draw: Callable[..., Svg], values: list[float]) -> None:
    for rect in ElementTree.fromstring(draw(values)).iter(f"{TAG}rect"):
        assert float(rect.get("width", "-1")) >= 0
        assert float(rect.get("height", "-1")) >= 0


def agreed_bars() -> Svg:
    return bars(
        [
            Bar("conv1", "a & b", 0.020, (0.018, 0.022), 2 / 3, 0, (0.25, 0.5, 0.25)),
            Bar("fc", "linear", 0.010, (0.009, 0.011), 1 / 3, 1),
        ],
        title="Two layers",
        description="an example",
        part_names=("forward", "backward", "update"),
    )


def agreed_scatter() -> Svg:
    dots = [
        Dot(0.010, 0.011, (0.009, 0.013), "first & foremost"),
        Dot(0.020, 0.019, (0.017, 0.021), "second"),
        Dot(0.055, 0.055, (0.040, 0.070), "third"),
    ]
    return scatter(
        dots,
        title="Three networks",
        description="an example",
        x_title="modelled",
        y_title="estimated",
    )


def agreed_band() -> Svg:
    return band(
        [1, 32, 64],
        [(0.001, 0.0005, 0.0015), (0.02, 0.018, 0.022), (0.05, 0.04, 0.06)],
        [Dot(20, 0.012, label="out=20")],
        title="A layer",
        description="an example",
        x_title="out",
        y_title="energy of one layer",
    )


def agreed_strip() -> Svg:
    items = [Item("1: a network", 0, 2.0, 0.3), Item("2: a variant", 1, 0.5, 0.0)]
    return strip(items, ("network", "variant", "failure"), title="Two", description="an example")


def agreed_surface() -> Svg:
    return surface(
        [1, 32, 64],
        [1, 64],
        [[0.001, 0.01], [0.01, 0.02], [0.02, 0.05]],
        [Peak(32, 64, 0.021, "in=32, out=64")],
        title="A layer",
        description="an example",
        axis_names=("in", "out"),
    )


@pytest.mark.parametrize(
    "draw", [agreed_bars, agreed_scatter, agreed_band, agreed_strip, agreed_surface]
)
def test_charts_are_drawn_as_agreed_on(draw: Callable[[], Svg]) -> None:
    file = standalone(draw(), "Modelled joules.")
    assert file == agreed(f"{draw.__name__.removeprefix('agreed_')}.svg", file)


def test_bars_are_as_long_as_their_joules_and_as_divided() -> None:
    root = ElementTree.fromstring(agreed_bars())
    groups = [each for each in root.iter(f"{TAG}g") if each.get("class") == "row"]
    lengths = [[float(r.get("width", "")) for r in g.iter(f"{TAG}rect")] for g in groups]
    assert sum(lengths[0]) == pytest.approx(2 * sum(lengths[1]), abs=0.3)
    assert lengths[0][1] == pytest.approx(2 * lengths[0][0], abs=0.2)
    assert [g.get("data-j") for g in groups] == ["0.02", "0.01"]
    assert [g.get("data-group") for g in groups] == ["0", "1"]
    texts = " ".join(each.text or "" for each in root.iter(f"{TAG}text"))
    assert "20 mJ · 66.7 %" in texts and "forward" in texts


def test_long_labels_are_cut_and_told_in_full() -> None:
    svg = bars([Bar("x" * 90, "its kind", 1.0, (1.0, 1.0), 1.0, 0)], title="", description="")
    assert f">{'x' * (LETTERS - 1)}…<" in svg
    assert f">{'x' * 90}: its kind<" in svg


def test_where_both_agree_is_the_diagonal() -> None:
    dots = [Dot(1.0, 1.0), Dot(2.0, 2.0), Dot(9.0, 9.0)]
    svg = scatter(dots, title="", description="", x_title="x", y_title="y")
    root = ElementTree.fromstring(svg)
    (line,) = [e for e in root.iter(f"{TAG}polyline") if e.get("class") == "diagonal"]
    (x0, y0), (x1, y1) = [map(float, p.split(",")) for p in line.get("points", "").split()]
    for dot in root.iter(f"{TAG}circle"):
        x, y = float(dot.get("cx", "")), float(dot.get("cy", ""))
        assert (y - y0) / (y1 - y0) == pytest.approx((x - x0) / (x1 - x0), abs=0.01)
    assert "whisker" not in svg and "whisker" in agreed_scatter()


def test_nothing_that_was_not_known_is_drawn() -> None:
    items = [Item("told", 0, 0.0, 3.0), Item("told", 0, 0.0, 2.0)]
    svg = strip(items, ("network",), title="", description="")
    assert "joules of each (J)" in svg and "seconds" not in svg
