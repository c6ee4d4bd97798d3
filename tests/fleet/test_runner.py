"""A plan that is carried out: whatever is killed, every job ends and no joule is lost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.errors import DataError, JournalError
from ampere.fleet.member import Fleet, Span
from ampere.fleet.plan import Assignment
from ampere.fleet.runs.book import Book
from ampere.fleet.runs.engine import EngineLost
from ampere.fleet.runs.logbook import read_logbook
from ampere.fleet.runs.overview import overview, overview_json
from ampere.fleet.runs.runner import Runner
from ampere.meters.base import Provenance
from fleet.crews import (
    BEGINS_S,
    OPENED,
    STEP_J,
    FakeEngine,
    FakeWorker,
    a_member,
    a_plan,
    a_task,
    identity_of,
    open_fake,
    round_robin,
)
from libraries import a_profile

Tick: TypeAlias = Callable[[FakeEngine, int], None]


@pytest.fixture(autouse=True)
def closing() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def check(book: Book, workers: Sequence[FakeWorker]) -> None:
    """The ledger is the meter, and each step counts once."""
    for worker in workers:
        line = book.members[worker.name]
        assert line.paid_j == pytest.approx(worker.meter_j)
        assert line.metered_j == pytest.approx(worker.meter_j)
        assert line.other_j == 0
    assert book.paid_j == pytest.approx(sum(line.energy_j for line in book.jobs.values()))
    counted = sum(line.done for line in book.jobs.values())
    assert book.paid_j - book.wasted_j == pytest.approx(STEP_J * counted)


def test_every_job_ends_and_the_ledger_is_the_meter(tmp_path: Path) -> None:
    members = [a_member("a"), a_member("b", 500.0)]
    workers = [FakeWorker("a"), FakeWorker("b", 500.0)]
    runner = open_fake(tmp_path, members, [a_task("x"), a_task("y", 25)])
    assert runner.run(FakeEngine(workers))
    check(runner.book, workers)
    assert (runner.book.wasted_j, runner.book.plans) == (0, 1)
    assert runner.logbook.fetch("y") == b" y" * 25
    assert read_logbook(tmp_path).paid_j == 2 * 125


def test_what_may_not_be_divided_is_checkpointed_all_the_same(tmp_path: Path) -> None:
    engine = FakeEngine([FakeWorker("a")])
    assert open_fake(tmp_path, [a_member("a")], [a_task("x", 100, None)]).run(engine)
    assert engine.orders == 20


def test_a_killed_worker_costs_one_chunk_at_most(tmp_path: Path) -> None:
    a, b = FakeWorker("a", dies_after=7), FakeWorker("b")
    said: list[str] = []
    runner = open_fake(tmp_path, [a_member("a"), a_member("b")], [a_task("x"), a_task("y")], said)
    assert runner.run(FakeEngine([a, b]))
    book = runner.book
    assert not book.members["a"].here
    assert [chunk.sent.steps for chunk in book.unsettled()] == [10]
    assert (book.wasted_j, book.paid_j) == (0, 2 * STEP_J * 100)  # what it took, nobody knows
    assert any("are lost" in line for line in said)
    assert "not known yet" in overview(book).text()


def test_a_worker_that_comes_back_tells_what_was_lost(tmp_path: Path) -> None:
    a, b = FakeWorker("a", dies_after=7), FakeWorker("b")

    def restart(engine: FakeEngine, count: int) -> None:
        if "a" not in engine.alive and count > 5:
            engine.start(a)

    runner = open_fake(tmp_path, [a_member("a"), a_member("b")], [a_task("x"), a_task("y")])
    assert runner.run(FakeEngine([a, b], restart))
    check(runner.book, [a, b])
    assert runner.book.wasted_j == 7 * STEP_J
    assert not runner.book.unsettled()


def test_a_flat_battery_keeps_what_it_trained(tmp_path: Path) -> None:
    a, b = FakeWorker("a", 50.0, 20.0), FakeWorker("b")
    members = [a_member("a", 50.0, 20.0), a_member("b")]
    said: list[str] = []
    runner = open_fake(tmp_path, members, [a_task("x"), a_task("y")], said)
    assert runner.run(FakeEngine([a, b]))
    check(runner.book, [a, b])
    assert (a.battery_j, runner.book.members["a"].usable_j) == (20.0, 0.0)
    assert runner.book.members["a"].flat
    assert runner.book.wasted_j == 0
    assert runner.book.plans == 2
    assert "a: its battery is down to its reserve" in said


def test_a_battery_that_nobody_reads_loses_what_was_metered(tmp_path: Path) -> None:
    a, b = FakeWorker("a"), FakeWorker("b")
    runner = open_fake(tmp_path, [a_member("a", 30.0), a_member("b")], [a_task("x")])
    assert runner.run(FakeEngine([a, b]))
    check(runner.book, [a, b])
    assert runner.book.members["a"].battery_j == 0.0


def test_estimates_that_are_too_low_have_the_rest_planned_again(tmp_path: Path) -> None:
    a = FakeWorker("a", step_j=1.6 * STEP_J)
    runner = open_fake(tmp_path, [a_member("a")], [a_task("x", 40)])
    assert runner.run(FakeEngine([a]))
    assert runner.book.plans > 1
    assert runner.book.members["a"].paid_j == pytest.approx(a.meter_j)


def test_a_runner_that_was_killed_goes_on_from_its_logbook(tmp_path: Path) -> None:
    a, b = FakeWorker("a"), FakeWorker("b")
    members, tasks = [a_member("a"), a_member("b")], [a_task("x"), a_task("y")]

    class Killed(BaseException):
        pass

    def kill(engine: FakeEngine, count: int) -> None:
        if count == 4:
            raise Killed

    runner = open_fake(tmp_path, members, tasks)
    engine = FakeEngine([a, b], kill)
    with pytest.raises(Killed):
        runner.run(engine)
    runner.logbook.close()
    while engine.pending:  # its workers go on without it, and keep what they have
        engine.wait(0.0)
    again = open_fake(tmp_path, members, tasks)
    assert len(again.book.running()) == 2
    assert again.run(FakeEngine([a, b]))
    check(again.book, [a, b])
    assert (again.book.wasted_j, again.book.paid_j) == (0, 2 * STEP_J * 100)
    assert len(a.trained + b.trained) == len({*a.trained, *b.trained}) == 200


def test_an_engine_that_is_lost_is_replaced(tmp_path: Path) -> None:
    a = FakeWorker("a")

    def lose(engine: FakeEngine, count: int) -> None:
        engine.lost = count == 3

    runner = open_fake(tmp_path, [a_member("a")], [a_task("x")])
    with pytest.raises(EngineLost):
        runner.run(FakeEngine([a], lose))
    assert runner.run(FakeEngine([a]))
    check(runner.book, [a])
    assert runner.book.wasted_j == 0


def test_a_worker_that_lies_about_its_device_gets_no_work(tmp_path: Path) -> None:
    liar = FakeWorker("a", identity={"device": "simulated a", "parameters": "2"})
    said: list[str] = []
    runner = open_fake(tmp_path, [a_member("a"), a_member("b")], [a_task("x")], said)
    assert runner.run(FakeEngine([liar, FakeWorker("b")]))
    assert liar.trained == []
    assert "parameters is 2 there, 1 in the profile" in "".join(said)
    assert all("\n" not in line for line in said)


def test_a_worker_with_other_threads_is_told_how_to_join(tmp_path: Path) -> None:
    said: list[str] = []
    profile = a_profile({**identity_of("a"), "threads": "4"}, made_for=None)
    worker = FakeWorker("a", identity={**identity_of("a"), "threads": "1"})
    runner = open_fake(tmp_path, [replace(a_member("a"), profile=profile)], [a_task("x")], said)
    assert not runner.run(FakeEngine([worker]))
    assert "threads is 1 there, 4 in the profile; start it with --threads 4, or profile" in said[0]


def test_simulated_joules_are_never_taken_for_measured_ones(tmp_path: Path) -> None:
    liar, said = FakeWorker("a", provenance=Provenance.COUNTER), list[str]()
    assert not open_fake(tmp_path, [a_member("a")], [a_task("x")], said).run(FakeEngine([liar]))
    assert "measured by a hardware counter" in "".join(said)
    assert liar.trained == []


def test_a_stranger_gets_no_work(tmp_path: Path) -> None:
    stranger, said = FakeWorker("c"), list[str]()
    runner = open_fake(tmp_path, [a_member("a")], [a_task("x")], said)
    assert runner.run(FakeEngine([stranger, FakeWorker("a")]))
    assert stranger.trained == []
    assert "there is no member c in the fleet" in "".join(said)


def test_a_meter_that_goes_back_is_not_believed(tmp_path: Path) -> None:
    a, b, said = FakeWorker("a"), FakeWorker("b"), list[str]()

    def reset(engine: FakeEngine, count: int) -> None:
        if count == 6:
            a.meter_j = 0.0
            engine.start(a)

    runner = open_fake(tmp_path, [a_member("a"), a_member("b")], [a_task("x"), a_task("y")], said)
    assert runner.run(FakeEngine([a, b], reset))
    assert "its meter went back" in "".join(said)


def test_nobody_is_there(tmp_path: Path) -> None:
    runner = open_fake(tmp_path, [a_member("a")], [a_task("x")])
    assert not runner.run(FakeEngine([]))
    assert runner.book.jobs["x"].left == 100


def test_a_member_that_never_came_is_planned_around(tmp_path: Path) -> None:
    runner = open_fake(tmp_path, [a_member("a"), a_member("b")], [a_task("x"), a_task("y")])
    b = FakeWorker("b")
    assert runner.run(FakeEngine([b]))
    assert len(b.trained) == 200


def ticking(monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], Tick]:
    """The seconds of both of a runner's clocks, and what passes four of them at each wait."""
    now_s = [1.0]
    monkeypatch.setattr(
        "ampere.fleet.runs.runner.time", SimpleNamespace(monotonic=lambda: now_s[0])
    )

    def tick(engine: FakeEngine, count: int) -> None:
        now_s[0] += 4.0

    return now_s, tick


def test_a_member_that_never_came_is_planned_around_while_others_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, tick = ticking(monkeypatch)
    members, tasks = [a_member("a"), a_member("b")], [a_task("x"), a_task("y")]
    runner = open_fake(tmp_path, members, tasks, clock=lambda: BEGINS_S + now_s[0], patience_s=10.0)
    assert runner.run(FakeEngine([FakeWorker("a")], tick))
    assert runner.book.planned_s == 13.0  # x is done after 41


def test_a_worker_that_died_while_the_runner_was_down_is_planned_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, tick = ticking(monkeypatch)
    members, tasks = [a_member("a"), a_member("b")], [a_task("x"), a_task("y", 10)]

    class Killed(BaseException):
        pass

    def kill(engine: FakeEngine, count: int) -> None:
        raise Killed

    def open_it() -> Runner:
        return open_fake(
            tmp_path, members, tasks, clock=lambda: BEGINS_S + now_s[0], patience_s=10.0
        )

    a, runner = FakeWorker("a"), open_it()
    with pytest.raises(Killed):
        runner.run(FakeEngine([a, FakeWorker("b")], kill))
    runner.logbook.close()
    runner = open_it()
    assert {chunk.sent.member for chunk in runner.book.running()} == {"a", "b"}
    assert runner.run(FakeEngine([a], tick))
    assert runner.book.members["b"].why == "its worker is not there"
    assert runner.book.planned_s == 13.0
    assert [chunk.sent.job for chunk in runner.book.unsettled()] == ["y"]


def test_a_member_that_is_not_due_is_waited_for_while_others_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, tick = ticking(monkeypatch)
    late, b = replace(a_member("b"), available=(Span(35.0),)), FakeWorker("b")

    def join(engine: FakeEngine, count: int) -> None:
        tick(engine, count)
        if now_s[0] >= 35.0:
            engine.alive["b"] = b

    tasks = [a_task("x"), a_task("y")]
    runner = open_fake(
        tmp_path,
        [a_member("a"), late],
        tasks,
        clock=lambda: BEGINS_S + now_s[0],
        patience_s=10.0,
    )
    assert runner.run(FakeEngine([FakeWorker("a")], join))
    assert runner.book.plans == 1
    assert len(b.trained) == 100


def test_what_fits_nowhere_is_named_and_goes_on_later(tmp_path: Path) -> None:
    a = FakeWorker("a", 30.0)
    members, tasks = [a_member("a", 30.0)], [a_task("x")]
    runner = open_fake(tmp_path, members, tasks)
    assert not runner.run(FakeEngine([a]))
    assert runner.book.jobs["x"].done == 15
    a.life, a.battery_j = 2, 500.0  # charged
    assert runner.run(FakeEngine([a]))
    check(runner.book, [a])


def test_a_job_waits_for_its_earliest_start(tmp_path: Path) -> None:
    now = [BEGINS_S]

    def tick(engine: FakeEngine, count: int) -> None:
        now[0] += 1.0

    tasks = [a_task("late", 10, earliest_s=5.0), a_task("early", 10)]
    runner = open_fake(tmp_path, [a_member("a")], tasks, clock=lambda: now[0])
    assert runner.run(FakeEngine([FakeWorker("a", clock_s=BEGINS_S)], tick))
    first, second = (runner.book.chunks[n].sent for n in (1, 2))
    assert (first.job, second.job) == ("early", "late")
    assert second.time_s >= 5.0


def test_times_are_of_one_clock(tmp_path: Path) -> None:
    said: list[str] = []
    off = FakeWorker("a", clock_s=BEGINS_S + 3600)
    runner = open_fake(tmp_path, [a_member("a")], [a_task("x", 20)], said)
    assert runner.run(FakeEngine([off]))
    assert "a: its clock is 3599 s ahead of this one, which counts" in said
    assert runner.book.time_s == 1.0


def test_a_clock_that_was_set_back_does_not_turn_the_book_around(tmp_path: Path) -> None:
    members, tasks, said = [a_member("a")], [a_task("x", 20)], list[str]()
    open_fake(tmp_path, members, tasks, clock=lambda: BEGINS_S + 1000).logbook.close()
    runner = open_fake(tmp_path, members, tasks, said, clock=lambda: BEGINS_S)
    assert runner.run(FakeEngine([FakeWorker("a")]))
    assert runner.book.time_s == 1000.0
    assert "this clock is 1000 s behind the logbook's" in said[0]


def test_a_run_that_waits_for_its_beginning_says_so(tmp_path: Path) -> None:
    said = list[str]()
    open_fake(tmp_path, [a_member("a")], [a_task("x")], clock=lambda: BEGINS_S - 36_000)
    OPENED.pop().close()
    open_fake(tmp_path, [a_member("a")], [a_task("x")], said, clock=lambda: BEGINS_S - 36_000)
    assert said == ["the plan begins in 10 h"]


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
@pytest.mark.parametrize("text", ["2026-01-01T00:00:05", "2026-01-01T00:00:05Z"])
def test_a_run_asks_no_machine_for_its_zone(tmp_path: Path, text: str) -> None:
    plan = round_robin(Fleet((a_member("a"),)), [a_task("x")])
    plan = replace(plan, begins=text)
    runner = open_fake(tmp_path, [a_member("a")], [a_task("x")], plan=plan)
    assert [each.start_s for each in runner.book.portions] == [5.0]


def test_a_plan_for_devices_that_are_gone_is_refused(tmp_path: Path) -> None:
    gone = a_plan([Assignment("x", "sold", 0.0, 1.0, 100, 200.0, (100.0, 300.0))])
    with pytest.raises(DataError, match="sold, which is not in the fleet"):
        open_fake(tmp_path, [a_member("a")], [a_task("x")], plan=gone)


def test_a_worker_has_one_slot(tmp_path: Path) -> None:
    double = replace(a_member("a"), slots=2)
    with pytest.raises(DataError, match="member a has 2 slots: a worker runs one job at a time"):
        open_fake(tmp_path, [double], [a_task("x")])


def test_a_logbook_of_another_run_is_refused(tmp_path: Path) -> None:
    open_fake(tmp_path, [a_member("a")], [a_task("x")]).logbook.close()
    with pytest.raises(JournalError, match="job x differs"):
        open_fake(tmp_path, [a_member("a")], [a_task("x", 200)])
    with pytest.raises(JournalError, match="does not know the member b: run what is new in a new"):
        open_fake(tmp_path, [a_member("a"), a_member("b")], [a_task("x")])
    with pytest.raises(JournalError, match="does not know the job y: run what is new in a new"):
        open_fake(tmp_path, [a_member("a")], [a_task("x"), a_task("y")])


def test_a_logbook_goes_on_without_a_member_but_with_all_jobs(tmp_path: Path) -> None:
    members, tasks = [a_member("a"), a_member("b")], [a_task("x"), a_task("y")]
    open_fake(tmp_path, members, tasks).logbook.close()
    with pytest.raises(JournalError, match="has the job y, which is left out"):
        open_fake(tmp_path, members, tasks[:1])
    runner = open_fake(tmp_path, members[:1], tasks)  # y was planned for b
    assert runner.run(FakeEngine([FakeWorker("a")]))
    assert {chunk.sent.member for chunk in runner.book.chunks.values()} == {"a"}


def test_one_runner_at_a_time(tmp_path: Path) -> None:
    runner = open_fake(tmp_path, [a_member("a")], [a_task("x")])
    with pytest.raises(JournalError, match="is kept by another process"):
        open_fake(tmp_path, [a_member("a")], [a_task("x")])
    runner.logbook.close()


def test_a_checkpoint_that_was_touched_is_refused(tmp_path: Path) -> None:
    runner = open_fake(tmp_path, [a_member("a")], [a_task("x")])
    assert runner.run(FakeEngine([FakeWorker("a")]))
    (path,) = (tmp_path / "checkpoints").iterdir()
    path.write_bytes(b"other numbers")
    with pytest.raises(JournalError, match="is not the checkpoint of job x"):
        runner.logbook.fetch("x")


def test_the_overview_as_data(tmp_path: Path) -> None:
    runner = open_fake(tmp_path, [a_member("a", 500.0)], [a_task("x")])
    assert runner.run(FakeEngine([FakeWorker("a", 500.0)]))
    row = overview_json(runner.book)
    assert row["ended"] and row["paid_j"] == 200.0
    assert row["members"][0]["battery_j"] == 300.0
    assert row["members"][0]["provenance"] == "simulated"


@settings(max_examples=12)
@given(
    deaths=st.lists(st.one_of(st.none(), st.integers(0, 12)), min_size=3, max_size=3),
    batteries=st.lists(st.one_of(st.none(), st.integers(10, 200)), min_size=2, max_size=2),
    kill_at=st.integers(1, 40),
    jobs=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=6),
)
def test_nothing_is_lost_or_counted_twice(
    tmp_path_factory: pytest.TempPathFactory,
    deaths: list[int | None],
    batteries: list[int | None],
    kill_at: int,
    jobs: list[tuple[int, int]],
) -> None:
    """Workers die and come back, batteries run flat, the runner is killed once: all ends well."""
    folder = tmp_path_factory.mktemp("run")
    held = [None if each is None else float(each) for each in (*batteries, None)]
    members = [a_member(n, held_j) for n, held_j in zip("abc", held, strict=True)]
    tasks = [a_task(f"job{i}", steps, chunk) for i, (steps, chunk) in enumerate(jobs)]
    workers = [
        FakeWorker(n, held_j, dies_after=death)
        for n, held_j, death in zip("abc", held, deaths, strict=True)
    ]

    class Killed(BaseException):
        pass

    def hurt(engine: FakeEngine, count: int) -> None:
        if count == kill_at and not hurt_once:
            hurt_once.append(count)
            raise Killed
        for worker in workers:
            if worker.name not in engine.alive:
                engine.start(worker)

    hurt_once: list[int] = []
    runner = open_fake(folder, members, tasks, patience_s=10.0)  # workers come back at once
    try:
        ended = runner.run(FakeEngine(workers, hurt))
    except Killed:
        runner.logbook.close()
        runner = open_fake(folder, members, tasks, patience_s=10.0)
        ended = runner.run(FakeEngine(workers, hurt))
    book = runner.book
    check(book, workers)
    assert ended and not math.isnan(book.paid_j)
    longest = max(line.order.chunk_steps for line in book.jobs.values())
    died = sum(death is not None for death in deaths)
    assert book.wasted_j <= died * longest * STEP_J
    runner.logbook.close()
    assert read_logbook(folder) == book
