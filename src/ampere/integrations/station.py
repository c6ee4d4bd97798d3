"""Station: a device of a fleet at work: it trains chunks, counts joules, and keeps what it has.

    order ─▶ was it run before? ── yes ──▶ the same answer again, nothing is trained or paid twice
                 │ no
                 ▼
             network ─ checkpoint ─▶ steps ─ meter ─▶ answer + checkpoint, kept on the disk

An order is plain data: a network by a public name or by its layers, a number of steps, numbers of
a checkpoint. No code comes with it. What is trained on is synthetic, as in every workload. The
same order gives the same weights on whatever device it is run.

    FOLDER/tally.json      joules so far, and of the chunk that is being trained: survives a kill
    FOLDER/answer.json     what the last chunk came to
    FOLDER/answer.safetensors
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import read_whole, write_whole
from ampere.core.lock import lock_file, open_own
from ampere.core.program.structure import TORCH
from ampere.core.types import Json
from ampere.core.workloads import Settings, Workload
from ampere.errors import AmpereError, DataError, DeviceError
from ampere.fleet.runs.events import MOST_J, NAME
from ampere.fleet.runs.orders import (
    DONE,
    FLAT,
    INTERRUPTED,
    UNKNOWN,
    Answer,
    ChunkOrder,
    Greeting,
    failure,
)
from ampere.integrations.purses import Purse

if TYPE_CHECKING:
    from ampere.pytorch.runtime.trainer import Trainer

SLICE_S = 0.1  # between two looks at the meter
MOST_ANSWER = 2 * 2**30
TALLY, ANSWER, WEIGHTS, LOCK = "tally.json", "answer.json", "answer.safetensors", "lock"


@dataclass(frozen=True)
class Tally:
    """What a station has counted: all joules, what its battery holds, the chunk that it is at."""

    meter_j: float = 0.0
    battery_j: float | None = None
    key: str | None = None
    chunk_j: float = 0.0

    @classmethod
    def of(cls, text: bytes) -> Tally:
        """Read what was written."""
        read = Fields(parse_json(text), "tally:")
        return cls(
            meter_j=read.number("meter_j", least=0, most=MOST_J),
            battery_j=read.number("battery_j", None, least=0, most=MOST_J),
            key=read.text("key", None, most=NAME),
            chunk_j=read.number("chunk_j", least=0, most=MOST_J),
        )

    def lose(self, energy_j: float) -> Tally:
        """After so many more joules, which are no chunk's."""
        battery_j = None if self.battery_j is None else max(0.0, self.battery_j - energy_j)
        return replace(self, meter_j=self.meter_j + energy_j, battery_j=battery_j)

    def spend(self, energy_j: float) -> Tally:
        """After so many more joules of a chunk."""
        return replace(self.lose(energy_j), chunk_j=self.chunk_j + energy_j)


class Station:
    """A device at work, one chunk at a time.

    Args:
        member: Its name in the fleet.
        purse: Who counts its joules.
        folder: Where it keeps what it has; one station at a time has it.
        battery_j: What its battery holds when the folder is new; None on the mains, or where
            nobody can say.
        charged_j: What its battery holds now, after it was charged.
        reserve_j: What must stay in the battery.
        settings: How the framework runs.
    """

    def __init__(
        self,
        member: str,
        purse: Purse,
        folder: str | os.PathLike[str],
        *,
        battery_j: float | None = None,
        charged_j: float | None = None,
        reserve_j: float = 0.0,
        settings: Settings = Settings(threads=1),
    ) -> None:
        if settings.runtime != TORCH:  # what travels between devices are torch's checkpoints
            raise DeviceError(f"a worker of a fleet trains by torch, not by {settings.runtime}")
        self.member = member
        self._purse, self.folder, self._settings = purse, Path(folder), settings
        self._reserve_j = reserve_j
        self._busy = threading.Lock()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = open_own(self.folder / LOCK)
        try:
            lock_file(self._lock)
        except BlockingIOError:
            self._lock.close()
            raise DeviceError(
                f"{folder} is another worker's: end that one, or name another folder"
            ) from None
        try:
            self.tally = Tally.of(read_whole(self.folder / TALLY, own=True))
        except FileNotFoundError:
            self.tally = Tally(battery_j=battery_j)
        if charged_j is not None:
            self.tally = replace(self.tally, battery_j=charged_j)
        self._write_tally()

    def warm_up(self) -> None:
        """Load what training needs: seconds that no chunk should be charged for."""
        from ampere.pytorch import checkpoint, models  # noqa: F401
        from ampere.pytorch.runtime.trainer import apply_settings

        apply_settings(self._settings)

    def introduce(self) -> str:
        """Who this is, and what its meter and its battery show."""
        return Greeting(
            self.member,
            self._purse.fingerprint,
            self._purse.provenance,
            self.tally.meter_j,
            self.tally.battery_j,
            time.time(),
        ).text()

    def run(self, order: ChunkOrder, checkpoint: bytes | None) -> tuple[str, bytes]:
        """What a chunk came to, and the checkpoint after it: trained now, or before."""
        with self._busy:
            kept = self._kept(order.key)
            if kept is not None:
                return kept
            if self.tally.key == order.key:  # this process is not the one that was at it
                return self._keep(order, 0, INTERRUPTED, b"")
            if order.workload is None:
                return self._answer(order, 0, UNKNOWN, 0.0), b""
            return self._train(order, order.workload, checkpoint)

    def _train(
        self, order: ChunkOrder, row: Mapping[str, Json], checkpoint: bytes | None
    ) -> tuple[str, bytes]:
        import torch

        from ampere.pytorch.checkpoint import load_state, save_state
        from ampere.pytorch.runtime.trainer import apply_settings, make_trainer

        apply_settings(self._settings)
        workload = Workload.from_json(row)
        torch.manual_seed(_seed(order.job))
        trainer = make_trainer(workload, self._settings)
        if order.first and checkpoint is None:
            raise DataError(f"job {order.job} goes on at step {order.first}, without a checkpoint")
        if checkpoint is not None:
            load_state(trainer, checkpoint)
        torch.manual_seed(_seed(f"{order.job} {order.first}"))
        between_j = self._purse.begin(workload, order.routine)
        self.tally = replace(self.tally.lose(between_j), key=order.key, chunk_j=0.0)
        self._write_tally()
        done = 0
        for steps in self._slices(order):
            validated = self._step(trainer, order, order.first + done, steps)
            done += steps
            self.tally = self.tally.spend(self._purse.take(steps, validated))
            self._write_tally()
        state = DONE if done == order.steps else FLAT
        return self._keep(order, done, state, save_state(trainer) if done else b"")

    def _step(self, trainer: Trainer, order: ChunkOrder, first: int, steps: int) -> int:
        """Train some steps, and validate where that is due; returns the batches of it."""
        validated = 0
        for number in range(first, first + steps):
            trainer.step(order.routine.batches)
            due = order.routine.validated(number, number + 1)
            if due:
                trainer.validate(due)
                validated += due
        return validated

    def _slices(self, order: ChunkOrder) -> Iterator[int]:
        """Steps until the next look at the meter, as long as they can be paid."""
        done, slice_steps, began_s = 0, 1, time.monotonic()
        while done < order.steps:
            steps = min(slice_steps, order.steps - done)
            step_j = self.tally.chunk_j / done if done else 0.0
            left_j = self._left_j(order)
            if left_j <= 0 or (done and step_j > left_j):
                return
            if step_j:
                steps = max(1, min(steps, int(left_j / step_j)))
            yield steps
            done += steps
            step_s = (time.monotonic() - began_s) / done
            slice_steps = max(1, int(SLICE_S / max(step_s, 1e-6)))

    def _left_j(self, order: ChunkOrder) -> float:
        """What may still be spent on a chunk."""
        left_j = order.limit_j - self.tally.chunk_j
        if self.tally.battery_j is None:
            return left_j
        return min(left_j, self.tally.battery_j - self._reserve_j)

    # ------------------------------------------------------------------ what it keeps

    def _keep(self, order: ChunkOrder, done: int, state: str, weights: bytes) -> tuple[str, bytes]:
        """Put an answer on the disk before anybody hears it."""
        answer = self._answer(order, done, state, self.tally.chunk_j)
        write_whole(self.folder / WEIGHTS, weights, own=True)
        write_whole(self.folder / ANSWER, answer, own=True)
        return answer, weights

    def _kept(self, key: str) -> tuple[str, bytes] | None:
        try:
            text = read_whole(self.folder / ANSWER, own=True).decode()
            if Fields(parse_json(text)).text("key") != key:
                return None
            weights = read_whole(self.folder / WEIGHTS, MOST_ANSWER, own=True)
        except FileNotFoundError:
            return None
        return text, weights

    def _answer(self, order: ChunkOrder, done: int, state: str, energy_j: float) -> str:
        return Answer(
            order.key,
            state,
            done,
            energy_j,
            self.tally.meter_j,
            self.tally.battery_j,
            self._purse.provenance,
        ).text()

    def _write_tally(self) -> None:
        """In one go: a killed process leaves the last one; a power cut may leave an older one."""
        part = self.folder / f".{TALLY}.part"
        part.write_text(json.dumps(asdict(self.tally), sort_keys=True))
        os.replace(part, self.folder / TALLY)

    def close(self) -> None:
        """Let go of the folder."""
        self._lock.close()


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


# ---------------------------------------------------------------------- what is called from afar

_own: list[Station] = []


def occupy(station: Station) -> None:
    """Make a station the one of this process."""
    _own[:] = [station]


def introduce() -> str:
    """What the station of this process says of itself."""
    return _station().introduce()


def run_order(text: str, checkpoint: bytes | None) -> tuple[str, bytes]:
    """Have the station of this process run an order; what goes wrong is told as text."""
    try:
        return _station().run(ChunkOrder.of(text), checkpoint)
    except AmpereError as error:
        return failure(error), b""


def _station() -> Station:
    if not _own:
        raise DeviceError("this worker was not started by `ampere fleet join`")
    return _own[0]
