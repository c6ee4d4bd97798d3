"""Measuring: joules and seconds per step of networks, side by side in one sitting.

A meter that tells coarsely or late (a battery, a sensor of 10 Hz) needs longer bursts, and then
there are fewer: `effort.suited` chooses them, or says that it would take too long. A reading that
cannot be true is taken again, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ampere.core.layers import Layer
from ampere.core.workloads import Workload
from ampere.devices.base import Device
from ampere.records.failure import Cause
from ampere.records.measurement import Measurement
from ampere.sittings.drift import Following
from ampere.sittings.effort import Effort, suited
from ampere.sittings.limit import Limit
from ampere.sittings.reference import Reference
from ampere.sittings.run import Run
from ampere.sittings.sitting import Sitting

Work = tuple[Workload, Sequence[Layer]]


def _forget(row: Measurement) -> None:
    """Nobody wants a row before all are there."""


def measure(
    device: Device,
    workloads: Sequence[Work],
    nominal: Reference,
    effort: Effort | None = None,
    *,
    known: Sequence[Measurement] = (),
    limit: Limit | None = None,
    keep: Callable[[Measurement], None] = _forget,
) -> list[Measurement]:
    """Joules and seconds per step of each workload, measured side by side.

    Args:
        device: Where they run.
        workloads: What runs, with its layers.
        nominal: The scale that they are measured by.
        effort: How carefully.
        known: Rows of the same journal: they tell how workloads follow the reference.
        limit: The time that there is; networks that it was too short for have no row.
        keep: Called with each row as soon as it is whole, whatever becomes of the others.

    Raises:
        Busy: The device was busy with other work for too long.
    """
    power_w = nominal.energy_j / nominal.time_s
    effort = suited(effort or Effort(), device.resolution, power_w)
    limit = limit or Limit()
    device_id = device.fingerprint.id
    own = [row for row in known if row.device == device_id]
    following = Following.of(own, "energy_j"), Following.of(own, "time_s")
    rows: dict[int, Measurement] = {}
    crowded: list[int] = []  # perhaps it was the others that filled the memory: once more, alone

    def sit(numbers: Sequence[int]) -> None:
        def kept(run: int, row: Measurement) -> None:
            number = numbers[run]
            if len(numbers) > 1 and row.failed is not None and row.failed.cause is Cause.MEMORY:
                crowded.append(number)
                return
            rows[number] = row
            keep(row)

        runs = [Run(workloads[i][0], tuple(workloads[i][1])) for i in numbers]
        Sitting(device, runs, nominal, effort, following, limit, kept).hold()

    sit(range(len(workloads)))
    for number in crowded:
        sit([number])
    return [rows[number] for number in sorted(rows)]
