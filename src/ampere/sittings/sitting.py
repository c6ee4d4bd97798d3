"""Sitting: networks that are measured together, burst by burst in turns.

    round 1:  reference  A  B  C        A, B, C: the workloads in hand, a burst of steps each
    round 2:  reference  A  B  C        reference: a small fixed network
    ...                                 each until its spread is under the target, or the cap
              reference

A shared or warm machine slows down and speeds up by 15 % within a minute and within a tenth of a
second: so bursts are short, there are many of them, and each workload has some at every moment. The
reference is the witness of what they have in common (see drift.py).

A round in which the device worked for others is taken again when it is quiet (see quiet.py), and so
is one in which the reference is more than 30 % off its own middle. Each workload is done, and its
row handed on, when it has settled; the others go on.
"""

from __future__ import annotations

import math
import statistics
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ampere.core.fingerprint import UNKNOWN, threads_of
from ampere.core.workloads import REFERENCE
from ampere.devices.base import Burst, Device
from ampere.errors import AmpereError, DeviceError, MeasurementFailed
from ampere.records.measurement import Measurement
from ampere.sittings.bursts import take_burst, warm_up
from ampere.sittings.drift import AFAR, Following
from ampere.sittings.effort import Effort
from ampere.sittings.limit import Limit
from ampere.sittings.quiet import Guard
from ampere.sittings.reference import REFERENCE_WARMUP_S, Reference
from ampere.sittings.run import Beat, Circumstances, Drift, Run

LEAST_ROUNDS = 3  # that make a row, when there is no time for more
SET_S = 1.0  # by which a clock must be off its course, to count as one that was set


@dataclass
class Sitting:
    """Workloads in hand on a device, and how far they are.

    Args:
        device: Where they run.
        runs: The workloads.
        nominal: The scale that they are measured by.
        effort: How carefully; its bursts suit the meter.
        following: How workloads have followed the reference so far, in joules and in seconds.
        limit: The time that there is.
        keep: Who gets each row as soon as it is whole, and the number of its run.
    """

    device: Device
    runs: Sequence[Run]
    nominal: Reference
    effort: Effort
    following: tuple[Following, Following]
    limit: Limit
    keep: Callable[[int, Measurement], None]
    _open: list[Run] = field(default_factory=list, init=False)
    _references: list[Burst] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._guard = Guard(self.device, self.effort, self.limit)
        self._clock_s = time.time() - time.monotonic()
        self._circumstances = Circumstances(
            sitting=uuid.uuid4().hex[:8], whole_machine=self._guard.whole_machine
        )
        self._hiccups = 0

    def hold(self) -> None:
        """Load the workloads and run rounds until all are done, or the time is up.

        Raises:
            Busy: The device was busy with other work for too long; rows that are whole are kept.
        """
        reference: int | None = None
        try:
            self._note_device()
            self._open = [run for run in self.runs if self._load(run)]
            if self._open:
                reference = self.device.load(REFERENCE).handle
                self._run_rounds(reference)
        except (KeyboardInterrupt, AmpereError):
            self._keep_whole(self.effort.min_rounds)  # what is whole stays
            raise
        finally:
            self._unload([run.handle for run in self.runs] + [reference])

    def _load(self, run: Run) -> bool:
        """Build a workload and warm it up; one that cannot be has its row at once."""
        if self.limit.left_s <= 0:
            return False
        run.load(self.device, self.effort)
        if run.failed is not None:
            self._conclude(run)
        return run.failed is None

    def _run_rounds(self, reference: int) -> None:
        try:
            steps = warm_up(self.device, reference, self.effort.burst_s, REFERENCE_WARMUP_S)
            before, _ = take_burst(self.device, reference, steps)
            while self._open and self.limit.left_s > 0:
                taken = [(run, each) for run in self._open if (each := run.burst(self.device))]
                self._close(run for run in self._open if run.failed is not None)
                after, faults = take_burst(self.device, reference, steps)
                self.runs[0].faults += faults  # somebody has to bear them
                bursts = [burst for _, (burst, _) in taken]
                if disturbed := self._guard.disturbed([*bursts, after]):
                    self._take_back(disturbed - 1)
                    self._guard.wait()
                    before, _ = take_burst(self.device, reference, steps)
                    continue
                if not self._is_hiccup(before, after):
                    self._add(taken, before, after)
                before = after
        except MeasurementFailed as error:
            raise DeviceError(f"the reference workload failed: {error}") from None
        if self._open:
            self._note_device()
            self._keep_whole(min(LEAST_ROUNDS, self.effort.min_rounds))

    def _add(
        self, taken: Sequence[tuple[Run, tuple[Burst, float]]], before: Burst, after: Burst
    ) -> None:
        """One more round of everybody; who has settled is done."""
        self._references.append(after)
        for run, (burst, at) in taken:
            run.beats.append(Beat(burst, at, before, after))
        self._close(run for run in self._open if self._is_done(run))

    def _is_done(self, run: Run) -> bool:
        if len(run.beats) < self.effort.min_rounds:
            return False
        return len(run.beats) >= self.effort.max_rounds or run.is_settled(self.effort.target)

    def _close(self, runs: Iterable[Run]) -> None:
        """Conclude runs, and leave them out of the rounds that follow."""
        done = list(runs)
        if done:
            self._note_device()
        for run in done:
            self._open = [each for each in self._open if each is not run]
            self._conclude(run)

    def _take_back(self, rounds: int) -> None:
        """Rounds in which the device began to be busy, before it was noticed."""
        self._circumstances = replace(
            self._circumstances, retaken=self._circumstances.retaken + rounds + 1
        )
        for run in self._open:
            del run.beats[max(len(run.beats) - rounds, 0) :]

    def _is_hiccup(self, before: Burst, after: Burst) -> bool:
        """Whether the reference stumbled: then its round says nothing; a pace that stays does."""
        if len(self._references) < LEAST_ROUNDS or self._hiccups >= self.effort.max_rounds:
            return False
        middle_s = statistics.median(burst.time_s / burst.steps for burst in self._references)
        around_s = (before.time_s + after.time_s) / (before.steps + after.steps)
        if abs(math.log(around_s / middle_s)) <= AFAR:
            return False
        self._hiccups += 1
        self._references.append(after)
        self._take_back(0)
        return True

    def _drift(self, run: Run) -> Drift:
        """What a run is divided by, from all that is known of how workloads follow."""
        joules, seconds = self.following
        what = run.workload.stage, run.layers
        return Drift(
            joules.factor(*what, run.joules, self.nominal.energy_j),
            seconds.factor(*what, run.seconds, self.nominal.time_s),
        )

    def _conclude(self, run: Run) -> None:
        """Hand on the row of a run that is done, or has failed."""
        jump_s = time.time() - time.monotonic() - self._clock_s
        self._circumstances = replace(
            self._circumstances, clock_jumped_s=jump_s if abs(jump_s) > SET_S else 0.0
        )
        # Beside others, the reference suffers in its own way: it tells nothing of the pace then.
        loads = run.loads_beside(self._circumstances)
        alone = run.failed is None and not any(load.is_disturbing for load in loads)
        drift = self._drift(run) if alone else Drift()
        witness_s = math.fsum(burst.time_s for burst in self._references) / len(self.runs)
        row = run.conclude(self.device, drift, self.nominal, witness_s, self._circumstances)
        self.keep(next(i for i, each in enumerate(self.runs) if each is run), row)

    def _keep_whole(self, rounds: int) -> None:
        """Conclude what is left, as far as it has so many rounds."""
        while self._open:
            run = self._open.pop(0)
            if len(run.beats) >= rounds:
                self._conclude(run)

    def _note_device(self) -> None:
        """Look whether the device is still what it was; if not, nothing of the sitting is kept."""
        try:
            fingerprint = self.device.fingerprint
        except AmpereError:
            self._open = []
            raise
        source = fingerprint.conditions.get("power_source", UNKNOWN)
        known = () if source == UNKNOWN else (source,)
        sources = tuple(dict.fromkeys((*self._circumstances.power_sources, *known)))
        self._circumstances = replace(
            self._circumstances,
            device=fingerprint.id,
            threads=threads_of(fingerprint),
            power_sources=sources,
        )

    def _unload(self, handles: Sequence[int | None]) -> None:
        for handle in handles:
            if handle is not None:
                with suppress(MeasurementFailed):  # the worker went, and the workload with it
                    self.device.unload(handle)
