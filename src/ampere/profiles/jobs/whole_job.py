"""Whole jobs: an estimate of one step becomes what a user pays.

    training       batches × (step − update) + steps × update
    validation     batches × the forward pass (stage_shares.py)
    data loading   batches of both × what a batch takes

A step's own error is the same in training and validation, so it does not average out; what is not
known of shares and of loading comes on top. Ranks multiply joules, not seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ampere.core import units
from ampere.core.layers import Layer
from ampere.core.types import Json
from ampere.errors import NotCovered
from ampere.estimators.base import Cost, Line, Share
from ampere.profiles.estimate import Estimate, Part
from ampere.profiles.jobs.job import Count, Job, Loading
from ampere.profiles.jobs.stage_shares import UPDATE, StageShares, stage_shares
from ampere.records.measurement import REACH

TRAINING, VALIDATION, LOADING = "training", "validation", "data loading"
COMMUNICATION = (
    "ranks are taken to be devices like this one that never wait for each other: what they send"
    " and wait is not in it"
)


@dataclass(frozen=True)
class Sums:
    """One quantity of a job, joules or seconds: each part with its standard deviation."""

    training: tuple[float, float]
    validation: tuple[float, float]
    loading: tuple[float, float]
    std: float  # of all together

    @property
    def total(self) -> float:
        """All parts."""
        return math.fsum(mean for mean, _ in (self.training, self.validation, self.loading))


def whole_job(
    step: Estimate,
    job: Job,
    *,
    batch_size: int,
    layers: Sequence[Layer] = (),
    idle_w: float | None = None,
) -> Estimate:
    """What a job takes, from what one step takes.

    Args:
        step: Of one step of one batch.
        job: How long it is, and what goes on around the steps.
        batch_size: Samples of a batch.
        layers: With their calls, if these are known; else what is usual of steps counts.
        idle_w: Watts of the device when it does nothing, if they are known.

    Raises:
        NotCovered: Loading has no joules, and no seconds are known to tell its watts from.
    """
    count = job.count(batch_size)
    if job.is_plain:
        return step if count.steps == 1 else step.for_steps(count.steps)
    shares = stage_shares(layers, step.shares)
    loading = None if job.loading is None else job.loading.of_batch(batch_size)
    batch = None if loading is None else _loaded(loading, step, idle_w)
    energy = _sums(step.energy_j, step.energy_j_std, count, shares, batch and batch[:2])
    mean_std = step.energy_j_mean_std
    if mean_std is not None:
        mean_std = _sums(step.energy_j, mean_std, count, shares, batch and batch[:2]).std
    time = None
    if step.time_s is not None and step.time_s_std is not None:
        time = _sums(step.time_s, step.time_s_std, count, shares, batch and batch[2:])
    factor, ranks = _steps(count, shares), job.ranks
    return replace(
        step,
        lines=tuple(_line(line, factor, ranks) for line in step.lines),
        shares=tuple(_share(share, count, ranks) for share in step.shares),
        energy_j=ranks * energy.total,
        energy_j_std=ranks * energy.std,
        energy_j_mean_std=None if mean_std is None else ranks * mean_std,
        time_s=None if time is None else time.total,
        time_s_std=None if time is None else time.std,
        steps=count.steps,
        parts=_parts(count, job, shares, energy, time),
        job=_told(count, job),
        warnings=(*step.warnings, *_cautions(step, job, batch_size)),
    )


def _steps(count: Count, shares: StageShares) -> float:
    """How many whole steps the training comes to: batches without an update are less."""
    return count.batches - (count.batches - count.steps) * shares.update


def _sums(
    mean: float,
    std: float,
    count: Count,
    shares: StageShares,
    loading: tuple[float, float] | None,
) -> Sums:
    trained, skipped = _steps(count, shares), count.batches - count.steps
    validated = count.validation_batches * shares.forward
    unsure_update = mean * skipped * shares.update * shares.update_error
    unsure_forward = mean * validated * shares.forward_error
    batches = count.batches + count.validation_batches
    load, load_std = loading or (0.0, 0.0)
    alone = math.sqrt(unsure_update**2 + unsure_forward**2 + (batches * load_std) ** 2)
    return Sums(
        training=(mean * trained, math.hypot(std * trained, unsure_update)),
        validation=(mean * validated, math.hypot(std * validated, unsure_forward)),
        loading=(batches * load, batches * load_std),
        std=math.hypot(std * (trained + validated), alone),
    )


def _loaded(
    loading: Loading, step: Estimate, idle_w: float | None
) -> tuple[float, float, float, float]:
    """Joules and seconds of loading a batch, each with its standard deviation."""
    time_s, time_std = loading.time_s, loading.error * loading.time_s
    if loading.energy_j is None:
        if step.time_s is None:
            raise NotCovered(
                "the profile tells no seconds, so no watts for data loading: say its joules, too"
                " (--data-j-per-batch), or meter the loader (`ampere measure --loader`)"
            )
        # One core or all of them may load, or a disk is waited for: something in between.
        busy_w = step.energy_j / step.time_s
        least_w = min(idle_w or 0.0, busy_w)
        mean_w, std_w = (busy_w + least_w) / 2, (busy_w - least_w) / 2 / REACH
        return time_s * mean_w, math.hypot(time_s * std_w, time_std * mean_w), time_s, time_std
    energy_j, energy_std = loading.energy_j, loading.error * loading.energy_j
    if loading.workers and step.time_s is not None:
        # Between waiting for every batch, and having each as soon as the step before has ended.
        beside_s = min(step.time_s, time_s) / 2
        idle_j = loading.idle_j * beside_s / time_s
        return (
            energy_j - idle_j,
            math.hypot(energy_std, idle_j / REACH),
            time_s - beside_s,
            math.hypot(time_std, beside_s / REACH),
        )
    return energy_j, energy_std, time_s, time_std


def _parts(
    count: Count, job: Job, shares: StageShares, energy: Sums, time: Sums | None
) -> tuple[Part, ...]:
    def part(name: str, batches: int, basis: str) -> Part:
        field = LOADING.split()[1] if name == LOADING else name
        joules = [job.ranks * each for each in getattr(energy, field)]
        seconds = (None, None) if time is None else getattr(time, field)
        return Part(name, Cost(joules[0], joules[1], *seconds), batches * job.ranks, basis)

    parts = [part(TRAINING, count.batches, _training_basis(count, job, shares))]
    if count.validation_batches:
        parts.append(part(VALIDATION, count.validation_batches, shares.forward_basis))
    if job.loading is not None:
        every = count.batches + count.validation_batches
        parts.append(part(LOADING, every, _loading_basis(job.loading)))
    return tuple(parts)


def _training_basis(count: Count, job: Job, shares: StageShares) -> str:
    texts = [units.plural(count.steps, "step")]
    if job.accumulate > 1:
        texts[0] += f" of up to {job.accumulate} batches"
        texts.append(
            f"an update is {shares.update:.3f} of a step ± {100 * shares.update_error:.0f} %"
        )
    if job.ranks > 1:
        texts[0] += f" on each of {job.ranks} ranks"
    return ", ".join(texts)


def _loading_basis(loading: Loading) -> str:
    if loading.energy_j is None:
        return "waiting between idle and busy watts"
    if loading.workers:
        return f"metered, {units.plural(loading.workers, 'worker')} beside the steps or in turns"
    return "metered, in turns with the steps" if loading.provenance else "as was said"


def _told(count: Count, job: Job) -> dict[str, Json]:
    return {**count.to_json(), "accumulate": job.accumulate, "epochs": job.epochs}


def _line(line: Line, factor: float, ranks: int) -> Line:
    return replace(line, cost=_ranked(line.cost.times(factor), ranks))


def _share(share: Share, count: Count, ranks: int) -> Share:
    times = count.steps if share.operation == UPDATE else count.batches
    return replace(share, cost=_ranked(share.cost.times(times), ranks))


def _ranked(cost: Cost, ranks: int) -> Cost:
    """Joules of all ranks, seconds of one."""
    energy_j, std = ranks * cost.energy_j, ranks * cost.energy_j_std
    return replace(cost, energy_j=energy_j, energy_j_std=std)


def _cautions(step: Estimate, job: Job, batch_size: int) -> list[str]:
    texts = []
    if job.ranks > 1:
        texts.append(COMMUNICATION)
    loading = job.loading
    if loading is None or loading.provenance is None:
        return texts
    if loading.samples not in (None, batch_size):
        texts.append(
            f"data loading was metered in batches of {loading.samples}: those of {batch_size} are"
            " taken to cost in proportion"
        )
    if step.provenance is not None and loading.provenance.metered != step.provenance.metered:
        texts.append(
            f"joules of data loading are {loading.provenance.origin}, those of steps are"
            f" {step.provenance.origin}: the total mixes both"
        )
    if loading.device and step.device and loading.device != step.device:
        texts.append(f"data loading was metered on {loading.device}, steps on {step.device}")
    return texts
