"""A few metered steps of the model itself, taken for all of them: what one would do by hand.

One step of warm-up and one burst. No repeats, no outliers left out, no drift divided out: how far
that lies from a careful measurement is what this baseline shows. It needs no profile, and it needs
the model to run on the device, which is what an estimate does without.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from ampere.core.layers import Layer
from ampere.core.workloads import Workload
from ampere.devices.base import Burst, Device
from ampere.errors import DataError, MeasurementFailed, MeterFault
from ampere.records.failure import Failure
from ampere.records.measurement import Measurement, utc_now

STEPS = 10


def extrapolate(
    device: Device, workload: Workload, layers: Sequence[Layer], steps: int = STEPS
) -> Measurement:
    """Joules and seconds per step from this many steps in one go; a failure is a failed one."""
    if steps < 1:
        raise DataError(f"{steps} steps cannot be metered: use 1 or more")
    start = time.monotonic()
    burst, failed = None, None
    try:
        burst = _burst(device, workload, steps)
    except (MeasurementFailed, MeterFault) as error:  # too few for a coarse meter
        failed = Failure.of(error)
    common = Measurement(
        tuple(layers),
        device=device.fingerprint.id,
        provenance=device.provenance,
        when=utc_now(),
        stage=workload.stage,
        failed=failed,
        cost_s=round(time.monotonic() - start, 4),
    )
    if burst is None:
        return common
    energy_j, time_s = burst.energy_j / burst.steps, burst.time_s / burst.steps
    return replace(
        common,
        energy_j_per_step=energy_j,
        time_s_per_step=time_s,
        bursts={
            "steps": burst.steps,
            "energy_j": [energy_j],
            "time_s": [time_s],
            **({} if burst.samples is None else {"samples": [burst.samples]}),
        },
    )


def _burst(device: Device, workload: Workload, steps: int) -> Burst:
    handle = device.load(workload).handle
    try:
        device.burst(handle, 1)
        return device.burst(handle, steps)
    finally:
        with suppress(MeasurementFailed):  # the worker went, and the workload with it
            device.unload(handle)
