"""When everything runs: parts of one job one after the other, whoever has them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ampere
from ampere.fleet.costs import Costs
from ampere.fleet.planning.lane import Piece
from ampere.fleet.planning.mending import mended
from ampere.fleet.planning.timetable import Timetable
from fleet.cases import member, problem, task


def test_a_part_begins_when_the_one_before_has_ended_and_others_run_meanwhile() -> None:
    costs = Costs.known(np.ones((2, 2)), [[10.0, 10.0], [4.0, 4.0]], steps=100)
    rows = [task("divided", 100, chunk_steps=10), task("whole")]
    case = problem(costs, [member("x"), member("y")], rows)

    table = case.timetable([[Piece(0, 0.4)], [Piece(0, 0.6), Piece(1)]])

    assert table.queues == [[Piece(0, 0.4)], [Piece(1), Piece(0, 0.6)]]
    assert table.expected == [[[(0, 4)]], [[(0, 4)], [(4, 10)]]]
    assert table.end_s == 10


def test_the_part_that_can_begin_first_is_first() -> None:
    costs = Costs.known([[1.0, 1.0]], 10.0, steps=100)
    late = member("late", available=(ampere.Span(50),))
    case = problem(costs, [late, member("now")], [task("it", 100, chunk_steps=10)])

    table = case.timetable([[Piece(0, 0.5)], [Piece(0, 0.5)]])

    assert table.expected == [[[(50, 55)]], [[(0, 5)]]]


def test_of_two_that_could_begin_the_one_does_with_which_all_holds() -> None:
    """The short part must be first: its member is not there for long."""
    costs = Costs.known([[1.0, 1.0]], 10.0, steps=100)
    leaving = member("y", available=(ampere.Span(0, 7),))
    case = problem(costs, [member("x"), leaving], [task("divided", 100, chunk_steps=10)])

    table = case.timetable([[Piece(0, 0.8)], [Piece(0, 0.2)]])

    assert table.expected == [[[(2, 10)]], [[(0, 2)]]]


def test_the_probability_of_a_deadline_is_that_of_all_parts() -> None:
    costs = Costs.known([[1.0, 1.0]], 100.0, time_std=0.1, steps=100)
    rows = [task("it", 100, chunk_steps=10, deadline_s=100.0 * math.exp(0.1))]
    case = problem(costs, [member("x"), member("y")], rows)
    sheet = [[Piece(0, 0.5)], [Piece(0, 0.5)]]

    (first,), (second,) = case.timetable(sheet).p_deadline()

    assert first == pytest.approx(1, abs=1e-6)
    assert second == pytest.approx(0.8413, abs=1e-3)
    assert case.timetable(sheet).broken() == [1]


def test_waiting_for_another_part_takes_of_the_battery() -> None:
    costs = Costs.known([[4.0, 4.0]], [[100.0, 10.0]], steps=100)
    rows = [task("it", 100, chunk_steps=10)]
    sheet = [[Piece(0, 0.5)], [Piece(0, 0.5)]]

    def broken(idle_w: float) -> list[int]:
        case = problem(costs, [member("x"), member("y", 3.0, idle_w=idle_w)], rows)
        return Timetable(case.lanes, sheet).broken()

    assert broken(0.01) == []  # half a joule is gone when it begins, and 2 are needed
    assert broken(0.03) == [1]


def test_what_does_not_hold_in_sequence_goes_elsewhere_or_is_left_out() -> None:
    costs = Costs.known([[1.0, 1.0]], [[100.0, 60.0]], steps=100)
    sheet = [[Piece(0, 0.5)], [Piece(0, 0.5)]]

    def mending(deadline_s: float) -> list[list[Piece]]:
        rows = [task("it", 100, chunk_steps=10, deadline_s=deadline_s)]
        return mended(problem(costs, [member("x"), member("y")], rows), sheet)

    assert mending(81.0) == sheet
    assert mending(79.0) == [[], [Piece(0)]]
    assert mending(59.0) == [[], []]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), reach=st.floats(-3, 3))
def test_no_two_parts_overlap_whatever_is_late(seed: int, reach: float) -> None:
    rng = np.random.default_rng(seed)
    tasks, members = int(rng.integers(1, 7)), int(rng.integers(2, 5))
    times = rng.uniform(0, 20, (tasks, members))
    costs = Costs.known(np.ones_like(times), times, time_std=0.2, steps=100)
    spans = [(ampere.Span(0, 7), ampere.Span(9)), (ampere.Span(0),), (ampere.Span(5),)]
    fleet = [
        member(f"m{at}", available=spans[int(rng.integers(3))], slots=int(rng.integers(1, 3)))
        for at in range(members)
    ]
    rows = [task(f"job{at}", 100, chunk_steps=5, earliest_s=float(at)) for at in range(tasks)]
    sheet: list[list[Piece]] = [[] for _ in fleet]
    for at in range(tasks):
        held = rng.permutation(members)[: int(rng.integers(1, members + 1))]
        for index in held.tolist():
            sheet[index].append(Piece(at, 1 / len(held), 1.0, float(rng.integers(0, 3))))

    table = Timetable(problem(costs, fleet, rows).lanes, sheet)

    assert [sorted(queue) for queue in table.queues] == [sorted(pieces) for pieces in sheet]
    laid = table.laid(reach)
    for at in range(tasks):
        runs = sorted(
            run
            for queue, each in zip(table.queues, laid, strict=True)
            for piece, spans_of_piece in zip(queue, each, strict=True)
            for run in spans_of_piece
            if piece.task == at
        )
        assert runs[0][0] >= rows[at].earliest_s
        assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(runs))
