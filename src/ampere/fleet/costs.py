"""Costs: what each job would take on each member, and how the errors of that go together.

    joules of a queue  =  sum of energy_j × exp(shared · z + own × e)

`z` is what all jobs of a member share: its mood, and layers that they have in common. `e` is a
job's own. Costs come from profiles (`estimate_costs`) or from plain arrays (`Costs.known`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ampere.core.arrays import Array, Ints
from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.core.units import plural
from ampere.errors import AmpereError, DataError, MissingLibrary, NotCovered
from ampere.estimators.encoding.encoder import STEP
from ampere.estimators.together import shared_errors
from ampere.fleet.member import Fleet, Member
from ampere.fleet.task import Task
from ampere.frameworks.models import read
from ampere.profiles.cautions import UNSETTLED
from ampere.profiles.estimate import Estimate
from ampere.profiles.jobs.whole_job import LOADING, whole_job
from ampere.profiles.profile import Profile

CAUSES = 24  # of shared errors that are told apart; what is beyond them counts as a job's own
NAMED = 5  # kinds of layers that a reason names


@dataclass(frozen=True)
class Costs:
    """Expected joules and seconds of t tasks on m members, with their errors.

    Args:
        energy_j: (t, m), of the whole job; infinite where it cannot run.
        time_s: (t, m).
        steps: (t, m), which is not the same for all if their batches are not.
        shared: (m, t, causes), deviations of the logarithm of the joules that each shared cause
            makes.
        own: (t, m), the deviation that a job has by itself.
        time_std: (t, m), deviations of the logarithms of the seconds; those of one member are the
            same error.
        reasons: Why a task cannot run on a member.
        unreadable: Tasks whose model cannot be read, whoever should run it.
        uninstalled: Those of them that only want a package here.
        warnings: What a reader should know.
    """

    energy_j: Array
    time_s: Array
    steps: Ints
    shared: Array
    own: Array
    time_std: Array
    reasons: Mapping[tuple[int, int], str] = field(default_factory=dict)
    unreadable: frozenset[int] = frozenset()
    uninstalled: frozenset[int] = frozenset()
    warnings: tuple[str, ...] = ()

    @property
    def possible(self) -> npt.NDArray[np.bool_]:
        """Which task can run on which member."""
        return np.isfinite(self.energy_j)

    def taken(self, tasks: Sequence[int], members: Sequence[int]) -> Costs:
        """The same of these tasks and members, in this order."""
        table = np.ix_(tasks, members)
        return Costs(
            energy_j=self.energy_j[table],
            time_s=self.time_s[table],
            steps=self.steps[table],
            shared=self.shared[np.ix_(members, tasks)],
            own=self.own[table],
            time_std=self.time_std[table],
            reasons={
                (row, column): self.reasons[task, member]
                for row, task in enumerate(tasks)
                for column, member in enumerate(members)
                if (task, member) in self.reasons
            },
            unreadable=frozenset(row for row, task in enumerate(tasks) if task in self.unreadable),
            uninstalled=frozenset(
                row for row, task in enumerate(tasks) if task in self.uninstalled
            ),
            warnings=self.warnings,
        )

    @classmethod
    def known(
        cls,
        energy_j: npt.ArrayLike,
        time_s: npt.ArrayLike = 0.0,
        *,
        mood: npt.ArrayLike = 0.0,
        own: npt.ArrayLike = 0.0,
        time_std: npt.ArrayLike = 0.0,
        steps: npt.ArrayLike = 1,
    ) -> Costs:
        """From plain numbers, each (t, m) or something that stretches to it.

        Args:
            energy_j: Joules; infinite where a task cannot run.
            time_s: Seconds.
            mood: The deviation that all jobs of a member share.
            own: The deviation that each has by itself.
            time_std: The deviation of the seconds.
            steps: Of the tasks.
        """
        energy = np.asarray(energy_j, dtype=float)
        if energy.ndim != 2 or not np.all(energy > 0):
            raise DataError("costs are a table of joules above 0: a row a task, a column a member")

        def spread(values: npt.ArrayLike) -> Array:
            return np.broadcast_to(np.asarray(values, dtype=float), energy.shape).copy()

        shared = spread(mood).T[:, :, None]
        whole = np.broadcast_to(np.asarray(steps, dtype=np.int64), energy.shape).copy()
        impossible = {(int(t), int(m)): "it cannot" for t, m in np.argwhere(~np.isfinite(energy))}
        return cls(energy, spread(time_s), whole, shared, spread(own), spread(time_std), impossible)


@dataclass(frozen=True)
class Asked:
    """A network of a task as a member would train it."""

    layers: tuple[Layer, ...]
    step: Estimate
    whole: Estimate


def estimate_costs(fleet: Fleet, tasks: Sequence[Task]) -> Costs:
    """What the members' profiles say of the tasks.

    Raises:
        DataError: A task names a member that is not there.
    """
    for task in tasks:
        for name in task.members:
            _find(fleet, task, name)
    reader = _Reader()
    columns = [_column(member, tasks, reader) for member in fleet]
    causes = max(column.shared.shape[1] for column in columns)
    shared = np.zeros((len(columns), len(tasks), causes))
    for place, column in zip(shared, columns, strict=True):
        place[:, : column.shared.shape[1]] = column.shared
    return Costs(
        energy_j=np.stack([column.energy_j for column in columns], axis=1),
        time_s=np.stack([column.time_s for column in columns], axis=1),
        steps=np.stack([column.steps for column in columns], axis=1),
        shared=shared,
        own=np.stack([column.own for column in columns], axis=1),
        time_std=np.stack([column.time_std for column in columns], axis=1),
        reasons={
            (task, member): reason
            for member, column in enumerate(columns)
            for task, reason in column.reasons.items()
        },
        unreadable=frozenset().union(*(column.unreadable for column in columns)),
        uninstalled=frozenset().union(*(column.uninstalled for column in columns)),
        warnings=tuple(dict.fromkeys(text for column in columns for text in column.warnings)),
    )


def ask(member: Member, task: Task) -> Asked:
    """What a member's profile says of one task.

    Raises:
        NotCovered: It cannot run the task, or does not know it.
    """
    return _ask(member, task, _Reader(), {})


def _find(fleet: Fleet, task: Task, name: str) -> None:
    try:
        fleet.find(name)
    except DataError as error:
        raise DataError(f"job {task.name}: {error}") from None


class _Column:
    """Costs of all tasks on one member."""

    def __init__(self, tasks: int) -> None:
        self.energy_j = np.full(tasks, np.inf)
        self.time_s, self.own, self.time_std = np.zeros((3, tasks))
        self.steps = np.ones(tasks, dtype=np.int64)
        self.shared = np.zeros((tasks, 1))
        self.reasons: dict[int, str] = {}
        self.unreadable: set[int] = set()
        self.uninstalled: set[int] = set()
        self.warnings: list[str] = []


class _Reader:
    """Reads a model once for each way of training it, whoever runs it."""

    def __init__(self) -> None:
        self._read: dict[object, tuple[Layer, ...]] = {}

    def layers(self, task: Task, training: Training) -> tuple[Layer, ...]:
        """Of the task's model."""
        model = task.model
        if isinstance(model, Sequence) and not isinstance(model, str):
            return tuple(model)
        key = (model if isinstance(model, str) else id(model), repr(task.input), training)
        if key not in self._read:
            self._read[key] = read(model, task.input, training)
        return self._read[key]


def _column(member: Member, tasks: Sequence[Task], reader: _Reader) -> _Column:
    column, asked = _Column(len(tasks)), {}
    steps: dict[object, tuple[tuple[Layer, ...], Estimate]] = {}
    for index, task in enumerate(tasks):
        try:
            asked[index] = _ask(member, task, reader, steps)
        except AmpereError as error:
            column.reasons[index] = str(error)
            if not isinstance(error, NotCovered):
                column.unreadable.add(index)
            if isinstance(error, MissingLibrary):
                column.uninstalled.add(index)
    for index, each in asked.items():
        _fill(column, index, each.whole)
    untimed = [index for index, each in asked.items() if each.whole.time_s is None]
    if untimed:
        column.warnings.append(
            f"the profile of {member.name} tells no seconds: when its jobs run is not known"
        )
    column.warnings += [
        f"{member.name}: {text}"
        for each in asked.values()
        for text in each.whole.warnings
        if not text.startswith(UNSETTLED)  # it is totals that are planned with
    ]
    _fill_errors(column, member.profile, asked)
    return column


def _ask(
    member: Member,
    task: Task,
    reader: _Reader,
    steps: dict[object, tuple[tuple[Layer, ...], Estimate]],
) -> Asked:
    """What the member's profile says.

    Raises:
        NotCovered: It cannot run the task, or does not know it.
    """
    if task.members and member.name not in task.members:
        raise NotCovered("the job does not name it")
    if task.job.ranks > 1:
        raise NotCovered(f"the job wants {task.job.ranks} devices, and a member is one")
    profile = member.profile
    training = task.training or profile.training
    layers = reader.layers(task, training)
    key = tuple(layer.identity for layer in layers), training
    if key not in steps:
        steps[key] = layers, _step(profile, layers, training)
    layers, step = steps[key]
    whole = whole_job(
        step,
        task.job,
        batch_size=training.batch_size,
        layers=layers,
        idle_w=profile.header.idle_w,
    )
    if whole.time_s is None and task.deadline_s is not None:
        raise NotCovered("its profile tells no seconds, so it cannot promise a deadline")
    return Asked(layers, step, whole)


def _step(profile: Profile, layers: tuple[Layer, ...], training: Training) -> Estimate:
    """One step of a network that is covered whole."""
    if not profile.measurements:
        raise NotCovered("its profile is empty: profile it first")
    try:
        step = profile.estimate(layers, training=training)
        unknown = step.uncovered
    except NotCovered:
        unknown = layers
    if unknown:
        kinds = list(dict.fromkeys(layer.kind.name for layer in unknown))
        more = f" and {len(kinds) - NAMED} more" if len(kinds) > NAMED else ""
        raise NotCovered(
            f"its profile does not cover {plural(len(kinds), 'kind')} of layers:"
            f" {', '.join(kinds[:NAMED])}{more}"
        )
    return step


def _fill(column: _Column, index: int, whole: Estimate) -> None:
    column.energy_j[index] = whole.energy_j
    column.steps[index] = whole.steps
    if whole.time_s is not None and whole.time_s_std is not None:
        column.time_s[index] = whole.time_s
        column.time_std[index] = whole.time_s_std / whole.time_s


def _fill_errors(column: _Column, profile: Profile, asked: Mapping[int, Asked]) -> None:
    """Errors of steps are shared as their layers are; what is around the steps is a job's own."""
    if not asked:
        return
    networks = {tuple(map(id, each.layers)): each for each in asked.values()}
    places = {key: place for place, key in enumerate(networks)}
    known = [_counted(each.step) for each in networks.values()]
    shared, rest = causes_of(shared_errors(profile.fit, known))
    column.shared = np.zeros((len(column.energy_j), shared.shape[1]))
    for index, each in asked.items():
        place = places[tuple(map(id, each.layers))]
        trained = _trained_share(each.whole)
        column.shared[index] = trained * shared[place]
        around = _around(each.step, each.whole, trained)
        column.own[index] = math.hypot(trained * rest[place], around)


def _counted(step: Estimate) -> list[Layer]:
    """The layers as the fit took them: with their features."""
    return [line.layer for line in step.lines if line.layer.kind != STEP.kind]


def _trained_share(whole: Estimate) -> float:
    """Of a job's joules, what goes with the joules of a step: training and validation."""
    loading = math.fsum(part.cost.energy_j for part in whole.parts if part.name == LOADING)
    return 1 - loading / whole.energy_j


def _around(step: Estimate, whole: Estimate, trained: float) -> float:
    """The relative deviation that validation, accumulation and loading add."""
    of_step = trained * step.energy_j_std / step.energy_j
    return math.sqrt(max(0.0, (whole.energy_j_std / whole.energy_j) ** 2 - of_step**2))


def causes_of(covariance: Array) -> tuple[Array, Array]:
    """Deviations by shared causes (t, causes), and what each has by itself (t).

    Leading causes have nearly all that is shared; the rest keeps its variance.
    """
    values, vectors = np.linalg.eigh(covariance)
    kept = np.flatnonzero(values > 1e-6 * max(values.max(), 1e-300))[-CAUSES:]
    shared = vectors[:, kept] * np.sqrt(values[kept])
    rest = np.maximum(np.diag(covariance) - (shared**2).sum(axis=1), 0.0)
    return shared, np.sqrt(rest)


def reasons_of(costs: Costs, fleet: Fleet, task: int) -> Iterator[str]:
    """Why a task cannot run, member by member; those of one reason stand together."""
    by_reason: dict[str, list[str]] = {}
    for index, member in enumerate(fleet):
        if (task, index) in costs.reasons:
            by_reason.setdefault(costs.reasons[task, index], []).append(member.name)
    for reason, names in by_reason.items():
        yield f"{', '.join(names)}: {reason}"
