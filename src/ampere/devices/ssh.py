"""A device that is reached by ssh: a Jetson, a Raspberry Pi, any Linux.

It needs a shell, and a Python from 3.8 on that has the framework; ampere itself need not be there.
The worker's file is sent once into `~/.cache/ampere`. The user's own `ssh` does the rest, with its
configuration, keys and agent; nothing is asked for on the terminal.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ampere.core.boundary.tool import run_tool
from ampere.core.workloads import Settings
from ampere.devices.worker_archive import worker_archive
from ampere.devices.worker_device import WorkerDevice
from ampere.errors import DataError, DeviceError
from ampere.meters.base import AUTO

FOLDER = ".cache/ampere"
LOST = 255  # what ssh itself ends with when the connection does
SEND_S = 120.0
OPTIONS = (
    "-T",
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
)


class SshDevice(WorkerDevice):
    """A machine by the name that `ssh` knows it by.

    Args:
        host: `pi@raspberrypi`, or a name from the user's ssh configuration.
        settings: How the framework runs there.
        meter: A meter by name; `auto` is the best one there.
        meter_settings: Its settings.
        python: The Python there that has the framework.
        config: A file to use in place of `~/.ssh/config`.
        patience_s: How long an answer may take, beyond what the steps themselves take.
    """

    def __init__(
        self,
        host: str,
        settings: Settings | None = None,
        meter: str = AUTO,
        meter_settings: Mapping[str, float | str] | None = None,
        *,
        python: str = "python3",
        config: str = "",
        patience_s: float = 120.0,
    ) -> None:
        if not host or host.startswith("-"):
            raise DeviceError(f"{host!r} is no host: write ssh:user@host")
        super().__init__(settings, meter, meter_settings, patience_s)
        self._host = host
        # What ssh runs starts at home, but the quotes around this would keep ~ from meaning it.
        self._python = f"./{python[2:]}" if python.startswith("~/") else python
        self._ssh = ["ssh", *OPTIONS, *(["-F", config] if config else []), host]
        self._sent = False

    def _command(self) -> Sequence[str]:
        if not self._sent:
            self._send()
            self._sent = True
        name, _ = worker_archive()
        # A shell in between: of a worker that is killed, ssh would say no more than of itself.
        return [*self._ssh, _in_sh(f"{shlex.quote(self._python)} -u {FOLDER}/{name}; exit $?")]

    def _why_lost(self, code: int | None, complaint: str) -> str | None:
        if code != LOST:
            return None
        return f"the connection to {self._host} is lost ({complaint or 'ssh does not say why'})"

    def _send(self) -> None:
        """Put the worker there, unless it is; whole or not at all."""
        name, data = worker_archive()
        path, part = f"{FOLDER}/{name}", f"{FOLDER}/{name}.$$"
        script = (
            f"test -s {path} || {{ mkdir -p {FOLDER} && cat > {part}"
            f" && test $(wc -c < {part}) -eq {len(data)} && mv {part} {path}"
            f" || {{ rm -f {part}; false; }}; }}"
        )
        try:
            answer = run_tool([*self._ssh, _in_sh(script)], SEND_S, data)
        except FileNotFoundError:
            raise DeviceError("there is no ssh here: install openssh-client") from None
        except TimeoutError:
            raise DeviceError(f"{self._host} does not answer: is it on, and reachable?") from None
        except DataError as error:
            raise DeviceError(str(error)) from None
        if answer.code != 0:
            why = (answer.complaints or [f"exit code {answer.code}"])[-1]
            what = "be reached by ssh" if answer.code == LOST else "be sent the worker"
            raise DeviceError(f"{self._host} cannot {what}: {why}")


def _in_sh(script: str) -> str:
    """A command that runs the same whatever shell the user has there."""
    return f"exec sh -c {shlex.quote(script)}"
