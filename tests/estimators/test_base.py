"""What any method shares: how much wider an interval of few rows is."""

from __future__ import annotations

import pytest
from scipy import stats

from ampere.estimators.intervals import inflation


@pytest.mark.parametrize("rows", [3, 4, 5, 10, 100, 10_000])
def test_inflation_is_that_of_a_student_interval(rows: int) -> None:
    expected = stats.t(rows).ppf(0.95) / stats.norm.ppf(0.95)
    assert inflation(rows) == pytest.approx(expected, rel=0.01 if rows > 3 else 0.02)


def test_inflation_falls_to_one() -> None:
    values = [inflation(n) for n in (1, 2, 3, 10, 100, 10**6)]
    assert values == sorted(values, reverse=True)
    assert values[0] == values[1]
    assert values[-1] == pytest.approx(1.0, abs=1e-5)
