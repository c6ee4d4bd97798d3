"""Race: models trained side by side under one meter, by turns and bursts.

    full  energy  flops  full  energy  flops ... judge      a turn: bursts of a few steps each,
    full  energy  flops  full  energy  flops ... judge      all on the same batches
    ...

They alternate because a shared or warm machine slows down and speeds up all the time (see
`ampere.sittings.measure`): so it hits all of them alike. Only training steps are metered, as
everywhere in ampere: neither loading nor judging.
"""

from __future__ import annotations

import copy
import gc
import itertools
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np

from ampere.acquisition.progress import Event, Watch
from ampere.core.layers import Layer
from ampere.core.workloads import Settings
from ampere.datasets.samples import Dataset, Samples
from ampere.errors import DataError, MeterError, MeterFault
from ampere.meters.base import Meter, Reading, Resolution, energy_between
from ampere.profiles.estimate import Estimate
from ampere.sittings.bursts import TRIES
from ampere_paper.study.study import Contender, Curve

if TYPE_CHECKING:
    from ampere.datasets.samples import Batch
    from ampere.pytorch.pruning.tuner import Tuner

JUDGED = 500  # validation samples at most: they are looked at after every turn
BURST = 5  # steps between two readings, where the meter can tell so little
WARM_UP = 5  # steps of a copy, before anything is metered


@dataclass(frozen=True)
class Schedule:
    """How all models are trained.

    Args:
        iterations: Training steps of each model.
        every: Steps of a turn, after which all are judged. A meter that tells coarsely or late is
            read once a turn, so it needs long ones; a fine one is read every few steps.
        learning_rate: By default 0.01 for sgd and momentum, and 0.001 for the others.
    """

    iterations: int = 2000
    every: int = 50
    learning_rate: float | None = None

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.every < 1:
            raise DataError(
                f"{self.iterations} iterations in turns of {self.every}: use 1 or more of both"
            )

    @property
    def turns(self) -> list[int]:
        """The steps of each turn."""
        starts = range(0, self.iterations, self.every)
        return [min(self.every, self.iterations - start) for start in starts]


@dataclass(frozen=True)
class _Point:
    """How a model is after a turn."""

    steps: int
    loss: float  # the mean of the turn's training steps
    accuracy: float
    energy_j: float
    time_s: float


@dataclass
class Run:
    """One model in training: its joules and seconds so far, and how it was after every turn."""

    name: str
    tuner: Tuner
    layers: Sequence[Layer]
    widths: Mapping[str, int]
    estimate: Estimate
    energy_j: float = 0.0
    time_s: float = 0.0
    points: list[_Point] = field(default_factory=list)

    def train(self, batches: Sequence[Batch], meter: Meter, settings: Settings) -> None:
        """Some more steps, between two readings."""
        from ampere.pytorch.runtime.trainer import synchronise

        synchronise(settings)
        before = _look(meter)
        self.tuner.run(batches)
        synchronise(settings)
        try:
            window = energy_between(before, _look(meter))
        except MeterFault as fault:
            raise MeterError(f"{fault}; a study needs turns (every) that its meter tells") from None
        self.energy_j += window.energy_j
        self.time_s += window.time_s

    def look(self, turn: int, validation: Samples) -> None:
        """Note how it is after a turn of so many steps."""
        from ampere.pytorch.pruning.tuner import judge

        losses = self.tuner.losses
        self.points.append(
            _Point(
                steps=len(losses),
                loss=statistics.fmean(losses[-turn:]),
                accuracy=judge(self.tuner.model, validation).accuracy,
                energy_j=self.energy_j,
                time_s=self.time_s,
            )
        )

    def contender(self, test: Samples) -> Contender:
        """What has become of it."""
        from ampere.pytorch.pruning.tuner import judge

        judgement = judge(self.tuner.model, test)
        columns = {
            column.name: tuple(getattr(point, column.name) for point in self.points)
            for column in fields(_Point)
        }
        return Contender(
            curve=Curve(name=self.name, **columns),
            parameters=sum(each.numel() for each in self.tuner.model.parameters()),
            flops=math.fsum(layer.count * (layer.features.flops or 0.0) for layer in self.layers),
            widths=self.widths,
            estimate_j=self.estimate.energy_j,
            estimate_j_std=self.estimate.energy_j_std,
            test_loss=judgement.loss,
            test_accuracy=judgement.accuracy,
        )


@dataclass(frozen=True)
class Race:
    """All models of a study, trained by turns on the same batches under one meter."""

    runs: Sequence[Run]
    data: Dataset
    schedule: Schedule
    batch_size: int
    optimizer: str
    seed: int
    meter: Meter
    settings: Settings

    @property
    def burst(self) -> int:
        """Steps between two readings."""
        return BURST if self.meter.resolution == Resolution() else self.schedule.every

    def run(self, watch: Watch) -> tuple[Contender, ...]:
        """Turns of so many steps, these by bursts."""
        batches = self.data.train.batches(self.batch_size, np.random.default_rng(self.seed))
        validation = _held(self.data.validation, self.seed)
        turns = self.schedule.turns
        start_s = time.monotonic()
        for done, turn in enumerate(turns):
            loaded = list(itertools.islice(batches, turn))
            if not done:  # first steps take longer, by what only they have to set up
                for run in self.runs:
                    copy.deepcopy(run.tuner).run(loaded[:WARM_UP])
            with _no_collection():
                for start in range(0, turn, self.burst):
                    for run in self.runs:
                        run.train(loaded[start : start + self.burst], self.meter, self.settings)
            for run in self.runs:
                run.look(turn, validation)
            losses = ", ".join(f"{run.name} {run.points[-1].loss:.3f}" for run in self.runs)
            left_s = (time.monotonic() - start_s) * (len(turns) / (done + 1) - 1)
            watch(Event(f"training, loss: {losses}", done + 1, len(turns), left_s))
        return tuple(run.contender(self.data.test) for run in self.runs)


@contextmanager
def _no_collection() -> Iterator[None]:
    """No collection of garbage: it would be charged to whoever it hits."""
    collects = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _look(meter: Meter) -> Reading:
    for _ in range(TRIES - 1):
        with suppress(MeterFault):
            return meter.read()
    return meter.read()


def _held(samples: Samples, seed: int) -> Samples:
    """Some of them, loaded once: they are looked at again and again."""
    order = np.random.default_rng(seed).permutation(len(samples))
    inputs, labels = samples.batch(np.sort(order[:JUDGED]))
    return Samples(labels, lambda at: inputs[at])
