"""A queue: its order and times, its battery, and how sure both are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import ampere
from ampere.fleet.costs import Costs, causes_of
from ampere.fleet.planning.assurance import deviation, tangent, upper
from ampere.fleet.planning.lane import Lane, Piece
from ampere.fleet.planning.timetable import Timetable
from fleet.cases import member, problem, task

DRAWS = 40_000


def lane_of(costs: Costs, one: ampere.Member, tasks: Sequence[ampere.Task] | None = None) -> Lane:
    return problem(costs, [one], tasks).lanes[0]


def test_what_is_due_first_runs_first_and_none_before_its_start() -> None:
    costs = Costs.known([[1.0]] * 3, 10.0)
    rows = [task("a"), task("b", deadline_s=100.0), task("c", earliest_s=5.0, deadline_s=40.0)]
    lane = lane_of(costs, member("one"), rows)

    queue = lane.ordered([Piece(0), Piece(1), Piece(2)])

    assert [piece.task for piece in queue] == [1, 2, 0]
    assert [runs[0] for runs in lane.laid(queue)] == [(0, 10), (10, 20), (20, 30)]


def test_two_slots_run_two_jobs_at_once() -> None:
    lane = lane_of(Costs.known([[1.0]] * 3, 10.0), member("one", slots=2))

    laid = lane.laid(lane.ordered([Piece(0), Piece(1), Piece(2)]))

    assert [runs[0] for runs in laid] == [(0, 10), (0, 10), (10, 20)]


def test_a_whole_job_waits_for_a_span_that_is_long_enough_and_chunks_do_not() -> None:
    spans = (ampere.Span(5, 12), ampere.Span(20, 40))
    rows = [task("whole"), task("divided", 1000, chunk_steps=300)]
    costs = Costs.known([[1.0]] * 2, 10.0, steps=1000)
    lane = lane_of(costs, member("one", available=spans), rows)

    assert lane.laid([Piece(0)]) == [[(20, 30)]]
    first, second = lane.laid([Piece(1)])[0]
    assert first == pytest.approx((5, 11))  # two chunks of 3 s
    assert second == pytest.approx((20, 24))


def test_a_member_that_leaves_too_early_has_no_room() -> None:
    lane = lane_of(Costs.known([[1.0]], 10.0), member("one", available=(ampere.Span(0, 9),)))

    assert not lane.fits([Piece(0)])


def test_doing_nothing_takes_of_the_battery() -> None:
    costs, rows = Costs.known([[5.0]], 10.0), [task("late", earliest_s=100.0)]

    assert lane_of(costs, member("one", 10.0), rows).fits([Piece(0)])
    assert not lane_of(costs, member("one", 10.0, idle_w=0.06), rows).fits([Piece(0)])
    assert lane_of(costs, member("one", 10.0, idle_w=0.04), rows).fits([Piece(0)])


def test_an_empty_device_is_off_until_it_is_charged() -> None:
    charging = (ampere.Charging(ampere.Span(100, 200), 1.0),)
    one = member("one", battery=ampere.Battery(0.0, 100.0, 10.0), charging=charging, idle_w=0.1)
    costs, rows = Costs.known([[50.0]], 20.0), [task("it", earliest_s=200.0)]
    lane = lane_of(costs, one, rows)
    queue = [Piece(0)]

    path = lane.path(queue, lane.laid(queue))

    assert path.times_s.tolist() == [0, 100, 200, 220]
    assert path.levels_j(np.ones(1))[:, 0].tolist() == pytest.approx([0, 0, 90, 40])
    assert lane.fits(queue)
    assert not lane_of(Costs.known([[81.0]], 20.0), one, rows).fits(queue)  # 9 of 10 would be left
    assert not lane_of(costs, replace(one, charging=()), rows).fits(queue)


def test_idling_takes_what_a_job_needs_and_no_more() -> None:
    one = member("one", battery=ampere.Battery(10.0, 20.0), idle_w=0.1)
    costs, rows = Costs.known([[5.0]], 10.0), [task("it", earliest_s=1000.0)]
    lane = lane_of(costs, one, rows)

    path = lane.path([Piece(0)], lane.laid([Piece(0)]))

    assert path.levels_j(np.ones(1))[:, 0].tolist() == pytest.approx([10, 0, -5])
    assert not lane.fits([Piece(0)])


def test_charging_stops_at_the_capacity() -> None:
    charging = (ampere.Charging(ampere.Span(0, 100), 1.0),)
    one = member("one", battery=ampere.Battery(15.0, 20.0), charging=charging)
    lane = lane_of(Costs.known([[18.0]], 10.0), one, [task("it", earliest_s=100.0)])
    queue = lane.ordered([Piece(0)])

    path = lane.path(queue, lane.laid(queue))

    assert path.times_s.tolist() == [0, 100, 110]
    assert path.levels_j(np.ones(1))[:, 0].tolist() == pytest.approx([15, 20, 2])
    assert path.largest_scales(np.array([110.0]))[0] == pytest.approx(20 / 18)


@pytest.mark.parametrize("charged", [False, True])
def test_the_probability_of_a_battery_is_what_sampling_shows(charged: bool) -> None:
    """Errors are shared by layers and moods, or a job's own; draws are of each job."""
    rng = np.random.default_rng(3)
    root = rng.normal(0, 0.08, (4, 4))
    covariance = root @ root.T + 0.1**2  # the mood is the same for all
    shared, own = causes_of(covariance)
    energy = np.array([3.0, 5.0, 2.0, 4.0])
    costs = Costs(
        energy_j=energy[:, None],
        time_s=np.full((4, 1), 10.0),
        steps=np.ones((4, 1), dtype=np.int64),
        shared=shared[None],
        own=own[:, None],
        time_std=np.zeros((4, 1)),
    )
    charging = (ampere.Charging(ampere.Span(10, 20), 0.3),) if charged else ()
    battery = ampere.Battery(13.0 if charged else 16.0, 40.0)
    lane = lane_of(costs, member("one", battery=battery, charging=charging))
    queue = [Piece(index) for index in range(4)]

    said = lane.p_battery(queue, lane.laid(queue))[-1]

    draws = energy * np.exp(rng.multivariate_normal(np.zeros(4), covariance, DRAWS))
    held = np.mean(draws.sum(axis=1) <= 16.0)
    assert 0.7 < said < 0.99
    assert said == pytest.approx(held, abs=0.02)
    assert lane.fits(queue) == (said >= 0.9)


def test_shared_errors_make_a_queue_less_sure_than_own_ones() -> None:
    energy = np.ones((10, 1))
    queue = [Piece(index) for index in range(10)]
    together = lane_of(Costs.known(energy, mood=0.2), member("one", 11.5))
    alone = lane_of(Costs.known(energy, own=0.2), member("one", 11.5))

    assert together.p_battery(queue, together.laid(queue))[-1] == pytest.approx(0.757, abs=0.01)
    assert alone.p_battery(queue, alone.laid(queue))[-1] > 0.97


def test_the_probability_of_a_deadline_is_that_of_the_queue() -> None:
    costs = Costs.known([[1.0]] * 2, 50.0, time_std=0.1)
    rows = [task("a", deadline_s=100.0), task("b", deadline_s=100.0 * math.exp(0.1))]
    lane = lane_of(costs, member("one"), rows)

    ((first, second),) = Timetable([lane], [[Piece(0), Piece(1)]]).p_deadline()

    assert first == pytest.approx(1, abs=1e-6)
    assert second == pytest.approx(0.8413, abs=1e-3)
    assert not lane.fits([Piece(0), Piece(1)])


def test_a_tangent_touches_its_queue_and_is_below_all_others() -> None:
    rng = np.random.default_rng(0)
    energy, shared, own = rng.uniform(1, 9, 6), rng.normal(0, 0.1, (6, 3)), rng.uniform(0, 0.2, 6)

    def most(shares: np.ndarray) -> float:
        e = shares * energy
        return upper(float(e.sum()), deviation(e, shared, own), 1.3)

    here = rng.random(6)
    line = tangent(here, energy, shared, own, 1.3)

    assert line @ here == pytest.approx(most(here))
    for _ in range(200):
        there = rng.random(6) * (rng.random(6) < 0.5) + 1e-6
        assert line @ there <= most(there) + 1e-9
