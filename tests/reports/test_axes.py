from __future__ import annotations

import re

import pytest

from ampere.reports.axes import Ticks, axes, legend, short_number
from ampere.reports.scale import Scale


def test_ticks_are_in_the_unit_that_is_short() -> None:
    scale = Scale(0.0, 0.04, 0.0, 1.0)
    assert Ticks.of(scale, "J", most=4) == Ticks(
        pytest.approx([0.0, 0.01, 0.02, 0.03, 0.04]), ["0", "10", "20", "30", "40"], "mJ"
    )
    assert Ticks.of(Scale(0.0, 2000.0, 0.0, 1.0), most=2).labels == ["0", "1000", "2000"]


def test_both_axes_have_a_line_and_a_number_a_tick() -> None:
    x, y = Scale(0.0, 2.0, 40.0, 340.0), Scale(0.0, 1.0, 200.0, 20.0)
    drawn = axes(x, y, Ticks([0.0, 2.0], ["none", "two"]), Ticks([0.5], ["half"]))
    assert drawn.count('class="grid"') == 3
    assert re.findall(r">(\w+)</text>", drawn) == ["half", "none", "two"]
    assert '<polyline points="40,110 340,110" class="grid"/>' in drawn


def test_a_legend_names_what_is_used() -> None:
    assert re.findall(r"class=\"sort(\d)\"", legend("abc", "sort", 12.0, {0, 2})) == ["0", "2"]
    assert legend("abc", "sort", 12.0).count("<rect") == 3
    assert legend((), "sort", 12.0) == ""


@pytest.mark.parametrize(
    ("value", "label"),
    [(0.5, "0.5"), (12.0, "12"), (1234.5, "1234"), (12345.0, "12345"), (2e6, "2e+06")],
)
def test_numbers_are_short(value: float, label: str) -> None:
    assert short_number(value) == label
