"""The case study: a model and two that were cut to a budget, trained side by side under a meter.

As in the paper (section 4.3, figure 13): one is cut by joules, one by FLOPs.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from ampere.acquisition.progress import Watch, unwatched
from ampere.core import units
from ampere.core.budget import Budget, parse_budget
from ampere.core.fingerprint import Fingerprint, describe_device, local_fingerprint, refuse_to_mix
from ampere.core.workloads import Settings
from ampere.datasets.samples import Dataset
from ampere.devices.memory import keep_memory
from ampere.errors import DataError
from ampere.meters.base import AUTO, Meter
from ampere.meters.calibration import calibrated
from ampere.meters.registry import choose_meter, open_meter
from ampere.profiles.profile import Profile
from ampere.pruning.prune import prune
from ampere.pruning.result import Pruning
from ampere.pruning.search import GUIDES, Search
from ampere_paper.study.race import Race, Run, Schedule
from ampere_paper.study.study import Contender, Curve, Study

if TYPE_CHECKING:
    from torch import nn

    from ampere.core.boundary.example_inputs import Input
    from ampere.pytorch.pruning.slimmer import Slimmer
    from ampere.pytorch.pruning.tuner import Tuner

FULL = "full"
PRECISION = 0.02  # with which the joules of a job should be known


def study(
    model: nn.Module | str,
    data: Dataset | str,
    input: Input | None = None,
    *,
    profile: Profile,
    budget: Budget | str = "50%",
    schedule: Schedule = Schedule(),
    search: Search = Search(),
    seed: int = 0,
    meter: Meter | None = None,
    any_device: bool = False,
    watch: Watch = unwatched,
) -> Study:
    """Cut a model to a budget by joules and by FLOPs, and train all three under a meter.

    Args:
        model: The model, which is left as it is, or its name: its weights are then the seed's.
        data: `digits`, `celeba:DIR`, `path/file.py:function`, or the data themselves.
        input: What the model is fed.
        profile: What its layers cost on this machine; all are trained as it was made.
        budget: `50%` of the model's own energy, `2J/step`, or `800J` or `5Wh` for the whole job.
        schedule: How long and how fast all are trained.
        search: How both are looked for, each by its own guide.
        seed: Of everything that is random; all three see the same batches.
        meter: What reads the joules of this process, which stays open; by default the best one.
        any_device: Train here though the profile is of another device, or of other settings.
        watch: Told of every turn.

    Raises:
        FingerprintError: The profile is of another device.
        DataError: The data or the budget make no sense.
        MeterError: The meter cannot tell what a turn takes.
    """
    from ampere.pytorch.models import make_slimmer
    from ampere.pytorch.pruning.tuner import in_force, seeded

    budget = parse_budget(budget) if isinstance(budget, str) else budget
    if profile.training.amp:
        raise DataError("a study trains without mixed precision: use a profile made without it")
    settings = _settings(profile.header.fingerprint)
    with in_force(settings) as (framework, threads, had), _opened(meter, profile) as opened:
        here = _here(settings, framework, threads)
        if not any_device:
            _refuse_to_mix(here, profile.header.fingerprint)
        with seeded(seed):
            slimmer = make_slimmer(model, input, profile.training, seed=seed)
        samples = _open_data(data, slimmer, seed)
        prunings = _cut(slimmer, profile, budget, schedule.iterations, search, seed)
        race = _line_up(
            slimmer, prunings, samples, schedule, seed=seed, meter=opened, settings=settings
        )
        contenders = race.run(watch)
    doubts = _doubts(profile, opened, contenders[0].curve, race.burst, threads, had)
    warnings = dict.fromkeys([*(text for each in prunings for text in each.warnings), *doubts])
    title = model if isinstance(model, str) else type(model).__name__
    return _summary(title, race, prunings, contenders, describe_device(here), tuple(warnings))


def _cut(
    slimmer: Slimmer, profile: Profile, budget: Budget, steps: int, search: Search, seed: int
) -> list[Pruning]:
    """By each guide, with the same random stream."""
    return [
        prune(
            slimmer.model,
            slimmer.inputs,
            profile=profile,
            budget=budget,
            steps=steps,
            search=replace(search, guide=guide),
            seed=seed,
        )
        for guide in GUIDES
    ]


def _line_up(
    slimmer: Slimmer,
    prunings: Sequence[Pruning],
    data: Dataset,
    schedule: Schedule,
    *,
    seed: int,
    meter: Meter,
    settings: Settings,
) -> Race:
    """The whole model and those that were cut, ready to be trained alike."""
    from ampere.pytorch.pruning.tuner import Tuner

    def tuner(net: nn.Module) -> Tuner:
        return Tuner(
            net.to(settings.accelerator),
            data.train,
            optimizer=slimmer.training.optimizer,
            learning_rate=schedule.learning_rate,
            seed=seed,
        )

    whole = prunings[0]
    full = Run(
        name=FULL,
        tuner=tuner(copy.deepcopy(slimmer.model)),
        layers=whole.layers_before,
        widths=whole.full_widths,
        estimate=whole.before,
    )
    cut = [
        Run(
            name=each.search.guide,
            tuner=tuner(each.model),
            layers=each.slim.layers,
            widths=each.widths,
            estimate=each.after,
        )
        for each in prunings
    ]
    return Race(
        runs=[full, *cut],
        data=data,
        schedule=schedule,
        batch_size=slimmer.training.batch_size,
        optimizer=slimmer.training.optimizer,
        seed=seed,
        meter=meter,
        settings=settings,
    )


def _summary(
    title: str,
    race: Race,
    prunings: Sequence[Pruning],
    contenders: tuple[Contender, ...],
    device: str,
    warnings: tuple[str, ...],
) -> Study:
    """All that is known of it, as plain data."""
    budget, search = prunings[0].budget, prunings[0].search
    iterations, tuner = race.schedule.iterations, race.runs[0].tuner
    return Study(
        model=title,
        data=race.data.name,
        budget=str(budget),
        limit_j=iterations * budget.per_step(contenders[0].energy_j_per_step, iterations),
        contenders=contenders,
        batch_size=race.batch_size,
        optimizer=race.optimizer,
        learning_rate=tuner.rate,
        strategy=search.strategy,
        confidence=search.confidence,
        seed=race.seed,
        provenance=race.meter.provenance,
        device=device,
        warnings=warnings,
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
    facts = {**asdict(settings), "threads": threads, "framework": framework}
    facts["freed_memory"] = keep_memory()  # as where the profile was made
    return local_fingerprint({key: str(value) for key, value in facts.items()})


def _refuse_to_mix(here: Fingerprint, theirs: Fingerprint) -> None:
    """Raise unless the profile is of this device; another meter is no more than a doubt."""
    identity = {key: value for key, value in theirs.identity.items() if key != "meter"}
    refuse_to_mix(here, Fingerprint(identity))


@contextmanager
def _opened(meter: Meter | None, profile: Profile) -> Iterator[Meter]:
    """The given meter, which stays open, or the best one here; a profile's own is only text."""
    if meter is not None:
        yield meter
        return
    name = choose_meter(AUTO, _settings(profile.header.fingerprint).accelerator)
    own = open_meter(name, **calibrated(name, {}))
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


def _doubts(
    profile: Profile, meter: Meter, full: Curve, burst: int, threads: int, had: int
) -> Iterator[str]:
    """Why to read the joules with care, a line each."""
    theirs = profile.provenance.value, str(profile.header.meter.get("name", units.UNKNOWN))
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
