"""Profiling: ask for the network that teaches most, measure it, write it down, tell."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ampere.acquisition.effort import Effort
from ampere.acquisition.families import Network
from ampere.acquisition.isolator import Isolator
from ampere.acquisition.measure import measure
from ampere.acquisition.prober import make_prober
from ampere.acquisition.progress import Event, Watch, unwatched
from ampere.acquisition.reference import Reference, take_reference
from ampere.acquisition.strategy import Strategy
from ampere.core.fingerprint import changed_conditions, refuse_to_mix
from ampere.core.layers import Layer, Role
from ampere.core.variants import Variant
from ampere.core.workloads import Workload
from ampere.devices.base import Device
from ampere.errors import DataError, FingerprintError, JournalError
from ampere.records.journal import Header, Journal
from ampere.records.measurement import Measurement


class Profiler(Protocol):
    """Who decides what is measured next; it neither measures nor knows how to.

    A `Prober` for the additive method, an `Isolator` for the paper's.
    """

    cut_short: bool

    def ask(self, n: int = 1, affordable: float = float("inf")) -> Sequence[Variant | Network]:
        """Up to n networks; `affordable` is how many there is time for."""
        ...

    def tell(self, measurement: Measurement) -> None:
        """Learn from a measurement; one that failed is told too."""
        ...

    def end_phase(self) -> None:
        """There is no time for more of what it asks for at present."""
        ...

    @property
    def should_stop(self) -> bool:
        """Whether enough is known."""
        ...

    @property
    def remaining(self) -> int:
        """How many more measurements it takes at most."""
        ...

    @property
    def phase(self) -> Role | None:
        """Which layers it is about, if it takes them in turn."""
        ...


def make_profiler(
    itself: Network,
    strategy: Strategy,
    asked_about: Sequence[Sequence[Layer]] = (),
    effort: Effort | None = None,
    recorded: Sequence[Network] = (),
) -> Profiler:
    """Who decides by the method of a strategy."""
    from ampere.pytorch.models import plan_variants

    if strategy.method == "paper":
        return Isolator(plan_variants(itself.layers), strategy)
    return make_prober(itself, strategy, asked_about, effort, recorded)


def run_profiler(
    profiler: Profiler,
    device: Device,
    journal: Journal,
    *,
    effort: Effort | None = None,
    time_limit_s: float = float("inf"),
    energy_limit_j: float = float("inf"),
    together: int = 4,
    watch: Watch = unwatched,
) -> None:
    """Ask, measure, write down, tell, until the profiler stops, or time or joules are used up."""
    nominal = reference_of(journal.header, device, effort)
    start = time.monotonic()
    done, spent_j, device_s = 0, 0.0, 0.0
    while not profiler.should_stop:
        spent = max(time.monotonic() - start, device_s)  # a simulated device has its own clock
        pace, price = (spent / done, spent_j / done) if done else (2.0, 0.0)
        affordable = (time_limit_s - spent) / pace
        if price:
            affordable = min(affordable, (energy_limit_j - spent_j) / price)
        networks = profiler.ask(together, affordable)
        if not networks:
            profiler.end_phase()
            continue
        role = f"{profiler.phase.value} " if profiler.phase else ""
        doing = role + ", ".join(map(str, networks))
        left = round(min(profiler.remaining, max(affordable, 0)))
        watch(Event(doing, done, done + left, left * pace))
        workloads = [(_workload(network), network.layers) for network in networks]
        for measurement in measure(device, workloads, nominal, effort):
            journal.append(measurement)
            profiler.tell(measurement)
            done += 1
            spent_j += measurement.metered_j
            device_s += measurement.cost_s
    watch(Event("done", done, done, 0.0))


def _workload(network: Variant | Network) -> Workload:
    return network.workload if isinstance(network, Network) else Workload(network.layers)


def open_journal(
    path: str | Path,
    device: Device,
    *,
    model: str | None = None,
    any_device: bool = False,
    effort: Effort | None = None,
) -> tuple[Journal, list[str]]:
    """Open or create the journal of a device; another device's is refused, naming the keys.

    Returns the journal and warnings about conditions that have changed since it was begun.
    """
    fingerprint = device.fingerprint
    if Path(path).exists():
        header = Header(fingerprint, device.meter, device.provenance)
    else:
        if not Path(path).absolute().parent.is_dir():
            raise JournalError(f"{Path(path).parent} is no directory: make it first")
        nominal = take_reference(device, effort)
        header = Header(
            fingerprint,
            device.meter,
            device.provenance,
            reference_time_s=nominal.time_s,
            reference_energy_j=nominal.energy_j,
            idle_w=nominal.idle_w,
            model=model,
        )
    journal = Journal.open(path, header)
    notes = changed_conditions(journal.header.fingerprint, fingerprint)
    try:
        refuse_to_mix(fingerprint, journal.header.fingerprint)
    except FingerprintError as error:
        if not any_device:
            journal.close()
            raise
        notes.append(f"mixed all the same: {error}")
    return journal, notes


def reference_of(header: Header, device: Device, effort: Effort | None = None) -> Reference:
    """The scale that a journal was begun with; measurements of later days are divided by it too.

    Another device, let in by `any_device`, is measured by a scale of its own.
    """
    if device.fingerprint != header.fingerprint:
        return take_reference(device, effort)
    if not header.reference_time_s or not header.reference_energy_j:
        raise DataError("this profile was not measured here: it has no reference to measure by")
    return Reference(header.idle_w or 0.0, header.reference_time_s, header.reference_energy_j)


def resume(profiler: Profiler, measurements: Sequence[Measurement]) -> None:
    """Tell a profiler what is already known."""
    for measurement in measurements:
        profiler.tell(measurement)
