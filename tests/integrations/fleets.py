"""A fleet of simulated devices on this machine: its files, its processes, and ways to hurt them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ampere.fleet.files.members import read_fleet
from ampere.fleet.plan import Plan
from ampere.integrations.crew import Crew
from ampere.integrations.dask import Place
from ampere.integrations.station import TALLY, Tally
from simulated_profiles import quick_profile

PAIRS = ('["tx2", "xavier"]', '["oppo", "iphone"]')
RUN = "from ampere.cli import main; main()"
AN_HOUR_AHEAD = f"import time; now = time.time; time.time = lambda: now() + 3600; {RUN}"
PATIENCE_S = 240.0  # for whatever must happen on a machine that does other things, too


def make_certificates(folder: Path) -> None:
    """One certificate that is its own authority, as the docs say."""
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=fleet", "-keyout", str(folder / "key.pem")]
    subprocess.run([*words, "-out", str(folder / "cert.pem")], capture_output=True, check=True)


def write_fleet(folder: Path, batteries: dict[str, str]) -> Path:
    """`fleet.toml` with a member for each device, called like it."""
    text = ""
    for device, battery in batteries.items():
        quick_profile(device).save(folder / f"{device}.ampere")
        text += f'[[member]]\nname = "{device}"\nprofile = "{device}.ampere"\n'
        text += f'battery = "{battery}"\nreserve = "10%"\n\n' if battery else "\n"
    (folder / "fleet.toml").write_text(text)
    return folder / "fleet.toml"


def write_jobs(folder: Path, count: int, steps: int, chunk_steps: int) -> Path:
    text = "".join(
        f'[[job]]\nname = "job{i}"\nmodel = "zoo:lenet5(channels=[{3 + i % 3}, {6 + i % 5}])"\n'
        f'steps = {steps}\noptimizer = "momentum"\nchunk_steps = {chunk_steps}\n'
        f"members = {PAIRS[i % 4 // 2]}\n\n"  # so that each has work when it is hurt
        for i in range(count)
    )
    (folder / "jobs.toml").write_text(text)
    return folder / "jobs.toml"


def write_plan(folder: Path, plan: Plan) -> Path:
    (folder / "plan.json").write_text(json.dumps(plan.to_json(), allow_nan=False))
    return folder / "plan.json"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_until(happened: Callable[[], bool], what: str) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < until_s, f"waited in vain until {what}"
        time.sleep(0.005)


@dataclass
class Harbour:
    """The processes of a fleet: a scheduler, and a worker for each member."""

    folder: Path
    place: Place
    scheduler: subprocess.Popen[bytes] | None = None
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fleet = read_fleet(self.folder / "fleet.toml")

    def start_scheduler(self) -> None:
        words = ["fleet", "up", str(self.folder / "fleet.toml"), "--at", self.place.address]
        words += ["--tls", os.fspath(self.place.tls)] if self.place.tls else []
        log = (self.folder / "scheduler.log").open("wb")
        with log:
            command = [sys.executable, "-m", "ampere", *words]
            self.scheduler = subprocess.Popen(command, stderr=log)
        wait_until(self._listens, "the scheduler listens")

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.place.host, self.place.port)) == 0

    def start_worker(self, name: str) -> None:
        crew = Crew(self.fleet, self.folder / "workers", lambda text: None)
        self.start(name, crew.command(self.fleet.find(name), self.place))

    def start_as(self, name: str, device: str, *more: str, python: str = RUN) -> None:
        """A worker that says what it likes of itself: `python` is what runs it."""
        words = ["fleet", "join", name, "--at", self.place.address, "--device", device, *more]
        words += ["--keep", str(self.folder / "workers" / name)]
        words += ["--tls", os.fspath(self.place.tls)] if self.place.tls else []
        self.start(name, [sys.executable, "-c", python, *words])

    def start(self, name: str, command: Sequence[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.workers[name] = subprocess.Popen(command, stderr=log, stdout=log)

    def wait_for(self, name: str) -> None:
        """Until its worker is at the scheduler: who comes late may find that nothing is left."""
        log = self.folder / f"{name}.log"
        wait_until(lambda: b"joined" in log.read_bytes(), f"{name} has joined")

    def tally(self, name: str) -> Tally:
        """What a worker's meter and battery show, whether it lives or not."""
        return Tally.of((self.folder / "workers" / name / TALLY).read_bytes())

    def kill_worker(self, name: str, key: str) -> None:
        """In the middle of this chunk: as soon as it has paid for some of it."""

        def is_at_it() -> bool:
            tally = self.tally(name)
            return tally.key == key and tally.chunk_j > 0

        wait_until(is_at_it, f"{name} is at chunk {key}")
        self.workers[name].kill()
        self.workers[name].wait()

    def kill_scheduler(self) -> None:
        assert self.scheduler is not None
        self.scheduler.kill()
        self.scheduler.wait()

    def end(self) -> None:
        for process in [self.scheduler, *self.workers.values()]:
            if process is not None:
                process.kill()
                process.wait()


@contextmanager
def a_harbour(folder: Path, tls: Path | None = None) -> Iterator[Harbour]:
    harbour = Harbour(folder, Place("127.0.0.1", free_port(), tls))
    try:
        harbour.start_scheduler()
        yield harbour
    finally:
        harbour.end()
