"""Studying: a model and two that were cut to a budget, trained side by side under a meter.

    full  energy  flops  full  energy  flops ... judge      a turn: bursts of a few steps each,
    full  energy  flops  full  energy  flops ... judge      all on the same batches
    ...                                                     energy, flops: cut, by this guide

The case study of the paper (section 4.3, figure 13). They alternate because a shared or warm
machine slows down and speeds up all the time (see measuring.py): so it hits all of them alike.
Only training steps are metered, as everywhere in ampere: neither loading nor judging.
"""

from __future__ import annotations

import copy
import gc
import itertools
import math
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ampere.acquisition.measure import TRIES, Event, Watch, unwatched
from ampere.core import units
from ampere.core.fingerprint import Fingerprint, local_fingerprint, refuse_to_mix
from ampere.core.layers import Layer
from ampere.core.workloads import Settings
from ampere.datasets import Dataset, Samples
from ampere.devices.worker import keep_memory
from ampere.errors import DataError, MeterError, MeterFault
from ampere.meters.base import AUTO, Meter, Reading, Resolution, energy_between
from ampere.meters.calibration import calibrated
from ampere.meters.registry import choose_meter, open_meter
from ampere.profiles.estimate import Estimate
from ampere.profiles.profile import Profile, describe_device
from ampere.pruning.budget import Budget, parse_budget
from ampere.pruning.prune import GUIDES, prune
from ampere_paper.study import Contender, Curve, Study

if TYPE_CHECKING:
    from torch import nn

    from ampere.datasets.samples import Batch
    from ampere.pytorch.pruning.slimmer import Slimmer
    from ampere.pytorch.pruning.tuner import Tuner
    from ampere.pytorch.reader import Input

FULL = "full"
JUDGED = 500  # validation samples at most: they are looked at after every turn
BURST = 5  # steps between two readings, where the meter can tell so little
WARM_UP = 5  # steps of a copy, before anything is metered
PRECISION = 0.02  # with which the joules of a job should be known


@dataclass
class _Run:
    """One model in training: its joules and seconds so far, and how it was after every turn."""

    name: str
    tuner: Tuner
    layers: Sequence[Layer]
    widths: Mapping[str, int]
    estimate: Estimate
    energy_j: float = 0.0
    time_s: float = 0.0
    points: list[tuple[int, float, float, float, float]] = field(default_factory=list)

    def train(self, batches: Sequence[Batch], meter: Meter, settings: Settings) -> None:
        """Some more steps, between two readings."""
        from ampere.pytorch.runtime.trainer import synchronise

        synchronise(settings)
        before = _look(meter)
        self.tuner.run(batches)
        synchronise(settings)
        try:
            energy_j, time_s = energy_between(before, _look(meter))
        except MeterFault as fault:
            raise MeterError(f"{fault}; a study needs turns (every) that its meter tells") from None
        self.energy_j += energy_j
        self.time_s += time_s

    def look(self, turn: int, validation: Samples) -> None:
        """Note how it is after a turn of so many steps."""
        from ampere.pytorch.pruning.tuner import judge

        losses = self.tuner.losses
        accuracy = judge(self.tuner.model, validation).accuracy
        loss = statistics.fmean(losses[-turn:])
        self.points.append((len(losses), loss, accuracy, self.energy_j, self.time_s))

    def contender(self, test: Samples) -> Contender:
        """What has become of it."""
        from ampere.pytorch.pruning.tuner import judge

        found = judge(self.tuner.model, test)
        return Contender(
            Curve(self.name, *zip(*self.points, strict=True)),
            sum(each.numel() for each in self.tuner.model.parameters()),
            math.fsum(each.count * (each.features.flops or 0.0) for each in self.layers),
            self.widths,
            self.estimate.energy_j,
            self.estimate.energy_j_std,
            found.loss,
            found.accuracy,
        )


def study(
    model: nn.Module | str,
    data: Dataset | str,
    input: Input | None = None,
    *,
    profile: Profile,
    budget: Budget | str = "50%",
    iterations: int = 2000,
    every: int = 50,
    weights: str | os.PathLike[str] | None = None,
    strategy: str = "random",
    confidence: float = 0.9,
    seed: int = 0,
    batch_size: int | None = None,
    optimizer: str | None = None,
    learning_rate: float | None = None,
    meter: Meter | None = None,
    any_device: bool = False,
    watch: Watch = unwatched,
) -> Study:
    """Cut a model to a budget by joules and by FLOPs, and train all three under a meter.

    Args:
        model: The model, or the text that names it, whose weights are then new ones of the seed;
            an object is left as it is.
        data: `digits`, `celeba:DIR`, `path/file.py:function`, or the data themselves.
        input: What the model is fed.
        profile: What its layers cost on this machine.
        budget: `50%` of the model's own energy, `2J/step`, or `800J` or `5Wh` for the whole job.
        iterations: Training steps of each model.
        every: Steps of a turn, after which all are judged. A meter that tells coarsely or late is
            read once a turn, so it needs long ones; a fine one is read every few steps.
        weights: A file of weights for the model.
        strategy: See `prune`, also for the next one.
        confidence: The probability with which the energy-guided model keeps to the budget.
        seed: Of everything that is random; all three see the same batches.
        batch_size: As the profile was made unless given, like the next one.
        optimizer: See `batch_size`.
        learning_rate: By default 0.01 for sgd and momentum, and 0.001 for the others.
        meter: What reads the joules of this process, which stays open; the best one here unless
            given.
        any_device: Train here though the profile is of another device, or of other settings.
        watch: Told of every turn.

    Raises:
        FingerprintError: The profile is of another device.
        DataError: The data or the budget make no sense.
        MeterError: The meter cannot tell what a turn takes.
    """
    from ampere.pytorch.pruning.tuner import Tuner, in_force, seeded
    from ampere.pytorch.reader import make_slimmer

    budget = parse_budget(budget) if isinstance(budget, str) else budget
    if iterations < 1 or every < 1:
        raise DataError(f"{iterations} iterations in turns of {every}: use 1 or more of both")
    training = profile.training.but(batch_size=batch_size, optimizer=optimizer)
    if training.amp:
        raise DataError("a study trains without mixed precision: use a profile made without it")
    settings = _settings(profile.header.fingerprint)
    with in_force(settings) as (framework, threads, had), _opened(meter, profile) as opened:
        here = _here(settings, framework, threads)
        if not any_device:
            _refuse_to_mix(here, profile.header.fingerprint)
        with seeded(seed):
            slimmer = make_slimmer(model, input, training, weights=weights, seed=seed)
        samples = _open_data(data, slimmer, seed)
        cut = [
            prune(
                slimmer.model, slimmer.inputs, profile=profile, budget=budget, guide=guide,
                confidence=confidence, strategy=strategy, steps=iterations, seed=seed,
                training=training,
            )
            for guide in GUIDES
        ]  # fmt: skip

        def tuner(net: nn.Module) -> Tuner:
            net = net.to(settings.accelerator)
            return Tuner(
                net, samples.train, optimizer=training.optimizer, learning_rate=learning_rate,
                seed=seed,
            )  # fmt: skip

        first, full = cut[0], copy.deepcopy(slimmer.model)
        runs = [
            _Run(FULL, tuner(full), first.was, first.full, first.before),
            *(_Run(f.guide, tuner(f.model), f.slim.layers, f.widths, f.after) for f in cut),
        ]
        turns = [min(every, iterations - done) for done in range(0, iterations, every)]
        burst = BURST if opened.resolution == Resolution() else every
        batches = samples.train.batches(training.batch_size, np.random.default_rng(seed))
        validation = _held(samples.validation, seed)
        _train(runs, batches, turns, burst, validation, opened, settings, watch)
        contenders = tuple(run.contender(samples.test) for run in runs)
    texts = [text for found in cut for text in found.warnings]
    texts += _doubts(profile, opened, contenders[0].curve, burst, threads, had)
    return Study(
        model if isinstance(model, str) else type(model).__name__,
        samples.name,
        str(budget),
        iterations * budget.per_step(contenders[0].energy_j_per_step, iterations),
        contenders,
        training.batch_size,
        training.optimizer,
        runs[0].tuner.rate,
        strategy,
        confidence,
        seed,
        opened.provenance,
        describe_device(here),
        warnings=tuple(dict.fromkeys(texts)),
    )


def _settings(theirs: Fingerprint) -> Settings:
    """How the profile's device ran; compiling has no part in a study."""
    identity = theirs.identity
    threads = identity.get("threads", "")
    return Settings(
        identity.get("accelerator", "cpu"),
        int(threads) if threads.isdecimal() else None,
        tf32=identity.get("tf32") == "True",
        onednn=identity.get("onednn") != "False",
    )


def _here(settings: Settings, framework: str, threads: int) -> Fingerprint:
    """This process as a device."""
    known = {**vars(settings), "threads": threads, "framework": framework}
    known["freed_memory"] = keep_memory()  # as where the profile was made
    return local_fingerprint({key: str(value) for key, value in known.items()})


def _refuse_to_mix(here: Fingerprint, theirs: Fingerprint) -> None:
    """Raise unless the profile is of this device; another meter is no more than a doubt."""
    identity = {key: value for key, value in theirs.identity.items() if key != "meter"}
    refuse_to_mix(here, Fingerprint(identity))


@contextmanager
def _opened(meter: Meter | None, profile: Profile) -> Iterator[Meter]:
    """The given meter, which stays open, or the best one here, set as the profile's if it is it."""
    if meter is not None:
        yield meter
        return
    name = choose_meter(AUTO, _settings(profile.header.fingerprint).accelerator)
    theirs = profile.header.meter
    same = theirs.get("name") == name
    own = open_meter(name, **(theirs.get("settings", {}) if same else calibrated(name, {})))
    try:
        yield own
    finally:
        own.close()


def _open_data(data: Dataset | str, slimmer: Slimmer, seed: int) -> Dataset:
    from ampere.pytorch.pruning.tuner import load_data

    if isinstance(data, Dataset):
        return data
    spec, *others = slimmer.inputs
    if others:
        raise DataError("data are for models with one input: a study cannot train this one")
    return load_data(data, spec.shape, dtype=spec.dtype, seed=seed)


def _train(
    runs: Sequence[_Run],
    batches: Iterator[Batch],
    turns: Sequence[int],
    burst: int,
    validation: Samples,
    meter: Meter,
    settings: Settings,
    watch: Watch,
) -> None:
    """All of them on the same batches, by turns of so many steps, these by bursts."""
    start_s = time.monotonic()
    for done, turn in enumerate(turns):
        loaded = list(itertools.islice(batches, turn))
        if not done:  # first steps take longer, by what only they have to set up
            for run in runs:
                copy.deepcopy(run.tuner).run(loaded[:WARM_UP])
        with _no_collection():
            for start in range(0, turn, burst):
                for run in runs:
                    run.train(loaded[start : start + burst], meter, settings)
        for run in runs:
            run.look(turn, validation)
        losses = ", ".join(f"{run.name} {run.points[-1][1]:.3f}" for run in runs)
        left_s = (time.monotonic() - start_s) * (len(turns) / (done + 1) - 1)
        watch(Event(f"training, loss: {losses}", done + 1, len(turns), left_s))


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


def _doubts(
    profile: Profile, meter: Meter, full: Curve, burst: int, threads: int, had: int
) -> Iterator[str]:
    """Why to read the joules with care, a line each."""
    theirs = profile.provenance.value, profile.header.meter.get("name", units.UNKNOWN)
    ours = meter.provenance.value, meter.name
    if theirs != ours:
        yield (
            f"estimates are from {theirs[0]} joules (meter {theirs[1]}), this study's are {ours[0]}"
            f" (meter {ours[1]}): compare shares, not joules"
        )
    if threads != had:
        yield f"trained with {units.plural(threads, 'thread')} as the profile was made, not {had}"
    time_s = full.time_s[-1]
    bursts = math.ceil(full.steps[-1] / burst)
    needed_s = meter.resolution.window_s(full.energy_j[-1] / time_s, PRECISION * math.sqrt(bursts))
    if needed_s > time_s / bursts:
        yield (
            f"turns of {units.seconds(time_s / bursts)} are short for the meter {meter.name}:"
            f" use longer ones (every), of {units.seconds(needed_s)}"
        )
