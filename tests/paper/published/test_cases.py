"""Questions to published energies: what is known, and what is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampere_paper.published import board, ecnas, gpus, intel
from ampere_paper.published.cases import (
    Split,
    alternating,
    by_depth,
    by_network,
    drawn,
    make_cases,
    more_cases,
    on_each,
)
from ampere_paper.published.datasets import read_sets
from published import write_all, write_more


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_more(write_all(tmp_path))


def sizes(splits: tuple[Split, ...]) -> list[tuple[int, int]]:
    return [(len(split.known), len(split.asked)) for split in splits]


def test_at_most_half_of_the_rows_is_known(folder: Path) -> None:
    data = ecnas.read(folder)
    case = drawn(data, 20, seeds=3, bar=0.03)
    assert case.name == "EC-NAS, any 6 of 12"
    assert sizes(case.splits) == [(6, 6)] * 3
    for split in case.splits:
        assert sorted(map(data.rows.index, (*split.known, *split.asked))) == list(range(12))
    assert case.splits[0] != case.splits[1]
    assert case.repeat == data.repeat


def test_depths_and_every_second_width(folder: Path) -> None:
    (split,) = by_depth(intel.broadwell(folder), (1, 3), 0.03).splits
    assert {row.layers[0].count for row in split.known} == {1, 3}
    assert {row.layers[0].widths["width"] for row in split.known} == {16, 48}
    assert len(split.asked) == 8


def test_one_deep_row_is_the_deepest_at_its_middle_width(folder: Path) -> None:
    case = by_depth(intel.broadwell(folder), (1, 3), 0.05, deepest=True)
    (split,) = case.splits
    assert case.name.endswith("1/3 hidden layers at 2 widths plus one deep row")
    (deep,) = (row for row in split.known if row.layers[0].count not in (1, 3))
    assert (deep.layers[0].count, deep.layers[0].widths["width"]) == (7, 32)
    assert deep not in split.asked
    assert sizes((split,)) == [(5, 7)]


def test_the_board_is_split_by_network_never_by_row(folder: Path) -> None:
    data = board.read(folder)
    case = by_network(data, 14, seeds=4, bar=0.12, median_bar=0.07)
    assert case.name == "Board, any 3 of 6 networks"
    assert sizes(case.splits) == [(6, 6)] * 4
    arch_of = {id(row): tags["arch"] for row, tags in zip(data.rows, data.tags, strict=True)}
    for split in case.splits:
        known, asked = ({arch_of[id(row)] for row in rows} for rows in (split.known, split.asked))
        assert not known & asked
        assert [tags["arch"] for tags in split.tags] == [arch_of[id(row)] for row in split.asked]


def test_every_gpu_is_asked_by_itself(folder: Path) -> None:
    case = on_each(gpus.read(folder), 40, seeds=2, bar=0.055)
    assert case.name == "GPU linear, any 6 of each of 2 GPUs"
    assert sizes(case.splits) == [(6, 6)] * 4
    for split in case.splits:
        assert len({row.device for row in (*split.known, *split.asked)}) == 1
        assert {tags["GPU"] for tags in split.tags} == {split.asked[0].device}


def test_short_sweeps_are_left_out(folder: Path) -> None:
    case = alternating(intel.sweeps(folder))
    assert case.name == "1 sweeps of one setting, every second value"
    assert sizes(case.splits) == [(4, 4)]


def test_benchmarks_ask_three_questions_more(folder: Path) -> None:
    sets = read_sets(folder)
    cases = make_cases(sets, intel.sweeps(folder), 1)
    more = more_cases(sets["broadwell"], board.read(folder), gpus.read(folder), 1)
    assert (len(cases), len(more)) == (7, 3)
    assert not {case.name for case in cases} & {case.name for case in more}
    assert [(case.bar, case.median_bar) for case in more] == [
        (0.05, None), (0.12, 0.07), (0.055, None),
    ]  # fmt: skip
