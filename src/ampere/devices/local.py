"""This machine as a device: a worker process runs the steps, so that a crash costs one variant."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ampere import errors
from ampere.devices.device import Burst, Loaded, Settings, Workload
from ampere.devices.fingerprint import Fingerprint, local_fingerprint
from ampere.errors import DeviceError, MeasurementFailed
from ampere.layers import Features, Json
from ampere.meters import Provenance, choose_meter

START_S = 120.0  # importing a framework from a cold disk


class LocalDevice:
    """This machine, in certain settings, under a certain meter."""

    def __init__(
        self,
        settings: Settings | None = None,
        meter: str = "auto",
        meter_settings: Mapping[str, float | str] | None = None,
        patience_s: float = 120.0,
    ) -> None:
        self._settings = settings or Settings()
        self._meter = {"name": choose_meter(meter), "settings": dict(meter_settings or {})}
        self._patience_s = patience_s
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()
        self._loaded: dict[int, Workload] = {}
        self._remote: dict[int, int] = {}  # our handle -> the worker's, gone with the worker
        self._opened: dict[str, Any] | None = None

    @property
    def fingerprint(self) -> Fingerprint:
        """Hardware, settings, framework and meter."""
        opened = self._open()
        settings = {k: v for k, v in asdict(self._settings).items() if k != "threads"}
        return local_fingerprint(
            {
                **{key: str(value) for key, value in settings.items()},
                "threads": str(opened["threads"]),
                "framework": str(opened["framework"]),
                "meter": _meter_text(self._meter),
            }
        )

    @property
    def provenance(self) -> Provenance:
        """Where the meter's joules come from."""
        return Provenance(self._open()["provenance"])

    @property
    def meter(self) -> Mapping[str, Json]:
        """The meter's name and settings."""
        return self._meter

    def load(self, workload: Workload) -> Loaded:
        """Build a workload in the worker."""
        answer = self._ask(do="load", workload=workload.to_json())
        handle = 1 + max(self._loaded, default=0)
        self._loaded[handle] = workload
        self._remote[handle] = answer["handle"]
        return Loaded(handle, tuple(Features(**features) for features in answer["features"]))

    def burst(self, handle: int, steps: int) -> Burst:
        """Run steps in the worker; one that was lost with an earlier worker is built again."""
        if handle not in self._remote:
            workload = self._loaded[handle].to_json()
            self._remote[handle] = self._ask(do="load", workload=workload)["handle"]
            self._ask(do="burst", handle=self._remote[handle], steps=1)
        answer = self._ask(do="burst", handle=self._remote[handle], steps=steps)
        return Burst(steps, answer["energy_j"], answer["time_s"])

    def unload(self, handle: int) -> None:
        """Free the memory that a workload takes."""
        self._loaded.pop(handle, None)
        remote = self._remote.pop(handle, None)
        if remote is not None and self._process is not None:
            self._ask(do="unload", handle=remote)

    def close(self) -> None:
        """End the worker."""
        process, self._process = self._process, None
        self._remote.clear()
        if process is not None:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def __enter__(self) -> LocalDevice:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _open(self) -> dict[str, Any]:
        """Start the worker unless it runs, and remember what it said of itself."""
        if self._process is None:
            self._start()
            try:
                self._opened = self._exchange(
                    START_S, do="open", meter=self._meter, settings=asdict(self._settings)
                )
            except MeasurementFailed as error:
                raise DeviceError(f"the worker process cannot start: {error}") from None
        if self._opened is None:
            raise DeviceError("the worker process did not open")
        return self._opened

    def _start(self) -> None:
        # A session of its own: Ctrl-C reaches only us, and we decide what becomes of the worker.
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ampere.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            env=environment,
        )
        self._answers = queue.Queue()
        reader = threading.Thread(
            target=_pump, args=(self._process.stdout, self._answers), daemon=True
        )
        reader.start()

    def _ask(self, **request: Any) -> dict[str, Any]:
        self._open()
        return self._exchange(self._patience_s, **request)

    def _exchange(self, patience_s: float, **request: Any) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdin is None:
            raise DeviceError("the worker process is not running")
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = self._answers.get(timeout=patience_s)
        except queue.Empty:
            self.close()
            raise MeasurementFailed(f"it hung: no answer within {patience_s:.0f} s") from None
        except OSError:
            line = ""
        except BaseException:  # Ctrl-C: the answer under way must not be taken for the next one's
            self.close()
            raise
        if not line:
            reason = _end_of(process)
            self.close()
            raise MeasurementFailed(reason)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            error = getattr(errors, answer["error"], MeasurementFailed)
            raise error(answer["message"])
        return answer


def _pump(stream: Any, answers: queue.Queue[str]) -> None:
    """Hand on lines as they come; an empty one says that the worker has ended."""
    try:
        for line in stream:
            answers.put(line)
    except ValueError:  # closed while reading
        pass
    answers.put("")


def _end_of(process: subprocess.Popen[str]) -> str:
    code = process.wait()
    if code == -signal.SIGKILL:
        return "it was killed, most likely for lack of memory"
    if code < 0:
        return f"it crashed with {signal.Signals(-code).name}"
    return f"the worker process ended with exit code {code}"


def _meter_text(meter: Mapping[str, Json]) -> str:
    settings = ",".join(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
                        for key, value in sorted(meter["settings"].items()))  # fmt: skip
    return f"{meter['name']}:{settings}" if settings else str(meter["name"])
