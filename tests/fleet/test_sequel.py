"""After a run: what its logbook has left is planned again, and profiles may be told its joules."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path

import pytest

from ampere.fleet.files.jobs import read_jobs
from ampere.fleet.files.members import profile_files, read_fleet
from ampere.fleet.plan import read_plan
from ampere.fleet.runs.events import Event, Joined, Left, Paid, Sent
from ampere.fleet.runs.lessons import lessons_of, tell_profiles
from ampere.fleet.runs.logbook import Logbook, read_logbook
from ampere.fleet.runs.turns import planned
from ampere.integrations.fleet_jobs import open_run, work_of
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile
from cli.runner import answer, check_bad_line, run
from fleet.crews import BEGINS, round_robin
from simulated_profiles import quick_profile

FLEET = """
[[member]]
name = "phone"
profile = "phone.ampere"
battery = "1Wh"
reserve = "10%"

[[member]]
name = "board"
profile = "board.ampere"
"""
JOBS = """
[defaults]
model = "zoo:lenet5(channels=[4, 12])"
chunk_steps = 1000

[[job]]
name = "digits"
steps = 20_000

[[job]]
name = "letters"
steps = 10_000
deadline = "2h"
"""
LATER = "2026-01-01T01:00:00+00:00"
DIGEST = "ab" * 32
AFTER = f"schedule fleet.toml jobs.toml --after run --begins {LATER}"


@functools.cache
def profile_of(device: str) -> Profile:
    return quick_profile(device, 3)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose phone did all letters and some digits, and left."""
    monkeypatch.chdir(tmp_path)
    profile_of("oppo").save("phone.ampere")
    profile_of("xavier").save("board.ampere")
    Path("fleet.toml").write_text(FLEET)
    Path("jobs.toml").write_text(JOBS)
    write_run(*digits_on_phone(), Left(6.0, "phone", "its worker is gone"))
    return tmp_path


def digits_on_phone(provenance: Provenance = Provenance.SIMULATED) -> tuple[Event, ...]:
    """A thousand steps of them."""
    device = profile_of("oppo").header.fingerprint.id
    return (
        Joined(1.0, "phone", device, provenance, 0.0, 3600.0),
        Sent(2.0, 1, "digits", "phone", 0, 1000, 3.0),
        Paid(5.0, 1, 1000, 4.0, 4.0, provenance, 3000.0, DIGEST),
    )


def write_run(*events: Event) -> None:
    """A logbook of the files that are there; one that was there before is gone."""
    Path("run/logbook.jsonl").unlink(missing_ok=True)
    fleet = read_fleet("fleet.toml", begins=BEGINS)
    tasks = read_jobs("jobs.toml", fleet, begins=BEGINS)
    opened = work_of(fleet, tasks).opened(fleet, "run", BEGINS)
    with Logbook("run", opened) as logbook:
        logbook.append(planned(round_robin(fleet, tasks), logbook.book, "the plan", 0.0))
        for event in events:
            logbook.append(event)


def test_what_is_left_is_planned_with_batteries_as_they_were_last() -> None:
    plan = answer(run(*AFTER.split(), "--json"))

    assert plan["begins"] == LATER
    assert {each["job"]: each["steps"] for each in plan["assignments"]} == {
        "digits": 19_000,
        "letters": 10_000,
    }
    assert plan["standings"][0]["charges"][0]["energy_j"] == 3000.0
    assert plan["warnings"][-2:] == [
        "phone is taken to have 3.00 kJ in its battery, as the run told last, not 3.60 kJ: if it"
        " was charged since, say --charged phone",
        "phone had left the run (its worker is gone): take it out of the fleet if it is not back",
    ]


def test_a_charge_that_was_looked_at_since_counts() -> None:
    Path("fleet.toml").write_text(FLEET.replace('"1Wh"', '"1Wh"\ncharge = "50%"'))

    plan = answer(run(*AFTER.split(), "--json"))

    assert plan["standings"][0]["charges"][0]["energy_j"] == 1800.0
    assert not any("is taken to have" in each for each in plan["warnings"])


def test_a_battery_that_is_full_again_is_said_to_be() -> None:
    plan = answer(run(*AFTER.split(), "--charged", "phone", "--json"))

    assert plan["standings"][0]["charges"][0]["energy_j"] == 3600.0
    assert not any("is taken to have" in each for each in plan["warnings"])
    check_bad_line(f"{AFTER} --charged tablet", 1, "there is no member tablet in the fleet")
    alone = "schedule fleet.toml jobs.toml --charged phone"
    check_bad_line(alone, 2, "--charged goes with --after")


def test_times_count_from_when_the_run_began() -> None:
    late = AFTER.replace(LATER, "2026-01-01T02:00:01+00:00").split()
    result = run(*late)
    assert result.exit_code == 3, result.output
    assert "letters: its deadline has passed" in result.stdout


def test_a_newer_plan_takes_the_place_of_an_older_one() -> None:
    run(*AFTER.split(), "-o", "again.json")
    fleet = read_fleet("fleet.toml", begins=BEGINS)
    tasks = read_jobs("jobs.toml", fleet, begins=BEGINS)
    for _ in range(2):  # it is taken once
        with open_run("run", read_plan("again.json"), fleet, tasks) as runner:
            assert runner.book.plans == 2
            assert runner.book.unplanned("digits") == 0
            assert min(each.start_s for each in runner.book.portions) == 3600.0
    with open_run("run", round_robin(fleet, tasks), fleet, tasks) as runner:
        assert runner.book.plans == 2


def test_a_device_that_is_gone_is_taken_out_and_the_run_goes_on() -> None:
    text = FLEET[FLEET.rindex("[[member]]") :]
    Path("fleet.toml").write_text(text)
    run(*AFTER.split(), "-o", "again.json")
    fleet = read_fleet("fleet.toml", begins=BEGINS)
    tasks = read_jobs("jobs.toml", fleet, begins=BEGINS)
    with open_run("run", read_plan("again.json"), fleet, tasks) as runner:
        assert {each.member for each in runner.book.portions} == {"board"}


def test_a_run_that_is_done_leaves_nothing() -> None:
    text = JOBS.replace("20_000", "1_000")
    Path("jobs.toml").write_text(text[: text.rindex("[[job]]")])
    write_run(*digits_on_phone())
    check_bad_line(AFTER, 1, "all jobs are done: there is nothing to plan again")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda: Path("run/logbook.jsonl").unlink(), "does not exist: `ampere fleet run` makes it"),
        (lambda: Path("run/logbook.jsonl").write_text("{}\n"), "line 1 is damaged"),
        (
            lambda: Path("jobs.toml").write_text(JOBS.replace("[4, 12]", "[4, 13]")),
            "job digits is another one than in the logbook, or was pruned there",
        ),
        (
            lambda: Path("jobs.toml").write_text(
                JOBS.replace("digits", "a").replace("letters", "b")
            ),
            "the logbook is of other jobs: digits, letters",
        ),
        (
            lambda: Path("fleet.toml").write_text(FLEET.replace('"board.amp', '"phone.amp')),
            "member board is another device than in the logbook",
        ),
    ],
)
def test_what_cannot_be_gone_on_with_is_said(change: object, says: str) -> None:
    change()  # type: ignore[operator]
    check_bad_line(AFTER, 1, says)


def test_the_rest_begins_after_the_run() -> None:
    check_bad_line(
        AFTER.replace(LATER, "2026-01-01T00:00:02+00:00"),
        *(1, "the run went on until 6.00 s after it began: what is left cannot begin before that"),
    )


def test_profiles_are_told_what_jobs_took_that_are_done_and_each_once() -> None:
    Path("jobs.toml").write_text(JOBS.replace("20_000", "1_000"))
    write_run(*digits_on_phone())
    before = profile_of("oppo")
    fleet = read_fleet("fleet.toml", begins=BEGINS)
    tasks = read_jobs("jobs.toml", fleet, begins=BEGINS)

    rows, notes = lessons_of(read_logbook("run"), fleet, tasks)

    assert (list(rows), notes) == (["phone"], [])
    (row,) = rows["phone"]
    assert row.energy_j == pytest.approx(0.004)
    told = tell_profiles(rows, profile_files("fleet.toml"))
    assert told[0].startswith("1 row of phone added to ")
    with pytest.warns(UserWarning, match="1 row left out: in the profile already"):
        assert tell_profiles(rows, profile_files("fleet.toml"))[0].startswith("0 rows of phone")
    assert len(Profile.load("phone.ampere").measurements) == 1 + len(before.measurements)
    assert len(Profile.load("board.ampere").measurements) == 3


@pytest.mark.parametrize("around", ["", "validation_samples = 20\nvalidations = 4\n"])
def test_a_profile_that_has_learned_is_not_told_the_same_again(around: str) -> None:
    """By its new fit the same joules are estimated otherwise, in the last digits at least."""
    text = JOBS.replace("20_000", "1_000")
    Path("jobs.toml").write_text(text.replace("[defaults]\n", f"[defaults]\n{around}"))
    write_run(*digits_on_phone())
    for added in (1, 0):
        fleet = read_fleet("fleet.toml", begins=BEGINS)
        tasks = read_jobs("jobs.toml", fleet, begins=BEGINS)
        rows, notes = lessons_of(read_logbook("run"), fleet, tasks)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tell_profiles(rows, profile_files("fleet.toml"))
        assert len(Profile.load("phone.ampere").measurements) == 4
        assert bool(notes) == (bool(around) and not added)


def test_joules_of_another_meter_are_not_told() -> None:
    Path("jobs.toml").write_text(JOBS.replace("20_000", "1_000"))
    write_run(*digits_on_phone(Provenance.SENSOR))
    fleet = read_fleet("fleet.toml", begins=BEGINS)
    tasks = read_jobs("jobs.toml", fleet, begins=BEGINS)

    rows, (note,) = lessons_of(read_logbook("run"), fleet, tasks)

    assert not rows
    assert note.startswith("what digits took on phone is not told: its joules are measured by")
