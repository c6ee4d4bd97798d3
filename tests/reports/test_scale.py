from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.reports.scale import Scale

ANY = st.floats(allow_nan=False, allow_infinity=False)


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
    assert Scale.over([1.0, 100.0], 0.0, 1.0).linear().at(50.5) == pytest.approx(0.5)
