"""Jobs of a fleet as workers get them, and those that no worker can do: refused before a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ampere
from ampere.errors import DataError
from ampere.fleet.runs.orders import Routine
from ampere.integrations.fleet_jobs import open_run, work_of
from ampere.profiles.jobs.job import Loading
from fleet.cases import member
from fleet.crews import round_robin

FLEET = ampere.Fleet((member("x"),))


def a_task(job: ampere.Job) -> ampere.Task:
    training = ampere.Training(batch_size=10)
    return ampere.Task("a", "zoo:lenet5(channels=[3, 6])", job, training=training)


def test_steps_have_batches_and_validations() -> None:
    jobs = {
        ampere.Job(steps=30): Routine(30),
        ampere.Job(steps=30, accumulate=4): Routine(30, 4),
        ampere.Job(epochs=3, samples=95, validation_samples=21): Routine(30, 1, 3, 3),
        ampere.Job(steps=30, validation_samples=20, validations=5): Routine(30, 1, 5, 2),
    }
    for job, routine in jobs.items():
        assert work_of(FLEET, [a_task(job)]).routines == {"a": routine}


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (ampere.Job(steps=3, loading=Loading(0.1)), "job a: workers train on synthetic data, so"),
        (ampere.Job(steps=3, ranks=2), "job a wants 2 devices at once, and a worker is one"),
    ],
)
def test_what_no_worker_can_do_is_refused_before_anything_is_written(
    tmp_path: Path, job: ampere.Job, says: str
) -> None:
    tasks = [a_task(job)]
    plan = round_robin(FLEET, tasks)
    with pytest.raises(DataError, match=says), open_run(tmp_path / "run", plan, FLEET, tasks):
        pass
    assert not (tmp_path / "run").exists()


def test_a_logbook_does_not_go_on_with_another_routine() -> None:
    plain, double = (
        work_of(FLEET, [a_task(ampere.Job(steps=30, accumulate=k))]).opened(FLEET, "run", "now")
        for k in (1, 2)
    )
    assert plain.orders[0].digest != double.orders[0].digest


def test_a_fleet_with_two_slots_is_refused(tmp_path: Path) -> None:
    fleet = ampere.Fleet((replace(FLEET.members[0], slots=2),))
    tasks = [a_task(ampere.Job(steps=3))]
    with (
        pytest.raises(DataError, match="write slots = 1 and plan again"),
        open_run(tmp_path / "run", round_robin(fleet, tasks), fleet, tasks),
    ):
        pass
    assert not (tmp_path / "run").exists()
