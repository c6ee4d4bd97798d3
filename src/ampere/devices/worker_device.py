"""Devices on which a worker process runs the steps, whether it runs here or far away.

    here                                   there (or here)
    WorkerDevice  ── requests, lines of JSON ──>  devices.worker  builds, runs bursts,
                  <── answers ─────────────────                   reads its meter
    a meter that is `outside` (a plug, a lab's log, a phone's battery) is read on this side

A worker that ends takes one workload with it, and the next request starts another. A connection
that is lost is nobody's fault: it is made again, what was loaded is loaded again, and the burst
under way is repeated; its first answer never arrived, so nothing counts twice.

Answers are data of somebody else's: they are read field by field, and one that cannot be ends the
worker. Which meter is opened, and on which side, is decided once, from the user's words.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

from ampere.core.boundary.fields import Fields
from ampere.core.fingerprint import Fingerprint
from ampere.core.layers import Features, Work
from ampere.core.training import MOST_BATCH
from ampere.core.types import Json
from ampere.core.workloads import REFERENCE, ModelSpec, Settings, Workload
from ampere.devices.base import Burst, Loaded
from ampere.devices.introduction import Introduction, read_resolution
from ampere.devices.outside_meter import OutsideMeter, is_outside
from ampere.devices.worker_process import NoAnswer, WorkerProcess
from ampere.errors import DataError, DeviceError, FaultyReading, MeasurementFailed, MeterFault
from ampere.frameworks.models import framework_of, layers_of, with_features
from ampere.frameworks.runtimes import refuse_foreign, runtime_entry
from ampere.meters.base import AUTO, Provenance, Resolution
from ampere.meters.registry import meter_classes
from ampere.meters.surroundings import Evidence, Watched

START_S = 120.0  # importing a framework from a cold disk
RECONNECT_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)  # pauses before each try
LEAST_STEP_J, LEAST_STEP_S = 1e-15, 1e-9  # no training step is done with less
MOST_J, MOST_S = 1e12, 1e7  # of a burst
MOST_WORKERS = 10**5  # of a loader

LOG = logging.getLogger("ampere")
T = TypeVar("T")
WorkerT = TypeVar("WorkerT", bound="WorkerDevice")


class ConnectionLost(DeviceError):
    """The device is there, perhaps, but nothing is heard of it."""


class WorkerDevice(ABC):
    """A device in certain settings under a certain meter.

    Args:
        settings: How the framework runs there.
        meter: A meter by name; `auto` is the best one there.
        meter_settings: Its settings.
        patience_s: How long an answer may take, beyond what the steps themselves take.
    """

    builds_models = False  # whether it has the user's code; else models are sent as layers
    alone = True  # whether its worker keeps others off the device

    def __init__(
        self,
        settings: Settings | None = None,
        meter: str = AUTO,
        meter_settings: Mapping[str, float | str] | None = None,
        patience_s: float = 120.0,
    ) -> None:
        self._settings = settings or Settings()
        runtime_entry(self._settings.runtime)  # one that nobody knows is refused now
        self._meter: Mapping[str, Json] = {"name": meter, "settings": dict(meter_settings or {})}
        self._outside = OutsideMeter(meter, self._meter["settings"]) if is_outside(meter) else None
        # Looked up before any worker speaks: what it says then imports nothing.
        self._addresses = {name: each.addresses for name, each in meter_classes().items()}
        self._patience_s = patience_s
        self._name = uuid.uuid4().hex  # by which its workers know that they have one master
        self._process: WorkerProcess | None = None
        self._introduced: Introduction | None = None  # by the first worker
        self._resolution = Resolution()
        self._workloads: dict[int, Workload] = {}
        self._worker_handles: dict[int, int] = {}  # by ours; gone with the worker
        self._pace_s: dict[int, float] = {}  # seconds that a step takes
        self._zero_s = time.time() - time.monotonic()  # a clock that is set meanwhile does no harm

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """What starts a worker and talks to it on standard input and output."""

    def _written(self, workload: Workload) -> Json:
        """A workload as its worker reads it."""
        return workload.to_json()

    def _why_lost(self, code: int | None, complaint: str) -> str | None:
        """What became of the connection; None if it holds, and the worker itself ended or hangs.

        Args:
            code: What the command ended with, None if it had not.
            complaint: The last line of its standard error.
        """
        return None

    @property
    def fingerprint(self) -> Fingerprint:
        """Hardware, settings, framework and meter."""
        introduction = self._introduction
        addresses = self._addresses.get(introduction.meter["name"], ())
        identity = introduction.identity_in(self._settings, addresses)
        described = self._persist(self._describe)
        introduction.refuse_change(described.identity)
        return replace(described, identity=identity)

    @property
    def provenance(self) -> Provenance:
        """Where the meter's joules come from."""
        return self._introduction.provenance

    @property
    def meter(self) -> Mapping[str, Json]:
        """The meter's name and settings."""
        return self._introduction.meter

    @property
    def resolution(self) -> Resolution:
        """How finely the meter tells, as far as it has shown."""
        if self._introduced is None:
            self._open()
        return self._outside.resolution if self._outside else self._resolution

    def load(self, workload: Workload) -> Loaded:
        """Build a workload in the worker."""
        if workload.model is not None and not self._builds(workload.model):
            workload = replace(workload, layers=layers_of(workload.model), model=None)
        if workload.loader is not None and not self.builds_models:
            raise DeviceError("a loader is the user's code, and stays here: use --device local")
        refuse_foreign(workload.layers, self._settings.runtime)
        handle = 1 + max(self._workloads, default=0)
        self._workloads[handle] = workload
        try:
            workers, samples = self._persist(lambda: self._build(handle))
            return Loaded(handle, *_counted(workload), workers, samples)
        except BaseException:
            self.unload(handle)
            raise

    def _builds(self, spec: ModelSpec) -> bool:
        """Whether the worker has a model's own code, and a runtime of its framework to run it."""
        runtime = runtime_entry(self._settings.runtime)
        own_code = self.builds_models and runtime.builds_models
        return own_code and framework_of(spec.model) == runtime.name

    def burst(self, handle: int, steps: int) -> Burst:
        """Run steps in the worker; a workload that was lost with it is built again."""
        return self._persist(lambda: self._burst(handle, steps))

    def unload(self, handle: int) -> None:
        """Free the memory that a workload takes."""
        self._workloads.pop(handle, None)
        self._pace_s.pop(handle, None)
        worker_handle = self._worker_handles.pop(handle, None)
        if worker_handle is not None and self._process is not None:
            # A worker that ends instead takes the workload with it.
            with contextlib.suppress(ConnectionLost, MeasurementFailed):
                self._ask(do="unload", handle=worker_handle)

    def watch(self, time_s: float) -> Watched:
        """Let the worker do nothing for a while, and say what else ran there."""
        return self._persist(lambda: self._watch(time_s))

    def now(self) -> float:
        """This side's clock, as it was when the device was made, and the seconds since then."""
        return self._zero_s + time.monotonic()

    def close(self) -> None:
        """End the worker, and let go of the meter."""
        self._hang_up()
        if self._outside is not None:
            self._outside.close()

    def __enter__(self: WorkerT) -> WorkerT:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def _introduction(self) -> Introduction:
        """What the first worker said of itself: later ones must say the same."""
        return self._introduced or self._open()

    def _watch(self, time_s: float) -> Watched:
        answer = self._ask(time_s, do="watch", time_s=time_s)
        with self._reading():
            return Watched.from_fields(answer)

    def _describe(self) -> Fingerprint:
        try:
            described = self._ask(do="describe")
        except MeasurementFailed:  # it ended while nothing ran: ask the next one
            described = self._ask(do="describe")
        with self._reading():
            return Fingerprint(described.texts("identity"), described.texts("conditions", {}))

    def _build(self, handle: int) -> tuple[int, int | None]:
        """Let the worker build it; of a loader, its workers and the samples of a batch."""
        answer = self._ask(do="load", workload=self._written(self._workloads[handle]))
        with self._reading():
            worker_handle = answer.whole("handle")
            if worker_handle in self._worker_handles.values():
                answer.refuse("handle", "that of no other workload")
            workers = answer.whole("workers", 0, most=MOST_WORKERS)
            samples = answer.whole("samples", None, least=1, most=MOST_BATCH)
        self._worker_handles[handle] = worker_handle
        return workers, samples

    def _burst(self, handle: int, steps: int) -> Burst:
        if handle not in self._worker_handles:
            self._build(handle)
            with contextlib.suppress(MeterFault):  # a step to warm up, which may be too short
                self._run(handle, 1)
        return self._run(handle, steps)

    def _run(self, handle: int, steps: int) -> Burst:
        more_s = 3 * steps * self._pace_s.get(handle, 0.0)
        worker_handle = self._worker_handles[handle]
        before = self._outside.read() if self._outside else None
        start_s = time.monotonic()
        try:
            answer = self._ask(more_s, do="burst", handle=worker_handle, steps=steps)
            time_s = self._told(answer, "time_s", LEAST_STEP_S * steps, MOST_S)
            if self._outside is not None and before is not None:
                window = self._outside.energy_since(before, time_s)
                energy_j, samples = window.energy_j, window.samples
            else:
                energy_j = self._told(answer, "energy_j", LEAST_STEP_J * steps, MOST_J)
                with self._reading():
                    samples = answer.whole("samples", None)
        except MeterFault:  # the steps were run all the same
            self._pace_s[handle] = (time.monotonic() - start_s) / steps
            raise
        # No longer than it took here: nobody is to be waited for because of what he says.
        self._pace_s[handle] = min(time_s, time.monotonic() - start_s) / steps
        if self._outside is None:
            with self._reading():
                self._resolution = read_resolution(answer)
        with self._reading():
            told = answer.inner("evidence", {})
            evidence = Evidence.from_fields(told) if told.row else None
        return Burst(steps, energy_j, time_s, samples, evidence)

    def _told(self, answer: Fields, name: str, least: float, most: float) -> float:
        """Joules or seconds of a burst; what cannot be true is the meter's fault."""
        with self._reading():
            return answer.number(name, least=least, most=most, beyond=FaultyReading)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Read an answer; one that cannot be ends the worker."""
        try:
            yield
        except FaultyReading as error:
            raise MeterFault(f"the meter cannot be right: {error}") from None
        except DataError as error:
            self._hang_up()
            raise DeviceError(f"the worker said what cannot be: {error}") from None

    def _persist(self, action: Callable[[], T]) -> T:
        """Do something that a lost connection does not hinder for long."""
        for pause_s in RECONNECT_S:
            try:
                return action()
            except ConnectionLost as error:
                if self._introduced is None:  # it never held
                    raise
                LOG.warning("%s: trying again in %.0f s", error, pause_s)
                time.sleep(pause_s)
        try:
            return action()
        except ConnectionLost as error:
            raise DeviceError(
                f"{error}, and stays so; everything measured so far is kept,"
                " the same command goes on from there"
            ) from None

    def _open(self) -> Introduction:
        """Start the worker unless it runs, and remember what it said of itself."""
        if self._process is not None and self._introduced is not None:
            return self._introduced
        if self._outside is not None:
            self._outside.open()
        self._process = WorkerProcess(self._command())
        try:
            introduction = self._introduce()
            if self._introduced is not None:
                self._introduced.refuse_another(introduction)
        except BaseException as error:
            self._hang_up()  # or the next request would find it half open
            if isinstance(error, MeasurementFailed):
                raise DeviceError(f"the worker process cannot start: {error}") from None
            raise
        self._introduced = introduction
        return introduction

    def _introduce(self) -> Introduction:
        """What a new worker is, with its meter open."""
        opened = self._exchange(
            START_S,
            do="open",
            meter=None if self._outside else self._meter,
            settings=asdict(self._settings),
            master=self._name if self.alone else "",
        )
        outside = self._outside.provenance if self._outside else None
        with self._reading():
            introduction = Introduction.from_answer(opened, self._meter, outside)
        self._resolution = introduction.resolution
        described = self._exchange(self._patience_s, do="describe")
        with self._reading():
            return replace(introduction, identity=described.texts("identity"))

    def _hang_up(self) -> None:
        process, self._process = self._process, None
        self._worker_handles.clear()
        if process is not None:
            process.end()

    def _ask(self, more_s: float = 0.0, **request: Any) -> Fields:
        self._open()
        return self._exchange(self._patience_s + more_s, **request)

    def _exchange(self, patience_s: float, **request: Any) -> Fields:
        process = self._process
        if process is None:
            raise DeviceError("the worker process is not running")
        try:
            return process.ask(patience_s, request)
        except NoAnswer as silence:
            lost = self._why_lost(silence.exit_code, silence.complaint)
            raise ConnectionLost(lost) if lost else silence.as_failure() from None
        finally:
            if process.ended:
                self._hang_up()


def _counted(
    workload: Workload,
) -> tuple[tuple[Features, ...], tuple[tuple[Work, ...], ...]]:
    """What is known of its layers, counted on this side; nobody asks it of the reference."""
    if not workload.layers or workload.stage == REFERENCE.stage:
        return (), ()
    layers = [with_features(layer) for layer in workload.layers]
    return tuple(layer.features for layer in layers), tuple(layer.work for layer in layers)
