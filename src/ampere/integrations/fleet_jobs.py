"""Jobs of a fleet as data that a worker can train from: a public name, or the layers themselves."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ampere.core.boundary.example_inputs import as_inputs
from ampere.core.boundary.model_names import parse_name
from ampere.core.layers import Layer, structure_of
from ampere.core.training import LOSSES, Training
from ampere.core.types import Json
from ampere.core.workloads import ModelSpec, Workload
from ampere.errors import DataError
from ampere.fleet.member import Fleet, refuse_twins
from ampere.fleet.plan import Plan
from ampere.fleet.replan import learned
from ampere.fleet.runs.book import Book
from ampere.fleet.runs.logbook import Logbook
from ampere.fleet.runs.orders import Routine
from ampere.fleet.runs.remainder import Planner, done_by
from ampere.fleet.runs.runner import Runner
from ampere.fleet.runs.work import Work
from ampere.fleet.schedule import schedule
from ampere.fleet.shrinking import settled
from ampere.fleet.task import Task
from ampere.frameworks.models import read


def work_of(fleet: Fleet, tasks: Sequence[Task]) -> Work:
    """Jobs with what workers are sent for them.

    Raises:
        DataError: A job is more than a worker can do, or nobody says how it is trained.
    """
    refuse_twins([task.name for task in tasks], "job")
    workloads: dict[str, Mapping[str, Json]] = {}
    routines: dict[str, Routine] = {}
    for task in tasks:
        for name in task.members:
            fleet.find(name)
        training = training_of_task(fleet, task)
        workloads[task.name] = workload_of(task, training).to_json()
        routines[task.name] = _routine(task, training)
    return Work(tuple(tasks), workloads, routines)


def _routine(task: Task, training: Training) -> Routine:
    """Steps with their batches, and validations between them."""
    job = task.job
    if job.loading is not None:
        raise DataError(
            f"job {task.name}: workers train on synthetic data, so they load none: leave"
            " data_s_per_batch and data_j_per_batch out, and plan again"
        )
    if job.ranks > 1:
        raise DataError(f"job {task.name} wants {job.ranks} devices at once, and a worker is one")
    count = job.count(training.batch_size)
    of_each = count.validation_batches // count.validations if count.validations else 0
    return Routine(count.steps, job.accumulate, count.validations, of_each)


@contextmanager
def open_run(
    folder: str | os.PathLike[str],
    plan: Plan,
    fleet: Fleet,
    tasks: Sequence[Task],
    *,
    patience_s: float = 60.0,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Runner]:
    """A runner of a plan, with the logbook of this folder: a new one, or one that goes on.

    Raises:
        AmpereError: The plan is of others, or the logbook is, or somebody else keeps it.
    """
    _refuse_strangers(plan, fleet, tasks)
    tasks = settled(plan, fleet, tasks)
    work = work_of(fleet, tasks)
    opened = work.opened(fleet, secrets.token_hex(8), plan.begins)
    with Logbook(folder, opened) as logbook:
        planner = planner_of(plan, tasks)
        runner = Runner(logbook, fleet, work, planner, patience_s=patience_s, say=say)
        runner.begin(plan)
        yield runner


def _refuse_strangers(plan: Plan, fleet: Fleet, tasks: Sequence[Task]) -> None:
    """A plan for devices that are gone, or of other jobs, before anything is written."""
    jobs = {task.name for task in tasks}
    for each in plan.assignments:
        fleet.find(each.member)
        if each.job not in jobs:
            raise DataError(f"the plan has job {each.job}, which is not among the jobs: plan again")


def planner_of(plan: Plan, tasks: Sequence[Task]) -> Planner:
    """Plans what is left as the plan itself was made, with profiles that learned from what ran."""

    def again(fleet: Fleet, rest: Sequence[Task], book: Book) -> Plan:
        fleet, notes = learned(fleet, tasks, done_by(book))
        made = schedule(fleet, rest, confidence=plan.confidence, objective=plan.objective)
        return replace(made, warnings=(*made.warnings, *notes))

    return again


def training_of_task(fleet: Fleet, task: Task) -> Training:
    """How a job is trained wherever it runs: as it says, or as all that may run it agree on."""
    if task.training is not None:
        training = task.training
    else:
        members = [each for each in fleet if not task.members or each.name in task.members]
        usual = {member.profile.training for member in members}
        if len(usual) > 1:
            raise DataError(
                f"job {task.name}: profiles of the fleet were trained in different ways: say its"
                " batch size and optimiser"
            )
        training = usual.pop()
    if training.loss not in LOSSES:
        raise DataError(
            f"job {task.name}: a loss that is code cannot be sent: use {', '.join(LOSSES)}"
        )
    return training


def workload_of(task: Task, training: Training) -> Workload:
    """A model by its public name; any other by its layers, so that no code has to travel."""
    model = task.model
    if isinstance(model, str) and parse_name(model).is_settled:
        return Workload(model=ModelSpec(model, _input_text(task), training))
    layers = _layers(task, training)
    for layer in layers:
        structure_of(layer.kind)  # of a file of measurements, it could not be built
    return Workload(layers)


def _layers(task: Task, training: Training) -> tuple[Layer, ...]:
    model = task.model
    if isinstance(model, Sequence) and not isinstance(model, str):
        return tuple(model)
    return read(model, task.input, training)


def _input_text(task: Task) -> str | None:
    if task.input is None:
        return None
    return str(as_inputs(task.input))
