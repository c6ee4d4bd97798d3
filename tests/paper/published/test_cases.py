"""Questions to published energies: what is known, and what is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampere_paper.published.cases import alternating, by_depth, drawn, examine
from ampere_paper.published.datasets import broadwell, ecnas, sweeps
from published import write_all


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_all(tmp_path)


def test_at_most_half_of_the_rows_is_known(folder: Path) -> None:
    data = ecnas(folder)
    case = drawn(data, 20, seeds=3, bar=0.03)
    assert case.name == "EC-NAS, any 6 of 12"
    assert [(len(known), len(asked)) for known, asked in case.splits] == [(6, 6)] * 3
    for known, asked in case.splits:
        assert sorted(map(data.rows.index, (*known, *asked))) == list(range(12))
    assert case.splits[0] != case.splits[1]


def test_depths_and_every_second_width(folder: Path) -> None:
    ((known, asked),) = by_depth(broadwell(folder), (1, 3), 0.03).splits
    assert {row.layers[0].count for row in known} == {1, 3}
    assert {row.layers[0].widths["width"] for row in known} == {16, 48}
    assert len(asked) == 8


def test_short_sweeps_are_left_out(folder: Path) -> None:
    case = alternating(sweeps(folder))
    ((known, asked),) = case.splits
    assert case.name == "1 sweeps of one setting, every second value"
    assert (len(known), len(asked)) == (4, 4)


def test_an_examination_counts_what_it_asks(folder: Path) -> None:
    row = examine(by_depth(broadwell(folder), (1, 3), 0.03), "additive")
    assert (row["known"], row["asked"], row["bar"]) == ([4], [8], 0.03)
    assert row["mape_by_split"] == [row["mape"]]
    assert examine(by_depth(broadwell(folder), (1, 3), 0.03), "roofline")["bar"] is None
