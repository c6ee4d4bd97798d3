"""Real commands of ampere, each a process of its own that can be killed, without start-up time.

A launcher has imported what commands need, and counted what profiles of some models may ask for. It
forks one for each, which runs `ampere.cli.main` in its own session, with pipes for its output.
Whatever it starts carries the launcher's mark.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import MARK, marked, runs

# A request is a line; the answer to the first is the command's number, to the next its end. It is
# reaped only then, so that its number stays its own.
SCRIPT = """
import fcntl, json, os, resource, sys
import torch, safetensors, jinja2
import ampere._api, ampere.cli.app, ampere.pytorch.graph.counter, ampere.pytorch.pruning.slimmer
import ampere.acquisition.exchange, ampere.reports.profile_page, ampere.pruning.prune
import ampere.evaluation.evaluate
from ampere.cli import main

from ampere.acquisition.families import read_network
from ampere.acquisition.prober import make_prober
from ampere.acquisition.strategy import Strategy
from ampere.core.training import Training

for model in sys.argv[1:]:
    make_prober(read_network(model, None, Training()), Strategy())
layers = ampere.read_layers("zoo:lenet5")  # imports what it takes to read one
ampere.fit([ampere.Measurement(layers, n, n) for n in (1.0, 2.0)])
assert len(os.listdir("/proc/self/task")) == 1, "threads do not survive a fork"

def run(arguments, folder, most_bytes):
    os.setsid()
    os.chdir(folder)
    if most_bytes is not None:  # SIGXFSZ is ignored by Python
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    sys.argv = ["ampere", *arguments]
    try:
        main()
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1

def drain(pipe):
    fcntl.fcntl(pipe, fcntl.F_SETFL, os.O_NONBLOCK)
    parts = []
    try:
        while part := os.read(pipe, 1 << 16):
            parts.append(part)
    except BlockingIOError:
        pass
    os.close(pipe)
    return b"".join(parts).decode()

sys.stdin.readline()
print("ready", flush=True)
for line in sys.stdin:
    out, err = os.pipe(), os.pipe()
    for _, end in (out, err):
        fcntl.fcntl(end, 1031, 1 << 20)  # F_SETPIPE_SZ: nobody reads until it has ended
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out[1], 1)
        os.dup2(err[1], 2)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
        code = run(**json.loads(line))
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit(code)
    os.close(out[1])
    os.close(err[1])
    print(pid, flush=True)
    sys.stdin.readline()
    status = os.waitpid(pid, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    print(json.dumps([code, drain(out[0]), drain(err[0])]), flush=True)
"""


@dataclass(frozen=True)
class Ended:
    """What a command ended with, and what it said."""

    code: int
    stdout: str
    stderr: str

    @property
    def errors(self) -> list[str]:
        """The lines that say what is wrong."""
        return [line for line in self.stderr.splitlines() if line.startswith("error: ")]


class Launcher:
    """A process that commands are forked from, one at a time.

    Args:
        models: What commands profile.
    """

    def __init__(self, *models: str) -> None:
        self.mark = uuid.uuid4().hex
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *models],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **threads, MARK: self.mark},
        )
        assert self._ask("") == "ready\n"

    def run(self, *arguments: object, folder: Path, most_bytes: int | None = None) -> Ended:
        """A command from its start to its end; no file may grow beyond `most_bytes`."""
        return self.interrupt(*arguments, folder=folder, most_bytes=most_bytes)

    def interrupt(
        self,
        *arguments: object,
        folder: Path,
        when: Callable[[int], bool] = lambda pid: False,
        most_bytes: int | None = None,
    ) -> Ended:
        """A command that is killed once something is so, unless it ends before."""
        request = {
            "arguments": [str(each) for each in arguments],
            "folder": str(folder),
            "most_bytes": most_bytes,
        }
        pid = int(self._ask(json.dumps(request)))
        end_s = time.monotonic() + 120.0
        try:
            while runs(pid):
                if when(pid):
                    os.kill(pid, signal.SIGKILL)
                    break
                assert time.monotonic() < end_s, f"{arguments} takes too long"
                time.sleep(0.001)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            self._ask("")  # or the next one would get its answer
            raise
        return Ended(*json.loads(self._ask("")))

    def started(self) -> dict[int, str]:
        """What it, or what it started, has started and lives."""
        return {pid: it for pid, it in marked(self.mark).items() if pid != self.process.pid}

    def close(self) -> None:
        """End it."""
        with self.process:
            self.process.kill()

    def _ask(self, line: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def __enter__(self) -> Launcher:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
