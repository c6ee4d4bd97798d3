"""Laboratory: devices that stay open, and notebooks that are gone on with.

A `Notebook` is a journal and the device that fills it. What stands in it is not measured again, so
an experiment that was interrupted goes on where it stopped. All notebooks of a bench have one
scale: what the reference workload took when the bench was first used. A `Transcript` is a journal
by itself, packed or not: it answers what stands in it, on any machine, and measures nothing.
"""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ampere.acquisition.effort import Effort
from ampere.acquisition.families import Network
from ampere.acquisition.loop import Profiler, open_journal, reference_of, resume, run_profiler
from ampere.acquisition.measure import measure
from ampere.acquisition.progress import Event, Watch, unwatched
from ampere.core.fingerprint import refuse_to_mix
from ampere.core.layers import Layer
from ampere.core.workloads import Workload, WorkloadIdentity, workload_identity
from ampere.devices.base import Device
from ampere.devices.registry import AnyDevice
from ampere.errors import FingerprintError, JournalError, NotCovered
from ampere.evaluation.extrapolation import extrapolate
from ampere.meters.base import Provenance
from ampere.records.journal import Header, Journal, read_journal
from ampere.records.measurement import Measurement
from ampere_paper.benches import Bench
from ampere_paper.plans import Plan, Sizes

if TYPE_CHECKING:
    from ampere_paper.surveys import Survey

TOGETHER = 5  # networks in hand at a time: each is corrected by what the others have in common


class Book(Protocol):
    """Where experiments get their measurements from."""

    @property
    def header(self) -> Header:
        """What holds for all of them."""
        ...

    def measure(
        self, networks: Sequence[Network], passes: int = 1, effort: Effort | None = None
    ) -> list[tuple[Measurement, ...]]:
        """Each of these different networks so many times, far apart and in another company."""
        ...

    def extrapolate(self, networks: Sequence[Network]) -> list[Measurement]:
        """A few steps of each, as one would take them by hand."""
        ...

    def profile(self, profiler: Profiler) -> list[Measurement]:
        """Whatever a profiler asks for, until it knows enough."""
        ...


@dataclass(frozen=True)
class Notebook:
    """A journal, and the device that fills it."""

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
        known = _by_network(self.journal.measurements)
        nominal = reference_of(self.journal.header, self.device)
        for turn in range(passes):
            missing = [each for each in networks if len(known[_key(each)]) <= turn]
            random.Random(turn).shuffle(missing)
            for start in range(0, len(missing), TOGETHER):
                batch = missing[start : start + TOGETHER]
                self._say(batch[0].name, start, len(missing))
                work = [(each.workload, each.layers) for each in batch]
                rows = measure(self.device, work, nominal, self.effort or effort)
                for each, row in zip(batch, rows, strict=True):
                    self.journal.append(row)
                    known[_key(each)].append(row)
        return [tuple(known[_key(each)][:passes]) for each in networks]

    def extrapolate(self, networks: Sequence[Network]) -> list[Measurement]:
        """Take a few steps of those that the journal does not have."""
        known = _by_network(self.journal.measurements)
        for at, each in enumerate(networks):
            if not known[_key(each)]:
                self._say(f"ten steps of {each.name}", at, len(networks))
                row = extrapolate(self.device, each.workload, each.layers)
                self.journal.append(row)
                known[_key(each)].append(row)
        return [known[_key(each)][0] for each in networks]

    def profile(self, profiler: Profiler) -> list[Measurement]:
        """Go on with what the profiler was told before."""
        resume(profiler, self.journal.measurements)
        run_profiler(
            profiler, self.device, self.journal, effort=self.effort, watch=self._watch_profiler
        )
        return self.journal.measurements

    def _watch_profiler(self, event: Event) -> None:
        self._say(event.doing, event.done, event.total)

    def _say(self, doing: str, done: int, total: int) -> None:
        self.watch(Event(f"{self.title}: {doing}", done, total, 0.0))


@dataclass(frozen=True)
class Transcript:
    """A journal without a device: whatever does not stand in it is not covered."""

    name: str
    header: Header
    rows: Sequence[Measurement]

    def measure(
        self, networks: Sequence[Network], passes: int = 1, effort: Effort | None = None
    ) -> list[tuple[Measurement, ...]]:
        """Look them up."""
        known = _by_network(self.rows)
        for each in networks:
            if len(known[_key(each)]) < passes:
                raise NotCovered(f"{self.name} lacks {each.name}, and nothing is to be measured")
        return [tuple(known[_key(each)][:passes]) for each in networks]

    def extrapolate(self, networks: Sequence[Network]) -> list[Measurement]:
        """Look them up."""
        return [row for (row,) in self.measure(networks)]

    def profile(self, profiler: Profiler) -> list[Measurement]:
        """Whatever a profiler has asked for."""
        return list(self.rows)


class Laboratory:
    """The benches of a plan, and the notebooks of a folder; transcripts of them to refit."""

    def __init__(
        self, folder: Path, plan: Plan, watch: Watch = unwatched, refit: bool = False
    ) -> None:
        self.plan, self.watch, self.refit = plan, watch, refit
        self.surveys: dict[tuple[str, str], Survey] = {}
        self._journals = folder / "journals"
        self._journals.mkdir(parents=True, exist_ok=True)
        self._open: dict[str, AnyDevice] = {}
        self._stack = ExitStack()

    @property
    def benches(self) -> tuple[Bench, ...]:
        """All benches of the plan."""
        return self.plan.benches

    def sizes(self, bench: Bench) -> Sizes:
        """How much is measured on a bench."""
        return self.plan.sizes[bench.name]

    def provenance(self, bench: Bench) -> Provenance:
        """What the joules of a bench are."""
        return self._scale(bench).provenance

    @contextmanager
    def notebook(self, bench: Bench, name: str, model: str | None = None) -> Iterator[Book]:
        """The notebook of this name, open; `model` is what it will be a profile of."""
        path = journal_file(self._journals, f"{bench.name}-{name}")
        if self.refit:
            yield _transcript(path)
            return
        if path.suffix == ".gz":
            raise JournalError(f"{path} is packed: fit it with --refit, or gunzip it to go on")
        header = replace(self._scale(bench), model=model)
        with Journal.open(path, header) as journal:
            device = self._device(bench, f"{name} {len(journal.measurements)}")
            _refuse_to_mix(device, journal.header, path)
            title = f"{bench.name} {name}"
            yield Notebook(title, journal, device, self.sizes(bench).effort, self.watch)

    def _scale(self, bench: Bench) -> Header:
        """What holds for all notebooks of a bench; made when it is first used."""
        path = journal_file(self._journals, bench.name)
        if self.refit:
            return _transcript(path).header
        if path.exists():
            return read_journal(path)[0]
        self.watch(Event(f"{bench.name}: the reference workload", 0, 1, 0.0))
        effort = self.sizes(bench).effort
        journal, _ = open_journal(path, self._device(bench, "scale"), effort=effort)
        journal.close()
        return journal.header

    def _device(self, bench: Bench, use: str) -> AnyDevice:
        """A device that stays open, or a simulated one, cool and with noise of its own.

        Noise is a function of the seed and the simulated clock: without a seed for each use, what
        is measured again would be the same to the last bit.
        """
        if bench.simulated:
            return bench.open(zlib.crc32(use.encode()))
        if bench.name not in self._open:
            device = bench.open()
            self._stack.callback(device.close)
            self._open[bench.name] = device
        return self._open[bench.name]

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()


def journal_file(journals: Path, name: str) -> Path:
    """The file of this name, or the one that gzip has made of it."""
    plain, packed = (journals / f"{name}{suffix}" for suffix in (".ampere", ".ampere.gz"))
    return packed if packed.exists() and not plain.exists() else plain


def _transcript(path: Path) -> Transcript:
    if not path.exists():
        raise NotCovered(f"{path.name} is not there, and nothing is to be measured")
    return Transcript(path.name, *read_journal(path))


def network(name: str, layers: Sequence[Layer]) -> Network:
    """Something to measure that is built from its layers."""
    return Network(name, Workload(tuple(layers)), tuple(layers))


def _refuse_to_mix(device: Device, header: Header, path: Path) -> None:
    with suppress(FingerprintError):
        refuse_to_mix(device.fingerprint, header.fingerprint)
        return
    raise FingerprintError(
        f"{path} was measured on another machine, or with other software: choose another folder, or"
        " fit what is there with --refit"
    )


def _by_network(rows: Sequence[Measurement]) -> dict[WorkloadIdentity, list[Measurement]]:
    found: dict[WorkloadIdentity, list[Measurement]] = defaultdict(list)
    for row in rows:
        found[workload_identity(row.stage, row.layers)].append(row)
    return found


def _key(network: Network) -> WorkloadIdentity:
    return workload_identity(network.workload.stage, network.layers)
