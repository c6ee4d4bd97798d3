"""Measuring: warm up, interleave bursts, repeat until the spread is small, divide drift out.

    round 1:  reference  A  B  C        A, B, C: the workloads in hand, a burst of steps each
    round 2:  reference  A  B  C        reference: a small fixed network
    ...                                 until every spread is under the target, or the cap
              reference

A shared or warm machine slows down and speeds up by 15 %, everything on it alike, within a minute
and within a tenth of a second. What the workloads of a round have in common says by how much, and
each burst is divided by it (see drifting.py): so bursts are short, and there are many of them. The
reference keeps the scale: what it costs in these rounds, against what it cost at the beginning.

A meter that tells coarsely or late (a battery, a sensor of 10 Hz) needs longer bursts, and then
there are fewer: `suited` chooses them, or says that it would take too long. A reading that cannot
be true is taken again, and counted.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ampere.acquisition.drift import drift_factors
from ampere.core.layers import Layer
from ampere.core.workloads import IDLE, REFERENCE, Workload
from ampere.devices.base import Burst, Device
from ampere.errors import DeviceError, MeasurementFailed, MeterError, MeterFault, ModelError
from ampere.meters.base import Resolution
from ampere.records.measurement import Measurement, utc_now

Drift = Sequence[tuple[float, float]]  # what joules and seconds of each round are divided by
WARMUP_S = 0.15
OUTLIER = 3.5  # in robust standard deviations (Iglewicz and Hoaglin, 1993)
TRIES = 4  # of a burst whose reading cannot be true
LONG_ROUNDS = 4  # of bursts that are long for the meter's sake
MOST_S = 1800.0  # of one network's bursts; nobody waits longer
CLOCKED_S = 2.0  # how long a burst must be, to be timed from here
MOST_STEPS = 1 << 20  # of a burst whose time nobody tells


@dataclass(frozen=True)
class Effort:
    """How much measuring: bursts of `burst_s`, until the standard error is under `target`."""

    burst_s: float = 0.03
    warmup_s: float = WARMUP_S
    min_rounds: int = 10
    max_rounds: int = 30
    target: float = 0.015
    steps: int | None = None  # of a burst, where they are given and `burst_s` is not


@dataclass(frozen=True)
class Reference:
    """What the device does with nothing to do, and with the reference workload."""

    idle_w: float
    time_s: float
    energy_j: float


@dataclass(frozen=True)
class Event:
    """What a run of measurements is doing, for whoever shows it."""

    doing: str
    done: int
    total: int
    seconds_left: float


Watch = Callable[[Event], None]


def unwatched(event: Event) -> None:
    """Nobody watches."""


@dataclass
class _Run:
    """One workload in hand: what has been seen of it so far."""

    workload: Workload
    layers: tuple[Layer, ...]
    handle: int | None = None
    steps: int = 1
    bursts: list[Burst] = field(default_factory=list)
    at: list[float] = field(default_factory=list)  # when each began, in seconds since 1970
    failed: str | None = None
    faults: int = 0
    cost_s: float = 0.0

    def charge(self, action: Callable[[], None]) -> None:
        """Do something with this workload; if it fails, the workload has failed, nobody else."""
        start = time.monotonic()
        try:
            action()
        except (MeasurementFailed, ModelError) as error:  # it broke, or cannot be built
            self.failed = str(error)
        self.cost_s += time.monotonic() - start


def suited(effort: Effort, resolution: Resolution, power_w: float) -> Effort:
    """Bursts that are long enough for what the meter can tell.

    Raises:
        MeterError: If they would take longer than anybody waits.
    """
    if resolution.window_s(power_w, effort.target * math.sqrt(effort.min_rounds)) <= effort.burst_s:
        return effort
    burst_s = resolution.window_s(power_w, effort.target * math.sqrt(LONG_ROUNDS))
    if LONG_ROUNDS * burst_s > MOST_S:
        raise MeterError(
            f"the meter tells steps of {resolution.energy_j:.3g} J every"
            f" {resolution.period_s:.3g} s: at {power_w:.3g} W, a network known to"
            f" {effort.target:.1%} would take"
            f" {LONG_ROUNDS * burst_s / 60:.0f} minutes; ask for less with --precision, or choose"
            " another meter"
        )
    return replace(
        effort,
        burst_s=max(burst_s, effort.burst_s),
        min_rounds=min(LONG_ROUNDS, effort.min_rounds),
        max_rounds=min(2 * LONG_ROUNDS, effort.max_rounds),
    )


def take_reference(device: Device, effort: Effort | None = None) -> Reference:
    """Meter the idle device and the reference workload: the scale of everything that follows."""
    effort = effort or Effort()
    idle_w = _idle_power(device)
    wanted, effort = effort, suited(effort, device.resolution, idle_w)
    reference = device.load(REFERENCE)
    steps = _warm_up(device, reference.handle, effort.burst_s, effort.warmup_s)
    # Many short ones see more of the machine's moods; long ones have seen them already.
    rounds = 2 * effort.max_rounds if effort is wanted else effort.min_rounds
    bursts = [_take(device, reference.handle, steps)[0] for _ in range(rounds)]
    device.unload(reference.handle)
    return Reference(
        idle_w,
        statistics.median(burst.time_s / burst.steps for burst in bursts),
        statistics.median(burst.energy_j / burst.steps for burst in bursts),
    )


def measure(
    device: Device,
    workloads: Sequence[tuple[Workload, Sequence[Layer]]],
    nominal: Reference,
    effort: Effort | None = None,
) -> list[Measurement]:
    """Joules and seconds per step of each workload, measured side by side."""
    power_w = nominal.energy_j / nominal.time_s
    effort = suited(effort or Effort(), device.resolution, power_w)
    runs = [_Run(workload, tuple(layers)) for workload, layers in workloads]
    for run in runs:
        run.charge(lambda run=run: _load(device, run, effort))  # type: ignore[misc]
    references: list[Burst] = []
    handles = [run.handle for run in runs if run.handle is not None]
    try:
        reference = device.load(REFERENCE)
        handles.append(reference.handle)
        pace = _warm_up(device, reference.handle, effort.burst_s, WARMUP_S / 2)
        for turn in range(effort.max_rounds):
            open_runs = [run for run in runs if run.failed is None]
            if not open_runs or (
                turn >= effort.min_rounds
                and _settled(open_runs, _drifts(open_runs, references, nominal), effort)
            ):
                break
            burst, faults = _take(device, reference.handle, pace)
            references.append(burst)
            open_runs[0].faults += faults  # somebody has to bear them
            for run in open_runs:
                run.charge(lambda run=run: _burst(device, run))  # type: ignore[misc]
        references.append(_take(device, reference.handle, pace)[0])
    except MeasurementFailed as error:
        raise DeviceError(f"the reference workload failed: {error}") from None
    finally:
        _unload_all(device, handles)
    share = sum(burst.time_s for burst in references) / max(len(runs), 1)
    drifts = iter(_drifts([run for run in runs if run.failed is None], references, nominal))
    measurements = [
        _conclude(device, run, [] if run.failed else next(drifts), nominal, share) for run in runs
    ]
    for i, run in enumerate(runs):
        if len(runs) > 1 and run.failed is not None and "memory" in run.failed:
            # Perhaps it was the others that filled the memory: once more, alone.
            (measurements[i],) = measure(device, [workloads[i]], nominal, effort)
    return measurements


def _load(device: Device, run: _Run, effort: Effort) -> None:
    loaded = device.load(run.workload)
    run.handle = loaded.handle
    if loaded.features and not any(layer.features.to_json() for layer in run.layers):
        run.layers = tuple(
            replace(layer, features=features)
            for layer, features in zip(run.layers, loaded.features, strict=True)
        )
    run.steps = _warm_up(device, loaded.handle, effort.burst_s, effort.warmup_s)
    if effort.steps is not None:
        run.steps = effort.steps


def _warm_up(device: Device, handle: int, burst_s: float, warmup_s: float) -> int:
    """Run until caches and memory pools have settled; returns the steps that fill a burst.

    Where the meter does not move in so few steps, the device does not tell their time either. Our
    own clock has the way to the device in it, so it goes on until that is a small part.
    """
    steps, spent, unsure = 1, 0.0, False
    pace = clocked = math.inf  # seconds a step, as the device says and as our clock does
    _try_out(device, handle, 1)
    while spent < warmup_s or unsure:
        burst = _try_out(device, handle, steps)
        spent += burst.time_s
        if math.isnan(burst.energy_j):
            clocked = min(clocked, burst.time_s / burst.steps)
        else:
            pace = min(pace, burst.time_s / burst.steps)
        unsure = math.isinf(pace) and burst.time_s < min(CLOCKED_S, burst_s) and steps < MOST_STEPS
        best = clocked if math.isinf(pace) else pace
        steps = max(1, min(2 * steps, round(burst_s / best)))
    return max(1, round(burst_s / (clocked if math.isinf(pace) else pace)))


def _burst(device: Device, run: _Run) -> None:
    if run.handle is None:
        raise MeasurementFailed("it was never loaded")
    burst, faults = _take(device, run.handle, run.steps)
    run.bursts.append(burst)
    run.at.append(time.time() - burst.time_s)
    run.faults += faults


def _take(device: Device, handle: int, steps: int) -> tuple[Burst, int]:
    """A burst, and how many were in vain because the meter said what cannot be true."""
    for faults in range(TRIES):
        try:
            return device.burst(handle, steps), faults
        except MeterFault as error:
            reason = str(error)
    raise MeterError(f"{reason} ({TRIES} times in a row)")


def _try_out(device: Device, handle: int, steps: int) -> Burst:
    """A burst of which only the time matters: a coarse meter need not have moved."""
    start = time.monotonic()
    try:
        return device.burst(handle, steps)
    except MeterFault:
        return Burst(steps, math.nan, max(time.monotonic() - start, 1e-9))


def _idle_power(device: Device) -> float:
    """Watts of the device with nothing to do, watched for as long as the meter needs."""
    idle = device.load(IDLE)
    steps = 50
    while steps < 100 * MOST_S:  # a hundredth of a second each
        rest = _try_out(device, idle.handle, steps)
        power_w = rest.energy_j / rest.time_s
        needed_s = device.resolution.window_s(power_w, 0.1)
        if not math.isnan(power_w) and rest.time_s >= 0.99 * needed_s:
            device.unload(idle.handle)
            return power_w
        steps *= 4
    raise MeterError("the meter does not move while the device is idle: choose another one")


def _unload_all(device: Device, handles: Sequence[int]) -> None:
    for handle in handles:
        try:
            device.unload(handle)
        except MeasurementFailed:  # the worker went, and the workload with it
            continue


def _settled(runs: Sequence[_Run], drifts: Sequence[Drift], effort: Effort) -> bool:
    for run, drift in zip(runs, drifts, strict=True):
        joules, seconds = _corrected(run, drift)
        outlier = _outliers(joules, seconds)
        for values in (joules, seconds):
            kept = [value for value, out in zip(values, outlier, strict=True) if not out]
            if _relative_std(kept) / math.sqrt(len(kept)) > effort.target:
                return False
    return True


def _corrected(run: _Run, drift: Drift) -> tuple[list[float], list[float]]:
    """Joules and seconds per step of each burst, the drift of its round divided out."""
    pairs = list(zip(run.bursts, drift, strict=True))
    return (
        [burst.energy_j / burst.steps / factor for burst, (factor, _) in pairs],
        [burst.time_s / burst.steps / factor for burst, (_, factor) in pairs],
    )


def _drifts(runs: Sequence[_Run], references: Sequence[Burst], nominal: Reference) -> list[Drift]:
    """How much hungrier and slower than at the beginning the device was, for each run and round.

    Runs have all rounds in common, since those that failed are left out.
    """
    around = [references[turn : turn + 2] for turn in range(len(runs[0].bursts))] if runs else []
    joules = [[burst.energy_j / burst.steps for burst in run.bursts] for run in runs]
    seconds = [[burst.time_s / burst.steps for burst in run.bursts] for run in runs]
    reference_j = [sum(b.energy_j for b in pair) / sum(b.steps for b in pair) for pair in around]
    reference_s = [sum(b.time_s for b in pair) / sum(b.steps for b in pair) for pair in around]
    found: list[Drift] = []
    for k in range(len(runs)):
        energy, time = (
            drift_factors(series[k], [*series[:k], *series[k + 1 :]], reference, scale)
            for series, reference, scale in (
                (joules, reference_j, nominal.energy_j),
                (seconds, reference_s, nominal.time_s),
            )
        )
        found.append(list(zip(energy, time, strict=True)))
    return found


def _conclude(
    device: Device, run: _Run, drift: Drift, nominal: Reference, share_s: float
) -> Measurement:
    # A simulated device spends seconds that nobody waits for.
    spent_s = max(run.cost_s, sum(burst.time_s for burst in run.bursts))
    common = Measurement(
        run.layers,
        device=device.fingerprint.id,
        provenance=device.provenance,
        when=utc_now(),
        stage=run.workload.stage,
        cost_s=round(spent_s + share_s, 4),
    )
    if run.failed is not None:
        return replace(common, failed=run.failed)
    raw_j = [burst.energy_j / burst.steps for burst in run.bursts]
    raw_s = [burst.time_s / burst.steps for burst in run.bursts]
    joules, seconds = _corrected(run, drift)
    outlier = _outliers(joules, seconds)
    kept_j = [value for value, out in zip(joules, outlier, strict=True) if not out]
    kept_s = [value for value, out in zip(seconds, outlier, strict=True) if not out]
    time_s = statistics.fmean(kept_s)
    energy_j = statistics.fmean(kept_j)
    return replace(
        common,
        energy_j_per_step=energy_j,
        time_s_per_step=time_s,
        idle_j_per_step=nominal.idle_w * time_s if nominal.idle_w else None,  # 0: unknown
        spread=max(_relative_std(kept_j), _grain(device.resolution, run, energy_j, time_s)),
        repeats=len(kept_j),
        bursts={
            "steps": run.steps,
            "at": [round(at, 3) for at in run.at],
            "energy_j": [_short(value) for value in raw_j],
            "time_s": [_short(value) for value in raw_s],
            "drift": [_short(factor) for _, factor in drift],
            "energy_drift": [_short(factor) for factor, _ in drift],
            "outlier": [i for i, out in enumerate(outlier) if out],
            **({"faults": run.faults} if run.faults else {}),
        },
    )


def _grain(resolution: Resolution, run: _Run, energy_j: float, time_s: float) -> float:
    """Relative error of a burst from the meter's steps alone: equal counts are not certain ones.

    Both ends of a burst are off by up to a step or an update, evenly: √(2/12) of it together.
    """
    off_j = max(resolution.energy_j, resolution.period_s * energy_j / time_s)
    return math.sqrt(1 / 6) * off_j / (run.steps * energy_j)


def _outliers(*series: Sequence[float]) -> list[bool]:
    """Which bursts lie far from the others in any series; they stay in the journal, marked."""
    found = [False] * len(series[0])
    for values in series:
        centre = statistics.median(values)
        deviation = statistics.median(abs(value - centre) for value in values)
        limit = max(OUTLIER * deviation / 0.6745, 1e-12)
        far = [len(values) > 3 and abs(value - centre) > limit for value in values]
        found = [before or now for before, now in zip(found, far, strict=True)]
    return found


def _relative_std(values: Sequence[float]) -> float:
    return statistics.stdev(values) / statistics.fmean(values) if len(values) > 1 else 0.0


def _short(value: float) -> float:
    return float(f"{value:.5g}")
