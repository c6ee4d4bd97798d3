"""The verb: from profiles to a plan, what is refused, and what a plan says of what has no room."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace

import pytest

import ampere
from ampere.errors import AmpereError, DataError
from ampere.fleet.costs import Costs, estimate_costs
from ampere.fleet.plan import Plan
from ampere.meters.base import Provenance
from ampere.profiles.jobs.job import Loading
from ampere.records.journal import Header
from fakes import known_cost, plain_model, total
from fleet.cases import BEGINS, member, plain_profile, task
from golden_files import agreed
from plain_rows import layer

ONCE_J = total(plain_model(16, 16), known_cost).energy_j  # of a step of `task`


def planned(tasks: list[ampere.Task], *members: ampere.Member, **settings: object) -> Plan:
    fleet = ampere.Fleet(members)
    return ampere.schedule(fleet, tasks, begins=BEGINS, **settings)  # type: ignore[arg-type]


def test_a_plan_from_profiles() -> None:
    plan = planned([task("a", 1000), task("b", 3000)], member("x", 3500 * ONCE_J), member("y"))

    assert {each.job for each in plan.assignments} == {"a", "b"}
    assert plan.energy_j == pytest.approx(4000 * ONCE_J, rel=0.1)
    assert plan.bound_j == pytest.approx(plan.energy_j)
    assert plan.gap == pytest.approx(0.0, abs=1e-6)
    assert all(each.p_battery >= 0.9 for each in plan.assignments)
    assert [each.member for each in plan.standings] == ["x", "y"]
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize("text", ["2026-05-01T08:00:00Z", "2026-05-01T08:00:00"])
def test_a_plan_begins_at_the_same_moment_everywhere(text: str) -> None:
    row = json.loads(json.dumps(planned([task("a")], member("x")).to_json()))
    assert Plan.from_json({**row, "begins": text}).begins == BEGINS
    with pytest.raises(DataError, match=r"^begins: 'soon' is no moment: write it like"):
        Plan.from_json({**row, "begins": "soon"})


def test_the_order_in_which_things_are_given_changes_nothing() -> None:
    tasks = [task(f"job{index}", 1000 + 300 * index, chunk_steps=200) for index in range(4)]
    members = [member("x", 3500 * ONCE_J), member("y", 3000 * ONCE_J), member("z", 900 * ONCE_J)]

    plan = planned(tasks, *members)

    again = planned(tasks[::-1], *members[::-1])
    assert again.assignments == plan.assignments
    assert again.standings == plan.standings[::-1]


def test_all_steps_of_a_divided_job_are_placed() -> None:
    members = [member(name, 1500 * ONCE_J) for name in "xyz"]

    plan = planned([task("long", 3001, chunk_steps=100)], *members)

    assert sum(each.steps for each in plan.assignments) == 3001
    assert len({each.member for each in plan.assignments}) > 1


def test_known_costs_may_be_given() -> None:
    costs = Costs.known([[5.0, 1.0], [1.0, 5.0]], 1.0)

    plan = planned([task("a"), task("b")], member("x", 9.0), member("y", 9.0), costs=costs)

    assert {(each.job, each.member) for each in plan.assignments} == {("a", "y"), ("b", "x")}
    assert plan.energy_j == plan.bound_j == pytest.approx(2)


def test_what_is_around_steps_is_a_jobs_own_error() -> None:
    loading = Loading(0.001, energy_j=0.5 * ONCE_J, error=0.3)
    plain = task("plain", 1000)
    loaded = replace(plain, name="loaded", job=ampere.Job(steps=1000, loading=loading))

    costs = estimate_costs(ampere.Fleet((member("x"),)), [plain, loaded])

    assert costs.energy_j[1, 0] == pytest.approx(1.5 * costs.energy_j[0, 0], rel=0.01)
    assert costs.own[0, 0] < 0.01
    assert costs.own[1, 0] == pytest.approx(0.1, rel=0.1)  # 30 % of a third
    assert costs.shared[0, 1] == pytest.approx(costs.shared[0, 0] * 2 / 3, rel=0.02)


def test_kinds_that_a_profile_does_not_cover_are_named() -> None:
    one = ampere.Task("odd", (*plain_model(8, 8), layer("attention")), ampere.Job(steps=10))

    plan = planned([one, task("a")], member("x"))

    assert [each.job for each in plan.unplaced] == ["odd"]
    assert plan.unplaced[0].reason == ("x: its profile does not cover 1 kind of layers: attention")
    assert "profile" in plan.unplaced[0].change


def test_what_a_job_lacks_is_named() -> None:
    plan = planned([task("a", 2000)], member("x", 1500 * ONCE_J), member("y", 700 * ONCE_J))

    (missing,) = plan.unplaced
    assert missing.reason.startswith("it takes up to ")
    assert " on x, which has " in missing.reason
    assert "more charge on x" in missing.change
    assert "of its 2,000 steps fit on x" in missing.change
    assert "pruned to" in missing.change


@pytest.mark.parametrize("by", ["steps", "charge"])
def test_the_change_that_is_named_is_enough_and_hardly_less_is(by: str) -> None:
    costs = Costs.known([[10.0]], 1.0, mood=0.1, steps=1000)
    one = ampere.Member("x", plain_profile(), ampere.Battery(6.0, 20.0))
    told = planned([task("a")], one, costs=costs).unplaced[0].change.split("; or ")
    change = next(text for text in told if by in text)

    def fits(change: float) -> bool:
        if by == "charge":
            richer = replace(one, battery=ampere.Battery(6.0 + change, 20.0))
            return not planned([task("a")], richer, costs=costs).unplaced
        fewer = Costs.known([[10.0 * change / 1000]], 1.0, mood=0.1, steps=int(change))
        return not planned([task("a", int(change))], one, costs=fewer).unplaced

    amount = float(change.split()[0])
    assert fits(amount)
    assert not fits(amount * 1.02 if by == "steps" else amount * 0.98)


def test_a_later_deadline_is_named() -> None:
    costs = Costs.known([[1.0]], 100.0, time_std=0.1)

    plan = planned([task("a", deadline_s=90.0)], member("x"), costs=costs)

    assert plan.unplaced[0].reason == "no member would end it within 1 min 30 s"
    assert "a deadline of 1 min 54 s on x" in plan.unplaced[0].change  # 100 s × exp(1.28 × 0.1)


def test_the_least_important_is_left_out_for_lack_of_room() -> None:
    costs = Costs.known([[6.0], [6.0]])
    rows = [task("a"), task("b", priority=2.0)]

    plan = planned(rows, member("x", 10.0), costs=costs)

    assert [each.job for each in plan.assignments] == ["b"]
    assert plan.unplaced[0].job == "a"
    assert plan.unplaced[0].reason == "there is no room for it beside the other jobs"


def test_pruning_is_told() -> None:
    costs = Costs.known([[6.0]])

    plan = planned([task("a", shrink=0.5)], member("x", 5.0), costs=costs)

    assert plan.assignments[0].share == pytest.approx(5 / 6, rel=1e-4)
    assert plan.energy_j == pytest.approx(5, rel=1e-4)
    assert "pruned to 83.3 %" in repr(plan)


def test_a_profile_without_seconds_promises_no_deadline() -> None:
    rows = [replace(row, time_s_per_step=None) for row in plain_profile().measurements]
    untimed = ampere.Member("x", ampere.fit(rows))

    plan = planned([task("a"), task("b", deadline_s=1e6)], untimed)

    assert [each.job for each in plan.assignments] == ["a"]
    assert "tells no seconds" in plan.unplaced[0].reason
    assert any("tells no seconds" in text for text in plan.warnings)


def test_an_empty_profile_is_told() -> None:
    header = Header(plain_profile().header.fingerprint, {"name": "none"}, Provenance.SIMULATED)

    plan = planned([task("a")], ampere.Member("x", ampere.Profile((), header)))

    assert plan.unplaced[0].reason == "x: its profile is empty: profile it first"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"confidence": 1.0}, "a confidence of 1 cannot be"),
        ({"confidence": 0.2}, "a confidence of 0.2 cannot be"),
        ({"objective": "joy"}, "nothing is planned by 'joy'"),
        ({"objective": {"energy": 0.0}}, "a plan needs an objective"),
        ({"objective": {"energy": -1.0}}, "a weight of -1.0 for energy"),
        ({"objective": "carbon"}, "x has no carbon of a kilowatt-hour"),
        ({"begins": "soon"}, "'soon' is no moment"),
    ],
)
def test_what_cannot_be_planned_is_one_line(settings: dict[str, object], told: str) -> None:
    with pytest.raises(DataError, match=told) as raised:
        ampere.schedule(ampere.Fleet((member("x"),)), [task("a")], **settings)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_names_must_be_known_and_their_own() -> None:
    with pytest.raises(AmpereError, match="job a: there is no member z in the fleet: it has x"):
        planned([task("a", members=("z",))], member("x"))
    with pytest.raises(AmpereError, match="two jobs of the name a"):
        planned([task("a"), task("a")], member("x"))
    with pytest.raises(AmpereError, match="two members of the name x"):
        planned([task("a")], member("x"), member("x"))
    with pytest.raises(AmpereError, match="no job to plan"):
        planned([], member("x"))


def test_who_may_run_a_job_is_heeded() -> None:
    plan = planned([task("a", members=("y",))], member("x"), member("y"))

    assert plan.assignments[0].member == "y"


def test_the_battery_is_told_over_time_with_a_band() -> None:
    costs = Costs.known([[4.0], [4.0]], 10.0, mood=0.1)

    plan = planned([task("a"), task("b")], member("x", 10.0), costs=costs)

    (standing,) = plan.standings
    assert [each.time_s for each in standing.charges] == [0, 10, 20]
    assert [each.energy_j for each in standing.charges] == pytest.approx([10, 6, 2])
    widths = [each.high_j - each.low_j for each in standing.charges]
    assert widths[0] == 0 or widths[0] < widths[1] < widths[2]
    assert standing.p_battery == pytest.approx(0.987, abs=0.001)  # log(10/8) / 0.1


def test_a_package_that_is_missing_is_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    wanting = ampere.Task("it", "timm:resnet18", ampere.Job(steps=10))
    (missing,) = planned([wanting], member("x")).unplaced
    assert missing.reason.endswith("pip install 'ampere-energy[timm]'")
    assert missing.change == "install what its model needs, and plan again"


def test_where_nearly_nothing_fits_it_is_told_what_would_fit_alone() -> None:
    costs = Costs.known([[6.0], [8.0]], steps=1000)
    plan = planned([task("a", priority=2.0), task("b")], member("x", 6.01), costs=costs)
    assert "1 of its 1,000 steps fit on x (751 if it ran nothing else)" in plan.unplaced[0].change
    roomy = planned([task("a", priority=2.0), task("b")], member("x", 7.0), costs=costs)
    assert roomy.unplaced[0].change.endswith("or 125 of its 1,000 steps fit on x")


def test_a_model_that_cannot_be_read_is_to_be_corrected() -> None:
    broken = ampere.Task("odd", "zoo:nothing", ampere.Job(steps=10))
    (missing,) = planned([broken, task("a")], member("x")).unplaced
    assert missing.job == "odd" and "the zoo has no 'nothing'" in missing.reason
    assert missing.change.startswith("correct its model")


def test_batteries_are_told_to_the_end_of_the_plan() -> None:
    costs = Costs.known([[10.0, 99.0], [99.0, 10.0]], [[50.0, 50.0], [400.0, 400.0]])
    idle = member("x", 100.0, idle_w=0.1)
    plan = planned([task("a"), task("b")], idle, member("y", 100.0), costs=costs)
    first, second = (each.charges for each in plan.standings)
    assert first[-1].time_s == second[-1].time_s == 400.0
    assert first[-1].energy_j == pytest.approx(100.0 - 10.0 - 0.1 * 350.0)
    assert all(each.p_battery > 0.9 for each in plan.standings)


def test_a_battery_that_is_empty_stays_at_nothing_and_promises_nothing() -> None:
    costs = Costs.known([[1.0, 10.0]], [[50.0, 50.0]])
    flat = member("flat", battery=ampere.Battery(0.0, 100.0, 0.0), idle_w=0.1)
    plan = planned([task("a")], flat, member("y", 100.0), costs=costs)
    empty, _ = plan.standings
    assert plan.assignments[0].member == "y"
    assert all(each.energy_j == each.low_j == 0.0 for each in empty.charges)
    (line,) = (line for line in repr(plan).splitlines() if line.split()[:1] == ["flat"])
    assert "no job, 0 J of 100 J left" in line and "holds" not in line


def test_the_table_is_what_was_agreed() -> None:
    costs = Costs.known(
        [[400.0, 650.0], [900.0, 700.0], [5000.0, 9000.0]],
        [[60.0, 30.0], [200.0, 90.0], [900.0, 600.0]],
        mood=0.05,
        own=0.02,
        time_std=0.1,
        steps=[[1000], [2000], [9000]],
    )
    rows = [
        task("digits", deadline_s=300.0),
        task("har", 2000, chunk_steps=500, shrink=0.5),
        task("huge", 9000),
    ]
    phone = ampere.Battery(1500.0, 4000.0, 300.0)

    plan = planned(rows, member("phone", battery=phone), member("board", 900.0), costs=costs)

    assert repr(plan) + "\n" == agreed("plan.txt", repr(plan) + "\n")


def test_a_window_that_is_too_short_is_no_fault_of_the_battery() -> None:
    costs = Costs.known([[1.0]], 100.0)
    brief = member("x", 1000.0, available=(ampere.Span(0.0, 50.0),))

    plan = planned([task("a")], brief, costs=costs)

    assert plan.unplaced[0].reason == "no member is there for long enough"


def test_without_a_bound_nothing_is_said_of_the_best_plan() -> None:
    plan = replace(planned([task("a")], member("x")), cost=-2.0, bound=-3.0)
    assert plan.gap is None and plan.to_json()["gap"] is None
    assert "above the best plan" not in repr(plan)
