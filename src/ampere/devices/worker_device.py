"""Devices on which a worker process runs the steps, whether it runs here or far away.

    here                                   there (or here)
    WorkerDevice  ── requests, lines of JSON ──>  devices.worker  builds, runs bursts,
                  <── answers ─────────────────                   reads its meter
    a meter that is `outside` (a plug, a lab's log, a phone's battery) is read on this side

A worker that ends takes one workload with it, and the next request starts another. A connection
that is lost is nobody's fault: it is made again, what was loaded is loaded again, and the burst
under way is repeated; its first answer never arrived, so nothing counts twice.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import IO, Any, TypeVar

from ampere import errors
from ampere.core.fingerprint import Fingerprint
from ampere.core.layers import Features
from ampere.core.types import Json
from ampere.core.workloads import Settings, Workload
from ampere.devices.base import Burst, Loaded
from ampere.errors import AmpereError, DeviceError, MeasurementFailed, MeterFault
from ampere.meters.base import AUTO, Meter, Provenance, Resolution, energy_between
from ampere.meters.registry import meter_classes, open_meter

START_S = 120.0  # importing a framework from a cold disk
RECONNECT_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)  # pauses before each try
END_S = 5.0  # between a worker's last word and its end

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
        self._meter: dict[str, Json] = {"name": meter, "settings": dict(meter_settings or {})}
        self._patience_s = patience_s
        self._name = uuid.uuid4().hex  # by which its workers know that they have one master
        self._process: subprocess.Popen[str] | None = None
        self._complaints: IO[bytes] | None = None
        self._answers: queue.Queue[str] = queue.Queue()
        self._loaded: dict[int, Workload] = {}
        self._remote: dict[int, int] = {}  # our handle -> the worker's, gone with the worker
        self._pace_s: dict[int, float] = {}  # seconds that a step takes
        self._opened: dict[str, Any] | None = None
        self._outside: Meter | None = None
        self._resolution = Resolution()
        # What readings of an outside meter are further apart than the burst between them.
        self._lags_s: deque[float] = deque(maxlen=31)

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """What starts a worker and talks to it on standard input and output."""

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
        opened = self._introduction
        settings = {k: str(v) for k, v in asdict(self._settings).items() if k != "threads"}
        identity = {
            **opened["identity"],
            **settings,
            "threads": str(opened["threads"]),
            "framework": str(opened["framework"]),
            "freed_memory": str(opened["freed_memory"]),
            "meter": _meter_text(opened["meter"]),
        }
        return replace(self._persist(self._describe), identity=identity)

    @property
    def provenance(self) -> Provenance:
        """Where the meter's joules come from."""
        return Provenance(self._introduction["provenance"])

    @property
    def meter(self) -> Mapping[str, Json]:
        """The meter's name and settings."""
        meter: Mapping[str, Json] = self._introduction["meter"]
        return meter

    @property
    def resolution(self) -> Resolution:
        """How finely the meter tells, as far as it has shown."""
        if self._opened is None:
            self._open()
        shown = self._outside.resolution if self._outside else self._resolution
        lag_s = statistics.median(self._lags_s) if self._lags_s else 0.0
        return replace(shown, period_s=max(shown.period_s, lag_s))

    def load(self, workload: Workload) -> Loaded:
        """Build a workload in the worker."""
        if workload.model is not None and not self.builds_models:
            from ampere.pytorch.reader import layers_of

            workload = replace(workload, layers=layers_of(workload.model), model=None)
        handle = 1 + max(self._loaded, default=0)
        self._loaded[handle] = workload
        try:
            self._persist(lambda: self._build(handle))
            return Loaded(handle, _features(workload))
        except BaseException:
            self.unload(handle)
            raise

    def burst(self, handle: int, steps: int) -> Burst:
        """Run steps in the worker; a workload that was lost with it is built again."""
        return self._persist(lambda: self._burst(handle, steps))

    def unload(self, handle: int) -> None:
        """Free the memory that a workload takes."""
        self._loaded.pop(handle, None)
        self._pace_s.pop(handle, None)
        remote = self._remote.pop(handle, None)
        if remote is not None and self._process is not None:
            # A worker that ends instead takes the workload with it.
            with contextlib.suppress(ConnectionLost, MeasurementFailed):
                self._ask(do="unload", handle=remote)

    def close(self) -> None:
        """End the worker, and let go of the meter."""
        self._hang_up()
        if self._outside is not None:
            self._resolution = self._outside.resolution
            self._outside.close()
            self._outside = None

    def __enter__(self: WorkerT) -> WorkerT:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def _introduction(self) -> dict[str, Any]:
        """What the first worker said of itself: later ones must say the same."""
        return self._open() if self._opened is None else self._opened

    def _describe(self) -> Fingerprint:
        try:
            return Fingerprint.from_json(self._ask(do="describe"))
        except MeasurementFailed:  # it ended while nothing ran: ask the next one
            return Fingerprint.from_json(self._ask(do="describe"))

    def _build(self, handle: int) -> None:
        answer = self._ask(do="load", workload=self._loaded[handle].to_json())
        self._remote[handle] = answer["handle"]

    def _burst(self, handle: int, steps: int) -> Burst:
        if handle not in self._remote:
            self._build(handle)
            with contextlib.suppress(MeterFault):  # a step to warm up, which may be too short
                self._run(handle, 1)
        return self._run(handle, steps)

    def _run(self, handle: int, steps: int) -> Burst:
        more_s = 3 * steps * self._pace_s.get(handle, 0.0)
        before = self._outside.read() if self._outside else None
        start_s = time.monotonic()
        try:
            answer = self._ask(more_s, do="burst", handle=self._remote[handle], steps=steps)
        except MeterFault:  # the steps were run all the same
            self._pace_s[handle] = (time.monotonic() - start_s) / steps
            raise
        time_s: float = answer["time_s"]
        self._pace_s[handle] = time_s / steps
        if self._outside is None or before is None:
            self._resolution = Resolution(**answer["resolution"])
            return Burst(steps, answer["energy_j"], time_s)
        energy_j, apart_s = energy_between(before, self._outside.read())
        self._lags_s.append(abs(apart_s - time_s))
        return Burst(steps, energy_j, time_s)

    def _persist(self, action: Callable[[], T]) -> T:
        """Do something that a lost connection does not hinder for long."""
        for pause_s in RECONNECT_S:
            try:
                return action()
            except ConnectionLost as error:
                if self._opened is None:  # it never held
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

    def _open(self) -> dict[str, Any]:
        """Start the worker unless it runs, and remember what it said of itself."""
        if self._process is not None and self._opened is not None:
            return self._opened
        driver = meter_classes().get(self._meter["name"])
        if driver is not None and driver.outside and self._outside is None:
            self._outside = open_meter(self._meter["name"], **self._meter["settings"])
        self._start()
        try:
            opened = self._introduce()
            # A meter learns how finely it tells, so that is no part of what must stay.
            self._resolution = Resolution(**opened.pop("resolution", {}))
            if self._opened is not None:
                _refuse_another(self._opened, opened)
        except BaseException as error:
            self._hang_up()  # or the next request would find it half open
            if isinstance(error, MeasurementFailed):
                raise DeviceError(f"the worker process cannot start: {error}") from None
            raise
        self._opened = opened
        self._meter = opened["meter"]  # what `auto` was once, it stays
        return opened

    def _introduce(self) -> dict[str, Any]:
        """What a new worker is, with its meter open."""
        opened = self._exchange(
            START_S,
            do="open",
            meter=None if self._outside else self._meter,
            settings=asdict(self._settings),
            master=self._name if self.alone else "",
        )
        if self._outside is not None:
            opened.update(meter=self._meter, provenance=self._outside.provenance.value)
        described = self._exchange(self._patience_s, do="describe")
        return {**opened, "identity": described["identity"]}

    def _start(self) -> None:
        command = self._command()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 (until we hang up)
        try:
            # A session of its own: Ctrl-C reaches only us, and we decide what becomes of it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            self._complaints.close()
            raise DeviceError(f"{command[0]} cannot be run: {error.strerror}") from None
        self._answers = queue.Queue()
        reader = threading.Thread(
            target=_pump, args=(self._process.stdout, self._answers), daemon=True
        )
        reader.start()

    def _hang_up(self) -> None:
        process, self._process = self._process, None
        self._remote.clear()
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, self._complaints):
            with contextlib.suppress(OSError):  # what was not sent yet never will be
                if stream is not None:
                    stream.close()

    def _ask(self, more_s: float = 0.0, **request: Any) -> dict[str, Any]:
        self._open()
        return self._exchange(self._patience_s + more_s, **request)

    def _exchange(self, patience_s: float, **request: Any) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdin is None:
            raise DeviceError("the worker process is not running")
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = self._answers.get(timeout=patience_s)
        except queue.Empty:
            raise self._silence(None, patience_s) from None
        except OSError:
            line = ""
        except BaseException:  # Ctrl-C: the answer under way must not be taken for the next one's
            self._hang_up()
            raise
        if not line:
            raise self._silence(_exit_code(process), patience_s)
        answer = _parsed(line)
        if answer is None:
            self._hang_up()  # who knows what its next line would answer
            raise DeviceError(f"the worker said {line[:80]!r}, which is no answer")
        if "error" in answer:
            raise _error(answer)
        return answer

    def _silence(self, code: int | None, patience_s: float) -> AmpereError:
        """Why no answer came; hangs up."""
        complaint = _last_line(self._complaints)
        self._hang_up()
        lost = self._why_lost(code, complaint)
        if lost:
            return ConnectionLost(lost)
        if code is None:
            return MeasurementFailed(f"it hung: no answer within {patience_s:.0f} s")
        return MeasurementFailed(_ending(code, complaint))


def _refuse_another(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise unless a device that came back is the one that it was."""
    changed = [key for key in before if before[key] != now.get(key)]
    if changed:
        raise DeviceError(
            f"the device came back with another {', '.join(changed)}: begin a new profile"
        )


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        answer = json.loads(line)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _error(answer: Mapping[str, Any]) -> AmpereError:
    """The error that an answer reports, of the type that it had there."""
    kind = getattr(errors, str(answer["error"]), None)
    if not (isinstance(kind, type) and issubclass(kind, AmpereError)):
        kind = MeasurementFailed
    return kind(str(answer.get("message")))


def _pump(stream: IO[str], answers: queue.Queue[str]) -> None:
    """Hand on lines as they come; an empty one says that the worker has ended."""
    with stream:
        for line in stream:
            if line.endswith("\n"):  # else it ended in the middle of a word
                answers.put(line)
    answers.put("")


def _exit_code(process: subprocess.Popen[str]) -> int | None:
    try:
        return process.wait(END_S)
    except subprocess.TimeoutExpired:
        return None


def _ending(code: int, complaint: str) -> str:
    """How a process ended; a shell on the way adds 128 to the number of a signal."""
    number = -code if code < 0 else code - 128 if 128 < code < 160 else 0
    if number == signal.SIGKILL:
        return "it was killed, most likely for lack of memory"
    if number in {int(each) for each in signal.Signals}:
        return f"it crashed with {signal.Signals(number).name}"
    why = f" ({complaint})" if complaint else ""
    return f"the worker process ended with exit code {code}{why}"


def _last_line(file: IO[bytes] | None) -> str:
    if file is None:
        return ""
    file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip()[:200] if lines else ""


def _features(workload: Workload) -> tuple[Features, ...]:
    """What is known of its layers, counted on this side."""
    if not workload.layers:
        return ()
    from ampere.pytorch.graph.counter import with_features

    return tuple(with_features(layer).features for layer in workload.layers)


def _meter_text(meter: Mapping[str, Json]) -> str:
    """A meter for the fingerprint: where it is found may change from day to day."""
    driver = meter_classes().get(meter["name"])
    given = {k: v for k, v in meter["settings"].items() if not driver or k not in driver.addresses}
    settings = ",".join(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
                        for key, value in sorted(given.items()))  # fmt: skip
    return f"{meter['name']}:{settings}" if settings else str(meter["name"])
