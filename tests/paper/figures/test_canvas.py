"""Panels, ticks and units that all figures share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere_paper.figures.canvas import (
    BENCH_MARKS,
    FAMILIES,
    families_of,
    grid,
    joule_scale,
    origins,
    plain_log,
)
from ampere_paper.lab.benches import BENCHES
from ampere_paper.lab.plans import SIX

pytest.importorskip("matplotlib")


def test_every_bench_and_family_has_a_look() -> None:
    assert list(BENCH_MARKS) == list(BENCHES)
    assert len(set(BENCH_MARKS.values())) == len(BENCHES)  # told apart
    assert tuple(FAMILIES) == SIX
    assert families_of([{"family": "resnet"}, {"family": "cnn5"}]) == ["cnn5", "resnet"]


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (5, 1), (6, 2), (8, 2)])
def test_more_than_five_panels_stand_in_two_rows(count: int, rows: int) -> None:
    _, panels = grid(count)
    assert len(panels) == count
    assert {panel.get_subplotspec().rowspan.start for panel in panels} == set(range(rows))


def test_joules_are_handy_numbers() -> None:
    assert joule_scale([0.002, -0.02]) == (pytest.approx(1000), "mJ")
    assert joule_scale([2500.0]) == (pytest.approx(1e-3), "kJ")


def test_captions_say_whose_joules_they_are() -> None:
    rows = [
        {"title": "TX2", "provenance": "simulated"},
        {"title": "1 thread", "provenance": "modelled"},
        {"title": "Xavier", "provenance": "simulated"},
    ]
    assert "(TX2, Xavier)" in origins(rows)
    assert "(1 thread)" in origins(rows)


@given(st.floats(1e-6, 1e6), st.floats(1.05, 1e4))
def test_logarithmic_axes_have_a_few_round_numbers(low: float, ratio: float) -> None:
    _, (axes,) = grid(1)
    axes.set_yscale("log")
    axes.set_ylim(low, low * ratio)
    plain_log(axes.yaxis)
    ticks = axes.yaxis.get_majorticklocs()
    assert 2 <= len(ticks) <= 13
    assert all(low * 0.999 <= tick <= low * ratio * 1.001 for tick in ticks)
