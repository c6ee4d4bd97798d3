"""Drift: how far workloads follow the reference is found from made-up bursts of known truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.core.types import Json
from ampere.records.measurement import Measurement
from ampere.sittings.drift import SHARE, Evidence, Following, Series, series_of
from fakes import plain_model

NOMINAL = 2.0  # what the reference costs when nothing is the matter
MOST = 1.6
SEEDS = 16
Moods = Callable[[np.random.Generator, int], Array]


def still(rng: np.random.Generator, moments: int) -> Array:
    """The machine is the same all the time."""
    return np.zeros(moments)


def wandering(rng: np.random.Generator, moments: int) -> Array:
    """It warms up and cools down by some percent within a sitting."""
    return np.cumsum(rng.normal(0, 0.03 / math.sqrt(moments), moments))


def waving(rng: np.random.Generator, moments: int) -> Array:
    """Up and down by 15 %, with a period of some rounds."""
    return 0.15 * np.sin(np.arange(moments) / 3)


@dataclass(frozen=True)
class Machine:
    """Bursts of workloads that follow the reference by a share, and have noise of their own.

    Args:
        share: How much of the reference's deviation workloads share.
        noise: Of every burst.
        moods: What the machine does within a sitting.
        between: How far its sittings lie from each other.
        own: What a sitting adds to a workload, and to no other.
        rounds: Of a sitting.
    """

    share: float = 0.0
    noise: float = 0.01
    moods: Moods = still
    between: float = 0.0
    own: float = 0.005
    rounds: int = 12

    def series(self, rng: np.random.Generator, cost: float, level: float = 0.0) -> Series:
        """One workload in one sitting: the reference has a burst before and after each of its."""
        moods = level + self.moods(rng, 2 * self.rounds + 1)
        noise = rng.normal(0, self.noise, 2 * self.rounds + 1)
        reference = NOMINAL * np.exp(moods[::2] + noise[::2])
        around = ((reference[1:] + reference[:-1]) / 2).tolist()
        own = cost * np.exp(rng.normal(0, self.own) + self.share * moods[1::2] + noise[1::2])
        return Series(own.tolist(), own.tolist(), around, around)

    def rows(self, seed: int, networks: int, sittings: int) -> list[Measurement]:
        """Networks of 1, 2, 3... joules, all of them in every sitting."""
        rng = np.random.default_rng(seed)
        levels = rng.normal(0, self.between, sittings)
        return [
            row_of(self.series(rng, 1.0 + n, level), layers_of(n), f"sitting {s}")
            for s, level in enumerate(levels)
            for n in range(networks)
        ]


def layers_of(number: int) -> tuple[Layer, ...]:
    return plain_model(number + 1)


def row_of(
    series: Series, layers: Sequence[Layer], sitting: str = "a", **more: Json
) -> Measurement:
    bursts: dict[str, Json] = {
        "energy_j": list(series.own),
        "time_s": list(series.own_s),
        "reference_energy_j": list(series.reference),
        "reference_time_s": list(series.reference_s),
    }
    mean = float(np.mean(series.own))
    return Measurement(tuple(layers), mean, mean, sitting=sitting, bursts={**bursts, **more})


def errors(
    rows: Sequence[Measurement], following: Following, nominal: float = NOMINAL
) -> tuple[Array, Array]:
    """How far networks are from what they cost, in logarithms: as read, and divided."""
    raw, divided = [], []
    for row in rows:
        series = series_of(row, "energy_j")
        assert series is not None
        cost = math.log(row.layers[-1].widths["in"])
        raw.append(math.log(series.steady.mean()) - cost)
        factor = following.factor(row.stage, row.layers, series, nominal)
        divided.append(raw[-1] - math.log(factor))
    return np.array(raw), np.array(divided)


def trials(
    machine: Machine, networks: int, sittings: int
) -> tuple[list[float], list[Array], list[Array]]:
    """The share found in each of many such journals, and the errors of their rows."""
    found, raw, divided = [], [], []
    for seed in range(SEEDS):
        rows = machine.rows(seed, networks, sittings)
        following = Following.of(rows, "energy_j")
        found.append(following.expected)
        as_read, as_divided = errors(rows, following)
        raw.append(as_read)
        divided.append(as_divided)
    return found, raw, divided


def agreement(values: Sequence[Array]) -> float:
    """How far rows of a journal are from each other; a single sitting, from the truth."""
    centred = [each - (each.mean() if np.ptp(each) > 0.01 else 0.0) for each in values]
    return rms(centred)


def rms(values: Sequence[Array]) -> float:
    return math.sqrt(float(np.mean(np.square(np.concatenate(values)))))


SIZES = pytest.mark.parametrize(
    ("networks", "sittings", "rounds"), [(1, 1, 8), (1, 6, 15), (4, 5, 12), (8, 2, 8)]
)


# --- what is expected of any ----------------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("noise", [0.005, 0.02])
def test_the_references_own_noise_is_not_followed(
    networks: int, sittings: int, rounds: int, noise: float
) -> None:
    _, raw, divided = trials(Machine(noise=noise, rounds=rounds), networks, sittings)
    assert rms(divided) <= 1.1 * rms(raw)


@pytest.mark.parametrize("share", [0.5, 0.75, 1.0])
def test_most_of_what_is_shared_is_divided_out_of_the_very_first_sitting(share: float) -> None:
    raw, divided = [], []
    for seed in range(SEEDS):
        rows = Machine(share=share, between=0.1).rows(seed, 2, 4)
        as_read, as_divided = errors(rows, Following("energy_j"))
        raw.append(as_read)
        divided.append(as_divided)
    assert rms(divided) < (0.6 if share == 0.5 else 0.4) * rms(raw)


def test_what_is_expected_by_hand() -> None:
    """Levels far beyond any noise: the share counts in full."""
    level = [1.2 * NOMINAL] * 8
    series = Series([3.0] * 8, [1.0] * 8, level, level)
    factor = Following("energy_j").factor("step", layers_of(0), series, NOMINAL)
    trust = math.log(1.2) ** 2 / (math.log(1.2) ** 2 + 0.02**2)
    assert factor == pytest.approx(1.2 ** (SHARE * trust))


def test_rows_count_from_the_scale_of_the_journal_whatever_it_was_made_at() -> None:
    """An odd moment moves all rows alike, and none of them against another."""
    series = [
        Machine(share=1.0, noise=0.002).series(np.random.default_rng(n), 1.0, 0.1) for n in (0, 1)
    ]
    for fast in (0.8, 1.0, 1.2):
        one, other = (
            math.log(Following("energy_j").factor("step", layers_of(0), each, fast * NOMINAL))
            for each in series
        )
        assert one == pytest.approx(other, abs=0.01)


# --- what repeated sittings show ------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_the_true_share_is_found_from_repeated_sittings(share: float, noise: float) -> None:
    machine = Machine(share=share, noise=noise, moods=wandering, between=0.15)
    found = [
        Following.of(machine.rows(seed, 8, 20), "energy_j").repeated.values()
        for seed in range(SEEDS)
    ]
    shares = [each.after(SHARE) for some in found for each in some]
    assert shares == pytest.approx([share] * len(shares), abs=0.15)
    assert np.mean(shares) == pytest.approx(share, abs=0.05)


def test_what_networks_show_is_expected_of_those_that_were_seen_once() -> None:
    for share in (0.0, 1.0):
        rows = Machine(share=share, between=0.1).rows(0, 12, 10)
        assert Following.of(rows, "energy_j").expected == pytest.approx(share, abs=0.15)
    few = Machine(share=0.0, between=0.1).rows(0, 1, 3)
    assert SHARE / 2 < Following.of(few, "energy_j").expected < SHARE


def test_a_reference_whose_moods_are_its_own_is_soon_hardly_followed() -> None:
    raw, divided = [], []
    for seed in range(SEEDS):
        rows = Machine(share=0.0, between=0.1, own=0.02).rows(seed, 4, 11)
        as_read, as_divided = errors(rows[-4:], Following.of(rows[:-4], "energy_j"))
        raw.append(as_read)
        divided.append(as_divided)
    assert rms(divided) <= 1.2 * rms(raw)
    assert rms(divided) < 0.25 * 0.1  # it lies 10 % off


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_the_next_sitting_is_better_for_it(share: float) -> None:
    raw, divided = [], []
    for seed in range(SEEDS):
        rows = Machine(share=share, moods=wandering, between=0.08).rows(seed, 3, 10)
        following = Following.of(rows[:-3], "energy_j")
        as_read, as_divided = errors(rows[-3:], following)
        raw.append(as_read)
        divided.append(as_divided)
    assert rms(divided) < 0.6 * rms(raw)


def test_its_own_sittings_outweigh_what_others_do() -> None:
    others = Machine(share=1.0, between=0.1).rows(0, 4, 6)
    stubborn = Machine(share=0.0, between=0.1).rows(1, 1, 12)
    stubborn = [replace(row, layers=layers_of(20)) for row in stubborn]
    following = Following.of([*others, *stubborn], "energy_j")
    series = Machine(rounds=8).series(np.random.default_rng(2), 5.0, level=0.2)
    assert math.log(following.factor("step", layers_of(20), series, NOMINAL)) < 0.05
    assert math.log(following.factor("step", layers_of(0), series, NOMINAL)) > 0.15
    assert set(following.repeated) >= {("step", tuple((x.identity, 1) for x in layers_of(20)))}


def test_the_same_layers_in_another_stage_are_another_workload() -> None:
    rows = Machine(share=1.0, between=0.1).rows(0, 1, 6)
    forward = [replace(row, stage="forward") for row in rows[3:]]
    assert len(Following.of(rows, "energy_j").repeated) == 1
    assert len(Following.of([*rows[:3], *forward], "energy_j").repeated) == 2
    assert Following.of([rows[0], forward[0]], "energy_j").repeated == {}


def test_seconds_and_joules_are_followed_each_for_itself() -> None:
    """Leakage grows with the temperature, and the clock stays where it is."""
    rng = np.random.default_rng(1)
    rows = []
    for sitting, level in enumerate(rng.normal(0, 0.1, 12)):
        joules = Machine(share=1.0).series(rng, 1.0, level)
        seconds = Machine(share=0.0).series(rng, 1.0, level)
        series = Series(joules.own, seconds.own, joules.reference, seconds.reference)
        rows.append(row_of(series, layers_of(0), f"sitting {sitting}"))
    (joules_of,) = Following.of(rows, "energy_j").repeated.values()
    (seconds_of,) = Following.of(rows, "time_s").repeated.values()
    assert joules_of.after(SHARE) > 0.9
    assert seconds_of.after(SHARE) < 0.15


# --- bounds ---------------------------------------------------------------------------------------

costs = st.floats(1e-12, 1e12)
columns = st.integers(1, 20).flatmap(
    lambda n: st.tuples(*(st.lists(costs, min_size=n, max_size=n) for _ in range(4)))
)
many_series = columns.map(lambda each: Series(*each))


@given(many_series, costs)
def test_nothing_is_divided_by_more_than_a_bound(series: Series, nominal: float) -> None:
    factor = Following("energy_j").factor("step", layers_of(3), series, nominal)
    assert math.isfinite(factor)
    assert 1 / MOST - 1e-9 <= factor <= MOST + 1e-9


@given(st.lists(many_series, min_size=1, max_size=4), costs)
def test_nor_is_it_after_any_rows(every: list[Series], nominal: float) -> None:
    layers = layers_of(3)
    rows = [row_of(series, layers, f"sitting {i}") for i, series in enumerate(every)]
    following = Following.of(rows, "energy_j")
    assert 0.0 <= following.expected <= 1.0
    for series in every:
        factor = following.factor("step", layers, series, nominal)
        assert 1 / MOST - 1e-9 <= factor <= MOST + 1e-9


@given(st.floats(-1e6, 1e6), st.floats(0.0, 1e12), st.floats(0.0, 1.0))
def test_a_share_is_a_share(share: float, precision: float, expected: float) -> None:
    assert 0.0 <= Evidence(share, precision).after(expected) <= 1.0


@pytest.mark.parametrize(
    ("pace", "expected"), [(0.3, 1 / MOST), (0.8, 0.8), (1.2, 1.2), (3.0, MOST)]
)
def test_what_a_workload_is_known_to_follow_is_believed_up_to_a_bound(
    pace: float, expected: float
) -> None:
    known = {("step", tuple((x.identity, 1) for x in layers_of(0))): Evidence(1.0, 1e9)}
    level = [pace * NOMINAL] * 8
    series = Series([3.0 * pace] * 8, [1.0] * 8, level, level)
    factor = Following("energy_j", known).factor("step", layers_of(0), series, NOMINAL)
    assert factor == pytest.approx(expected, rel=3e-3)


def test_a_burst_of_the_reference_that_stumbles_hardly_moves_its_level() -> None:
    level = [NOMINAL] * 9 + [50 * NOMINAL]
    assert Series([1.0] * 10, [1.0] * 10, level, level).level == pytest.approx(NOMINAL, rel=0.02)


@pytest.mark.parametrize(
    ("evidence", "share"),
    [
        (Evidence(), 0.5),
        (Evidence(0.0, 16.0), 0.25),  # as sure as what was expected
        (Evidence(1.0, 48.0), 0.875),
        (Evidence(5.0, 1e6), 1.0),
        (Evidence(-5.0, 1e6), 0.0),
    ],
)
def test_a_share_by_hand(evidence: Evidence, share: float) -> None:
    assert evidence.after(0.5) == pytest.approx(share)


# --- rows that tell nothing -----------------------------------------------------------------------

TELLING = row_of(Machine(share=1.0, moods=waving).series(np.random.default_rng(0), 1.0),
                 layers_of(0))  # fmt: skip


def test_a_row_with_the_bursts_of_the_reference_tells() -> None:
    series = series_of(TELLING, "energy_j")
    assert series is not None
    assert len(series.own) == 12
    assert Following.of([TELLING, replace(TELLING, sitting="b")], "energy_j").repeated
    again = Measurement.from_json(TELLING.to_json())
    assert series_of(again, "energy_j") == series


def without(*names: str) -> dict[str, Json]:
    return {key: value for key, value in TELLING.bursts.items() if key not in names}


def with_null(name: str) -> dict[str, Json]:
    return {**TELLING.bursts, name: [None, *TELLING.bursts[name][1:]]}


def cut(rounds: int) -> dict[str, Json]:
    return {name: column[:rounds] for name, column in TELLING.bursts.items()}


@pytest.mark.parametrize(
    "row",
    [
        replace(TELLING, bursts={}),
        replace(TELLING, sitting=""),  # of a journal from before there were sittings
        replace(TELLING, bursts=without("reference_energy_j", "reference_time_s")),
        replace(TELLING, bursts=without("reference_time_s")),
        replace(TELLING, bursts=without("reference_energy_j")),
        replace(TELLING, bursts=without("energy_j")),
        replace(TELLING, bursts=without("time_s")),
        replace(TELLING, bursts={**TELLING.bursts, "reference_energy_j": None}),
        replace(TELLING, bursts={**TELLING.bursts, "reference_energy_j": []}),
        *(replace(TELLING, bursts=with_null(name)) for name in TELLING.bursts),
        replace(TELLING, bursts={**TELLING.bursts, "energy_j": [0.0] * 12}),
        replace(TELLING, bursts={**TELLING.bursts, "reference_time_s": [1.0] * 11}),
        replace(TELLING, bursts=cut(3)),
        Measurement(TELLING.layers, 1.0, 1.0, sitting="a"),
    ],
)
def test_rows_that_do_not_say_what_the_reference_did_tell_nothing(row: Measurement) -> None:
    assert series_of(row, "energy_j") is None
    following = Following.of([row, row], "energy_j")
    assert (following.expected, following.repeated) == (SHARE, {})
    assert Following.of([TELLING, row], "energy_j").repeated == {}


def test_two_rounds_are_enough_to_be_divided_and_one_is_not() -> None:
    """As when a few steps of a model are metered."""
    for rounds, divided_by in ((1, 1.0), (2, 1.2**SHARE)):
        level = [1.2 * NOMINAL] * rounds
        series = Series([3.0] * rounds, [1.0] * rounds, level, level)
        factor = Following("energy_j").factor("step", layers_of(0), series, NOMINAL)
        assert factor == pytest.approx(divided_by, rel=0.01)


def test_networks_that_were_seen_once_tell_nothing() -> None:
    rows = Machine(share=1.0, between=0.1).rows(0, 3, 1)
    assert Following.of(rows, "energy_j").repeated == {}
