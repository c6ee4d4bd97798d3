"""Laboratory: devices that stay open, and the notebooks of a folder.

All notebooks of a bench have one scale: what the reference workload took when the bench was first
used. To refit, nothing is opened: the same notebooks are transcripts.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ampere.acquisition.loop import open_journal
from ampere.acquisition.progress import Event, Watch, unwatched
from ampere.core.fingerprint import refuse_to_mix
from ampere.devices.base import Device
from ampere.devices.registry import AnyDevice
from ampere.errors import FingerprintError, JournalError
from ampere.meters.base import Provenance
from ampere.records.journal import Header, Journal, read_journal
from ampere_paper.lab.benches import Bench
from ampere_paper.lab.notebooks import Book, Notebook, Transcript, journal_file
from ampere_paper.lab.plans import Plan, Sizes

if TYPE_CHECKING:
    from ampere_paper.lab.trials import Trial


class Laboratory:
    """The benches of a plan, the notebooks of a folder, and the trials that were made of them."""

    def __init__(
        self, folder: Path, plan: Plan, watch: Watch = unwatched, refit: bool = False
    ) -> None:
        self.plan, self.watch, self.refit = plan, watch, refit
        self.trials: dict[tuple[str, str], Trial] = {}  # by the names of bench and family
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
            yield Transcript.read(path)
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
            return Transcript.read(path).header
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


def _refuse_to_mix(device: Device, header: Header, path: Path) -> None:
    with suppress(FingerprintError):
        refuse_to_mix(device.fingerprint, header.fingerprint)
        return
    raise FingerprintError(
        f"{path} was measured on another machine, or with other software: choose another folder, or"
        " fit what is there with --refit"
    )
