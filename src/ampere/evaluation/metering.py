"""Metering: networks on a device, several times, in other company every time.

    pass 1   c a f d b | e h g      bursts of the networks of a company are interleaved, so each is
    pass 2   h b e a g | c d f      corrected by what it has in common with others than before

What stands in the ledger is not metered again, so a metering that was interrupted goes on where it
stopped. The ledger is a journal, or `Memory` for models that must stay unseen by any profile.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ampere.acquisition.families import Network
from ampere.acquisition.progress import Event, Watch, unwatched
from ampere.core.layers import Layer
from ampere.core.workloads import WorkloadIdentity, workload_identity
from ampere.devices.base import Device
from ampere.estimators.baselines.neuralpower import isolated_workloads
from ampere.evaluation.extrapolation import STEPS, extrapolate
from ampere.frameworks.models import plan_variants
from ampere.records.measurement import Measurement
from ampere.sittings.effort import Effort
from ampere.sittings.measure import measure
from ampere.sittings.reference import Reference

TOGETHER = 5  # networks of a company: each is corrected by what the others have in common
SINGLE_STAGES = Effort(min_rounds=8, max_rounds=12, warmup_s=0.05)  # they are short and many
NETWORK_S = 2.0  # what a network takes, roughly, as long as none was metered


class Ledger(Protocol):
    """Where measurements are written, and read from."""

    @property
    def measurements(self) -> list[Measurement]:
        """All of them, oldest first."""
        ...

    def append(self, measurement: Measurement) -> None:
        """Write one more."""
        ...


@dataclass(frozen=True)
class Memory:
    """A ledger that is forgotten with the run."""

    measurements: list[Measurement] = field(default_factory=list)

    def append(self, measurement: Measurement) -> None:
        """Hold one more."""
        self.measurements.append(measurement)


@dataclass(frozen=True)
class Metered:
    """A network that was metered twice, in other company, and a few steps of it."""

    network: Network
    first: Measurement
    second: Measurement
    few_steps: Measurement

    @property
    def failed(self) -> str | None:
        """Why it could not be metered, if so."""
        reason = self.first.failed or self.second.failed
        return f"{self.network.name}: {reason}" if reason else None


@dataclass(frozen=True)
class Metering:
    """A device, the ledger that it fills, and how carefully."""

    device: Device
    nominal: Reference
    ledger: Ledger
    effort: Effort | None = None
    watch: Watch = unwatched

    def meter(
        self,
        networks: Sequence[Network],
        passes: int = 1,
        before: Callable[[Sequence[Network]], object] | None = None,
    ) -> list[tuple[Measurement, ...]]:
        """Each of these different networks so many times; the rows of each, a failure too.

        `before` is called with every company that is about to be metered.
        """
        rows = rows_by_network(self.ledger.measurements)
        done = sum(min(len(rows[network_key(each)]), passes) for each in networks)
        progress = _Progress(self.watch, done, passes * len(networks))
        for turn in range(passes):
            missing = [each for each in networks if len(rows[network_key(each)]) <= turn]
            for company in companies(missing, turn):
                progress.tell(f"metering {company[0].name} and {len(company) - 1} more")
                if before is not None:
                    before(company)
                workloads = [(each.workload, each.layers) for each in company]
                measured = measure(
                    self.device,
                    workloads,
                    self.nominal,
                    self.effort,
                    known=self.ledger.measurements,
                    keep=self.ledger.append,
                )
                for network, row in zip(company, measured, strict=True):
                    rows[network_key(network)].append(row)
                progress.done += len(company)
        return [tuple(rows[network_key(each)][:passes]) for each in networks]

    def few_steps(self, networks: Sequence[Network], steps: int = STEPS) -> list[Measurement]:
        """A few steps of each, as one would take them by hand."""
        rows = rows_by_network(self.ledger.measurements)
        missing = [each for each in networks if not rows[network_key(each)]]
        progress = _Progress(self.watch, len(networks) - len(missing), len(networks))
        for network in missing:
            progress.tell(f"{steps} steps of {network.name}")
            row = extrapolate(self.device, network.workload, network.layers, steps)
            self.ledger.append(row)
            rows[network_key(network)].append(row)
            progress.done += 1
        return [rows[network_key(each)][0] for each in networks]


def meter_unseen(
    metering: Metering, networks: Sequence[Network], steps: int = STEPS
) -> list[Metered]:
    """Meter each twice, and a few steps of each right before the first time."""
    short = Metering(metering.device, metering.nominal, Memory())

    def take_few_steps(company: Sequence[Network]) -> None:
        short.few_steps(company, steps)

    pairs = metering.meter(networks, passes=2, before=take_few_steps)
    return [
        Metered(network, first, second, few_steps)
        for network, (first, second), few_steps in zip(
            networks, pairs, short.few_steps(networks, steps), strict=True
        )
    ]


def single_stages(layers: Sequence[Layer], levels: int | None = None) -> list[Network]:
    """Forward, backward and update of each kind alone, at a few widths: NeuralPower's networks."""
    kinds = {layer.kind.name for layer in layers}
    return [
        Network(f"{workload.stage} of {alone[0].kind.operation} alone", workload, alone)
        for workload, alone in isolated_workloads(plan_variants(layers), kinds, levels)
    ]


def companies(networks: Sequence[Network], turn: int) -> Iterator[list[Network]]:
    """All of them by a few at a time, in other company every turn."""
    shuffled = list(networks)
    random.Random(turn).shuffle(shuffled)
    for start in range(0, len(shuffled), TOGETHER):
        yield shuffled[start : start + TOGETHER]


def rows_by_network(
    rows: Iterable[Measurement],
) -> defaultdict[WorkloadIdentity, list[Measurement]]:
    """The rows of each network, oldest first, by `network_key`."""
    grouped: defaultdict[WorkloadIdentity, list[Measurement]] = defaultdict(list)
    for row in rows:
        grouped[workload_identity(row.stage, row.layers)].append(row)
    return grouped


def network_key(network: Network) -> WorkloadIdentity:
    """What makes two networks the same one to a ledger: their stage and their layers, in order."""
    return workload_identity(network.workload.stage, network.layers)


class _Progress:
    """How far a metering is, and how long the rest takes at its pace."""

    def __init__(self, watch: Watch, done: int, total: int) -> None:
        self.watch, self.done, self.total = watch, done, total
        self.kept, self.start = done, time.monotonic()

    def tell(self, doing: str) -> None:
        metered = self.done - self.kept
        pace_s = (time.monotonic() - self.start) / metered if metered else NETWORK_S
        self.watch(Event(doing, self.done, self.total, pace_s * (self.total - self.done)))
