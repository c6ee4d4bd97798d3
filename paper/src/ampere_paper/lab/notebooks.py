"""Notebooks: where experiments get their measurements from.

A `Notebook` is a journal and the device that fills it. What stands in it is not measured again, so
an experiment that was interrupted goes on where it stopped. A `Transcript` is a journal by itself,
packed or not: it answers what stands in it, on any machine, and measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ampere.acquisition.families import Network
from ampere.acquisition.loop import Comebacks, Profiler, reference_of, resume, run_profiler
from ampere.acquisition.progress import Event, Watch, unwatched
from ampere.core.layers import Layer
from ampere.core.workloads import Workload
from ampere.devices.base import Device
from ampere.errors import NotCovered
from ampere.evaluation.metering import Metering, network_key, rows_by_network
from ampere.records.journal import Header, Journal, read_journal
from ampere.records.measurement import Measurement
from ampere.sittings.effort import Effort


class Book(Protocol):
    """A notebook, or the transcript of one."""

    @property
    def header(self) -> Header:
        """What holds for all measurements."""
        ...

    def measure(
        self, networks: Sequence[Network], passes: int = 1, effort: Effort | None = None
    ) -> list[tuple[Measurement, ...]]:
        """Each of these different networks so many times, far apart and in other company."""
        ...

    def few_steps(self, networks: Sequence[Network]) -> list[Measurement]:
        """A few steps of each, as one would take them by hand."""
        ...

    def profile(self, profiler: Profiler) -> list[Measurement]:
        """Whatever a profiler asks for, until it knows enough."""
        ...


@dataclass(frozen=True)
class Notebook:
    """A journal, and the device that fills it; a plan's effort goes before an experiment's."""

    title: str
    journal: Journal
    device: Device
    effort: Effort | None = None
    watch: Watch = unwatched

    @property
    def header(self) -> Header:
        """That of the journal."""
        return self.journal.header

    def measure(
        self, networks: Sequence[Network], passes: int = 1, effort: Effort | None = None
    ) -> list[tuple[Measurement, ...]]:
        """Measure those that the journal does not have often enough."""
        return self._metering(self.effort or effort).meter(networks, passes)

    def few_steps(self, networks: Sequence[Network]) -> list[Measurement]:
        """Take a few steps of those that the journal does not have."""
        return self._metering().few_steps(networks)

    def profile(self, profiler: Profiler) -> list[Measurement]:
        """Go on with what the profiler was told before."""
        resume(profiler, self.journal.measurements)
        run_profiler(
            profiler,
            self.device,
            self.journal,
            effort=self.effort,
            comebacks=Comebacks(0),  # the paper measures each network once
            watch=self._tell,
        )
        return self.journal.measurements

    def _metering(self, effort: Effort | None = None) -> Metering:
        nominal = reference_of(self.journal.header, self.device)
        return Metering(self.device, nominal, self.journal, effort, self._tell)

    def _tell(self, event: Event) -> None:
        self.watch(Event(f"{self.title}: {event.doing}", event.done, event.total, 0.0))


@dataclass(frozen=True)
class Transcript:
    """A journal without a device: whatever does not stand in it is not covered."""

    name: str
    header: Header
    rows: Sequence[Measurement]

    @classmethod
    def read(cls, path: Path) -> Transcript:
        """The transcript of a file.

        Raises:
            NotCovered: It is not there.
        """
        if not path.exists():
            raise NotCovered(f"{path.name} is not there, and nothing is to be measured")
        header, rows = read_journal(path)
        return cls(path.name, header, rows)

    def measure(
        self, networks: Sequence[Network], passes: int = 1, effort: Effort | None = None
    ) -> list[tuple[Measurement, ...]]:
        """Look them up."""
        rows = rows_by_network(self.rows)
        for each in networks:
            if len(rows[network_key(each)]) < passes:
                raise NotCovered(f"{self.name} lacks {each.name}, and nothing is to be measured")
        return [tuple(rows[network_key(each)][:passes]) for each in networks]

    def few_steps(self, networks: Sequence[Network]) -> list[Measurement]:
        """Look them up."""
        return [row for (row,) in self.measure(networks)]

    def profile(self, profiler: Profiler) -> list[Measurement]:
        """Whatever a profiler has asked for."""
        return list(self.rows)


def network(name: str, layers: Sequence[Layer]) -> Network:
    """Something to measure that is built from its layers."""
    return Network(name, Workload(tuple(layers)), tuple(layers))


def journal_file(journals: Path, name: str) -> Path:
    """The file of this name, or the one that gzip has made of it."""
    plain, packed = (journals / f"{name}{suffix}" for suffix in (".ampere", ".ampere.gz"))
    return packed if packed.exists() and not plain.exists() else plain
