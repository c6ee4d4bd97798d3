"""Repeats: what agrees within a sitting says nothing of the next one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.layers import Layer
from ampere.records.failure import Failure
from ampere.records.measurement import Measurement, utc
from ampere.records.repeats import USUAL, Repeats, repeats_of
from fakes import plain_model

ONE, OTHER = plain_model(4, 8), plain_model(16)


def row(
    energy_j: float,
    sitting: str = "a",
    at_s: float = 1_770_000_000.0,
    layers: tuple[Layer, ...] = ONE,
    spread: float = 0.02,
) -> Measurement:
    return Measurement(
        layers, energy_j, 1.0, sitting=sitting, when=utc(at_s), spread=spread, device="d"
    )


def test_two_sittings_by_hand() -> None:
    found = repeats_of([row(1.0), row(1.1, "b", at_s=1_770_000_180.0)])
    assert found.between == pytest.approx(math.log(1.1) / math.sqrt(2))
    assert found.degrees == 1
    assert found.apart_s == 180.0
    assert found.within == 0.02
    assert found.when == ""


def test_networks_are_put_together_by_how_often_they_were_repeated() -> None:
    rows = [
        *(row(math.exp(x), sitting) for x, sitting in zip((0.0, 0.1, 0.2), "abc", strict=True)),
        *(row(math.exp(x), sitting, layers=OTHER) for x, sitting in ((5.0, "a"), (5.2, "b"))),
    ]
    found = repeats_of(rows)
    squares = (0.01 + 0.0 + 0.01) + (0.01 + 0.01)  # off the mean of each network
    assert found.degrees == 3
    assert found.between == pytest.approx(math.sqrt(squares / 3))


def test_rows_of_one_sitting_tell_nothing_of_others() -> None:
    found = repeats_of([row(1.0), row(1.5), row(2.0)])
    assert (found.between, found.degrees, found.apart_s) == (None, 0, 0.0)


def test_rows_that_do_not_say_which_sitting_tell_nothing_of_others() -> None:
    """A journal from before there were sittings."""
    found = repeats_of([row(1.0, ""), row(1.5, ""), row(1.2, "a")])
    assert (found.between, found.degrees) == (None, 0)
    assert found.within == 0.02


@pytest.mark.parametrize(
    "change",
    [
        {"layers": OTHER},
        {"stage": "forward"},
        {"device": "another"},
        {"failed": Failure("it hung"), "energy_j_per_step": None},
        {"energy_j_per_step": None},
    ],
)
def test_only_the_same_network_on_the_same_device_is_a_repeat(change: dict[str, object]) -> None:
    found = repeats_of([row(1.0), replace(row(1.3, "b"), **change)])  # type: ignore[arg-type]
    assert found.between is None


def test_a_failure_tells_nothing_at_all() -> None:
    failed = Measurement(ONE, failed=Failure("it hung"), sitting="b", spread=9.0)
    assert repeats_of([row(1.0), row(1.1, "c"), failed]) == repeats_of([row(1.0), row(1.1, "c")])


def test_the_spread_of_bursts_is_the_median_of_all() -> None:
    rows = [row(1.0, spread=spread) for spread in (0.9, 0.01, 0.03)]
    assert repeats_of(rows).within == 0.03


def test_nothing_is_known_of_nothing() -> None:
    assert repeats_of([]) == Repeats(0.0)


@pytest.mark.parametrize("when", ["", "yesterday", "0001-01-01T00:00:00+00:00"])
def test_a_moment_that_cannot_be_read_does_no_harm(when: str) -> None:
    found = repeats_of([replace(row(1.0), when=when), replace(row(1.1, "b"), when=when)])
    assert found.between is not None
    assert found.apart_s == 0.0


def test_a_moment_that_only_one_row_has_is_no_distance() -> None:
    assert repeats_of([row(1.0), replace(row(1.1, "b"), when="")]).apart_s == 0.0


# --- what a sitting may be off by -----------------------------------------------------------------


def test_where_nothing_was_found_the_usual_counts() -> None:
    assert Repeats(0.01).error == USUAL


@pytest.mark.parametrize("degrees", [1, 2, 10, 1000])
def test_while_there_are_few_the_usual_counts_beside_them(degrees: int) -> None:
    """As much as two repeats."""
    found = Repeats(0.01, 0.01, degrees)
    expected = math.sqrt((degrees * 0.01**2 + 2 * USUAL**2) / (degrees + 2))
    assert found.error == pytest.approx(expected)
    assert 0.01 < found.error < USUAL
    worse = Repeats(0.01, 0.3, degrees)
    assert USUAL < worse.error < 0.3


def test_of_many_only_what_was_found_counts() -> None:
    assert Repeats(0.5, 0.01, 10**6).error == pytest.approx(0.01, rel=1e-3)


energies = st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=12)


@given(energies, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(energies: list[float], random: object) -> None:
    rows = [row(energy_j, str(i)) for i, energy_j in enumerate(energies)]
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = repeats_of(rows), repeats_of(shuffled)
    assert one.between == pytest.approx(other.between, rel=1e-9, abs=1e-12)
    assert one.degrees == other.degrees == len(energies) - 1


@given(energies, st.floats(1e-3, 1e3))
def test_what_a_network_costs_does_not_matter(energies: list[float], unit: float) -> None:
    one, other = (
        repeats_of([row(scale * energy_j, str(i)) for i, energy_j in enumerate(energies)])
        for scale in (1.0, unit)
    )
    assert one.between == pytest.approx(other.between, rel=1e-6, abs=1e-9)
    assert one.error > 0
