"""The process that does the work: builds workloads, runs bursts of steps, reads the meter.

It speaks JSON lines on standard input and output, one answer a request, and ends with its input:

    {"do": "open", "meter": ..., "settings": ...}   -> {"framework": ..., "threads": ..., ...}
    {"do": "describe"}                              -> {"identity": ..., "conditions": ...}
    {"do": "load", "workload": ...}                 -> {"handle": 1}, of a loader its workers, too
    {"do": "burst", "handle": 1, "steps": 20}       -> {"energy_j": ..., "time_s": ..., ...}
    {"do": "unload", "handle": 1}                   -> {}
    {"do": "watch", "time_s": 0.3}                  -> {"time_s": ..., "evidence": ..., ...}
    whatever goes wrong                             -> {"error": "OutOfMemory", "message": ...}

A request has an `id`, which its answer repeats. An error is answered by the name of its class in
`errors`; its message is for people. A crash, a hang or a lack of memory takes down this process and
nothing else. It is also what runs on other devices, whose Python may be as old as 3.8: so are all
files that it imports.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import platform
import queue
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from io import FileIO
from pathlib import Path
from typing import IO, Any

from ampere.core.fingerprint import local_fingerprint
from ampere.core.lock import is_open_in, lock_file, lock_holder, open_own
from ampere.core.workloads import IDLE_STEP_S, LOADING, REFERENCE, Settings, Workload
from ampere.devices.memory import keep_memory
from ampere.errors import AmpereError, DeviceError, MeterError, MeterFault
from ampere.frameworks.runtimes import STEP, Runtime, find_runtime
from ampere.meters.base import Meter, energy_between
from ampere.meters.calibration import calibrated
from ampere.meters.process_tree import ProcessTree
from ampere.meters.registry import choose_meter, open_meter
from ampere.meters.surroundings import Evidence, Surroundings

WAIT_S = 60.0  # for another worker on this device to end
REQUESTS = ("open", "describe", "load", "burst", "unload", "watch")
MESSAGE = 1000  # characters of an error's message


class Worker:
    """Answers requests; one method a request.

    Args:
        folder: A folder of this user's own, for the lock on the device; by default in the cache.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.meter: Meter | None = None
        self.settings = Settings()
        self.runtime: Runtime | None = None
        self.surroundings = Surroundings()
        self.idle: set[int] = set()  # handles of those that do nothing
        self.loaders: set[int] = set()  # and of those that load data, with processes of their own
        self.steps: dict[int, Callable[[], Any]] = {}
        self.lock: FileIO | None = None
        self.built = 0

    def open(
        self, meter: dict[str, Any] | None, settings: dict[str, Any], master: str = ""
    ) -> dict[str, Any]:
        """Open the meter, if it is read here, and put the settings into force.

        With the name of a master, the device is this worker's alone.
        """
        self.settings = Settings(**settings)
        self.runtime = runtime = find_runtime(self.settings.runtime)
        if master:
            self.lock = claim_device(self.folder or Path.home() / ".cache" / "ampere", master)
        framework, threads = runtime.apply(self.settings)
        answer: dict[str, Any] = {"framework": framework, "threads": threads}
        answer["freed_memory"] = keep_memory()
        if meter is None:
            return answer
        name = choose_meter(meter["name"], self.settings.accelerator)
        chosen = calibrated(name, meter["settings"])
        self.meter = open_meter(name, **chosen)
        with contextlib.suppress(MeterFault):  # any other error is better known now than later
            self.meter.read()
        return {
            **answer,
            "provenance": self.meter.provenance.value,
            "resolution": asdict(self.meter.resolution),
            "meter": {"name": name, "settings": chosen},
        }

    def describe(self) -> dict[str, Any]:
        """What this machine is, and how it is at present."""
        return local_fingerprint({}).to_json()

    def load(self, workload: dict[str, Any]) -> dict[str, Any]:
        """Build a workload; its handle is how later requests name it."""
        handle = 1 + max(self.steps, default=0)
        asked = Workload.from_json(workload)
        if asked.stage == "idle":
            self.steps[handle] = lambda: time.sleep(IDLE_STEP_S)
            self.idle.add(handle)
            return {"handle": handle}
        if asked.stage == LOADING and asked.loader is not None:
            from ampere.frameworks.batches import Batches

            batches = Batches(asked.loader)
            self.steps[handle] = batches.draw
            self.loaders.add(handle)
            return {"handle": handle, "workers": batches.workers, "samples": batches.samples}
        runtime = self._engine()
        stage = STEP if asked.stage == REFERENCE.stage else asked.stage
        if stage not in runtime.stages:
            stages = ", ".join(runtime.stages)
            raise DeviceError(f"the runtime {runtime.name} has no stage {stage!r}: it has {stages}")
        self.built += 1
        if self.built <= 2:
            # The framework stays, and what it imports when it first runs: to look for garbage in
            # all of it would take 0.15 s each time.
            gc.freeze()
        self.steps[handle] = runtime.trainer(asked, self.settings).stage(stage)
        gc.collect()  # cycles in what was unloaded since
        return {"handle": handle}

    def burst(self, handle: int, steps: int) -> dict[str, Any]:
        """Run steps, between two readings of the meter if it is read here."""
        runtime = self._engine()
        step = self.steps[handle]
        waits = self.idle | self.loaders  # for time to pass, for a disk, for others of theirs
        needs_cores = self.settings.accelerator == "cpu" and handle not in waits
        family = _family() if handle in self.loaders else None
        around, family_s = self.surroundings.look(), family.cpu_s() if family else 0.0
        gc.disable()  # a collection inside a burst would be charged to whoever it hits
        try:
            runtime.synchronise(self.settings)
            before = self.meter.read() if self.meter else None
            start_s, start_cpu_s = time.perf_counter(), time.process_time()
            for _ in range(steps):
                step()
            runtime.synchronise(self.settings)
            time_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
            after = self.meter.read() if self.meter else None
        finally:
            gc.enable()
        absent_s = max(time_s - cpu_s, 0.0) if needs_cores else None
        seen = self.surroundings.since(around)
        if family is not None:
            cpu_s = family.cpu_s() - family_s
            seen = _with_family(seen, cpu_s)
        evidence = asdict(replace(seen, cpu_s=cpu_s, absent_s=absent_s))
        if self.meter is None or before is None or after is None:
            return {"time_s": time_s, "evidence": evidence}
        window = energy_between(before, after)
        return {
            **asdict(window),
            "resolution": asdict(self.meter.resolution),
            "evidence": evidence,
        }

    def _engine(self) -> Runtime:
        """Who trains here: what was asked for when it was opened."""
        self.runtime = self.runtime or find_runtime(self.settings.runtime)
        return self.runtime

    def unload(self, handle: int) -> dict[str, Any]:
        """Forget a workload."""
        self.steps.pop(handle, None)
        self.idle.discard(handle)
        self.loaders.discard(handle)
        return {}

    def watch(self, time_s: float) -> dict[str, Any]:
        """Do nothing for a while, and say what else ran meanwhile."""
        return asdict(self.surroundings.watch(time_s))


def _family() -> ProcessTree | None:
    """This process and those that it starts, where the system tells of them."""
    with contextlib.suppress(MeterError):
        return ProcessTree()
    return None


def _with_family(seen: Evidence, family_s: float) -> Evidence:
    """What ran meanwhile, with processes that this one started as its own."""
    if seen.others_s is None:
        return seen
    return replace(seen, others_s=max(seen.others_s - (family_s - seen.cpu_s), 0.0))


def answer(worker: Worker, line: str) -> dict[str, Any]:
    """One request, one answer; whatever goes wrong becomes an answer too."""
    request = json.loads(line)
    return {"id": request.pop("id", None), **_act(worker, request.pop("do"), request)}


def _act(worker: Worker, do: str, request: dict[str, Any]) -> dict[str, Any]:
    try:
        if do not in REQUESTS:
            raise DeviceError(f"a worker does not know how to {do}")
        result: dict[str, Any] = getattr(worker, do)(**request)
        return result
    except AmpereError as error:
        return _failure(type(error).__name__, str(error))
    except MemoryError:
        return _failure("OutOfMemory", "out of memory")
    except Exception as error:
        kind = "OutOfMemory" if _lacks_memory(error) else "MeasurementFailed"
        return _failure(kind, f"{type(error).__name__}: {_line(error)}")


def _failure(kind: str, message: str) -> dict[str, Any]:
    """An error as an answer, in words that can be written: names of files need not be such."""
    return {"error": kind, "message": message[:MESSAGE].encode(errors="replace").decode()}


def _lacks_memory(error: Exception) -> bool:
    """Whether the framework ran out of memory.

    torch has a class of its own for that on GPUs, and on a processor no more than words.
    """
    text = str(error).lower()
    words = ("out of memory", "not enough memory", "allocate memory")
    return type(error).__name__ == "OutOfMemoryError" or any(each in text for each in words)


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def claim_device(folder: Path, master: str) -> FileIO:
    """Keep other workers of this user off the device: two at once would measure each other.

    An earlier worker of the same master has lost its connection, and may not know it for hours:
    it is ended. Which process that is, the kernel says; where it does not, its end is waited for.
    """
    # With its name: several devices may share a home.
    name = "".join(each if each.isalnum() else "-" for each in platform.node())
    path = folder / f"worker-{name}.lock"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = open_own(path)
    except OSError as error:
        raise DeviceError(f"{path} cannot be locked ({error.strerror}): delete it") from None
    end_s = time.monotonic() + WAIT_S
    while True:
        try:
            lock_file(file)
            break
        except BlockingIOError:
            pid = lock_holder(file)
        if pid is not None and _text(file) == f"{pid} {master}" and is_open_in(file, pid):
            _kill(pid)
        if time.monotonic() > end_s:
            file.close()
            who = "" if pid is None else f" (pid {pid})"
            raise DeviceError(
                f"another worker of ampere{who} is measuring on this device: wait until it is"
                " done, or end it"
            )
        time.sleep(0.2)
    file.truncate(0)
    file.seek(0)
    file.write(f"{os.getpid()} {master}".encode())
    return file


def _text(file: FileIO) -> str:
    file.seek(0)
    return file.read(200).decode(errors="replace")


def _kill(pid: int) -> None:
    """End a worker, with what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)


def _listen(lines: IO[str], requests: queue.Queue[str]) -> None:
    """Hand requests on until there are no more: then nobody waits for what is under way."""
    try:
        for line in lines:
            requests.put(line)
    finally:
        _leave()


def _leave() -> None:
    """End, with all that was started here."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def main(folder: Path | None = None) -> None:
    """Serve requests until standard input ends."""
    with contextlib.suppress(OSError, AttributeError):  # it leads a group, or there are none
        os.setpgid(0, 0)
    # Whatever a user's model prints must not end up between our answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    # Nor may it read our requests; and a process that is forked while a thread of ours waits for
    # the next one would wait for ever to close standard input, as a DataLoader's workers do.
    lines = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with contextlib.suppress(OSError):  # if memory runs out, this process is the one to go
        Path("/proc/self/oom_score_adj").write_text("1000")
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(lines, requests), daemon=True).start()
    worker = Worker(folder)
    while True:
        line = json.dumps(answer(worker, requests.get())) + "\n"
        try:
            answers.write(line)
        except OSError:  # nobody listens
            _leave()


if __name__ == "__main__":
    main()
