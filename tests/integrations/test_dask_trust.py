"""Whom a fleet on Dask gives work: real processes on this machine, some of which are not honest."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="pip install 'ampere-energy[fleet]'")

from ampere.fleet.files.jobs import read_jobs
from ampere.fleet.files.members import read_fleet
from ampere.fleet.runs.book import Book
from ampere.fleet.runs.events import Event, Paid
from ampere.fleet.runs.logbook import read_logbook
from ampere.fleet.runs.runner import Runner
from ampere.fleet.schedule import schedule
from ampere.integrations.dask import DaskEngine, run_fleet
from ampere.integrations.fleet_jobs import open_run
from ampere.integrations.purses import open_purse
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile
from ampere.records.journal import Header
from fleet.crews import BEGINS_S, round_robin
from integrations.fleets import (
    AN_HOUR_AHEAD,
    Harbour,
    a_harbour,
    make_certificates,
    wait_until,
    write_fleet,
)
from simulated_profiles import quick_profile

STEPS, CHUNK = 40, 10
PATIENCE_S = 120.0  # for processes that import torch, on a machine that does other things, too
# A worker of Dask's own, with the name of a member: nobody has asked it who it is.
BARE = """
import asyncio, sys, distributed

async def work():
    place, name = sys.argv[1:]
    async with distributed.Worker(place, name=name, dashboard_address="127.0.0.1:0") as worker:
        await worker.finished()

asyncio.run(work())
"""


@pytest.fixture(autouse=True)
def unplugged() -> None:
    """This machine may be spoken with; nobody else (`no_network`)."""


def write_jobs(folder: Path, members: str, more: str = "") -> None:
    (folder / "jobs.toml").write_text(
        '[[job]]\nname = "digits"\nmodel = "zoo:lenet5(channels=[3, 6])"\n'
        f"steps = {STEPS}\nchunk_steps = {CHUNK}\nmembers = {members}\n{more}"
    )


def run(
    harbour: Harbour,
    said: list[str],
    disturb: Callable[[Runner], None] = lambda runner: None,
) -> Book:
    """Have the jobs of its folder run to their end, whatever disturbs them."""
    folder = harbour.folder
    tasks = read_jobs(folder / "jobs.toml", harbour.fleet)
    plan = round_robin(harbour.fleet, tasks)
    with open_run(
        folder / "run", plan, harbour.fleet, tasks, patience_s=PATIENCE_S, say=said.append
    ) as runner:
        disturb(runner)
        assert run_fleet(runner, harbour.place, patience_s=PATIENCE_S, say=said.append), said
    return read_logbook(folder / "run")


def check(book: Book, harbour: Harbour, member: str) -> None:
    """One member did it all, and the ledger is its meter, which counts what is no job's as well."""
    assert book.ended
    paid = [chunk.paid for chunk in book.chunks.values() if chunk.paid]
    assert sum(each.steps for each in paid) == STEPS
    assert {c.sent.member for c in book.chunks.values() if c.paid and c.paid.steps} == {member}
    line, tally = book.members[member], harbour.tally(member)
    assert line.paid_j + line.other_j == pytest.approx(tally.meter_j) and line.paid_j > 0


@pytest.mark.timeout(300)
def test_liars_strangers_and_other_clocks(tmp_path: Path) -> None:
    """Three of four are turned away in a line each, the one whose clock is wrong does all work."""
    write_fleet(tmp_path, {"tx2": "", "xavier": "", "oppo": ""})
    write_jobs(tmp_path, '["tx2", "xavier", "oppo"]')
    said: list[str] = []
    with a_harbour(tmp_path) as harbour:
        harbour.start_as("xavier", "simulated:iphone")  # its profile is of another device
        harbour.start_as("ghost", "simulated:tx2")  # nobody in the fleet
        harbour.start("oppo", [sys.executable, "-c", BARE, harbour.place.address, "oppo"])
        harbour.start_as("tx2", "simulated:tx2", python=AN_HOUR_AHEAD)
        with DaskEngine(harbour.place) as engine:
            wait_until(lambda: len(engine.workers()) == 4, "all of them are there")
        book = run(harbour, said)
        check(book, harbour, "tx2")
        idle = [harbour.folder / "workers" / name / "answer.json" for name in ("xavier", "ghost")]
        assert not any(path.exists() for path in idle)
    (liar,) = [line for line in said if line.startswith("the worker xavier")]
    assert "it is another device than its profile's: device is simulated iphone there" in liar
    (stranger,) = [line for line in said if line.startswith("the worker ghost")]
    assert "there is no member ghost in the fleet" in stranger
    (bare,) = [line for line in said if line.startswith("the worker oppo")]
    assert "was not started by `ampere fleet join`" in bare
    (clock,) = [line for line in said if "its clock is" in line]
    assert clock.startswith("tx2: its clock is 3") and "s ahead of this one, which counts" in clock
    assert book.time_s <= time.time() - BEGINS_S  # of the runner's clock alone
    assert all("\n" not in line for line in said)


@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("openssl") is None, reason="it has no openssl")
def test_a_scheduler_with_certificates_is_killed_and_started_again(tmp_path: Path) -> None:
    write_fleet(tmp_path, {"tx2": "300J"})
    write_jobs(tmp_path, '["tx2"]')
    make_certificates(tmp_path)
    said, restarted = list[str](), list[Event]()
    with a_harbour(tmp_path, tls=tmp_path) as harbour:
        harbour.start_worker("tx2")

        def restart(runner: Runner) -> None:
            append = runner.logbook.append

            def lose(event: Event) -> None:
                append(event)
                if isinstance(event, Paid) and not restarted:
                    restarted.append(event)
                    harbour.kill_scheduler()
                    harbour.start_scheduler()

            runner.logbook.append = lose  # type: ignore[method-assign]

        book = run(harbour, said, restart)
        check(book, harbour, "tx2")
        assert harbour.place.address.startswith("tls://")
    assert restarted  # one that is back at once need not be missed
    assert all("\n" not in line for line in said)
    assert book.wasted_j == 0.0  # a worker that is missed for a moment is planned for again


@pytest.mark.timeout(300)
def test_this_machine_with_its_own_meter_runs_a_pruned_job(tmp_path: Path) -> None:
    """Joules are modelled, and said to be; the plan prunes, so narrower layers are trained."""
    purse = open_purse("local", "cpu")
    taught = quick_profile("oppo")
    header = Header(purse.fingerprint, {"name": "cpu"}, Provenance.MODELLED)
    rows = [replace(row, provenance=Provenance.MODELLED) for row in taught.measurements]
    Profile(tuple(rows), header).save(tmp_path / "here.ampere")
    battery_j = 0.7 * STEPS * taught.estimate("zoo:lenet5(channels=[6, 16])").energy_j
    (tmp_path / "fleet.toml").write_text(
        f'[[member]]\nname = "here"\nprofile = "here.ampere"\nbattery = "{battery_j!r}J"\n'
    )
    write_jobs(tmp_path, '["here"]', 'shrink = "50%"\nvalidation_samples = 20\nvalidations = 4\n')
    text = (tmp_path / "jobs.toml").read_text().replace("[3, 6]", "[6, 16]")
    (tmp_path / "jobs.toml").write_text(text)
    fleet = read_fleet(tmp_path / "fleet.toml")
    tasks = read_jobs(tmp_path / "jobs.toml", fleet)
    plan = schedule(fleet, tasks)
    assert [each.share < 1 for each in plan.assignments] == [True]
    mains = type(fleet)(tuple(replace(member, battery=None) for member in fleet))
    said: list[str] = []
    with a_harbour(tmp_path) as harbour:
        harbour.start_as("here", "local", "--meter", "cpu")
        with open_run(
            tmp_path / "run", plan, mains, tasks, patience_s=PATIENCE_S, say=said.append
        ) as runner:
            assert run_fleet(runner, harbour.place, patience_s=PATIENCE_S, say=said.append), said
            weights = runner.logbook.fetch("digits")
        book = read_logbook(tmp_path / "run")
        check(book, harbour, "here")
    assert book.members["here"].provenance is Provenance.MODELLED
    from safetensors.torch import load

    assert weights is not None
    shapes = [value.shape for name, value in load(weights).items() if value.dim() == 4]
    assert shapes and all(shape[0] < 16 for shape in shapes)
