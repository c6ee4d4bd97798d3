from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core import units


@pytest.mark.parametrize(
    ("energy_j", "text"),
    [
        (0.0, "0 J"),
        (1.234e-3, "1.23 mJ"),
        (45.6, "45.6 J"),
        (1200.0, "1.20 kJ"),
        (999.6, "1.00 kJ"),
        (999.4, "999 J"),
        (-3e-6, "-3.00 µJ"),
        (1e-12, "0.00100 nJ"),
        (math.nan, "unknown"),
        (math.inf, "unknown"),
    ],
)
def test_joules(energy_j: float, text: str) -> None:
    assert units.joules(energy_j) == text


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (2.3e-3, "2.30 ms"),
        (12.0, "12.0 s"),
        (59.9, "59.9 s"),
        (59.96, "1 min"),
        (65.0, "1 min 5 s"),
        (3599.6, "1 h"),
        (4320.0, "1 h 12 min"),
        (86399.0, "1 d"),
        (97200.0, "1 d 3 h"),
        (math.nan, "unknown"),
    ],
)
def test_seconds(time_s: float, text: str) -> None:
    assert units.seconds(time_s) == text


def test_other_units() -> None:
    assert units.flops(743e6) == "743 MFLOP"
    assert units.watt_hours(54000) == "15.0 Wh"
    assert units.watts(2.7) == "2.70 W"
    euros = {1234.5: "1234.50", 0.3: "0.300", 0.0145: "0.0145", 0.0: "0.00", 1e-13: "0.00"}
    assert {each: units.money(each, "EUR") for each in euros} == {
        each: f"{text} EUR" for each, text in euros.items()
    }
    assert [units.money(each, "EUR") for each in (4.79e-6, -0.002)] == ["4.79 µEUR", "-2.00 mEUR"]
    assert units.percent(0.2649) == "26.5 %"
    assert [units.percent(share) for share in (0.0, 1e-5)] == ["0.0 %", "<0.1 %"]
    assert units.same_unit([20.0, 0.001, 0.0], "J") == ("J", ["20.00", "<0.01", "0.00"])
    assert units.percent(None) == units.percent(math.nan) == "unknown"
    assert [units.plural(n, "step") for n in (1, 2000)] == ["1 step", "2,000 steps"]


@given(st.floats(1e-9, 1e15))
def test_three_digits_are_right(value: float) -> None:
    text, unit = units.joules(value).split()
    power = {"n": -9, "µ": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
    assert math.isclose(float(text) * 10.0 ** power.get(unit[:-1], 0), value, rel_tol=0.0051)
    assert len(text.replace(".", "")) == 3


@given(st.lists(st.floats(1e-9, 1e12), min_size=1))
def test_a_column_has_one_unit_and_keeps_its_order(values: list[float]) -> None:
    unit, texts = units.same_unit(values, "J")
    assert unit.endswith("J")
    assert len({len(text.partition(".")[2]) for text in texts}) == 1
    numbers = [0.0 if text.startswith("<") else float(text) for text in texts]
    assert sorted(numbers) == [number for _, number in sorted(zip(values, numbers, strict=True))]


def test_several_of_the_same_are_counted() -> None:
    assert [units.times("x", n) for n in (1, 3)] == ["x", "x ×3"]


@pytest.mark.parametrize(
    ("times_s", "unit", "texts"),
    [
        ([0.5, 12.0], "s", ["0.50", "12.00"]),
        ([599.0, 1.0], "s", ["599.0", "1.0"]),
        ([600.0, 90.0, math.nan], "min", ["10.00", "1.50", "unknown"]),
        ([36000.0, 1800.0], "h", ["10.00", "0.50"]),
        ([864000.0, 8640000.0], "d", ["10.0", "100.0"]),
        ([864e6], "d", ["10000.0"]),
    ],
)
def test_long_times_are_told_in_minutes_hours_and_days(
    times_s: list[float], unit: str, texts: list[str]
) -> None:
    assert units.same_time(times_s) == (unit, texts)
