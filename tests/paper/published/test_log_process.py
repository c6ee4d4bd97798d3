"""The plain process on log energy: what it is told of a network, and what it says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ampere_paper.published import board, gpus
from ampere_paper.published.log_process import (
    describe_layer,
    describe_network,
    fit_log_process,
)
from published import write_more


def test_a_layer_is_its_widths_and_attributes(tmp_path: Path) -> None:
    (layer,) = gpus.read(write_more(tmp_path))[0].rows[1].layers
    assert describe_layer(layer) == pytest.approx(
        {
            "in": math.log2(96),
            "out": math.log2(128),
            "@batch": math.log2(13),
            "@activation": 1.0,
            "@optimizer": 0.0,
        }
    )


def test_a_network_is_sums_by_operation_and_what_is_common(tmp_path: Path) -> None:
    row = board.read(write_more(tmp_path)).rows[2]  # two layers of 8, plain
    described = describe_network(row.layers, {"batch"})
    assert described["depth"] == pytest.approx(math.log1p(4))
    assert described["linear layers"] == pytest.approx(math.log1p(3))
    assert described["linear flops"] == pytest.approx(math.log1p(3 * 64e6))
    assert described["input activations"] == pytest.approx(math.log1p(1e5))
    assert described["@batch"] == pytest.approx(math.log2(17))
    assert not any("optimizer" in name for name in described)


def test_intervals_are_even_in_logarithms(tmp_path: Path) -> None:
    rows = gpus.read(write_more(tmp_path))[0].rows
    process = fit_log_process(rows[:9])
    assert set(process.columns) == {"in", "out", "@batch"}  # the others never vary
    for answer in process.answers(rows):
        assert 0 < answer.low_j < answer.energy_j < answer.high_j
        assert answer.low_j * answer.high_j == pytest.approx(answer.energy_j**2)


def test_what_was_told_is_found_again_and_is_always_the_same(tmp_path: Path) -> None:
    rows = board.read(write_more(tmp_path)).rows
    process = fit_log_process(rows)
    assert {"@optimizer", "depth", "linear flops"} <= set(process.columns)
    said = process.answers(rows)
    assert [each.energy_j for each in said] == pytest.approx(
        [row.energy_j for row in rows], rel=0.05
    )
    assert fit_log_process(rows).answers(rows) == said


def test_rows_that_are_all_alike_are_fitted_too(tmp_path: Path) -> None:
    row = gpus.read(write_more(tmp_path))[0].rows[0]
    (answer,) = fit_log_process([row] * 3).answers([row])
    assert answer.energy_j == pytest.approx(row.energy_j)
