"""A federation on loopback: SuperLink and SuperNodes as processes, without Ray."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

TOOLS = Path(sys.executable).parent
LONGEST_S = 240.0  # of a run


class Federation:
    """A SuperLink and a SuperNode for each settings; all of them end with the block.

    Args:
        folder: Of its own, for logs and Flower's home.
        nodes: The `node_config` of each.
    """

    def __init__(self, folder: Path, nodes: Sequence[Mapping[str, Any]]) -> None:
        self._folder, self._nodes = folder, nodes
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Federation:
        self._link, *ports = free_ports(1 + len(self._nodes))
        home = self._home()
        home.mkdir(parents=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{self._link}"'
            "\ninsecure = true\n"
        )
        self._start(
            *("flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(self._link)),
            "--disable-runtime-dependency-installation",
        )
        self._wait_for_link()
        for port, settings in zip(ports, self._nodes, strict=True):
            words = " ".join(f"{name}={_toml(value)}" for name, value in settings.items())
            self._start(
                *("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{self._link}"),
                *("--host", "127.0.0.1", "--port", str(port), "--node-config", words),
            )
        return self

    def run(self, app: Path, settings: Mapping[str, Any], longest_s: float = LONGEST_S) -> str:
        """Run an app to its end; what it logged."""
        words = " ".join(f"{name}={_toml(value)}" for name, value in settings.items())
        command = [str(TOOLS / "flwr"), "run", str(app), "here", "--stream", "--run-config", words]
        log = self._folder / "run.log"
        with log.open("wb") as file:
            done = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=self._environment()
            )
        self.processes.append(done)
        done.wait(longest_s)
        return log.read_text(errors="replace")

    def kill(self, node: int) -> None:
        """End a SuperNode and what it started, without a word."""
        os.killpg(self.processes[1 + node].pid, signal.SIGKILL)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            with suppress(ProcessLookupError):  # what it started is in its group, still
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)

    def logs(self) -> str:
        """What all processes wrote."""
        return "\n".join(path.read_text(errors="replace") for path in self._folder.glob("*.log"))

    def _wait_for_link(self) -> None:
        end_s = time.monotonic() + 60
        while not _listens(self._link):
            assert self.processes[0].poll() is None and time.monotonic() < end_s, self.logs()
            time.sleep(0.1)

    def _start(self, tool: str, *arguments: str) -> None:
        log = self._folder / f"{len(self.processes)}-{tool}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(TOOLS / tool), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                start_new_session=True,  # a group of its own, to be ended as a whole
            )
        self.processes.append(process)

    def _home(self) -> Path:
        return self._folder / "home"

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "FLWR_HOME": str(self._home()),
            "FLWR_TELEMETRY_ENABLED": "0",
            "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, (str, Path)) else str(value)
