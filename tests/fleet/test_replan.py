"""Planning again: what ran is left out, what was metered is learned, and time has passed."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ampere
from ampere.errors import DataError
from ampere.fleet.planning.objective import Objective
from ampere.fleet.replan import Done, as_of, learned, lesson_of, remaining, replan
from ampere.meters.base import Provenance
from ampere.records.measurement import Measurement
from fakes import SMALL, known_cost, plain_layer, plain_model, total
from fleet.cases import BEGINS, member, task
from plain_rows import layer

ONCE_J = total(plain_model(16, 16), known_cost).energy_j


def test_the_rest_is_planned_again_with_batteries_as_they_are() -> None:
    tasks = [task("a", 1000), task("b", 1000, deadline_s=500.0), task("c", 1000)]
    fleet = ampere.Fleet((member("x", 4000 * ONCE_J), member("y", 4000 * ONCE_J)))
    plan = ampere.schedule(fleet, tasks, begins=BEGINS)
    done = [Done("a", "x", 1000), Done("b", "y", 400)]
    now = as_of(fleet, 60.0, {"x": 100 * ONCE_J, "y": 3000 * ONCE_J})

    again = replan(plan, now, tasks, done, now_s=60.0)

    assert again.begins == "2026-05-01T08:01:00+00:00"
    steps = {each.job: each.steps for each in again.assignments}
    assert steps == {"b": 600, "c": 1000}
    assert {each.member for each in again.assignments} == {"y"}


@pytest.mark.parametrize("begins", ["2026-05-01T08:00:00Z", "2026-05-01T08:00:00"])
def test_a_plan_that_began_by_any_moment_is_planned_again(begins: str) -> None:
    fleet, tasks = ampere.Fleet((member("x"),)), [task("a")]
    plan = replace(ampere.schedule(fleet, tasks, begins=BEGINS), begins=begins)
    assert replan(plan, fleet, tasks, [], now_s=60.0).begins == "2026-05-01T08:01:00+00:00"


def test_time_passes_for_tasks_and_members() -> None:
    charging = (ampere.Charging(ampere.Span(0, 10), 1.0), ampere.Charging(ampere.Span(50, 90), 1.0))
    spans = (ampere.Span(0, 20), ampere.Span(100, 200))
    one = member("x", 100.0, charging=charging, available=spans)
    gone = member("y", available=(ampere.Span(0, 30),))

    fleet = as_of(ampere.Fleet((one, gone)), 60.0, {"x": 42.0})

    (left,) = fleet.members
    assert left.battery is not None
    assert left.battery.energy_j == 42
    assert [each.span for each in left.charging] == [ampere.Span(0, 30)]
    assert left.available == (ampere.Span(40, 140),)
    rest, late = remaining(
        fleet,
        [
            task("late", deadline_s=60.0),
            task("soon", earliest_s=80.0, deadline_s=200.0),
            task("orphan", members=("y",)),
        ],
        [],
        60.0,
    )
    assert [(each.earliest_s, each.deadline_s) for each in rest] == [(20, 140)]
    assert [each.job for each in late] == ["late", "orphan"]


def test_epochs_that_ran_are_left_out() -> None:
    fleet = ampere.Fleet((member("x"),))
    batch = fleet.members[0].profile.training.batch_size
    job = ampere.Job(epochs=4, samples=10 * batch, validation_samples=5)
    long = replace(task("a"), job=job)

    ((left,), _) = remaining(fleet, [long], [Done("a", "x", 25)], 0.0)

    assert (left.job.steps, left.job.epochs, left.job.validations) == (15, None, 2)


def test_what_is_left_is_counted_in_batches_of_who_may_run_it() -> None:
    one, two = member("x"), member("y")
    batches_of_4 = Measurement((plain_layer(SMALL, in_=8),), 1.0, provenance=Provenance.SIMULATED)
    two = replace(two, profile=ampere.fit([batches_of_4]))
    job = replace(task("a", members=("y",)), job=ampere.Job(epochs=1, samples=200))

    ((left,), _) = remaining(ampere.Fleet((one, two)), [job], [Done("a", "y", 4)], 0.0)

    assert left.job.steps == 200 // 4 - 4


def test_metered_joules_teach_the_profile() -> None:
    fleet = ampere.Fleet((member("x"), member("y")))
    before = fleet.members[0].profile.estimate(plain_model(16, 16), steps=1000)
    metered = Done("a", "x", 1000, 1.3 * before.energy_j, None, Provenance.SIMULATED)

    after, notes = learned(fleet, [task("a", 1000)], [metered])

    assert not notes
    told = after.find("x").profile.estimate(plain_model(16, 16), steps=1000)
    assert told.energy_j > 1.02 * before.energy_j
    assert after.find("y").profile == fleet.find("y").profile


def test_a_row_of_nothing_but_steps_is_what_was_metered_to_the_last_digit() -> None:
    for steps in range(1, 40):
        done = Done("a", "x", steps, 0.7 * steps, 0.3 * steps, Provenance.SIMULATED)
        row = lesson_of(member("x"), task("a", steps), done)
        assert (row.energy_j, row.time_s) == (0.7 * steps / steps, 0.3 * steps / steps)


def test_joules_are_of_the_profiles_own_kind_unless_somebody_says_otherwise() -> None:
    fleet = ampere.Fleet((member("x"),))
    said = Done("a", "x", 1000, 99.0, None, fleet.find("x").profile.provenance)

    after, notes = learned(fleet, [task("a", 1000)], [replace(said, provenance=None)])

    assert not notes
    assert len(after.find("x").profile.measurements) == 1 + len(
        fleet.find("x").profile.measurements
    )
    again, _ = learned(fleet, [task("a", 1000)], [said])
    assert again.find("x").profile.measurements == after.find("x").profile.measurements


def test_a_plan_says_what_was_not_learned_and_why() -> None:
    fleet = ampere.Fleet((member("x"),))
    odd = ampere.Task("odd", (layer("attention"),), ampere.Job(steps=10))
    tasks = [task("a", 1000), odd, task("b", 10)]
    plan = ampere.schedule(fleet, tasks, begins=BEGINS)
    done = [Done("a", "x", 500, 99.0, None, Provenance.SENSOR), Done("odd", "x", 1, 9.0)]

    again = replan(plan, fleet, tasks, done, now_s=9.0)

    first, second = again.warnings[-2:]
    assert first.startswith("what a took on x is not learned: its joules are measured by a power")
    assert second.startswith("what odd took on x is not learned: its profile does not cover")
    quiet = replan(plan, fleet, tasks, done, now_s=9.0, learn=False)
    assert not any("not learned" in text for text in quiet.warnings)


def test_a_plan_of_a_mix_is_planned_again_by_the_same_mix() -> None:
    fleet, tasks = ampere.Fleet((member("x"),)), [task("a", 1000)]
    mix = {"energy": 1.0, "makespan": 0.123456789}
    plan = ampere.schedule(fleet, tasks, begins=BEGINS, objective=mix)

    again = replan(plan, fleet, tasks, [Done("a", "x", 100)], now_s=1.0)

    assert again.objective == plan.objective == "1 energy + 0.123456789 makespan"
    assert Objective.of(again.objective) == Objective.of(mix)


def test_what_nobody_planned_is_refused() -> None:
    tasks, fleet = [task("a", 10)], ampere.Fleet((member("x"),))
    plan = ampere.schedule(fleet, tasks, begins=BEGINS)

    with pytest.raises(DataError, match="job b ran, but it is none of the tasks"):
        replan(plan, fleet, tasks, [Done("b", "x", 1)], now_s=1.0)
    with pytest.raises(DataError, match="job b ran, but it is none of the tasks"):
        replan(plan, fleet, tasks, [Done("b", "x", 1, 2.0)], now_s=1.0)
    with pytest.raises(DataError, match="no member of the fleet is there any more"):
        as_of(ampere.Fleet((member("x", available=(ampere.Span(0, 5),)),)), 9.0, {})
    with pytest.raises(DataError, match="all jobs are done"):
        replan(plan, fleet, tasks, [Done("a", "x", 10)], now_s=1.0)
    with pytest.raises(DataError, match="cannot have run"):
        Done("a", "x", -1)
