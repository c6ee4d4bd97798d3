"""The solver: the best plan where all can be tried, and what holds for any plan."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ampere
from ampere.core.boundary.hours import Hours
from ampere.core.rates import Rate
from ampere.fleet.costs import Costs
from ampere.fleet.planning import shortfall
from ampere.fleet.planning.assembly import assignments_of
from ampere.fleet.planning.draft import Draft
from ampere.fleet.planning.greedy import greedy
from ampere.fleet.planning.mending import mended
from ampere.fleet.planning.problem import Problem
from ampere.fleet.planning.shortfall import unplaced_of
from ampere.fleet.planning.solver import Solution, solve
from fakes import plain_model
from fleet.cases import best_by_trying, member, problem, task


def drawn(seed: int, tasks: int, members: int, tight: float, **terms: object) -> Problem:
    rng = np.random.default_rng(seed)
    energy = rng.uniform(1, 10, (tasks, 1)) * np.exp(rng.normal(0, 0.4, (tasks, members)))
    energy[rng.random(energy.shape) < 0.1] = np.inf
    costs = Costs.known(energy, 10.0, mood=0.1, own=0.05, time_std=0.1)
    supply = rng.uniform(0.5, 1.5, members) * 5.5 * tasks / members / tight
    fleet = [member(f"m{index}", float(each)) for index, each in enumerate(supply)]
    rows = [
        task(f"job{index:02}", priority=float(rng.integers(1, 3)), **terms)  # type: ignore[arg-type]
        for index in range(tasks)
    ]
    return problem(costs, fleet, rows)


@pytest.mark.parametrize("tight", [0.7, 1.2, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_finds_the_best_plan_where_all_can_be_tried(seed: int, tight: float) -> None:
    case = drawn(seed, tasks=6, members=2, tight=tight)

    solution = solve(case)

    missing, cost = case.standing(solution.sheet)
    assert missing == best_by_trying(case)[0]
    assert cost == pytest.approx(best_by_trying(case)[1])


def test_deadlines_move_jobs_to_faster_members() -> None:
    costs = Costs.known([[1.0, 3.0]] * 3, [[10.0, 4.0]] * 3)
    rows = [task(f"job{index}", deadline_s=12.0) for index in range(3)]

    solution = solve(problem(costs, [member("slow"), member("fast")], rows))

    assert [len(queue) for queue in solution.sheet] == [1, 2]
    assert solution.problem.cost(solution.sheet) == pytest.approx(1 + 3 + 3)


def test_makespan_is_shared_out() -> None:
    times = np.array([[7.0], [6.0], [5.0], [4.0], [2.0]])
    costs = Costs.known(np.ones((5, 2)), np.repeat(times, 2, axis=1))

    case = problem(costs, [member("a"), member("b")], objective="makespan")

    solution = solve(case)

    assert case.timetable(solution.sheet).end_s == 12
    assert solution.bound == pytest.approx(12)


def test_what_costs_the_same_ends_together() -> None:
    costs = Costs.known(np.ones((4, 2)), 10.0)

    solution = solve(problem(costs, [member("a"), member("b")]))

    assert [len(queue) for queue in solution.sheet] == [2, 2]


def test_a_task_is_divided_by_what_a_chunk_costs_more() -> None:
    """The cheapest member is filled up, the next one takes the rest."""
    costs = Costs.known([[10.0, 20.0, 40.0]], 1.0, steps=100)
    members = [member("cheap", 4.0), member("dearer", 10.0), member("dear")]

    solution = solve(problem(costs, members, [task("it", 100, chunk_steps=10)]))

    parts = [sum(piece.part for piece in queue) for queue in solution.sheet]
    assert parts == pytest.approx([0.4, 0.5, 0.1])
    assert solution.problem.cost(solution.sheet) == pytest.approx(4 + 10 + 4)
    assert solution.bound == pytest.approx(18)


def test_a_short_last_chunk_has_room_where_a_whole_one_has_none() -> None:
    """Chunks of 40 of 100 steps: two of them are 60, if the last one is among them."""
    costs = Costs.known([[10.0, 10.0]], 1.0, steps=100)
    fleet = [member("a", 4.1), member("b", 6.1)]

    solution = solve(problem(costs, fleet, [task("it", 100, chunk_steps=40)]))

    assert sorted(p.part for queue in solution.sheet for p in queue) == pytest.approx([0.4, 0.6])


def test_divided_tasks_that_are_left_out_take_no_room_of_others() -> None:
    costs = Costs.known([[1.0], [4.7], [7.3]], 1.0, steps=100)
    rows = [task(name, 100, chunk_steps=34) for name in "abc"]

    solution = solve(problem(costs, [member("only", 7.5)], rows))

    assert sorted(piece.task for piece in solution.sheet[0]) == [0, 1]


def test_a_bound_knows_that_a_whole_job_fits_only_where_all_of_it_has_room() -> None:
    costs = Costs.known([[1.0, 4.0]])

    solution = solve(problem(costs, [member("small", 0.9), member("large")]))

    assert solution.bound == pytest.approx(4)
    assert len(solution.problem.options) == 1


def test_a_job_is_divided_where_that_makes_a_mix_less() -> None:
    """The member of fewest joules is slow, and the quick one has too little for all of it."""
    costs = Costs.known([[1.9, 1.0, 3.6]], [[10.0, 35.0, 9.0]], steps=100)
    fleet = [member("a", 1.5), member("slow", 3.0), member("b", 1.5)]
    rows = [task("it", 100, chunk_steps=34)]

    solution = solve(problem(costs, fleet, rows, objective="1 energy + 0.2 makespan"))

    assert [len(queue) for queue in solution.sheet] == [1, 0, 1]


def test_no_bound_is_above_a_plan_of_members_that_leave() -> None:
    """Of what is not due only the last one must surely end while its member is there."""
    costs = Costs.known([[1.0, 3.0]] * 5, 18.0, time_std=0.1)
    case = problem(costs, [member("a", available=(ampere.Span(0, 100),)), member("b")])

    solution = solve(case)

    assert [len(queue) for queue in solution.sheet] == [5, 0]
    assert solution.bound == pytest.approx(5) == case.cost(solution.sheet)


def test_a_deadline_is_kept_by_parts_one_after_the_other() -> None:
    """The cheap member is slow: as much of it as leaves time for the rest on the quick one."""
    costs = Costs.known([[10.0, 20.0]], [[100.0, 50.0]], steps=100)
    rows = [task("it", 100, chunk_steps=1, deadline_s=80.0)]
    case = problem(costs, [member("slow"), member("quick")], rows)

    solution = solve(case)

    assert [piece.part for queue in solution.sheet for piece in queue] == pytest.approx([0.6, 0.4])
    assert solution.bound == pytest.approx(14) == case.cost(solution.sheet)
    assert case.timetable(solution.sheet).end_s == pytest.approx(80)


def test_parts_do_not_make_one_job_end_sooner() -> None:
    costs = Costs.known([[1.0, 1.0]], [[10.0, 12.0]], steps=100)
    case = problem(
        costs, [member("a"), member("b")], [task("it", 100, chunk_steps=1)], objective="makespan"
    )

    solution = solve(case)

    assert case.timetable(solution.sheet).end_s == solution.bound == pytest.approx(10)


def test_what_matters_more_is_placed_first() -> None:
    costs = Costs.known([[3.0], [3.0], [5.0]])
    rows = [task("a"), task("b"), task("c", priority=3.0)]

    solution = solve(problem(costs, [member("only", 6.0)], rows))

    assert [piece.task for piece in solution.sheet[0]] == [2]


def test_charging_is_waited_for() -> None:
    charging = (ampere.Charging(ampere.Span(100, 200), 0.1),)
    battery = ampere.Battery(10.0, 20.0)
    costs = Costs.known([[9.0], [9.0]], 20.0)

    solution = solve(problem(costs, [member("one", battery=battery, charging=charging)]))

    assert len(solution.sheet[0]) == 2
    lane = solution.problem.lanes[0]
    starts = [runs[0][0] for runs in lane.laid(lane.ordered(solution.sheet[0]))]
    assert starts[0] < 100 <= starts[1]


def test_nothing_is_charged_above_the_capacity() -> None:
    charging = (ampere.Charging(ampere.Span(0, 100), 1.0),)
    costs, rows = Costs.known([[19.0]], 10.0), [task("it", earliest_s=100.0)]

    def sheet(capacity_j: float) -> object:
        battery = ampere.Battery(18.0, capacity_j)
        one = member("one", battery=battery, charging=charging)
        return solve(problem(costs, [one], rows)).sheet[0]

    assert not sheet(18.0)
    assert sheet(19.0)


def test_cheap_hours_are_waited_for() -> None:
    hours = Hours((0.0, 3600.0, 7200.0), (3600.0, 7200.0, 10800.0), (500.0, 50.0, 500.0))
    carbon = Rate(350.0, "gCO2e", hours=hours)
    costs = Costs.known([[3.6e6]], 3000.0)
    case = problem(
        costs,
        [member("one", carbon=carbon)],
        [task("it", deadline_s=10_000.0)],
        objective="carbon",
    )

    solution = solve(case)

    assert solution.sheet[0][0].release_s == 3600
    assert case.cost(solution.sheet) == pytest.approx(50)
    assert solution.bound == pytest.approx(50)


def test_pruning_only_where_it_lets_more_in() -> None:
    costs = Costs.known([[6.0], [6.0]])
    rows = [task("a", shrink=0.4), task("b")]

    roomy = solve(problem(costs, [member("only", 12.1)], rows))
    tight = solve(problem(costs, [member("only", 10.0)], rows))

    assert {piece.share for piece in roomy.sheet[0]} == {1.0}
    shares = {piece.task: piece.share for piece in tight.sheet[0]}
    assert shares[1] == 1
    assert shares[0] == pytest.approx(4 / 6, rel=1e-4)
    assert tight.bound == pytest.approx(10, rel=1e-4)


def placed_parts(solution: Solution) -> list[float]:
    return [float(part) for part in solution.problem.placed(solution.sheet)]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    tasks=st.integers(1, 12),
    members=st.integers(1, 4),
    tight=st.floats(0.5, 3.0),
    divisible=st.booleans(),
    deadline=st.one_of(st.none(), st.floats(15, 60)),
)
def test_holds_for_any_plan(
    seed: int, tasks: int, members: int, tight: float, divisible: bool, deadline: float | None
) -> None:
    chunk = 100 if divisible else None
    case = drawn(seed, tasks, members, tight, chunk_steps=chunk, deadline_s=deadline)

    solution = solve(case)

    for lane, queue in zip(case.lanes, solution.sheet, strict=True):
        assert lane.fits(queue)
        assert len({piece.task for piece in queue}) == len(queue)
        battery = lane.member.battery
        assert battery is not None
        assert sum(lane.energies_j(queue)) <= battery.usable_j  # less than that by expectation
    assert all(part == 0 or part == pytest.approx(1) for part in placed_parts(solution))
    assert case.standing(solution.sheet) <= case.standing(mended(case, greedy(case)))
    if not case.standing(solution.sheet)[0]:
        assert solution.bound <= case.cost(solution.sheet) * (1 + 1e-6)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), timed=st.booleans())
def test_looking_at_many_at_once_misses_no_room(seed: int, timed: bool) -> None:
    case = drawn(seed, tasks=12, members=4, tight=1.5, **({"deadline_s": 60.0} if timed else {}))
    draft, rng = Draft(case, greedy(case)), np.random.default_rng(seed)
    for task_number in rng.permutation(12)[:5].tolist():
        draft.take(task_number)
    for task_number in range(12):
        rooms = draft.rooms(task_number)
        for option in case.choices[task_number]:
            member_number = int(case.options.member[option])
            queue = [p.task for p in draft.sheet[member_number] if p.task != task_number]
            leaving = draft.rooms_without(option, queue)
            assert rooms[member_number] or not draft.has_room(option)
            for other, may in zip(queue, leaving, strict=True):
                assert may or not draft.has_room(option, without=[other])
                if not timed:
                    assert draft.has_room(option, without=[other]) or not may
            if not timed:
                assert draft.has_room(option) or not rooms[member_number]


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    idle_w=st.sampled_from([0.0, 0.02]),
    charged=st.booleans(),
    deadline=st.one_of(st.none(), st.floats(15, 80)),
    objective=st.sampled_from(["energy", "makespan"]),
)
def test_a_job_is_at_one_place_at_a_time(
    seed: int, idle_w: float, charged: bool, deadline: float | None, objective: str
) -> None:
    """Whatever is planned: parts do not overlap, and batteries and deadlines hold like that."""
    rng = np.random.default_rng(seed)
    tasks, members = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    costs = Costs.known(
        rng.uniform(2, 10, (tasks, members)),
        rng.uniform(5, 20, (tasks, members)),
        **{"mood": 0.1, "own": 0.05, "time_std": 0.1, "steps": 100},
    )
    charging = (ampere.Charging(ampere.Span(10, 40), 0.2),) if charged else ()
    fleet = [
        member(f"m{at}", float(each), charging=charging, idle_w=idle_w)
        for at, each in enumerate(rng.uniform(3, 12, members) * tasks / members)
    ]
    rows = [
        task(f"job{at}", 100, chunk_steps=int(rng.integers(5, 60)), deadline_s=deadline)
        for at in range(tasks)
    ]
    case = problem(costs, fleet, rows, objective=objective)

    solution = solve(case, patience_s=0.05)

    plan = assignments_of(case, solution.sheet)
    for name in {each.job for each in plan}:
        ours = sorted((each for each in plan if each.job == name), key=lambda each: each.start_s)
        assert sum(each.steps for each in ours) == 100
        for before, after in itertools.pairwise(ours):
            assert before.end_s <= after.start_s * (1 + 1e-9)
    assert all(each.p_battery > 0.899 and each.p_deadline > 0.899 for each in plan)
    if not case.standing(solution.sheet)[0]:
        assert solution.bound <= case.cost(solution.sheet) * (1 + 1e-6)


def test_what_would_help_is_looked_for_once_for_all_that_are_alike() -> None:
    model = plain_model(16, 16)
    rows = [ampere.Task(f"job{at}", model, ampere.Job(steps=1000)) for at in range(40)]
    case = problem(Costs.known([[3.0]] * 40), [member("only", 4.0)], rows)

    unplaced = unplaced_of(case, solve(case).sheet)

    assert len(unplaced) == 39
    assert len({(each.reason, each.change) for each in unplaced}) == 1


def test_changes_are_not_looked_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of jobs that fit nowhere are named all the same, each with its reason."""
    monkeypatch.setattr(shortfall, "PATIENCE_S", 0.0)
    case = problem(Costs.known([[3.0], [5.0], [6.0]]), [member("only", 4.0)])

    unplaced = unplaced_of(case, solve(case).sheet)

    assert [each.reason[:16] for each in unplaced] == ["it takes up to 5", "it takes up to 6"]
    assert {each.change for each in unplaced} == {"not looked for, since so many jobs fit nowhere"}
