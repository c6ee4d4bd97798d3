"""Opening: a gate from what a user says of a job.

model, profile ─▶ estimate ─▶ outlook ─┐
budget, rates  ─▶ terms ───────────────┼─▶ Gate
run, sinks     ─▶ story ───────────────┘
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ampere.core.budget import Budget, parse_budget
from ampere.core.rates import Rate, parse_carbon, parse_price
from ampere.core.shown.letters import shortened
from ampere.core.units import joules
from ampere.devices.memory import KEPT, keeps_memory
from ampere.errors import DataError
from ampere.gates.forecast import Prior
from ampere.gates.gate import Gate
from ampere.gates.metering import RunMeter
from ampere.gates.outlook import Outlook, look_ahead, prior_of
from ampere.gates.sinks.base import Sink
from ampere.gates.sinks.registry import open_sink
from ampere.gates.story import LONGEST_NAME, Part, Start, story_path
from ampere.gates.suggestions import Asked, suggest
from ampere.gates.telling import say
from ampere.gates.terms import STOP, WARN, Terms
from ampere.meters.base import AUTO, UNKNOWN_ORIGIN, Meter, Provenance
from ampere.meters.drivers.battery import capacity_j
from ampere.meters.registry import meter_classes
from ampere.profiles.jobs.job import Job
from ampere.profiles.library import open_library
from ampere.profiles.profile import Profile

if TYPE_CHECKING:
    from ampere.core.boundary.example_inputs import Input
    from ampere.core.layers import Layer
    from ampere.core.training import Training
    from ampere.frameworks.readers import Model
    from ampere.gates.terms import OnExceed
    from ampere.profiles.estimate import Estimate

OTHER_METER_STD = 0.3  # of an estimate whose joules are of another meter than the run's
MOST_PARTS = 1000  # layers that a story tells


@dataclass(frozen=True)
class Wish:
    """A budget as a user writes it, and what it takes to turn it into joules."""

    budget: str | float | Budget | None = None
    carbon: str | Rate | None = None
    price: str | Rate | None = None
    battery_wh: float | None = None

    def rates(self) -> tuple[Rate | None, Rate | None]:
        """What a kilowatt-hour emits and costs."""
        carbon = parse_carbon(self.carbon) if isinstance(self.carbon, str) else self.carbon
        price = parse_price(self.price) if isinstance(self.price, str) else self.price
        return carbon, price

    def joules(self, steps: int | None, full_j: float | None) -> tuple[float | None, str]:
        """What the job may take, and how the user wrote it.

        Raises:
            DataError: It cannot be converted; one line says what is missing.
        """
        if self.budget is None:
            return None, ""
        budget = self.budget
        if not isinstance(budget, Budget):
            budget = parse_budget(budget if isinstance(budget, str) else f"{budget} J")
        carbon, price = self.rates()
        battery_j = capacity_j() if self.battery_wh is None else 3600 * self.battery_wh
        limit_j = budget.joules(
            full_j=full_j, steps=steps, battery_j=battery_j, carbon=carbon, price=price
        )
        return limit_j, str(budget) if isinstance(self.budget, (str, Budget)) else joules(limit_j)


def gate(
    model: Model | Sequence[Layer] | None = None,
    input: Input | None = None,
    *,
    budget: str | float | Budget | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    job: Job | None = None,
    profile: Profile | str | Path | None = None,
    training: Training | None = None,
    meter: str | Meter = AUTO,
    run: str | Path | None = None,
    resume: bool = False,
    sinks: Sequence[str | Sink] = (),
    name: str = "",
    confidence: float = 0.9,
    reserve_j: float = 0.0,
    on_exceed: OnExceed = STOP,
    on_error: str = WARN,
    on_refusal: str = STOP,
    carbon: str | Rate | None = None,
    price: str | Rate | None = None,
    battery_wh: float | None = None,
    devices: str | Path | None = None,
    watch: Callable[[str], None] = say,
) -> Gate:
    """Watch over a training run: know before, forecast during, stop in time.

    With a model and a profile it says before the first step what the job will take
    (`gate.outlook`); without, the first steps tell.

    Args:
        model: What is trained, as for `Profile.estimate`; without a profile it tells nothing.
        input: What it is fed.
        budget: `2Wh`, `800J`, `2J/step`, `150%`, `30% battery`, `0.5kgCO2e`, `1EUR`, or a number
            of joules.
        steps: Optimiser steps of the whole run.
        epochs: Instead: passes over the data, whose length `gate.steps(loader)` sees.
        job: Instead: how long it is, with what goes on around the steps, so that the first
            validation is foreseen; its steps are counted in the batches of `training`.
        profile: Of the device that trains, or its file; without, the first steps tell.
        training: How the model is trained; as the profile was unless given.
        meter: As on the command line, or an open one.
        run: A folder for the run's story, which `ampere watch` shows.
        resume: Go on with the story that is in the folder: its joules are spent.
        sinks: Who else is told: `csv`, `tensorboard`, ...
        name: Of the run, for people.
        confidence: How surely the budget shall hold, where the job is judged before it.
        reserve_j: Kept for saving a checkpoint, until one was seen.
        on_exceed: At the budget: `stop`, `warn`, or a function of the gate.
        on_error: Where there is no meter: `warn` and go on, or `stop`.
        on_refusal: Where the job will not fit: `stop` before it begins, or `warn`.
        carbon: What a kilowatt-hour emits: `FR`, `56g/kWh`.
        price: What it costs: `0.30EUR/kWh`.
        battery_wh: What the battery holds, where the machine does not tell.
        devices: A folder of profiles of other devices, which may run it instead.
        watch: Told what a person should read; by default standard error is.

    Raises:
        DataError: Something that was said cannot be.
        NotCovered: The profile does not know the model.
    """
    if model is None and profile is not None:
        raise DataError("a profile tells nothing of a job without its model: give the model, too")
    if job is not None and (steps is not None or epochs is not None):
        raise DataError("a job says itself how long it is: leave steps and epochs out")
    if job is not None and profile is None:
        if job.steps is None and training is None:
            raise DataError("an epoch has as many steps as batches: give training=, or a profile")
        steps = job.count(training.batch_size if training else 1).steps
    asked = None
    if model is not None and profile is not None:
        known = profile if isinstance(profile, Profile) else Profile.load(profile, keep_fit=True)
        library = None if devices is None else open_library(devices)
        whole = job or Job(steps=steps or 1)
        asked = Asked(model, input, training or known.training, known, whole, library)
        _tell_of_memory(known, watch)
    terms = Terms(
        steps=asked.steps if asked is not None and job is not None else steps,
        epochs=epochs,
        confidence=confidence,
        reserve_j=reserve_j,
        on_exceed=on_exceed,
        on_error=on_error,
        on_refusal=on_refusal,
    )
    return open_gate(
        Wish(budget, carbon, price, battery_wh),
        terms,
        asked=asked,
        meter=meter,
        run=run,
        sinks=sinks,
        name=name,
        resume=resume,
        watch=watch,
    )


def open_gate(
    wish: Wish,
    terms: Terms,
    *,
    asked: Asked | None = None,
    meter: str | Meter = AUTO,
    run: str | Path | None = None,
    sinks: Sequence[str | Sink] = (),
    name: str = "",
    resume: bool = False,
    pid: int | None = None,
    watch: Callable[[str], None] = say,
    clock: Callable[[], float] = time.perf_counter,
) -> Gate:
    """A gate that was not started yet.

    Args:
        wish: The budget.
        terms: The rest of what was agreed; its budget is taken from the wish.
        asked: The model and the profile to estimate it from, if there are any.
        meter: As on the command line, or an open one.
        run: The folder of the run's story.
        sinks: Who else is told, by name.
        name: Of the run, for people.
        resume: Go on with the story that is in the folder: its joules are spent.
        pid: The process that trains; by default this one.
        watch: Told what a person should read.
        clock: Seconds while awake.

    Raises:
        DataError: A budget that cannot be, or a story that cannot be gone on with.
        NotCovered: The profile does not know the model.
    """
    outlook = estimate = None
    if asked is not None and terms.steps is not None:
        outlook = look_before(asked, wish, terms)
        estimate, terms = outlook.estimate, outlook.terms
    else:
        estimate = None if asked is None else asked.estimate()
        terms = _agreed(wish, terms, None)
    opener, first = _metered(meter, pid, watch)
    prior = None if estimate is None else _prior(estimate, first.provenance, watch)
    gate = Gate(
        terms,
        opener,
        prior=prior,
        outlook=outlook,
        start=_known(replace(first, name=name), wish, estimate, outlook),
        sinks=_opened(sinks, run),
        story=None if run is None else story_path(run),
        watch=watch,
        clock=clock,
    )
    if resume:
        gate.resume()
    return gate


def look_before(asked: Asked, wish: Wish, terms: Terms) -> Outlook:
    """What a job of known length will take, whether that fits, and what would.

    Raises:
        DataError: A budget that cannot be.
        NotCovered: The profile does not know the model.
    """
    estimate = asked.estimate()
    terms = _agreed(wish, replace(terms, steps=asked.steps), estimate.energy_j)
    outlook = look_ahead(estimate, terms)
    return replace(outlook, suggestions=suggest(asked, outlook))


def _tell_of_memory(profile: Profile, watch: Callable[[str], None]) -> None:
    """A process that gives freed memory back takes more than networks that were measured."""
    identity = profile.header.fingerprint.identity
    on_processor = identity.get("accelerator", "cpu") == "cpu"
    if on_processor and identity.get("freed_memory") == KEPT and not keeps_memory():
        watch(
            "the profile is of processes that keep freed memory; this one gives it back and may"
            " take up to two fifths more: call ampere.keep_memory() before the first step"
        )


def _agreed(wish: Wish, terms: Terms, whole_j: float | None) -> Terms:
    budget_j, budget = wish.joules(terms.steps, whole_j)
    return replace(terms, budget_j=budget_j, budget=budget)


def _metered(
    meter: str | Meter, pid: int | None, watch: Callable[[str], None]
) -> tuple[Callable[[], Meter], Start]:
    """What opens the meter, and what is known of it before."""
    if not isinstance(meter, str):
        return (lambda: meter), Start("", "", meter.provenance, meter=meter.name)
    opener = RunMeter(meter, pid=pid, note=watch)
    provenance = meter_classes()[opener.name].provenance
    return opener, Start("", "", provenance, meter=opener.name)


def _prior(estimate: Estimate, metered: Provenance, watch: Callable[[str], None]) -> Prior:
    """What the estimate says of a step, as the run's meter would show it."""
    prior = prior_of(estimate)
    if estimate.provenance is metered:
        return prior
    origin = UNKNOWN_ORIGIN if estimate.provenance is None else estimate.provenance.origin
    watch(
        f"the profile's joules are {origin}, the run's are {metered.origin}: the estimate counts"
        " for less"
    )
    return replace(prior, std_j=math.hypot(prior.std_j, OTHER_METER_STD * prior.energy_j))


def _known(start: Start, wish: Wish, estimate: Estimate | None, outlook: Outlook | None) -> Start:
    """What the story tells first."""
    carbon, price = wish.rates()
    start = replace(
        start,
        carbon_g_per_kwh=None if carbon is None else carbon.per_kwh,
        price_per_kwh=None if price is None else price.per_kwh,
        currency="" if price is None else price.unit,
        grid="" if carbon is None else carbon.place,
    )
    if estimate is None:
        return start
    parts = [
        Part(shortened(line.layer.name, LONGEST_NAME), line.cost.energy_j)
        for line in estimate.lines
        if line.cost.energy_j >= 0
    ]
    return replace(
        start,
        device=estimate.device,
        layers=tuple(parts[:MOST_PARTS]),
        estimate_j=None if outlook is None else outlook.forecast.energy_j,
        estimate_j_interval=None if outlook is None else outlook.interval,
    )


def _opened(sinks: Sequence[str | Sink], run: str | Path | None) -> list[Sink]:
    """Those that the user named; a run's folder has its story without being asked."""
    named = [*(["json"] if run is not None and "json" not in sinks else []), *sinks]
    return [
        open_sink(each, None if run is None else Path(run)) if isinstance(each, str) else each
        for each in named
    ]
