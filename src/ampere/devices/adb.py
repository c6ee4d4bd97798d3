"""An Android device that is reached by adb, with a Python or without.

The worker's file is pushed to `/data/local/tmp/ampere` and run by a Python there that has the
framework, so it must be one that adb's shell may run. Where there is none, a native worker that the
user has built (`native/`) is pushed and run in its place; it is sent networks with numbers filled
in. The battery is read by adb from this side (meter `android`): over a
USB cable it would be charged all the while, so connect by Wi-Fi (`adb tcpip 5555`).
"""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ampere.core.boundary.tool import run_tool
from ampere.core.description import describe
from ampere.core.types import Json
from ampere.core.workloads import Settings, Workload
from ampere.devices.introduction import Introduction
from ampere.devices.worker_archive import worker_archive
from ampere.devices.worker_device import WorkerDevice
from ampere.errors import DataError, DeviceError
from ampere.meters.base import AUTO

FOLDER = "/data/local/tmp/ampere"
SEND_S = 120.0
ANSWER_S = 20.0
LOST = (0, 255)  # what adb's shell, old or new, ends with when the connection does
METER = "android"
STUB = "mnn stub"  # a native worker that was built without MNN: native/stub_engine.cpp


class AdbDevice(WorkerDevice):
    """An Android device by its serial, as `adb devices` lists it.

    Args:
        serial: Its serial, or `host:port`; empty for the only one.
        settings: How the framework runs there.
        meter: A meter by name; `auto` is the device's battery.
        meter_settings: Its settings.
        python: The Python there that has the framework.
        worker: The file here of a native worker, which needs no Python there.
        adb: The adb executable here.
        patience_s: How long an answer may take, beyond what the steps themselves take.
    """

    takes_stub = False  # whether its worker may be one that trains nothing, to test the protocol

    def __init__(
        self,
        serial: str = "",
        settings: Settings | None = None,
        meter: str = AUTO,
        meter_settings: Mapping[str, float | str] | None = None,
        *,
        python: str = "python3",
        worker: str | None = None,
        adb: str = "adb",
        patience_s: float = 120.0,
    ) -> None:
        if meter in (AUTO, METER):
            meter = METER
            meter_settings = {"serial": serial, "adb": adb, **(meter_settings or {})}
        super().__init__(settings, meter, meter_settings, patience_s)
        self._serial, self._python = serial, python
        self._native = None if worker is None else _native_worker(worker)
        self._adb = [adb, *(["-s", serial] if serial else [])]
        self._sent = False

    def _command(self) -> Sequence[str]:
        if not self._sent:
            self._send()
            self._sent = True
        name, _ = self._file()
        run = "" if self._native else f"{shlex.quote(self._python)} -u "
        return [*self._adb, "shell", "-T", f"exec {run}{FOLDER}/{name}"]

    def _introduce(self) -> Introduction:
        introduction = super()._introduce()
        if introduction.framework == STUB and not self.takes_stub:
            raise DeviceError(
                "the native worker was built without MNN, and trains nothing: build it with"
                " cmake -S native -DMNN_DIR=/path/to/MNN"
            )
        return introduction

    def _file(self) -> tuple[str, bytes]:
        """The worker's file: a name that says what is in it, and its bytes."""
        return self._native or worker_archive()

    def _written(self, workload: Workload) -> Json:
        """A native worker is sent a network as `ampere ask` describes it."""
        if not self._native:
            return super()._written(workload)
        network = describe(workload.layers) if workload.layers else None
        return {"stage": workload.stage, "network": network}

    def _why_lost(self, code: int | None, complaint: str) -> str | None:
        which = self._serial or "the Android device"
        try:
            state = " ".join(self._do("get-state", timeout_s=ANSWER_S).split())
        except DeviceError as error:
            return str(error)
        if state != "device":
            return f"{which} is {state}"
        return f"the connection to {which} was lost" if code in LOST else None

    def _send(self) -> None:
        """Push the worker, unless it is there."""
        name, data = self._file()
        listed = self._do("shell", f"ls {FOLDER} 2>/dev/null || true", timeout_s=ANSWER_S)
        if name in listed.split():
            return
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / name
            file.write_bytes(data)
            self._do("shell", f"mkdir -p {FOLDER} && chmod 700 {FOLDER}", timeout_s=ANSWER_S)
            self._do("push", str(file), f"{FOLDER}/{name}.part", timeout_s=SEND_S)
            ready = f"chmod 700 {FOLDER}/{name}.part && mv {FOLDER}/{name}.part {FOLDER}/{name}"
            self._do("shell", ready, timeout_s=ANSWER_S)

    def _do(self, *arguments: str, timeout_s: float) -> str:
        """What a command of adb prints."""
        which = self._serial or "the Android device"
        try:
            answer = run_tool([*self._adb, *arguments], timeout_s)
        except TimeoutError:
            raise DeviceError(f"{which} does not answer: is it on, and connected?") from None
        except OSError as error:
            raise DeviceError(
                f"{self._adb[0]} cannot be run ({error.strerror}): install Android's platform-tools"
            ) from None
        except DataError as error:
            raise DeviceError(str(error)) from None
        if answer.code != 0:
            lines = answer.complaints
            errors = [line for line in lines if line.startswith(("error:", "adb"))]  # hints follow
            why = (errors or lines[-1:] or [f"exit code {answer.code}"])[0]
            raise DeviceError(f"{which} cannot be reached by adb: {why}")
        return answer.output


def _native_worker(path: str) -> tuple[str, bytes]:
    """A file that the user has built, under a name that says what is in it."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DeviceError(
            f"the native worker {path} cannot be read ({error.strerror}): build it (native/)"
        ) from None
    return f"ampere-worker-{hashlib.sha256(data).hexdigest()[:12]}", data
