"""Profiles of simulated devices in no time: nothing is trained, nothing settles."""

from __future__ import annotations

from ampere.core.training import Training
from ampere.core.workloads import Workload
from ampere.devices.simulated import SimulatedDevice
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile
from ampere.pytorch.models import read
from ampere.records.journal import Header
from ampere.records.measurement import Measurement

WIDTHS = ((4, 8), (6, 16), (2, 16), (6, 4), (3, 11), (5, 6))


def quick_profile(device: str, networks: int = len(WIDTHS)) -> Profile:
    """What a simulated device teaches when it is asked directly: members of a family."""
    simulated = SimulatedDevice(device)
    rows = []
    for first, second in WIDTHS[:networks]:
        layers = read(f"zoo:lenet5(channels=[{first}, {second}])", None, Training())
        before_j, before_s = simulated.spent_j, simulated.clock_s
        simulated.burst(simulated.load(Workload(layers)).handle, 20_000)
        energy_j, time_s = simulated.spent_j - before_j, simulated.clock_s - before_s
        rows.append(
            Measurement(layers, energy_j / 20_000, time_s / 20_000, provenance=Provenance.SIMULATED)
        )
    header = Header(simulated.fingerprint, {"name": "simulated"}, Provenance.SIMULATED)
    return Profile(tuple(rows), header)
