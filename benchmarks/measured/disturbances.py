"""Disturbances: programs that work beside a measurement, and somebody who stops its worker."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ampere.core.boundary.tool import end_group
from measured.codes import SCRIPT
from measured.processes import LOOK_S, Look, is_worker, send

READY_S = 120.0  # when a program that has not begun is given up
BEGUN = 4  # answers of a worker, after which its first bursts run
STOPPED_S, STOPS_S = 0.06, 0.15  # how long a worker is stopped, and how often


@dataclass(frozen=True)
class Disturbance:
    """What goes on beside a measurement: programs, or somebody who stops its worker."""

    name: str
    programs: tuple[str, ...] = ()
    late: bool = False  # they begin when half of the bursts are over
    stops: bool = False


DISTURBANCES = (
    Disturbance("none"),
    Disturbance("one busy loop", ("busy",)),
    Disturbance("two busy loops", ("busy", "busy too")),
    Disturbance("a training in two threads", ("training",)),
    Disturbance("memory traffic", ("copying",)),
    Disturbance("a busy loop in the second half", ("busy",), late=True),
    Disturbance("a niced busy loop", ("niced",)),
    Disturbance("a worker that is stopped", stops=True),
)


def busy() -> Callable[[], object]:
    return lambda: sum(range(100_000))


def niced() -> Callable[[], object]:
    os.nice(19)
    with contextlib.suppress(OSError):
        # Where sessions share cores evenly, it is theirs that counts.
        Path("/proc/self/autogroup").write_text("19")
    return busy()


def copying() -> Callable[[], object]:
    source = np.ones(25_000_000)
    copy = source.copy()
    return lambda: np.copyto(copy, source)


def training() -> Callable[[], object]:
    torch.set_num_threads(2)
    layers = [nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(64 * 28 * 28, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images, labels = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


PROGRAMS: Mapping[str, Callable[[], Callable[[], object]]] = {
    "busy": busy,
    "busy too": busy,
    "training": training,
    "copying": copying,
    "niced": niced,
}


def disturb(name: str) -> None:
    """Work until the end, which is that of who started it at the latest, however that ends."""
    parent, pr_set_pdeathsig = os.getppid(), 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, int(signal.SIGKILL))
    work = PROGRAMS[name]()
    work()
    print("ready", flush=True)
    while os.getppid() == parent:
        work()


@contextlib.contextmanager
def beside(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Programs by name, stopped until they are let; they end with the block."""
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in names:
            command = [sys.executable, str(SCRIPT), "--disturb", name]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
            started[name] = process
            if not _is_ready(process):
                raise SystemExit(f"{name} cannot be run")
            send(process.pid, signal.SIGSTOP)
        yield {name: process.pid for name, process in started.items()}
    finally:
        for process in started.values():
            end_group(process)


def _is_ready(process: subprocess.Popen[bytes]) -> bool:
    assert process.stdout is not None  # it is a pipe
    said, _, _ = select.select([process.stdout], [], [], READY_S)
    return bool(said) and process.stdout.readline() == b"ready\n"


@contextlib.contextmanager
def disturbed(disturbance: Disturbance, pids: Mapping[str, int], half: float) -> Iterator[Look]:
    """Let a disturbance work while something is measured; it rests after that."""
    chosen = [pids[name] for name in disturbance.programs]

    def let() -> None:
        for pid in chosen:
            send(pid, signal.SIGCONT)

    stopped = False

    def act(worker: int, answers: int) -> float:
        nonlocal stopped
        if disturbance.late and answers >= half:
            let()
        if not disturbance.stops or answers < BEGUN:
            return LOOK_S
        stopped = not stopped
        send(worker, signal.SIGSTOP if stopped else signal.SIGCONT)
        return STOPPED_S if stopped else STOPS_S - STOPPED_S

    look = Look(act)
    if not disturbance.late:
        let()
    try:
        yield look
    finally:
        for pid in chosen:
            send(pid, signal.SIGSTOP)
        if stopped and look.worker is not None and is_worker(look.worker):
            send(look.worker, signal.SIGCONT)
