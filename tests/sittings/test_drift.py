"""Drift: how far workloads follow the reference is found from made-up bursts of known truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.core.types import Json
from ampere.records.measurement import Measurement
from ampere.sittings.drift import Evidence, Following, Series, series_of
from fakes import plain_model

NOMINAL = 2.0  # what the reference costs when nothing is the matter
MOST = 1.3
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
        found.append(following.known.share)
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


# --- nothing to follow ----------------------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("noise", [0.005, 0.05])
def test_independent_noise_is_not_followed(
    networks: int, sittings: int, rounds: int, noise: float
) -> None:
    machine = Machine(noise=noise, rounds=rounds)
    found, raw, divided = trials(machine, networks, sittings)
    assert np.mean(np.abs(found)) < 0.05
    assert rms(divided) <= 1.1 * rms(raw)


@pytest.mark.parametrize("between", [0.03, 0.1])
@pytest.mark.parametrize(("networks", "sittings"), [(1, 6), (8, 3)])
def test_a_reference_whose_moods_are_its_own_is_not_followed(
    networks: int, sittings: int, between: float
) -> None:
    machine = Machine(share=0.0, between=between, moods=wandering)
    found, raw, divided = trials(machine, networks, sittings)
    assert np.mean(np.abs(found)) < 0.05
    assert rms(divided) <= 1.1 * rms(raw)


@pytest.mark.parametrize("sittings", [2, 10])
def test_the_next_sitting_is_not_made_worse_by_what_was_learned_from_noise(sittings: int) -> None:
    raw, divided = [], []
    for seed in range(SEEDS):
        rows = Machine(between=0.1).rows(seed, 4, sittings + 1)
        following = Following.of(rows[:-4], "energy_j")
        as_read, as_divided = errors(rows[-4:], following)
        raw.append(as_read)
        divided.append(as_divided)
    assert rms(divided) <= 1.1 * rms(raw)


def test_without_any_rows_nothing_is_divided() -> None:
    following = Following("energy_j")
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        series = Machine(moods=waving, share=1.0).series(rng, 3.0, level=0.1)
        assert following.factor("step", layers_of(1), series, NOMINAL) == 1.0


# --- something to follow --------------------------------------------------------------------------


@SIZES
def test_what_drifts_together_within_a_sitting_is_divided_out(
    networks: int, sittings: int, rounds: int
) -> None:
    machine = Machine(share=1.0, moods=waving, between=0.05, rounds=rounds)
    found, raw, divided = trials(machine, networks, sittings)
    assert min(found) > 0.8
    assert np.mean(found) > 0.9
    assert agreement(divided) < 0.5 * agreement(raw)


def test_a_drift_without_any_noise_is_divided_out() -> None:
    rows = Machine(share=1.0, noise=0.0, own=0.0, between=0.1).rows(0, 3, 6)
    following = Following.of(rows, "energy_j")
    raw, divided = errors(rows, following)
    assert following.known.share > 0.95
    assert np.ptp(divided) < 0.05 * np.ptp(raw)  # all of them at what is usual
    assert divided.mean() == pytest.approx(raw.mean() * 6 / 7, abs=1e-3)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_the_true_share_is_found_from_repeated_sittings(share: float, noise: float) -> None:
    machine = Machine(share=share, noise=noise, moods=wandering, between=0.1)
    found = []
    for seed in range(SEEDS):
        following = Following.of(machine.rows(seed, 3, 10), "energy_j")
        found.append(following.known.share)
    assert found == pytest.approx([share] * SEEDS, abs=0.15)
    assert np.mean(found) == pytest.approx(share, abs=0.05)


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


@pytest.mark.parametrize("fast", [-0.3, 0.3])
def test_a_scale_made_at_an_odd_moment_does_not_push_all_sittings_beyond_the_bound(
    fast: float,
) -> None:
    """Counted from the nominal alone, half of them would lie beyond ±30 % and stay as they are."""
    scale = NOMINAL * math.exp(fast)
    raw, divided = [], []
    for seed in range(SEEDS):
        rows = Machine(share=1.0, between=0.15).rows(seed, 3, 12)
        for n in range(9, len(rows), 12):
            following = Following.of(rows[:n], "energy_j")
            as_read, as_divided = errors(rows[n : n + 3], following, scale)
            raw.append(as_read)
            divided.append(as_divided)
    assert np.std(np.concatenate(divided)) < 0.5 * np.std(np.concatenate(raw))


def test_a_sitting_is_one_moment_however_many_networks_it_has() -> None:
    machine = Machine(share=1.0, noise=0.0, own=0.0)
    rng = np.random.default_rng(0)
    many = [row_of(machine.series(rng, 1.0, 0.2), layers_of(n), "a") for n in range(9)]
    one = row_of(machine.series(rng, 1.0, -0.1), layers_of(0), "b")
    levels = Following.of([*many, one], "energy_j").levels
    assert levels == pytest.approx((math.log(NOMINAL) + 0.2, math.log(NOMINAL) - 0.1))


def test_what_the_sitting_shows_counts_at_once() -> None:
    rng = np.random.default_rng(0)
    beside = [Machine(share=1.0, moods=waving).series(rng, cost) for cost in (1.0, 2.0, 3.0)]
    shown = sum((each.rounds for each in beside), Evidence())
    series = beside[0]
    factor = Following("energy_j").factor("step", layers_of(0), series, NOMINAL, shown)
    divided = series.steady.mean() / factor
    assert divided == pytest.approx(series.mean / (series.level / NOMINAL), rel=0.01)


def test_seconds_and_joules_are_followed_each_for_itself() -> None:
    """Leakage grows with the temperature, and the clock stays where it is."""
    machine = Machine(share=1.0, moods=waving)
    rng = np.random.default_rng(1)
    rows = []
    for n in range(4):
        joules = machine.series(rng, 1.0 + n)
        seconds = replace(machine, share=0.0, moods=still).series(rng, 1.0)
        series = Series(joules.own, seconds.own, joules.reference, seconds.reference)
        rows.append(row_of(series, layers_of(n)))
    assert Following.of(rows, "energy_j").known.share > 0.9
    assert Following.of(rows, "time_s").known.share < 0.1


# --- one for itself -------------------------------------------------------------------------------


def test_a_workload_that_does_not_move_with_the_reference_is_not_divided() -> None:
    """Its own rounds say so, whatever the others do."""
    following = Following.of(Machine(share=1.0, moods=waving).rows(0, 4, 3), "energy_j")
    assert following.known.share > 0.95
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        stubborn = Machine(share=0.0, moods=waving, noise=0.005).series(rng, 5.0, level=0.2)
        following_one = Machine(share=1.0, moods=waving, noise=0.005).series(rng, 5.0, level=0.2)
        alone = following.factor("step", layers_of(9), stubborn, NOMINAL)
        along = following.factor("step", layers_of(9), following_one, NOMINAL)
        assert abs(math.log(alone)) < 0.02
        assert math.log(along) == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_it_is_divided_by_no_more_than_its_own_rounds_allow(share: float) -> None:
    following = Following("energy_j", Evidence(xx=1e9, xy=1e9))  # others follow, without a doubt
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        series = Machine(share=share, moods=waving, noise=0.01).series(rng, 5.0, level=0.1)
        factor = following.factor("step", layers_of(9), series, NOMINAL)
        allowed = series.rounds.most * abs(math.log(series.level / NOMINAL))
        assert abs(math.log(factor)) <= allowed + 1e-9
        assert abs(math.log(factor)) < (share + 0.25) * 0.15


def test_its_own_sittings_outweigh_what_others_do() -> None:
    """Others follow, and it does not; others do not, and it does: in rounds that show neither."""
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


# --- bounds ---------------------------------------------------------------------------------------

costs = st.floats(1e-12, 1e12)
columns = st.integers(1, 20).flatmap(
    lambda n: st.tuples(*(st.lists(costs, min_size=n, max_size=n) for _ in range(4)))
)
many_series = columns.map(lambda each: Series(*each))
sums = st.floats(0.0, 1e12)
evidences = st.builds(Evidence, xx=sums, xy=st.floats(-1e12, 1e12), noise=sums)


@given(many_series, costs, evidences, evidences)
def test_nothing_is_divided_by_more_than_thirty_percent(
    series: Series, nominal: float, known: Evidence, beside: Evidence
) -> None:
    layers = layers_of(3)
    factor = Following("energy_j", known).factor("step", layers, series, nominal, beside)
    assert math.isfinite(factor)
    assert 1 / MOST - 1e-9 <= factor <= MOST + 1e-9


@given(st.lists(many_series, min_size=1, max_size=4), costs)
def test_nor_is_it_after_any_rows(every: list[Series], nominal: float) -> None:
    layers = layers_of(3)
    rows = [row_of(series, layers, f"sitting {i}") for i, series in enumerate(every)]
    following = Following.of(rows, "energy_j")
    for series in every:
        factor = following.factor("step", layers, series, nominal)
        assert 1 / MOST - 1e-9 <= factor <= MOST + 1e-9


@given(evidences)
@example(Evidence(xx=1.0, xy=1e-250))
def test_a_share_is_a_share(evidence: Evidence) -> None:
    assert 0.0 <= evidence.share <= 1.0
    assert evidence.most >= 0.0
    assert evidence.true >= 0.0


@pytest.mark.parametrize(
    ("pace", "expected"), [(0.3, 1 / MOST), (0.9, 0.9), (1.2, 1.2), (3.0, MOST)]
)
def test_what_everybody_is_known_to_follow_is_believed_up_to_thirty_percent(
    pace: float, expected: float
) -> None:
    following = Following("energy_j", Evidence(xx=1e9, xy=1e9))
    level = [pace * NOMINAL] * 8
    series = Series([3.0 * pace] * 8, [1.0] * 8, level, level)
    factor = following.factor("step", layers_of(0), series, NOMINAL)
    assert factor == pytest.approx(expected, rel=1e-6)


def test_a_burst_of_the_reference_that_stumbles_hardly_moves_its_level() -> None:
    level = [NOMINAL] * 9 + [50 * NOMINAL]
    assert Series([1.0] * 10, [1.0] * 10, level, level).level == pytest.approx(1.1 * NOMINAL)


def test_evidence_adds_up() -> None:
    one, other = Evidence(1.0, 2.0, 3.0), Evidence(10.0, 20.0, 30.0)
    assert one + other == Evidence(11.0, 22.0, 33.0)
    assert one + Evidence() == one
    assert (Evidence().share, Evidence().most) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("evidence", "share"),
    [
        (Evidence(xx=4.0, xy=4.0), 0.0),  # two standard errors: it may be chance
        (Evidence(xx=16.0, xy=16.0), 0.75),
        (Evidence(xx=400.0, xy=200.0), 0.5 * 0.96),
        (Evidence(xx=400.0, xy=-200.0), 0.0),
        (Evidence(xx=400.0, xy=200.0, noise=200.0), 1.0 * 0.96),  # half of the scatter was noise
        (Evidence(xx=400.0, xy=200.0, noise=390.0), 1.0 * 0.96),  # no more than that is believed
    ],
)
def test_a_share_by_hand(evidence: Evidence, share: float) -> None:
    assert evidence.share == pytest.approx(share)


# --- rows that tell nothing -----------------------------------------------------------------------

TELLING = row_of(Machine(share=1.0, moods=waving).series(np.random.default_rng(0), 1.0),
                 layers_of(0))  # fmt: skip


def test_a_row_with_the_bursts_of_the_reference_tells() -> None:
    series = series_of(TELLING, "energy_j")
    assert series is not None
    assert len(series.own) == 12
    assert Following.of([TELLING], "energy_j").known.xx > 0
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
    assert (following.known, following.repeated) == (Evidence(), {})
    beside = Following.of([TELLING, row], "energy_j")
    assert beside.known == Following.of([TELLING], "energy_j").known


def test_few_rounds_tell_nothing_of_what_follows() -> None:
    series = Series([1.0, 2.0, 3.0], [1.0] * 3, [1.0, 2.0, 3.0], [1.0] * 3)
    assert series.rounds == Evidence()
    assert Following("energy_j").factor("step", layers_of(0), series, 1.0) == 1.0


def test_rows_of_one_sitting_are_one_moment_each() -> None:
    rows = Machine(share=1.0, between=0.1).rows(0, 3, 1)
    assert Following.of(rows, "energy_j").repeated == {}
