"""An Android device that is reached by adb and has a Python with the framework.

The worker's file is pushed to `/data/local/tmp/ampere` and run by that Python, so it must be one
that adb's shell may run. The battery is read by adb from this side (meter `android`): over a
USB cable it would be charged all the while, so connect by Wi-Fi (`adb tcpip 5555`).
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ampere.core.boundary.tool import run_tool
from ampere.core.workloads import Settings
from ampere.devices.worker_archive import worker_archive
from ampere.devices.worker_device import WorkerDevice
from ampere.errors import DataError, DeviceError
from ampere.meters.base import AUTO

FOLDER = "/data/local/tmp/ampere"
SEND_S = 120.0
ANSWER_S = 20.0
LOST = (0, 255)  # what adb's shell, old or new, ends with when the connection does
METER = "android"


class AdbDevice(WorkerDevice):
    """An Android device by its serial, as `adb devices` lists it.

    Args:
        serial: Its serial, or `host:port`; empty for the only one.
        settings: How the framework runs there.
        meter: A meter by name; `auto` is the device's battery.
        meter_settings: Its settings.
        python: The Python there that has the framework.
        adb: The adb executable here.
        patience_s: How long an answer may take, beyond what the steps themselves take.
    """

    def __init__(
        self,
        serial: str = "",
        settings: Settings | None = None,
        meter: str = AUTO,
        meter_settings: Mapping[str, float | str] | None = None,
        *,
        python: str = "python3",
        adb: str = "adb",
        patience_s: float = 120.0,
    ) -> None:
        if meter in (AUTO, METER):
            meter = METER
            meter_settings = {"serial": serial, "adb": adb, **(meter_settings or {})}
        super().__init__(settings, meter, meter_settings, patience_s)
        self._serial, self._python = serial, python
        self._adb = [adb, *(["-s", serial] if serial else [])]
        self._sent = False

    def _command(self) -> Sequence[str]:
        if not self._sent:
            self._send()
            self._sent = True
        name, _ = worker_archive()
        return [*self._adb, "shell", "-T", f"exec {shlex.quote(self._python)} -u {FOLDER}/{name}"]

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
        name, data = worker_archive()
        listed = self._do("shell", f"ls {FOLDER} 2>/dev/null || true", timeout_s=ANSWER_S)
        if name in listed.split():
            return
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / name
            file.write_bytes(data)
            self._do("shell", f"mkdir -p {FOLDER} && chmod 700 {FOLDER}", timeout_s=ANSWER_S)
            self._do("push", str(file), f"{FOLDER}/{name}.part", timeout_s=SEND_S)
            self._do("shell", f"mv {FOLDER}/{name}.part {FOLDER}/{name}", timeout_s=ANSWER_S)

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
