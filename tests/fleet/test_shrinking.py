"""Shrinking: what a pruned job trains, and how far jobs can be pruned at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ampere
from ampere.errors import DataError
from ampere.fleet.costs import ask
from ampere.fleet.plan import Plan
from ampere.fleet.shrinking import LEAST, attainable, narrowed, settled, share_of
from fakes import known_cost, plain_model, total
from fleet.cases import BEGINS, member, task
from plain_rows import network, step

WIDE = plain_model(60, 60)


def wide(name: str, steps: int = 1000, **settings: object) -> ampere.Task:
    return replace(task(name, steps, **settings), model=WIDE)


def planned(tasks: list[ampere.Task], *members: ampere.Member) -> Plan:
    return ampere.schedule(ampere.Fleet(members), tasks, begins=BEGINS)


def test_all_free_widths_are_cut_alike() -> None:
    half = narrowed(WIDE, 50)
    assert [each.widths for each in half] == [each.widths for each in plain_model(30, 30)]
    assert narrowed(WIDE, 100) == WIDE
    smallest = {
        size for each in narrowed(plain_model(3, 3), LEAST) for size in each.widths.values()
    }
    assert min(smallest) == 1  # never nothing


def test_the_widest_network_that_stays_within_the_share_is_run() -> None:
    whole_j = 1000 * total(WIDE, known_cost).energy_j
    one = member("x", 0.7 * whole_j)
    job = wide("a", shrink=0.3)
    plan = planned([job], one)
    (each,) = plan.assignments
    assert 0.3 < each.share < 0.75
    (run,) = settled(plan, ampere.Fleet((one,)), [job])
    assert run.shrink is None
    narrow_j = ask(one, run).whole.energy_j
    assert narrow_j <= each.energy_j * (1 + 1e-9)
    assert narrow_j > 0.9 * each.energy_j  # and no narrower than it has to be


def test_what_is_not_pruned_stays_as_it_is() -> None:
    job = wide("a", shrink=0.3)
    (run,) = settled(planned([job], member("x")), ampere.Fleet((member("x"),)), [job])
    assert run == replace(job, shrink=None)


def test_a_job_is_not_pruned_further_than_it_can_be() -> None:
    """Its first and last widths are fixed, so a thousandth of the joules cannot be reached."""
    one, job = member("x", 1.0), wide("a", shrink=0.001)
    least = share_of(one, job, LEAST)
    assert 0.001 < least < 1
    (told,), (text,) = attainable(ampere.Fleet((one,)), [job])
    assert told.shrink == pytest.approx(least, abs=1.1e-3) and (told.shrink or 0.0) >= least
    assert text.startswith("job a cannot be pruned below")
    assert text in planned([job], one).warnings


def test_layers_that_say_nothing_of_their_calls_are_not_pruned() -> None:
    rows = [step(network(1e6 * size, 1e3), size, 0.1 * size) for size in (1.0, 2.0, 4.0)]
    one = ampere.Member("x", ampere.fit(rows))
    job = replace(wide("a", shrink=0.5), model=network(3e6, 1e3))
    (told,), (text,) = attainable(ampere.Fleet((one,)), [job])
    assert told.shrink is None
    assert text.startswith("job a cannot be pruned: ") and "\n" not in text


def test_a_plan_that_prunes_more_than_can_be_is_refused() -> None:
    one = member("x", 0.7 * 1000 * total(WIDE, known_cost).energy_j)
    job = wide("a", shrink=0.3)
    plan = planned([job], one)
    too_small = tuple(replace(each, share=0.001) for each in plan.assignments)
    with pytest.raises(DataError, match="which no widths reach: plan again"):
        settled(replace(plan, assignments=too_small), ampere.Fleet((one,)), [job])
