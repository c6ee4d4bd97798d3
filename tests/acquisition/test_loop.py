"""Profiling: which variants are asked for, when it ends, how it resumes, and what comes of it."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ampere.acquisition.isolator import Isolator
from ampere.acquisition.loop import open_journal, resume, run_profiler
from ampere.acquisition.strategy import Strategy
from ampere.core.layers import Layer, Role
from ampere.core.program.widths import Widths
from ampere.core.variants import Variant, isolate
from ampere.core.workloads import Workload
from ampere.errors import DataError, FingerprintError
from ampere.estimators.base import Cost
from ampere.estimators.paper import fit_kind, isolated_points
from ampere.profiles.profile import Profile
from ampere.records.failure import Cause, Failure
from ampere.records.journal import read_journal
from ampere.records.measurement import Measurement
from ampere.sittings.effort import Effort
from ampere.sittings.limit import Limit
from fakes import (
    HIDDEN,
    LAST,
    FakeDevice,
    exact,
    plain_layer,
    plain_model,
    plain_plan,
    total,
)

QUICK = Effort(min_rounds=3, max_rounds=3)
FINE = 1e-9  # a tolerance that is never reached
Answer = Callable[[Variant], Measurement]


def answer(variant: Variant) -> Measurement:
    return exact(variant.layers)


def drive(
    profiler: Isolator, answer: Answer = answer, n: int = 1, measurements: float = float("inf")
) -> list[Variant]:
    """Ask and tell until the profiler stops, or this many were measured."""
    done: list[Variant] = []
    while not profiler.should_stop and len(done) < measurements:
        variants = profiler.ask(n)
        if not variants:
            profiler.end_phase()
        for variant in variants:
            profiler.tell(answer(variant))
            done.append(variant)
    return done


def points(variants: list[Variant], role: Role) -> list[tuple[int, ...]]:
    """The widths at which this role's kind was asked for, in order."""
    subjects = [variant.subject for variant in variants]
    return [tuple(s.widths.values()) for s in subjects if s.kind.role is role]


def test_kinds_start_at_the_bounds_and_take_turns_last_first_hidden() -> None:
    profiler = Isolator(plain_plan(), Strategy(max_points=5, tolerance=FINE))
    assert profiler.phase is Role.LAST
    variants = drive(profiler)
    roles = [variant.subject.kind.role for variant in variants]
    assert roles == [Role.LAST] * 5 + [Role.FIRST] * 5 + [Role.HIDDEN] * 5
    assert points(variants, Role.LAST)[:2] == [(1,), (64,)]
    assert points(variants, Role.FIRST)[:2] == [(1,), (64,)]
    assert points(variants, Role.HIDDEN)[:4] == [(1, 1), (1, 64), (64, 1), (64, 64)]
    assert profiler.phase is None
    assert profiler.remaining == 0


def test_widths_keep_to_their_multiples() -> None:
    profiler = Isolator(plain_plan(62, multiple=4), Strategy(max_points=6, tolerance=FINE))
    asked = [point for variant in drive(profiler) for point in variant.subject.widths.values()]
    assert {width % 4 for width in asked} == {0}
    assert (min(asked), max(asked)) == (4, 60)


def test_bounds_that_meet_are_one_point() -> None:
    variants = drive(Isolator(plain_plan(1)))
    assert [tuple(variant.subject.widths.values()) for variant in variants] == [(1,), (1,), (1, 1)]


@pytest.mark.parametrize("guide", ["energy", "time"])
def test_the_next_point_is_where_the_guide_is_least_sure(guide: str) -> None:
    def skewed(layer: Layer) -> Cost:  # joules bend at narrow widths, seconds at wide ones
        width = sum(layer.widths.values()) / 64
        return Cost(1e-3 * (1 + 9 * width**0.1), 0.0, 1e-3 * (1 + 9 * width**8), 0.0)

    strategy = Strategy(max_points=7, tolerance=FINE, guide=guide)
    profiler = Isolator(plain_plan(), strategy)
    rows: list[Measurement] = []
    while len(rows) < 7:
        (variant,) = profiler.ask()
        (width,) = variant.subject.widths.values()
        if len(rows) >= 2:
            process = fit_kind(LAST.name, isolated_points(LAST.name, rows, {}))
            guided = process.energy if guide == "energy" else process.time
            assert guided is not None
            _, std = guided.predict(process.scale([[w] for w in range(1, 65)]))
            assert std[width - 1] == pytest.approx(std.max(), rel=1e-6)
        rows.append(exact(variant.layers, skewed))
        profiler.tell(rows[-1])


def test_a_kind_ends_when_it_is_sure() -> None:
    def flat(variant: Variant) -> Measurement:
        return exact(variant.layers, lambda layer: Cost(1e-3, 0.0, 1e-3, 0.0))

    counts = Counter(v.subject.kind.role for v in drive(Isolator(plain_plan()), flat))
    assert counts[Role.LAST] < 8
    assert counts[Role.LAST] > 2  # never on the bounds alone
    assert counts[Role.HIDDEN] > 4
    loose, tight = (
        len(drive(Isolator(plain_plan(), Strategy(tolerance=tolerance, max_points=9))))
        for tolerance in (0.2, 0.01)
    )
    assert loose < tight <= 27


@pytest.mark.parametrize("n", [3, 7])
def test_no_variant_is_handed_out_twice(n: int) -> None:
    profiler = Isolator(plain_plan(8), Strategy(max_points=12, tolerance=FINE))
    variants = drive(profiler, n=n)
    assert len({variant.layers for variant in variants}) == len(variants)
    assert len(points(variants, Role.LAST)) == 8  # there are no more widths


def test_what_is_asked_for_is_not_asked_again_before_it_is_told() -> None:
    profiler = Isolator(plain_plan(), Strategy(max_points=12, tolerance=FINE))
    drive(profiler, measurements=2)
    first, second = profiler.ask(3), profiler.ask(3)
    widths = [variant.subject.widths for variant in (*first, *second)]
    assert len(set(widths)) == 6
    profiler.tell(answer(second[0]))
    assert not {v.layers for v in profiler.ask(3)} & {v.layers for v in (*first, *second)}


def test_failures_are_told_and_not_asked_again() -> None:
    def fails_when_wide(variant: Variant) -> Measurement:
        if max(variant.subject.widths.values()) > 48:
            return Measurement(variant.layers, failed=Failure("out of memory", Cause.MEMORY))
        return exact(variant.layers)

    profiler = Isolator(plain_plan(), Strategy(max_points=8, tolerance=FINE))
    variants = drive(profiler, fails_when_wide, n=2)
    assert len({variant.layers for variant in variants}) == len(variants)
    assert profiler.should_stop
    assert sum(max(p) <= 48 for p in points(variants, Role.HIDDEN)) >= 3


def test_a_kind_that_always_fails_does_not_hold_up_the_others() -> None:
    def no_last(variant: Variant) -> Measurement:
        return Measurement(variant.layers, failed=Failure("it hung"))

    counts = Counter(v.subject.kind.role for v in drive(Isolator(plain_plan()), no_last))
    assert counts == {Role.LAST: 2, Role.FIRST: 2, Role.HIDDEN: 4}


@pytest.mark.parametrize("interrupted_after", [1, 5, 9, 13])
def test_a_journal_told_again_resumes(interrupted_after: int) -> None:
    strategy = Strategy(max_points=6, tolerance=FINE)
    interrupted = Isolator(plain_plan(), strategy)
    told = [answer(v) for v in drive(interrupted, measurements=interrupted_after)]
    resumed = Isolator(plain_plan(), strategy)
    resume(resumed, [Measurement.from_json(row.to_json()) for row in told])
    assert resumed.remaining == interrupted.remaining
    assert [v.layers for v in drive(resumed)] == [v.layers for v in drive(interrupted)]


@pytest.mark.parametrize(
    "layers",
    [
        plain_model(8, 8, 8, 8),
        (plain_layer(HIDDEN, in_=4, out=8), plain_layer(HIDDEN, in_=8, out=2), plain_model(2)[-1]),
        (plain_model(3, 3)[1],),
    ],
    ids=["a whole model", "one kind at two widths", "a part"],
)
def test_rows_that_are_no_variants_are_borne(layers: tuple[Layer, ...]) -> None:
    profiler = Isolator(plain_plan())
    profiler.tell(exact(layers))
    assert points(profiler.ask(2), Role.LAST) == [(1,), (64,)]


@pytest.mark.parametrize("affordable", [24, 40])
def test_what_is_affordable_is_shared_out(affordable: int) -> None:
    """Two kinds over one width and one over two: by 2 : 2 : 4."""
    profiler = Isolator(plain_plan(), Strategy(tolerance=FINE))
    counts: Counter[Role] = Counter()
    while not profiler.should_stop:
        variants = profiler.ask(4, affordable - counts.total())
        if not variants:
            profiler.end_phase()
        for variant in variants:
            profiler.tell(answer(variant))
            counts[variant.subject.kind.role] += 1
    assert counts.total() <= affordable + 4
    assert counts[Role.HIDDEN] >= 0.4 * affordable
    assert min(counts[Role.LAST], counts[Role.FIRST]) >= 0.15 * affordable


@pytest.mark.parametrize(
    "wrong", [{"max_points": 1}, {"tolerance": 0.0}, {"guide": "luck"}, {"kernel": "popcorn"}]
)
def test_strategies_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=next(iter(wrong))):
        Strategy(**wrong)


def profile(path: Path, device: FakeDevice, effort: Effort = QUICK, **settings: Any) -> Isolator:
    """What `ampere profile` does, on a fake."""
    profiler = Isolator(plain_plan(), Strategy(max_points=16, tolerance=0.01))
    journal, notes = open_journal(path, device, model="chain")
    assert notes == []
    with journal:
        resume(profiler, journal.measurements)
        run_profiler(profiler, device, journal, effort=effort, **settings)
    return profiler


def drifts_after_calibration(clock_s: float) -> float:
    """Up to 30 % slower, which is as far as the reference is believed."""
    return 1.0 if clock_s < 3.2 else 1.15 - 0.15 * math.cos((clock_s - 3.2) / 2)


def test_unseen_models_are_estimated_within_two_percent(tmp_path: Path) -> None:
    profile(tmp_path / "fake.ampere", FakeDevice(), effort=Effort())
    learnt = Profile.load(tmp_path / "fake.ampere")
    for row in learnt.measurements:
        assert row.energy_j_per_step == pytest.approx(total(row.layers).energy_j, rel=0.01)
    rng = random.Random(5)
    for depth in (1, 2, 3, 6):
        model = plain_model(*(rng.randint(1, 64) for _ in range(depth)))
        estimate, true = learnt.estimate(model), total(model)
        assert estimate.energy_j == pytest.approx(true.energy_j, rel=0.02)
        assert estimate.time_s == pytest.approx(true.time_s, rel=0.02)
        assert not estimate.uncovered


def test_a_device_that_slows_down_for_good_is_told_as_it_usually_is(tmp_path: Path) -> None:
    """Its scale was made at its fastest moment: rows go from there to what turns out to be usual,
    and the interval holds both."""
    device = FakeDevice(drift=drifts_after_calibration)
    profile(tmp_path / "fake.ampere", device, effort=Effort())
    learnt = Profile.load(tmp_path / "fake.ampere")
    for row in learnt.measurements:
        assert 0.99 < row.energy_j / total(row.layers).energy_j < 1.15
    rng = random.Random(5)
    for depth in (1, 2, 3, 6):
        model = plain_model(*(rng.randint(1, 64) for _ in range(depth)))
        estimate, true = learnt.estimate(model), total(model)
        low, high = estimate.energy_j_interval
        assert low < true.energy_j < 1.15 * true.energy_j < high
        assert estimate.energy_j == pytest.approx(true.energy_j, rel=0.1)


def test_an_interrupted_run_goes_on_in_its_journal(tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def stop_after_ten(event: Any) -> None:
        if event.done >= 10:
            raise Stopped

    path = tmp_path / "fake.ampere"
    with pytest.raises(Stopped):
        profile(path, FakeDevice(), watch=stop_after_ten)
    _, before = read_journal(path)
    device = FakeDevice()
    assert profile(path, device).should_stop
    _, after = read_journal(path)
    assert [row.layers for row in after[: len(before)]] == [row.layers for row in before]
    *networks, second_last, last = (row.layers for row in after)
    assert len(set(networks)) == len(networks)
    assert not {workload.layers for workload in device.seen} & {row.layers for row in before}
    assert [second_last, last] == networks[len(before) :][:2]  # what it came back to


def test_failures_are_in_the_journal_and_the_run_goes_on(tmp_path: Path) -> None:
    broken = isolate(plain_plan().isolations[0], Widths({"in": 64}))
    device = FakeDevice(fails_to_load=[Workload(broken.layers)])
    assert profile(tmp_path / "fake.ampere", device).should_stop
    _, rows = read_journal(tmp_path / "fake.ampere")
    told = [row.failed for row in rows if row.layers == broken.layers]
    assert told == [Failure("out of memory", Cause.MEMORY)]
    assert sum(row.failed is None for row in rows) > 10


def test_another_device_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fake.ampere"
    profile(path, FakeDevice(), limit=Limit(0.0))
    assert read_journal(path)[1] == []
    other = FakeDevice()
    other.fingerprint = type(other.fingerprint)({"device": "another"})
    with pytest.raises(FingerprintError, match="device is another here, fake there"):
        open_journal(path, other)
    journal, _ = open_journal(path, other, any_device=True)
    journal.close()


def test_more_points_of_a_last_kind_are_not_learnt_from_what_it_taught() -> None:
    plan = plain_plan()
    first = Isolator(plan, Strategy(max_points=4, tolerance=FINE))
    rows = [answer(variant) for variant in drive(first)]
    again = Isolator(plan, Strategy(max_points=5, tolerance=FINE))
    resume(again, rows)
    (variant,) = again.ask()
    assert variant.subject.kind.role is Role.LAST
    again.tell(answer(variant))
    progress = again._kinds[variant.subject.kind.name]
    assert progress.process is not None and len(progress.process.points) == len(progress.measured)
