"""Look-ups: tables over some of a candidate's levels, joined and added up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.profiles import lookup
from ampere.profiles.lookup import Table, add_up, in_chunks, join

SIZES = (3, 4, 2)  # levels of each axis
axes = st.sets(st.integers(0, 2)).map(lambda found: tuple(sorted(found)))


def some_table(axes: tuple[int, ...], seed: int, vector: int = 0) -> Table:
    shape = (*(SIZES[axis] for axis in axes), *([vector] if vector else []))
    return Table(axes, np.random.default_rng(seed).integers(1, 9, shape).astype(float))


def every_candidate() -> np.ndarray:
    return np.array(list(np.ndindex(*SIZES)))


@given(axes, st.integers(0, 99), st.sampled_from([0, 3]))
def test_a_table_says_what_stands_at_the_levels(
    axes: tuple[int, ...], seed: int, vector: int
) -> None:
    table, candidates = some_table(axes, seed, vector), every_candidate()
    values = np.broadcast_to(table.at(candidates), (len(candidates), *([vector] if vector else [])))
    for levels, value in zip(candidates, values, strict=True):
        np.testing.assert_array_equal(value, table.values[tuple(levels[list(axes)])])


@given(st.lists(axes, min_size=1, max_size=5), st.integers(0, 99), st.booleans())
def test_fewer_tables_give_the_same(
    several: list[tuple[int, ...]], seed: int, product: bool
) -> None:
    tables = [some_table(axes, seed + i) for i, axes in enumerate(several)]
    joined = join(tables, np.multiply if product else np.add)
    assert len(joined) <= len({table.axes for table in tables})
    for table in joined:  # none of them has a home in another
        assert not any(set(table.axes) < set(other.axes) for other in joined)
    candidates = every_candidate()
    reduce = np.multiply.reduce if product else np.add.reduce
    expected, found = (
        reduce([np.broadcast_to(table.at(candidates), len(candidates)) for table in each])
        for each in (tables, joined)
    )
    np.testing.assert_allclose(found, expected)
    if not product:
        total = np.broadcast_to(add_up(joined, candidates), len(candidates))
        np.testing.assert_allclose(total, expected)


def test_a_table_takes_the_shape_of_a_larger_one() -> None:
    table = Table((1,), np.arange(4.0))
    assert table.spread((0, 1, 2)).shape == (1, 4, 1)
    assert some_table((1,), 0, vector=5).spread((0, 1)).shape == (1, 4, 5)


@pytest.mark.parametrize("n", [0, 1, 4, 5, 11])
def test_chunks_are_of_some_size_and_keep_their_order(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "CHUNK", 4)
    sizes: list[int] = []

    def work(levels: np.ndarray) -> np.ndarray:
        sizes.append(len(levels))
        return levels[:, 0] * 2.0

    levels = np.arange(n)[:, None]
    np.testing.assert_array_equal(in_chunks(levels, work), 2.0 * np.arange(n))
    assert sum(sizes) == n
    assert all(size <= 4 for size in sizes)
