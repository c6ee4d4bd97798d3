"""A fleet at work: what does it cost when devices are lost, and does the ledger agree with meters?

    python benchmarks/fleet_running.py            # some minutes
    python benchmarks/fleet_running.py --tables   # of what is kept

Twelve jobs (members of the LeNet-5 family, trained for real on this machine) on four workers whose
joules and batteries are those of simulated devices. One worker is killed halfway through a job and
started again, one battery runs flat. Once by `ampere fleet`, in chunks with checkpoints and a
logbook; and once by plain Dask as it comes: a task a job, which it begins anew wherever it likes if
the worker dies, as a device does whose battery is empty.

The table goes to docs/paper/fleet.md, what was counted to benchmarks/results/fleet_running.json.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from machine import DOCS, RESULTS, machine_line, write_section

from ampere.core.training import Training
from ampere.core.workloads import Workload
from ampere.devices.simulated import SimulatedDevice
from ampere.fleet.member import Battery, Fleet, Member
from ampere.fleet.plan import Plan
from ampere.fleet.runs.orders import FLAT, Answer, ChunkOrder
from ampere.fleet.schedule import schedule
from ampere.fleet.task import Task
from ampere.integrations.crew import Crew
from ampere.integrations.dask import Place, run_fleet
from ampere.integrations.fleet_jobs import open_run, work_of
from ampere.integrations.station import TALLY, Tally, run_order
from ampere.meters.base import Provenance
from ampere.profiles.jobs.job import Job
from ampere.profiles.profile import Profile
from ampere.pytorch.models import read
from ampere.records.journal import Header
from ampere.records.measurement import Measurement

KEPT = RESULTS / "fleet_running.json"
DEVICES = ("tx2", "xavier", "oppo", "iphone")
KILLED, FLAT_ONE = "tx2", "iphone"
JOBS, STEPS, CHUNK = 12, 200, 20
WIDTHS = ((4, 8), (6, 16), (2, 16), (6, 4), (3, 11), (5, 6))
PATIENCE_S = 400.0
MANY_J = 1e9


def quick_profile(device: str) -> Profile:
    """What a simulated device teaches when it is asked directly."""
    simulated, rows = SimulatedDevice(device), []
    for widths in WIDTHS:
        layers = read(f"zoo:lenet5(channels={list(widths)})", None, Training())
        before_j, before_s = simulated.spent_j, simulated.clock_s
        simulated.burst(simulated.load(Workload(layers)).handle, 20_000)
        energy_j, time_s = simulated.spent_j - before_j, simulated.clock_s - before_s
        costs = (energy_j / 20_000, time_s / 20_000)
        rows.append(Measurement(layers, *costs, provenance=Provenance.SIMULATED))
    header = Header(simulated.fingerprint, {"name": "simulated"}, Provenance.SIMULATED)
    return Profile(tuple(rows), header)


def may_run(number: int) -> tuple[str, str]:
    """Two devices for each job, so that those which are hurt have work when it happens."""
    return ("tx2", "xavier") if number % 4 < 2 else ("oppo", "iphone")


def make_tasks() -> list[Task]:
    """Three for each device at first, so that both ways begin alike."""
    return [
        Task(
            f"job{i}",
            f"zoo:lenet5(channels=[{3 + i % 3}, {6 + i % 5}])",
            Job(steps=STEPS),
            training=Training(optimizer="momentum"),
            chunk_steps=CHUNK,
            members=may_run(i),
        )
        for i in range(JOBS)
    ]


def make_fleet(tasks: Sequence[Task]) -> Fleet:
    """Batteries for everything, but for one that is flat before its first job ends."""
    profiles = {name: quick_profile(name) for name in DEVICES}
    job_j = profiles[FLAT_ONE].estimate(tasks[0].model, steps=STEPS).energy_j
    held_j = {FLAT_ONE: 0.4 * job_j}
    return Fleet(
        tuple(
            Member(name, profiles[name], Battery(held, held))
            for name in DEVICES
            for held in (held_j.get(name, 1000.0),)
        )
    )


def spread(fleet: Fleet, tasks: Sequence[Task]) -> Plan:
    """A plan that has every device at work, as if all batteries would do."""
    full = [replace(m, battery=Battery(1000.0, 1000.0)) for m in fleet]
    own = [replace(t, members=(DEVICES[i % len(DEVICES)],)) for i, t in enumerate(tasks)]
    return schedule(Fleet(tuple(full)), own)


# ---------------------------------------------------------------------- processes


class Processes:
    """A worker for each member, and what its meter shows."""

    def __init__(self, fleet: Fleet, folder: Path, place: Place) -> None:
        self.fleet, self.folder, self.place = fleet, folder, place
        self.crew = Crew(fleet, folder / "workers", lambda text: None)
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start a worker; it finds `plain_job` by this folder."""
        home = str(Path(__file__).parent)
        paths = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
        command = self.crew.command(self.fleet.find(name), self.place)
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command, stderr=log, env={**os.environ, "PYTHONPATH": paths}
            )

    def tally(self, name: str) -> Tally:
        """What a worker has counted, whether it lives or not."""
        path = self.folder / "workers" / name / TALLY
        return Tally.of(path.read_bytes()) if path.exists() else Tally()

    def hurt_later(self, at_j: float, came_back: Callable[[], None]) -> None:
        """Kill one as soon as it has spent so much, and start it again."""

        def hurt() -> None:
            until_s = time.monotonic() + PATIENCE_S
            while self.tally(KILLED).meter_j < at_j and time.monotonic() < until_s:
                time.sleep(0.01)
            self.running[KILLED].kill()
            self.running[KILLED].wait()
            came_back()

        threading.Thread(target=hurt, daemon=True).start()

    def metered_j(self) -> dict[str, float]:
        """What all meters show."""
        return {name: self.tally(name).meter_j for name in DEVICES}

    def end(self) -> None:
        """Kill those that still run."""
        for process in self.running.values():
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def kill_at_j(fleet: Fleet, tasks: Sequence[Task]) -> float:
    """Halfway through the first job of the worker that is killed."""
    first = tasks[DEVICES.index(KILLED)]
    profile = fleet.find(KILLED).profile
    return 0.5 * profile.estimate(first.model, steps=STEPS, training=first.training).energy_j


def by_ampere(fleet: Fleet, tasks: Sequence[Task], folder: Path) -> dict[str, Any]:
    plan, place = spread(fleet, tasks), Place("127.0.0.1", free_port())
    processes = Processes(fleet, folder, place)
    up = subprocess.Popen([sys.executable, __file__, "--scheduler", str(place.port)])
    said: list[str] = []
    try:
        for name in DEVICES:
            processes.start(name)
        processes.hurt_later(kill_at_j(fleet, tasks), lambda: processes.start(KILLED))
        began_s = time.monotonic()
        with open_run(
            folder / "run", plan, fleet, tasks, patience_s=PATIENCE_S / 2, say=said.append
        ) as runner:
            ended = run_fleet(runner, place, patience_s=PATIENCE_S / 2, say=said.append)
            book = runner.book
        time_s = time.monotonic() - began_s
    finally:
        processes.end()
        up.kill()
        up.wait()
    meters_j = processes.metered_j()
    apart_j = {name: book.members[name].paid_j - meters_j[name] for name in DEVICES}
    chunk_j = max(chunk.sent.energy_j for chunk in book.chunks.values())
    return {
        "ended": sum(line.left == 0 for line in book.jobs.values()),
        "all_ended": ended,
        "paid_j": sum(meters_j.values()),
        "paid_twice_j": book.wasted_j,
        "dearest_chunk_j": chunk_j,
        "ledger_less_meter_j": max(abs(each) for each in apart_j.values()),
        "unsettled": len(book.unsettled()),
        "plans": book.plans,
        "chunks": len(book.chunks),
        "flat": [name for name, line in book.members.items() if line.flat],
        "meters_j": meters_j,
        "time_s": time_s,
        "said": said,
    }


# ---------------------------------------------------------------------- Dask as it comes


def plain_job(order: str) -> str:
    """A whole job on a worker, in one go; a device whose battery is empty goes off."""
    fresh = replace(ChunkOrder.of(order), key=str(uuid.uuid4()))
    text, _ = run_order(fresh.text(), None)
    if Answer.of(text).state == FLAT:
        os._exit(1)
    return text


def by_dask(fleet: Fleet, tasks: Sequence[Task], folder: Path) -> dict[str, Any]:
    import dask
    import distributed
    import fleet_running  # by this name workers know it, too

    dask.config.refresh()  # whatever ampere has set
    work = work_of(fleet, tasks)
    with (
        distributed.LocalCluster(
            n_workers=0, host="127.0.0.1", scheduler_port=0, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        processes = Processes(fleet, folder, Place.parse(cluster.scheduler_address))
        try:
            for name in DEVICES:
                processes.start(name)
            client.wait_for_workers(len(DEVICES), timeout=PATIENCE_S)
            processes.hurt_later(kill_at_j(fleet, tasks), lambda: processes.start(KILLED))
            began_s = time.monotonic()
            addresses = {w["name"]: a for a, w in client.scheduler_info()["workers"].items()}
            futures = [
                client.submit(
                    fleet_running.plain_job,
                    ChunkOrder(
                        "x",
                        t.name,
                        0,
                        STEPS,
                        MANY_J,
                        work.routines[t.name],
                        work.workloads[t.name],
                    ).text(),
                    workers=[addresses[name] for name in may_run(i)],
                    pure=False,
                )
                for i, t in enumerate(tasks)
            ]
            distributed.wait(futures, timeout=PATIENCE_S)
            time_s = time.monotonic() - began_s
            answers = [Answer.of(f.result()) for f in futures if f.status == "finished"]
            failed = [str(f.exception()) for f in futures if f.status == "error"]
        finally:
            processes.end()
    meters_j = processes.metered_j()
    paid_j = sum(meters_j.values())
    return {
        "ended": len(answers),
        "paid_j": paid_j,
        "paid_twice_j": paid_j - sum(answer.energy_j for answer in answers),
        "failed": failed,
        "meters_j": meters_j,
        "time_s": time_s,
    }


# ---------------------------------------------------------------------- the page


def table(kept: dict[str, Any]) -> str:
    ours, plain = kept["ampere"], kept["dask"]
    rows = [
        ("jobs that ended", f"{ours['ended']} of {JOBS}", f"{plain['ended']} of {JOBS}"),
        ("joules of all meters", f"{ours['paid_j']:.2f}", f"{plain['paid_j']:.2f}"),
        ("joules paid twice", f"{ours['paid_twice_j']:.3f}", f"{plain['paid_twice_j']:.3f}"),
        ("dearest chunk as planned, joules", f"{ours['dearest_chunk_j']:.3f}", ""),
        ("ledger − meter, joules", f"{ours['ledger_less_meter_j']:.1e}", "no ledger"),
        ("chunks that nobody settled", f"{ours['unsettled']}", ""),
        ("plans", f"{ours['plans']}", ""),
    ]
    lines = ["| | ampere fleet | plain Dask |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(
        [
            f"{JOBS} jobs of {STEPS} steps, in chunks of {CHUNK} by ampere, on {len(DEVICES)}"
            f" workers: {KILLED} is killed halfway through its first job and started again, the"
            f" battery of {FLAT_ONE} lasts for 40 % of its first. Each job may run on two of them."
            " Training is real, joules are simulated.",
            "",
            *lines,
            "",
            "Plain Dask began when all workers were there, ampere before: their seconds do not"
            " compare.",
            "",
            kept["machine"],
        ]
    )


def write_page(kept: dict[str, Any]) -> None:
    page = DOCS / "fleet.md"
    if not page.exists():
        page.write_text("# Fleets: plans and runs\n", encoding="utf-8")
    write_section("fleet.md", "running", table(kept))


def main() -> None:
    parser = argparse.ArgumentParser(description="A fleet at work, and plain Dask beside it.")
    parser.add_argument("--tables", action="store_true", help="write the page of what is kept")
    parser.add_argument("--scheduler", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.scheduler is not None:
        from ampere.integrations.dask import serve_scheduler

        serve_scheduler(Place("127.0.0.1", args.scheduler), lambda address: None)
        return
    if not args.tables:
        import distributed

        tasks = make_tasks()
        fleet = make_fleet(tasks)
        kept: dict[str, Any] = {"machine": machine_line({"distributed": distributed.__version__})}
        for name, way in (("ampere", by_ampere), ("dask", by_dask)):
            with tempfile.TemporaryDirectory() as folder:
                kept[name] = way(fleet, tasks, Path(folder))
                print(name, json.dumps(kept[name]))
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    write_page(json.loads(KEPT.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
