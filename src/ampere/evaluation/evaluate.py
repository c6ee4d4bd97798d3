"""Evaluating: estimates of unseen models against metered ones, every method and the floor."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ampere.acquisition.effort import Effort
from ampere.acquisition.families import Network, members
from ampere.acquisition.loop import reference_of
from ampere.acquisition.measure import measure
from ampere.acquisition.progress import Event, Watch, unwatched
from ampere.core import units
from ampere.core.fingerprint import refuse_to_mix
from ampere.core.layers import network_identity
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.core.workloads import ModelSpec, workload_identity
from ampere.devices.base import Device
from ampere.errors import DataError, NotCovered
from ampere.estimators.additive import fit_roofline
from ampere.estimators.base import Fit, usable
from ampere.estimators.flops import fit_flops, fit_flops_affine
from ampere.estimators.neuralpower import fit_neuralpower, isolated_workloads
from ampere.estimators.paper import fit_paper
from ampere.evaluation.extrapolation import extrapolate
from ampere.meters.base import Provenance
from ampere.profiles.estimate import estimate
from ampere.profiles.profile import Profile
from ampere.records.journal import Journal
from ampere.records.measurement import Measurement

ISOLATED = Effort(min_rounds=8, max_rounds=12, warmup_s=0.05)
TOGETHER = 5


@dataclass(frozen=True)
class ModelResult:
    """One unseen model: what was metered, twice, and what every method said before."""

    model: str
    energy_j: float
    time_s: float
    first_j: float
    second_j: float
    estimates_j: Mapping[str, float]
    interval_j: tuple[float, float]
    flops: float

    def error(self, method: str) -> float | None:
        """The signed relative error of a method."""
        if method == "repeat":
            return self.first_j / self.second_j - 1
        said = self.estimates_j.get(method)
        return None if said is None else said / self.energy_j - 1

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {
            "model": self.model,
            "energy_j_per_step": self.energy_j,
            "time_s_per_step": self.time_s,
            "metered_j": [self.first_j, self.second_j],
            "estimates_j": dict(self.estimates_j),
            "interval_j": list(self.interval_j),
            "flops": self.flops,
        }


@dataclass(frozen=True)
class Evaluation:
    """Errors of every method on the same unseen models, beside the floor of repeating."""

    results: tuple[ModelResult, ...]
    failed: tuple[str, ...]
    measurements: int
    profiling_s: float
    device: str
    provenance: Provenance
    seconds: float

    @property
    def methods(self) -> list[str]:
        """Every method that said something, the floor last."""
        named = {method: None for result in self.results for method in result.estimates_j}
        return [*named, "repeat"]

    def mape(self, method: str) -> float | None:
        """Mean absolute percentage error."""
        errors = self._errors(method)
        return 100 * statistics.fmean(map(abs, errors)) if errors else None

    def bias(self, method: str) -> float | None:
        """Mean signed percentage error: above 0 means overestimated."""
        errors = self._errors(method)
        return 100 * statistics.fmean(errors) if errors else None

    def bias_by_size(self, method: str) -> list[float | None]:
        """The bias of the smallest, the middle and the largest third of the models."""
        ordered = sorted(self.results, key=lambda result: result.energy_j)
        thirds = [ordered[len(ordered) * i // 3 : len(ordered) * (i + 1) // 3] for i in range(3)]
        return [
            100 * statistics.fmean(errors) if (errors := _present(method, third)) else None
            for third in thirds
        ]

    @property
    def coverage_90(self) -> float:
        """The share of models whose metered joules lie inside the 90 % interval."""
        inside = [r.interval_j[0] <= r.energy_j <= r.interval_j[1] for r in self.results]
        return sum(inside) / len(inside)

    def to_json(self) -> dict[str, Json]:
        """Plain data, as `ampere evaluate --json` has it: MAPE in percent, coverage as a share."""
        return {
            "mape": {method: self.mape(method) for method in self.methods},
            "bias": {method: self.bias(method) for method in self.methods},
            "bias_by_size": {method: self.bias_by_size(method) for method in self.methods},
            "coverage_90": self.coverage_90,
            "measurements": self.measurements,
            "profiling_s": self.profiling_s,
            "seconds": self.seconds,
            "device": self.device,
            "provenance": self.provenance.value,
            "failed": list(self.failed),
            "models": [result.to_json() for result in self.results],
        }

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _page(self) -> Page:
        rows = [
            (
                "repeat (the floor)" if method == "repeat" else method,
                *_percents(".1f", self.mape(method)),
                *_percents("+.1f", self.bias(method), *self.bias_by_size(method)),
                units.number(len(self._errors(method))),
            )
            for method in self.methods
        ]
        inside = units.percent(self.coverage_90)
        facts = [
            ("bias", "above 0 is overestimated; small, middle, large: by thirds of metered joules"),
            ("interval", f"the 90 % interval of {self.methods[0]} holds {inside} of the models"),
            (
                "cost",
                f"{units.plural(self.measurements, 'measurement')} in the profile,"
                f" {units.seconds(self.profiling_s)} of measuring;"
                f" {units.seconds(self.seconds)} for this evaluation",
            ),
            ("device", self.device),
            ("energy", f"joules are {self.provenance.origin}"),
            *(("failed", text) for text in self.failed),
        ]
        return Page(
            f"Estimates of {units.plural(len(self.results), 'unseen model')} against metered ones",
            headers=("method", "MAPE %", "bias %", "small", "middle", "large", "models"),
            rows=rows,
            align="<>>>>>>",
            facts=facts,
        )

    def _errors(self, method: str) -> list[float]:
        return _present(method, self.results)


def _percents(form: str, *values: float | None) -> list[str]:
    return ["-" if value is None else format(value, form) for value in values]


def _present(method: str, results: Sequence[ModelResult]) -> list[float]:
    return [error for r in results if (error := r.error(method)) is not None]


def evaluate(
    spec: ModelSpec,
    journal: Journal,
    device: Device,
    *,
    models: int = 30,
    seed: int = 0,
    steps: int = 10,
    any_device: bool = False,
    effort: Effort | None = None,
    watch: Watch = unwatched,
) -> Evaluation:
    """Sample unseen models of a family, meter them interleaved, compare with every method.

    NeuralPower needs isolated measurements of its own; they are kept in the profile. The metered
    models are not: they must stay unseen.
    """
    if models < 1:
        raise DataError(f"{models} models are nothing to evaluate on: use 1 or more")
    if not any_device:
        refuse_to_mix(device.fingerprint, journal.header.fingerprint)
    profile = Profile(tuple(journal.measurements), journal.header)
    known = {network_identity(row.layers) for row in usable(journal.measurements)}
    unseen = (
        m for m in members(spec, random.Random(seed)) if network_identity(m.layers) not in known
    )
    drawn = list(itertools.islice(unseen, models))
    if not drawn:
        raise DataError("every member of this family is in the profile: there is nothing unseen")
    _refuse_uncovered(drawn, profile)
    _isolate(spec, journal, device, watch)
    fitters: tuple[Callable[[Sequence[Measurement]], Fit], ...] = (
        fit_paper,
        fit_roofline,
        fit_flops,
        fit_flops_affine,
        fit_neuralpower,
    )
    others = [fitter(journal.measurements) for fitter in fitters]
    return compare(drawn, profile, others, journal, device, steps=steps, effort=effort, watch=watch)


def compare(
    drawn: Sequence[Network],
    profile: Profile,
    others: Sequence[Fit],
    journal: Journal,
    device: Device,
    *,
    steps: int = 10,
    effort: Effort | None = None,
    watch: Watch = unwatched,
) -> Evaluation:
    """Meter these models interleaved, and compare with what a profile and other methods say."""
    start = time.monotonic()
    fits = [profile.fit, *others]
    metered, guessed = _meter(drawn, journal, device, steps, effort, watch)
    results, failed = [], []
    for member, (first, second), few in zip(drawn, metered, guessed, strict=True):
        broken = first.failed or second.failed
        if broken:
            failed.append(f"{member.name}: {broken}")
            continue
        results.append(result_of(member, first, second, few, fits))
    if not results:
        raise DataError(f"no model could be metered; the first one: {failed[0]}")
    return Evaluation(
        tuple(results),
        tuple(failed),
        len(usable(profile.measurements)),
        profile.profiling_s,
        profile.device,
        device.provenance,
        time.monotonic() - start,
    )


def _refuse_uncovered(drawn: Sequence[Network], profile: Profile) -> None:
    """Before minutes are spent on metering: can the profile answer for these models?"""
    for member in drawn:
        said = profile.fit.predict(member.layers)
        borrowed = (line.layer for line in said.lines if line.borrowed)
        uncovered = [*said.uncovered, *borrowed]
        if uncovered:
            names = ", ".join(layer.kind.name for layer in uncovered)
            raise NotCovered(f"the profile does not cover {names}: profile this family first")


def _isolate(spec: ModelSpec, journal: Journal, device: Device, watch: Watch) -> None:
    """Measure what NeuralPower lacks: forward, backward and update of each kind alone."""
    from ampere.pytorch.reader import layers_of, plan_variants

    layers = layers_of(spec)
    kinds = {layer.kind.name for layer in layers}
    measured = {workload_identity(row.stage, row.layers[:1]) for row in journal.measurements}
    wanted = [
        (workload, layers)
        for workload, layers in isolated_workloads(plan_variants(layers), kinds)
        if workload_identity(workload.stage, layers[:1]) not in measured
    ]
    nominal = reference_of(journal.header, device)
    start = time.monotonic()
    for i in range(0, len(wanted), TOGETHER):
        pace = (time.monotonic() - start) / i if i else 0.7
        layer, stage = wanted[i][1][0], wanted[i][0].stage
        doing = f"{stage} of {layer.kind.operation} alone, for NeuralPower"
        watch(Event(doing, i, len(wanted), pace * (len(wanted) - i)))
        batch = wanted[i : i + TOGETHER]
        for measurement in measure(device, batch, nominal, ISOLATED):
            journal.append(measurement)


def _meter(
    drawn: Sequence[Network],
    journal: Journal,
    device: Device,
    steps: int,
    effort: Effort | None,
    watch: Watch,
) -> tuple[list[tuple[Measurement, Measurement]], list[Measurement]]:
    """Meter every model twice, far apart and in another company; and a few steps of each."""
    nominal = reference_of(journal.header, device)
    passes: list[dict[int, Measurement]] = [{}, {}]
    guessed: dict[int, Measurement] = {}
    total, done = 2 * len(drawn), 0
    start = time.monotonic()
    for turn, found in enumerate(passes):
        order = list(range(len(drawn)))
        random.Random(turn).shuffle(order)
        for i in range(0, len(order), TOGETHER):
            batch = order[i : i + TOGETHER]
            pace = (time.monotonic() - start) / done if done else 2.0
            watch(Event(f"metering {drawn[batch[0]].name} and {len(batch) - 1} more",
                        done, total, pace * (total - done)))  # fmt: skip
            if turn == 0:
                for k in batch:
                    guessed[k] = extrapolate(device, drawn[k].workload, drawn[k].layers, steps)
            workloads = [(drawn[k].workload, drawn[k].layers) for k in batch]
            found.update(zip(batch, measure(device, workloads, nominal, effort), strict=True))
            done += len(batch)
    watch(Event("done", total, total, 0.0))
    pairs = [(passes[0][k], passes[1][k]) for k in range(len(drawn))]
    return pairs, [guessed[k] for k in range(len(drawn))]


def result_of(
    member: Network,
    first: Measurement,
    second: Measurement,
    few: Measurement,
    fits: Sequence[Fit],
) -> ModelResult:
    """What every method said of a member, the interval of the first, and what was metered."""
    said: dict[str, float] = {}
    interval = (math.nan, math.nan)
    for fit in fits:
        answer = estimate(member.layers, fit)
        if answer.uncovered:
            continue
        said[fit.method] = answer.energy_j
        if fit is fits[0]:
            interval = answer.energy_j_interval
    if few.failed is None:
        said["extrapolation"] = few.energy_j
    return ModelResult(
        member.name,
        (first.energy_j + second.energy_j) / 2,
        (first.time_s + second.time_s) / 2,
        first.energy_j,
        second.energy_j,
        said,
        interval,
        sum(layer.count * (layer.features.flops or 0.0) for layer in member.layers),
    )
