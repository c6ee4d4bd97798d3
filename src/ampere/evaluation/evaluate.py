"""Evaluating: estimates of unseen models against metered ones, every method and the floor."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ampere.acquisition.families import Network, members
from ampere.acquisition.loop import reference_of
from ampere.acquisition.progress import Event, Watch, unwatched
from ampere.core.fingerprint import refuse_to_mix, runtime_of
from ampere.core.layers import network_identity
from ampere.core.workloads import ModelSpec
from ampere.devices.base import Device
from ampere.errors import DataError, NotCovered
from ampere.estimators.base import Fit, usable
from ampere.estimators.baselines.flops import fit_flops, fit_flops_affine
from ampere.estimators.baselines.neuralpower import STAGES, fit_neuralpower
from ampere.estimators.baselines.roofline import fit_roofline
from ampere.estimators.intervals import interval
from ampere.estimators.paper import fit_paper
from ampere.evaluation.evaluation import Evaluation, ModelResult
from ampere.evaluation.extrapolation import STEPS
from ampere.evaluation.metering import (
    SINGLE_STAGES,
    Memory,
    Metered,
    Metering,
    meter_unseen,
    single_stages,
)
from ampere.frameworks.models import layers_of
from ampere.frameworks.runtimes import stages_of
from ampere.profiles.profile import Profile
from ampere.records.journal import Journal
from ampere.records.measurement import Measurement
from ampere.sittings.effort import Effort

BASELINES: Mapping[str, Callable[[Sequence[Measurement]], Fit]] = {
    "paper": fit_paper,
    "roofline": fit_roofline,
    "flops": fit_flops,
    "flops_affine": fit_flops_affine,
    "neuralpower": fit_neuralpower,
}
NEEDS_STAGES = "neuralpower"


def evaluate(
    spec: ModelSpec,
    journal: Journal,
    device: Device,
    *,
    models: int = 30,
    seed: int = 0,
    steps: int = STEPS,
    baselines: Collection[str] = tuple(BASELINES),
    any_device: bool = False,
    effort: Effort | None = None,
    watch: Watch = unwatched,
) -> Evaluation:
    """Sample unseen models of a family, meter them interleaved, compare with every method.

    NeuralPower needs single stages of its own, which are kept in the profile; where a runtime has
    none it is left out. The metered models are not kept: they must stay unseen.
    """
    if unknown := set(baselines) - set(BASELINES):
        raise DataError(f"no baseline {min(unknown)!r}: use some of {', '.join(BASELINES)}")
    if not any_device:
        refuse_to_mix(device.fingerprint, journal.header.fingerprint)
    profile = Profile(tuple(journal.measurements), journal.header)
    drawn = _draw_unseen(spec, journal, models, seed)
    _refuse_uncovered(drawn, profile)
    runtime = runtime_of(device.fingerprint)
    left_out = () if set(STAGES) <= set(stages_of(runtime)) else (NEEDS_STAGES,)
    chosen = [name for name in BASELINES if name in baselines and name not in left_out]
    if NEEDS_STAGES in chosen:
        _meter_single_stages(spec, journal, device, effort, watch)
    others = [BASELINES[name](journal.measurements) for name in chosen]
    found = compare(
        drawn, profile, others, journal, device, steps=steps, effort=effort, watch=watch
    )
    notes = [f"{name}: the runtime {runtime} has no stages to meter alone" for name in left_out]
    return replace(found, left_out=tuple(notes))


def compare(
    networks: Sequence[Network],
    profile: Profile,
    others: Sequence[Fit],
    journal: Journal,
    device: Device,
    *,
    steps: int = STEPS,
    effort: Effort | None = None,
    watch: Watch = unwatched,
) -> Evaluation:
    """Meter these models interleaved, and compare with estimates of a profile and of others."""
    start = time.monotonic()
    fits = [profile.fit, *others]
    nominal = reference_of(journal.header, device, effort)
    metering = Metering(device, nominal, Memory(), effort, watch)
    metered = meter_unseen(metering, networks, steps)
    watch(Event("done", 2 * len(networks), 2 * len(networks), 0.0))
    results, failed = results_of(metered, fits)
    if not results:
        raise DataError(f"no model could be metered; the first one: {failed[0]}")
    return Evaluation(
        results=results,
        failed=failed,
        measurements=len(usable(profile.measurements)),
        profiling_s=profile.profiling_s,
        device=profile.device,
        provenance=device.provenance,
        seconds=time.monotonic() - start,
    )


def results_of(
    metered: Sequence[Metered], fits: Sequence[Fit]
) -> tuple[tuple[ModelResult, ...], tuple[str, ...]]:
    """Each beside the estimates of all fits; and those that could not be metered, a line each."""
    results = tuple(_result(each, fits) for each in metered if each.failed is None)
    failed = tuple(each.failed for each in metered if each.failed is not None)
    return results, failed


def _result(metered: Metered, fits: Sequence[Fit]) -> ModelResult:
    """What was metered, estimates of every fit that covers it, and the interval of the first."""
    first, second, layers = metered.first, metered.second, metered.network.layers
    estimates_j: dict[str, float] = {}
    interval_j = None
    for fit in fits:
        prediction = fit.predict(layers)  # as it is: one below 0 counts as the error that it is
        if prediction.uncovered or not prediction.lines:
            continue
        total = prediction.total
        estimates_j[fit.method] = total.energy_j
        if fit is fits[0]:
            interval_j = interval(total.energy_j, total.energy_j_std, fit.method)
    if metered.few_steps.failed is None:
        estimates_j["extrapolation"] = metered.few_steps.energy_j
    return ModelResult(
        model=metered.network.name,
        energy_j=(first.energy_j + second.energy_j) / 2,
        time_s=(first.time_s + second.time_s) / 2,
        first_j=first.energy_j,
        second_j=second.energy_j,
        estimates_j=estimates_j,
        interval_j=interval_j,
        flops=sum(layer.count * (layer.features.flops or 0.0) for layer in layers),
    )


def _draw_unseen(spec: ModelSpec, journal: Journal, models: int, seed: int) -> list[Network]:
    """Members of the family that no usable row of the journal is of."""
    if models < 1:
        raise DataError(f"{models} models are nothing to evaluate on: use 1 or more")
    seen = {network_identity(row.layers) for row in usable(journal.measurements)}
    unseen = (
        m for m in members(spec, random.Random(seed)) if network_identity(m.layers) not in seen
    )
    drawn = list(itertools.islice(unseen, models))
    if not drawn:
        raise DataError("every member of this family is in the profile: there is nothing unseen")
    return drawn


def _refuse_uncovered(networks: Sequence[Network], profile: Profile) -> None:
    """Before minutes are spent on metering: can the profile answer for these models?"""
    for network in networks:
        prediction = profile.fit.predict(network.layers)
        borrowed = (line.layer for line in prediction.lines if line.borrowed)
        if uncovered := [*prediction.uncovered, *borrowed]:
            names = ", ".join(layer.kind.name for layer in uncovered)
            raise NotCovered(f"the profile does not cover {names}: profile this family first")


def _meter_single_stages(
    spec: ModelSpec, journal: Journal, device: Device, effort: Effort | None, watch: Watch
) -> None:
    """What NeuralPower lacks, into the journal."""
    usual = effort or Effort()
    short = replace(SINGLE_STAGES, accept_busy=usual.accept_busy, patience_s=usual.patience_s)
    nominal = reference_of(journal.header, device, effort)
    Metering(device, nominal, journal, short, watch).meter(single_stages(layers_of(spec)))
