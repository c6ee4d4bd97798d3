"""Measuring: warm up, interleave bursts, repeat until the spread is small, divide drift out.

    round 1:  reference  A  B  C        A, B, C: the workloads in hand, a burst of steps each
    round 2:  reference  A  B  C        reference: a small fixed network
    ...                                 until every spread is under the target, or the cap
              reference

A shared or warm machine slows down and speeds up by 15 %, everything on it alike, within a minute
and within a tenth of a second. What the workloads of a round have in common says by how much, and
each burst is divided by it (see drift.py): so bursts are short, and there are many of them. The
reference keeps the scale: what it costs in these rounds, against what it cost at the beginning.

A meter that tells coarsely or late (a battery, a sensor of 10 Hz) needs longer bursts, and then
there are fewer: `effort.suited` chooses them, or says that it would take too long. A reading that
cannot be true is taken again, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from ampere.acquisition.bursts import take_burst, warm_up
from ampere.acquisition.drift import drift_factors
from ampere.acquisition.effort import Effort, suited
from ampere.acquisition.reference import Reference
from ampere.acquisition.run import Drift, Run
from ampere.core.layers import Layer
from ampere.core.workloads import REFERENCE, Workload
from ampere.devices.base import Burst, Device
from ampere.errors import DeviceError, MeasurementFailed
from ampere.records.failure import Cause
from ampere.records.measurement import Measurement

REFERENCE_WARMUP_S = 0.075


def measure(
    device: Device,
    workloads: Sequence[tuple[Workload, Sequence[Layer]]],
    nominal: Reference,
    effort: Effort | None = None,
) -> list[Measurement]:
    """Joules and seconds per step of each workload, measured side by side."""
    power_w = nominal.energy_j / nominal.time_s
    effort = suited(effort or Effort(), device.resolution, power_w)
    runs = [Run(workload, tuple(layers)) for workload, layers in workloads]
    for run in runs:
        run.load(device, effort)
    references = _run_rounds(device, runs, nominal, effort)
    reference_s = sum(burst.time_s for burst in references) / max(len(runs), 1)
    drifts = iter(_drifts(_unfailed(runs), references, nominal))
    measurements = [
        run.conclude(device, Drift() if run.failed else next(drifts), nominal, reference_s)
        for run in runs
    ]
    for i, run in enumerate(runs):
        if len(runs) > 1 and run.failed is not None and run.failed.cause is Cause.MEMORY:
            # Perhaps it was the others that filled the memory: once more, alone.
            (measurements[i],) = measure(device, [workloads[i]], nominal, effort)
    return measurements


def _run_rounds(
    device: Device, runs: Sequence[Run], nominal: Reference, effort: Effort
) -> list[Burst]:
    """Add bursts to all runs in turn until they have settled; returns the reference's own."""
    references: list[Burst] = []
    handles = [run.handle for run in runs if run.handle is not None]
    try:
        reference = device.load(REFERENCE)
        handles.append(reference.handle)
        steps = warm_up(device, reference.handle, effort.burst_s, REFERENCE_WARMUP_S)
        for turn in range(effort.max_rounds):
            in_hand = _unfailed(runs)
            if not in_hand or (
                turn >= effort.min_rounds and _have_settled(in_hand, references, nominal, effort)
            ):
                break
            burst, faults = take_burst(device, reference.handle, steps)
            references.append(burst)
            in_hand[0].faults += faults  # somebody has to bear them
            for run in in_hand:
                run.burst(device)
        references.append(take_burst(device, reference.handle, steps)[0])
    except MeasurementFailed as error:
        raise DeviceError(f"the reference workload failed: {error}") from None
    finally:
        _unload_all(device, handles)
    return references


def _unfailed(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.failed is None]


def _unload_all(device: Device, handles: Sequence[int]) -> None:
    for handle in handles:
        try:
            device.unload(handle)
        except MeasurementFailed:  # the worker went, and the workload with it
            continue


def _have_settled(
    runs: Sequence[Run], references: Sequence[Burst], nominal: Reference, effort: Effort
) -> bool:
    drifts = _drifts(runs, references, nominal)
    return all(
        run.is_settled(drift, effort.target) for run, drift in zip(runs, drifts, strict=True)
    )


def _drifts(runs: Sequence[Run], references: Sequence[Burst], nominal: Reference) -> list[Drift]:
    """How much hungrier and slower than at the beginning the device was, for each run and round.

    Runs have all rounds in common, since those that failed are left out.
    """
    around = [references[turn : turn + 2] for turn in range(len(runs[0].bursts))] if runs else []
    reference_j = [sum(b.energy_j for b in pair) / sum(b.steps for b in pair) for pair in around]
    reference_s = [sum(b.time_s for b in pair) / sum(b.steps for b in pair) for pair in around]
    energies_j, times_s = [run.energies_j for run in runs], [run.times_s for run in runs]
    return [
        Drift(
            energy=_factors(k, energies_j, reference_j, nominal.energy_j),
            time=_factors(k, times_s, reference_s, nominal.time_s),
        )
        for k in range(len(runs))
    ]


def _factors(
    k: int, series: Sequence[Sequence[float]], reference: Sequence[float], nominal: float
) -> list[float]:
    """What the values of run k are divided by, from all other runs and the reference."""
    return drift_factors(series[k], [*series[:k], *series[k + 1 :]], reference, nominal)
