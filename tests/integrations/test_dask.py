"""A fleet on Dask, on this machine: real training, simulated joules, processes that are killed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="pip install 'ampere-energy[fleet]'")

from ampere.core.fingerprint import Fingerprint
from ampere.devices.simulated import SimulatedDevice
from ampere.errors import DataError, DeviceError
from ampere.fleet.files.jobs import read_jobs
from ampere.fleet.files.members import read_fleet
from ampere.fleet.member import Fleet
from ampere.fleet.plan import Plan
from ampere.fleet.runs.engine import EngineLost
from ampere.fleet.runs.events import Event, Sent
from ampere.fleet.runs.logbook import read_logbook
from ampere.fleet.runs.orders import FLAT, Answer, ChunkOrder, Routine
from ampere.fleet.runs.runner import Runner
from ampere.integrations.dask import DaskEngine, Place, run_fleet
from ampere.integrations.fleet_jobs import open_run, work_of
from ampere.integrations.purses import MeteredPurse, SimulatedPurse
from ampere.integrations.station import Station
from fleet.crews import round_robin
from gates.worlds import HandMeter
from integrations.fleets import (
    a_harbour,
    make_certificates,
    wait_until,
    write_fleet,
    write_jobs,
    write_plan,
)

JOBS, STEPS, CHUNK = 12, 120, 60
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="it has no openssl")


@pytest.fixture(autouse=True)
def unplugged() -> None:
    """This machine may be spoken with; nobody else (`no_network`)."""


def a_station(folder: Path, battery_j: float | None = None, name: str = "tx2") -> Station:
    purse = SimulatedPurse(SimulatedDevice(name))
    return Station(name, purse, folder, battery_j=battery_j)


def an_order(key: str, first: int, steps: int, limit_j: float = 1e9, **more: Any) -> ChunkOrder:
    model = {"model": "zoo:lenet5(channels=[3, 6])", "input": None}
    training = {"batch_size": 10, "optimizer": "momentum", "loss": "auto"}
    workload: dict[str, Any] | None = {
        "stage": "step",
        "model": {**model, "training": training},
        "layers": [],
        "loader": None,
    }
    if "workload" in more:
        workload = more["workload"]
    routine = more.get("routine", Routine(10_000))
    return ChunkOrder(key, "x", first, steps, limit_j, routine, workload)


def close_all(*stations: Station) -> None:
    for station in stations:
        station.close()


# ---------------------------------------------------------------------- a station by itself


def test_chunks_on_several_devices_are_the_training_of_one(tmp_path: Path) -> None:
    one, other, whole = (a_station(tmp_path / n, name=n) for n in ("tx2", "xavier", "oppo"))
    _, half = one.run(an_order("1", 0, 15), None)
    _, rest = other.run(an_order("2", 15, 15), half)
    _, once = whole.run(an_order("3", 0, 30), None)
    assert rest == once != half
    close_all(one, other, whole)


def test_batches_of_a_step_and_validations_are_paid(tmp_path: Path) -> None:
    kinds = {
        "plain": Routine(20),
        "twice": Routine(20, batches=2),
        "validated": Routine(20, validations=4, validation_batches=5),
    }
    spent_j, weights = {}, {}
    for name, routine in kinds.items():
        station = a_station(tmp_path / name)
        text, weights[name] = station.run(an_order("1", 0, 20, routine=routine), None)
        spent_j[name] = Answer.of(text).energy_j
        station.close()
    assert 1.4 * spent_j["plain"] < spent_j["twice"] < 2 * spent_j["plain"]  # one update for both
    assert 1.1 * spent_j["plain"] < spent_j["validated"] < 2 * spent_j["plain"]
    assert weights["twice"] != weights["plain"] == weights["validated"]  # it teaches nothing


def test_validations_are_spread_over_a_job() -> None:
    routine = Routine(10, validations=3, validation_batches=7)
    due = [routine.validated(step, step + 1) for step in range(10)]
    assert due == [0, 0, 0, 7, 0, 0, 7, 0, 0, 7]
    assert routine.validated(0, 10) == 21
    assert Routine(2, validations=6, validation_batches=1).validated(0, 1) == 3


def test_an_order_is_paid_once(tmp_path: Path) -> None:
    station = a_station(tmp_path, 100.0)
    first = station.run(an_order("1", 0, 10), None)
    spent_j = station.tally.meter_j
    assert station.run(an_order("1", 0, 10), None) == first
    assert station.tally.meter_j == spent_j == Answer.of(first[0]).energy_j > 0
    assert station.tally.battery_j == pytest.approx(100.0 - spent_j)
    station.close()
    again = a_station(tmp_path, 100.0)  # another process, the same folder
    assert again.run(an_order("1", 0, 10), None) == first
    assert again.tally.meter_j == spent_j
    again.close()


def test_what_a_killed_process_was_at_is_told_and_not_trained_again(tmp_path: Path) -> None:
    station = a_station(tmp_path)

    class Killed(BaseException):
        pass

    taken: list[int] = []

    plain = station._purse.take

    def take(steps: int, validated: int) -> float:
        taken.append(steps)
        if len(taken) == 2:
            raise Killed
        return plain(steps, validated)

    station._purse.take = take  # type: ignore[method-assign]
    with pytest.raises(Killed):
        station.run(an_order("1", 0, 5000), None)
    station.close()
    again = a_station(tmp_path)
    text, weights = again.run(an_order("1", 0, 5000), None)
    answer = Answer.of(text)
    assert (answer.state, answer.steps, weights) == ("interrupted", 0, b"")
    assert answer.energy_j == answer.meter_j > 0
    assert Answer.of(again.run(an_order("9", 0, 1, workload=None), None)[0]).state == "unknown"
    again.close()


def test_a_battery_stops_above_its_reserve(tmp_path: Path) -> None:
    probe = a_station(tmp_path / "probe")
    step_j = Answer.of(probe.run(an_order("1", 0, 50), None)[0]).energy_j / 50
    station = a_station(tmp_path / "flat", 20.5 * step_j)
    text, weights = station.run(an_order("1", 0, 50), None)
    answer = Answer.of(text)
    assert answer.state == FLAT
    assert 15 <= answer.steps <= 20
    assert weights and 0 <= (answer.battery_j or 0.0) < 5 * step_j
    limited = Answer.of(probe.run(an_order("2", 0, 50, limit_j=10.5 * step_j), None)[0])
    assert limited.state == FLAT and limited.energy_j <= 10.5 * step_j * 1.1
    close_all(probe, station)


def test_joules_between_chunks_are_on_the_meter_and_no_jobs(tmp_path: Path) -> None:
    meter = HandMeter()
    purse = MeteredPurse(meter, Fingerprint({}))
    station = Station("pi", purse, tmp_path, battery_j=100.0, reserve_j=10.0)
    plain = station._step

    def step(*given: Any) -> int:
        meter.energy_j += 2.0
        return plain(*given)

    station._step = step  # type: ignore[method-assign]
    answers = []
    for key, idle_j in (("1", 7.0), ("2", 3.0), ("3", 75.0)):
        meter.energy_j += idle_j
        answers.append(Answer.of(station.run(an_order(key, 0, 2), None)[0]))
        assert answers[-1].meter_j == meter.energy_j
    assert [(each.steps, each.energy_j) for each in answers] == [(2, 4.0), (2, 4.0), (0, 0.0)]
    assert [each.battery_j for each in answers] == [89.0, 82.0, 7.0]
    assert answers[-1].state == FLAT
    station.close()


def test_a_folder_has_one_worker(tmp_path: Path) -> None:
    station = a_station(tmp_path)
    with pytest.raises(DeviceError, match="another worker's"):
        a_station(tmp_path)
    station.close()


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    station = a_station(tmp_path)
    with pytest.raises(DataError, match="does not fit the network"):
        station.run(an_order("1", 10, 10), b"no numbers at all")
    with pytest.raises(DataError, match="without a checkpoint"):
        station.run(an_order("1", 10, 10), None)
    station.close()


# ---------------------------------------------------------------------- whom a fleet lets in


@pytest.mark.parametrize("text", ["10.0.0.5:8786", "0.0.0.0:8786", "tcp://example.org:1", "[::]:1"])
def test_beyond_this_machine_it_needs_certificates(text: str) -> None:
    with pytest.raises(DataError, match="openssl req -x509"):
        Place.parse(text)


@pytest.mark.parametrize("text", ["localhost:x", "127.0.0.1:99999", "http://127.0.0.1:1", ":1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="is no address"):
        Place.parse(text)


def test_certificates_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cert\.pem is not there"):
        Place.parse("tls://10.0.0.5:8786", tmp_path)
    with pytest.raises(DataError, match="needs --tls DIR"):
        Place.parse("tls://127.0.0.1:8786")


@needs_openssl
def test_with_tls_nobody_gets_in_without_a_certificate(tmp_path: Path) -> None:
    write_fleet(tmp_path, {"tx2": ""})
    make_certificates(tmp_path)
    with a_harbour(tmp_path, tmp_path) as harbour:
        with DaskEngine(harbour.place) as engine:
            assert engine.workers() == {}
        with pytest.raises(EngineLost):
            DaskEngine(Place("127.0.0.1", harbour.place.port))


def test_nobody_listens() -> None:
    with pytest.raises(EngineLost, match=r"no scheduler answers at tcp://127\.0\.0\.1:1"):
        DaskEngine(Place("127.0.0.1", 1))


# ---------------------------------------------------------------------- the whole fleet


class Trouble:
    """What goes wrong, each at its moment of the logbook: when a chunk goes to this member."""

    def __init__(self, runner: Runner, moments: list[tuple[str, Callable[[str], None]]]) -> None:
        self._runner, self._append, self._moments = runner, runner.logbook.append, moments
        runner.logbook.append = self.append  # type: ignore[method-assign]

    def append(self, event: Event) -> None:
        self._append(event)
        if isinstance(event, Sent) and self._moments and self._moments[0][0] == event.member:
            key = f"{self._runner.book.opened.run}-{event.chunk}"
            _, happen = self._moments.pop(0)
            # Aside: the chunk is on its way only after this.
            threading.Thread(target=happen, args=(key,), daemon=True).start()


def make_plan(folder: Path) -> Plan:
    """As if every battery would do: one of them will not."""
    fleet = read_fleet(folder / "fleet.toml")
    trusting = Fleet(tuple(replace(member, battery=None) for member in fleet))
    return round_robin(trusting, read_jobs(folder / "jobs.toml", fleet))


def fleet_run(folder: Path, address: str) -> list[str]:
    words = ["run", str(folder / "plan.json"), "--fleet", str(folder / "fleet.toml")]
    words += ["--jobs", str(folder / "jobs.toml"), "--at", address, "--keep", str(folder / "run")]
    words += ["--patience", "240"]  # a busy machine takes its time to import torch
    return [sys.executable, "-m", "ampere", "fleet", *words]


@pytest.mark.timeout(600)  # six processes that import torch, on whatever machine
def test_twelve_jobs_on_four_workers_whatever_is_killed(tmp_path: Path) -> None:
    batteries = {"tx2": "300J", "xavier": "300J", "oppo": "300J", "iphone": "0.03J"}
    write_fleet(tmp_path, batteries)
    write_jobs(tmp_path, JOBS, STEPS, CHUNK)
    plan = make_plan(tmp_path)
    write_plan(tmp_path, plan)
    with a_harbour(tmp_path) as harbour:
        for name in batteries:
            harbour.start_worker(name)
        for name in batteries:
            harbour.wait_for(name)
        # The runner is killed once it has paid a few chunks.
        killed = subprocess.Popen(fleet_run(tmp_path, harbour.place.address))
        harbour.workers["runner"] = killed  # ended with the others, whatever happens here
        log = tmp_path / "run" / "logbook.jsonl"
        wait_until(lambda: log.exists() and log.read_text().count('"paid"') >= 4, "4 are paid")
        killed.kill()
        killed.wait()
        before = read_logbook(tmp_path / "run")
        assert not before.ended

        def lose_worker(key: str) -> None:
            harbour.kill_worker("tx2", key)
            harbour.start_worker("tx2")

        def lose_scheduler(key: str) -> None:
            harbour.kill_scheduler()
            harbour.start_scheduler()

        tasks = read_jobs(tmp_path / "jobs.toml", harbour.fleet)
        said: list[str] = []
        with open_run(
            tmp_path / "run", plan, harbour.fleet, tasks, patience_s=100.0, say=said.append
        ) as runner:
            Trouble(runner, [("oppo", lose_scheduler), ("tx2", lose_worker)])
            assert run_fleet(runner, harbour.place, patience_s=100.0, say=said.append), said
            book = runner.book
            weights = {name: runner.logbook.fetch(name) for name in ("job0", "job7")}
        tallies = {name: harbour.tally(name) for name in batteries}
    assert all(line.left == 0 for line in book.jobs.values())
    for name, tally in tallies.items():
        line = book.members[name]
        assert line.paid_j == pytest.approx(tally.meter_j, abs=1e-9), name
        assert line.battery_j == pytest.approx(tally.battery_j, abs=1e-9)
        assert line.provenance is not None and line.provenance.value == "simulated"
    short = [c for c in book.chunks.values() if c.paid and 0 < c.paid.steps < c.sent.steps]
    assert "iphone" in {chunk.sent.member for chunk in short}  # flat, and its steps count
    assert book.members["iphone"].usable_j < 0.002
    assert not book.unsettled()
    dearest_j = max(chunk.paid.energy_j for chunk in book.chunks.values() if chunk.paid)
    assert 0 < book.wasted_j <= 2 * dearest_j  # the worker that was killed; nobody else
    assert sum(c.paid.steps for c in book.chunks.values() if c.paid) == JOBS * STEPS
    assert read_logbook(tmp_path / "run") == book
    for name, found in weights.items():  # as if nothing had ever gone wrong
        task = next(task for task in tasks if task.name == name)
        row = work_of(harbour.fleet, [task]).workloads[name]
        station = a_station(tmp_path / name)
        whole = ChunkOrder(name, name, 0, STEPS, 1e9, Routine(STEPS), row)
        assert station.run(whole, None)[1] == found
        station.close()
    status = subprocess.run(
        [sys.executable, "-m", "ampere", "fleet", "status", str(tmp_path / "run"), "--json"],
        capture_output=True,
        check=True,
    )
    assert json.loads(status.stdout)["ended"] is True
