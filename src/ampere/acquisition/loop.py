"""Profiling: ask for the network that teaches most, measure it, write it down, tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ampere.acquisition.families import Network, remembered
from ampere.acquisition.isolator import Isolator
from ampere.acquisition.prober import make_prober
from ampere.acquisition.progress import Event, Watch, unwatched
from ampere.acquisition.strategy import Strategy
from ampere.core import units
from ampere.core.boundary.example_inputs import Input
from ampere.core.fingerprint import changed_conditions, refuse_to_mix, runtime_of
from ampere.core.layers import Layer
from ampere.core.program.structure import TORCH
from ampere.core.variants import Variant
from ampere.core.workloads import Workload, WorkloadIdentity, workload_identity
from ampere.devices.base import Device
from ampere.errors import DataError, FingerprintError, JournalError, MeasurementFailed
from ampere.estimators.lending.lenders import Lenders
from ampere.frameworks.models import plan_variants
from ampere.frameworks.readers import Model
from ampere.frameworks.runtimes import refuse_foreign
from ampere.profiles.profile import Profile
from ampere.records.journal import Header, Journal
from ampere.records.measurement import Measurement
from ampere.sittings.effort import Effort
from ampere.sittings.limit import Limit
from ampere.sittings.measure import measure
from ampere.sittings.reference import Reference, take_reference

NETWORK_S = 2.0  # what a network takes, roughly, as long as none was measured
LONGEST_REST_S = 30.0  # between two words with a device, so that none is lost in silence


class Profiler(Protocol):
    """Who decides what is measured next; it neither measures nor knows how to.

    A `Prober` for the additive method, an `Isolator` for the paper's.
    """

    by_calls: bool  # whether its rows teach what calls cost, and a profile is fitted by these

    @property
    def cut_short(self) -> bool:
        """Whether it was ended before it was done."""
        ...

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
    def state(self) -> str:
        """Where it stands, in a few words, or none."""
        ...


def make_profiler(
    itself: Network,
    strategy: Strategy,
    asked_about: Sequence[Sequence[Layer]] = (),
    effort: Effort | None = None,
    recorded: Sequence[Network] = (),
    lenders: Lenders | None = None,
) -> Profiler:
    """Who decides by the method of a strategy."""
    if strategy.method == "paper":
        if lenders is not None:
            raise DataError("only the additive method learns from other devices: leave paper")
        return Isolator(plan_variants(itself.layers), strategy)
    return make_prober(itself, strategy, asked_about, effort, recorded, lenders=lenders)


def refuse_untrainable(device: Device, itself: Network) -> None:
    """Raise if a runtime cannot train a model: better now than as a failure of every network.

    torch can whatever its own reader reads.

    Raises:
        ModelError: The device's runtime cannot; names the operation and the layer.
    """
    runtime = runtime_of(device.fingerprint)
    refuse_foreign(itself.layers, runtime)
    if runtime == TORCH:
        return
    with suppress(MeasurementFailed):  # it may be too large, and others of its family are not
        device.unload(device.load(itself.workload).handle)


@dataclass(frozen=True)
class Comebacks:
    """How often, after which pauses and to how many of its networks a profile comes back."""

    sittings: int = 1
    pause_s: float = 180.0
    networks: int = 2


def run_profiler(
    profiler: Profiler,
    device: Device,
    journal: Journal,
    *,
    effort: Effort | None = None,
    limit: Limit | None = None,
    energy_limit_j: float = float("inf"),
    together: int = 4,
    comebacks: Comebacks = Comebacks(),
    watch: Watch = unwatched,
) -> None:
    """Ask, measure, write down, tell, until the profiler stops, or time or joules are used up.

    Then some of the networks are measured again: rows of one moment do not tell how they repeat.
    """
    limit = limit or Limit()
    limit.watch(device)
    nominal = reference_of(journal.header, device, effort, limit)
    begun_s, waited_s, spent_j = limit.spent_s, time.monotonic(), 0.0
    done: list[Measurement] = []
    asked: dict[WorkloadIdentity, Variant | Network] = {}

    def keep(row: Measurement) -> None:
        nonlocal spent_j
        row = replace(row, by_calls=profiler.by_calls)
        journal.append(row)
        profiler.tell(row)
        done.append(row)
        spent_j += row.metered_j

    def sit(networks: Sequence[Variant | Network]) -> None:
        workloads = [(_workload(network), network.layers) for network in networks]
        rows = journal.measurements
        measure(device, workloads, nominal, effort, known=rows, limit=limit, keep=keep)

    while not profiler.should_stop:
        pace_s, ours_s, price_j = NETWORK_S, NETWORK_S, 0.0
        if done:
            pace_s, price_j = (limit.spent_s - begun_s) / len(done), spent_j / len(done)
            ours_s = (time.monotonic() - waited_s) / len(done)
        affordable = limit.left_s / pace_s
        if price_j:
            affordable = min(affordable, (energy_limit_j - spent_j) / price_j)
        can_go_on = limit.left_s > 0 and spent_j < energy_limit_j
        networks = profiler.ask(together, affordable) if can_go_on else ()
        if not networks:
            profiler.end_phase()
            continue
        doing = " ".join([profiler.state, ", ".join(map(str, networks))]).strip()
        left = round(min(profiler.remaining, max(affordable, 0)))
        left_s = min(left * ours_s, limit.left_s)  # who watches waits by our clock
        watch(Event(doing, len(done), len(done) + left, left_s))
        asked.update((workload_identity("step", each.layers), each) for each in networks)
        sit(networks)
    good = [row for row in done if row.failed is None and row.stage == "step"]
    again = [asked[workload_identity(row.stage, row.layers)] for row in good[: comebacks.networks]]
    if spent_j < energy_limit_j:
        come_back(
            again,
            comebacks,
            device,
            limit,
            sit,
            lambda event: watch(replace(event, done=len(done), total=len(done) + event.total)),
        )
    watch(Event("done", len(done), len(done), 0.0))


def come_back(
    networks: Sequence[Variant | Network],
    comebacks: Comebacks,
    device: Device,
    limit: Limit,
    sit: Callable[[Sequence[Variant | Network]], None],
    watch: Watch = unwatched,
) -> None:
    """Measure some networks again at the end, and again after each pause, if there is time."""
    many = len(networks)
    for again in range(comebacks.sittings if networks else 0):
        pause_s = comebacks.pause_s if again else 0.0
        if limit.left_s < pause_s + NETWORK_S * many:
            return
        if pause_s:
            watch(Event("waiting, to come back once more", 0, many, pause_s))
            rest(device, pause_s)
        watch(Event(f"{units.plural(many, 'network')} again", 0, many, NETWORK_S * many))
        sit(networks)


def rest(device: Device, pause_s: float) -> None:
    """Leave a device alone for so long by its own clock."""
    end_s = device.now() + pause_s
    while (left_s := end_s - device.now()) > 0:
        device.watch(min(left_s, LONGEST_REST_S))


def _workload(network: Variant | Network) -> Workload:
    return network.workload if isinstance(network, Network) else Workload(network.layers)


def open_journal(
    path: str | Path,
    device: Device,
    *,
    model: str | None = None,
    input: Input | None = None,
    any_device: bool = False,
    effort: Effort | None = None,
    limit: Limit | None = None,
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
        nominal = take_reference(device, effort, limit)
        header = Header(
            fingerprint,
            device.meter,
            device.provenance,
            reference_time_s=nominal.time_s,
            reference_energy_j=nominal.energy_j,
            idle_w=nominal.idle_w,
            model=model,
            input=remembered(input),
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


def fed_for(path: str | Path, model: Model, input: Input | None) -> Input | None:
    """What a model is fed: what is said, or what a profile that is there remembers."""
    if input is not None or not Path(path).exists():
        return input
    return Profile.load(path).input_for(model)


def reference_of(
    header: Header, device: Device, effort: Effort | None = None, limit: Limit | None = None
) -> Reference:
    """The scale that a journal was begun with; measurements of later days are divided by it too.

    Another device, let in by `any_device`, is measured by a scale of its own.
    """
    if device.fingerprint != header.fingerprint:
        return take_reference(device, effort, limit)
    if not header.reference_time_s or not header.reference_energy_j:
        raise DataError("this profile was not measured here: it has no reference to measure by")
    return Reference(header.idle_w or 0.0, header.reference_time_s, header.reference_energy_j)


def resume(profiler: Profiler, measurements: Sequence[Measurement]) -> None:
    """Tell a profiler what is already known."""
    for measurement in measurements:
        profiler.tell(measurement)
