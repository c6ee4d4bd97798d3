"""Between its levels a table is a smooth surface; at them it is the table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.profiles.lookup import Table
from ampere.profiles.tables.relaxation import relax

RNG = np.random.default_rng(0)
# As in families: level 0 is never asked for, one table has two axes, one three, one none.
TABLES = [
    Table((0, 1), RNG.random((8, 6))),
    Table((0, 1, 2), RNG.random((8, 6, 5))),
    Table((), np.asarray(3.0)),
]
TOPS = (7, 5, 4)
levels = st.tuples(*(st.floats(1, top) for top in TOPS))


def value(at: tuple[float, ...]) -> float:
    return float(relax(TABLES, np.array([at]), TOPS).values[0])


def test_at_levels_it_is_the_table_and_its_differences() -> None:
    for at in ((1, 1, 1), (7, 5, 4), (3, 2, 4), (2, 5, 1)):
        values, slopes = relax(TABLES, np.array([at], float), TOPS)
        assert values[0] == pytest.approx(sum(t.at(np.array([at])) for t in TABLES).item())
        for axis, top in enumerate(TOPS):
            up, down = list(at), list(at)
            up[axis], down[axis] = min(at[axis] + 1, top), max(at[axis] - 1, 1)
            rise = (value(tuple(up)) - value(tuple(down))) / (up[axis] - down[axis])
            assert slopes[0, axis] == pytest.approx(rise)


@given(levels)
def test_slopes_are_those_of_the_surface(at: tuple[float, ...]) -> None:
    slopes = relax(TABLES, np.array([at]), TOPS).slopes[0]
    for axis, top in enumerate(TOPS):
        low, high = list(at), list(at)
        low[axis], high[axis] = max(at[axis] - 1e-5, 1.0), min(at[axis] + 1e-5, top)
        rise = (value(tuple(high)) - value(tuple(low))) / (high[axis] - low[axis])
        assert slopes[axis] == pytest.approx(rise, abs=2e-4)


@given(levels, levels)
def test_what_is_linear_stays_so(at: tuple[float, ...], other: tuple[float, ...]) -> None:
    line = Table((1,), np.arange(6.0) * 2 + 1)
    values, slopes = relax([line], np.array([at, other]), TOPS)
    assert values == pytest.approx([2 * at[1] + 1, 2 * other[1] + 1])
    assert slopes[:, 1] == pytest.approx(2.0)
    assert not slopes[:, [0, 2]].any()


def test_an_axis_of_one_level_has_no_slope() -> None:
    values, slopes = relax([Table((0,), np.array([9.0, 5.0]))], np.ones((2, 1)), (1,))
    assert values.tolist() == [5.0, 5.0]
    assert slopes.tolist() == [[0.0], [0.0]]
