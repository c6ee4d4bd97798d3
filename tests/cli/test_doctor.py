"""`ampere doctor`: a line for each look, whatever is missing or broken."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any, NamedTuple

import pytest

import ampere_energy
from ampere.evaluation import checkup
from ampere.evaluation.checkup import FIX, NOTE, OK, Checkup, Finding
from ampere.frameworks import runtimes
from ampere.frameworks.runtimes import RUNTIMES, Runtime, RuntimeEntry
from ampere.meters import registry, surroundings
from ampere.meters.base import Provenance
from ampere.meters.surroundings import Evidence, Process, Watched
from cli.runner import answer, run
from golden_files import agreed

Looks = Callable[[], Iterable[Finding]]


class Usage(NamedTuple):
    """What a disk has."""

    total: int
    used: int
    free: int


def only(look: Looks) -> Finding:
    (finding,) = look()
    return finding


def watched(monkeypatch: pytest.MonkeyPatch, seen: Watched) -> None:
    monkeypatch.setattr(surroundings.Surroundings, "watch", lambda self, time_s: seen)


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no second is waited, and no framework is loaded."""
    watched(monkeypatch, Watched(1.0, Evidence(0.0, 2, others_s=0.0)))
    for name in RUNTIMES:
        entry = RuntimeEntry(name, _absent, (f"no-{name}",))
        monkeypatch.setitem(RUNTIMES, name, entry)


def _absent() -> Runtime:
    raise ModuleNotFoundError("No module named 'gone'", name="gone")


def _broken() -> Runtime:
    raise OSError("libfoo.so.1: cannot open shared object file")


@pytest.mark.usefixtures("light")
def test_a_line_for_each_look_and_nothing_else() -> None:
    result = run("doctor")
    assert result.exit_code == 0, result.output
    *lines, blank, verdict = result.stdout.splitlines()
    assert (blank, verdict) == ("", "nothing must be fixed")
    states = {line.split()[1]: line.split()[0] for line in lines}
    expected = ["machine", "python", "ampere", "name", "quiet", "meter", *RUNTIMES, "adb", "ssh"]
    assert list(states) == [*expected, "disk"]
    assert set(states.values()) <= {OK, NOTE}
    assert result.stderr == ""


@pytest.mark.usefixtures("light")
def test_as_json_it_is_data() -> None:
    row = answer(run("doctor", "--json"))
    assert (row["ok"], row["to_fix"]) == (True, [])
    by_name = {each["name"]: each for each in row["findings"]}
    assert by_name["torch"]["state"] == NOTE
    assert "ampere-energy[torch]" in by_name["torch"]["remedy"]


@pytest.mark.usefixtures("light")
def test_what_must_be_fixed_ends_with_1_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ampere_energy, "is_shared", lambda init: True)
    result = run("doctor")
    assert result.exit_code == 1
    assert result.stdout.endswith("\nto be fixed: name\n")
    assert "pip uninstall ampere" in result.stdout
    failed = run("doctor", "--json")
    assert failed.exit_code == 1
    assert '"to_fix": ["name"]' in failed.stdout


def test_a_look_that_fails_is_a_finding_and_others_are_made() -> None:
    def fails() -> list[Finding]:
        raise RuntimeError("first line\nsecond line")

    found = checkup.examine([("odd", fails), ("even", lambda: [Finding("even", OK, "fine")])])
    assert [each.state for each in found.findings] == [FIX, OK]
    assert found.findings[0].text == "looking at it failed (RuntimeError: first line)"
    assert found.to_fix == ("odd",)


def test_a_runtime_is_absent_broken_or_there(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: Any = object()
    entries = (
        RuntimeEntry("a", _absent, ("no-such-distribution",)),
        RuntimeEntry("b", _absent, ("numpy",)),
        RuntimeEntry("c", _broken, ("numpy",)),
        RuntimeEntry("d", lambda: loaded, ("numpy",)),
    )
    monkeypatch.setattr(runtimes, "RUNTIMES", {entry.name: entry for entry in entries})
    absent, half, broken, there = checkup.look_at_runtimes()
    assert [absent.state, half.state, broken.state, there.state] == [NOTE, FIX, FIX, OK]
    assert absent.text == "not installed"
    assert "No module named 'gone'" in half.text
    assert "libfoo.so.1" in broken.text
    assert there.text == metadata.version("numpy")


def test_what_a_runtime_prints_of_itself_is_not_heard(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    loaded: Any = object()

    def chatters() -> Any:
        os.write(1, b"The device supports: nothing")
        return loaded

    monkeypatch.setattr(runtimes, "RUNTIMES", {"a": RuntimeEntry("a", chatters, ("numpy",))})
    checkup.look_at_runtimes()
    os.write(1, b"heard again")
    assert capfd.readouterr().out == "heard again"


def status(name: str, provenance: Provenance, default: bool) -> registry.MeterStatus:
    return registry.MeterStatus(name, provenance, "", True, None, default)


@pytest.mark.parametrize(
    ("meters", "state", "says"),
    [
        ([status("rapl", Provenance.COUNTER, True)], OK, "measured by a hardware counter"),
        ([status("cpu", Provenance.MODELLED, True)], NOTE, "modelled from CPU time, not measured"),
        ([status("cpu", Provenance.MODELLED, False)], FIX, "auto finds no meter"),
    ],
)
def test_the_meter_that_auto_takes(
    meters: list[registry.MeterStatus], state: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "describe_meters", lambda: meters)
    finding = only(checkup.look_at_meters)
    assert (finding.state, says in finding.text) == (state, True)
    assert ("ampere meters" in finding.remedy) == (state != OK)


@pytest.mark.parametrize(
    ("seen", "state", "says"),
    [
        (Watched(1.0, Evidence(0.0, 2, others_s=0.01)), OK, "nothing else ran"),
        (Watched(1.0, Evidence(0.0, 2)), NOTE, "does not tell"),
        (Watched(1.0), NOTE, "does not tell"),
        (
            Watched(1.0, Evidence(0.0, 2, others_s=0.9), (Process("make", 7, 0.9),)),
            NOTE,
            "busy right now: make (pid 7) takes 0.90 of its 2 cores",
        ),
    ],
)
def test_whether_others_run(
    seen: Watched, state: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched(monkeypatch, seen)
    finding = only(checkup.look_around)
    assert (finding.state, says in finding.text) == (state, True), finding


def test_ways_to_devices_and_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/ssh" if name == "ssh" else None)
    adb, ssh = checkup.look_at_clients()
    assert (adb.state, ssh.state, ssh.text) == (NOTE, OK, "/bin/ssh")
    assert "platform-tools" in adb.remedy
    for free, state in ((5 * 10**9, OK), (10**8, NOTE), (10**6, FIX)):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: Usage(free, 0, free))
        assert only(checkup.look_at_disk).state == state


def test_the_other_project_by_its_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert only(checkup.look_at_name).state == OK
    monkeypatch.setattr(checkup, "_version", lambda name: "0.5.4")
    finding = only(checkup.look_at_name)
    assert (finding.state, finding.remedy) == (FIX, ampere_energy.REMEDY)


def test_what_ampere_cannot_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    assert only(checkup.look_at_ampere).state == OK
    monkeypatch.setattr(checkup, "_version", lambda name: None if name == "scipy" else "2.0")
    finding = only(checkup.look_at_ampere)
    assert (finding.state, finding.remedy) == (FIX, "pip install scipy")


def test_it_is_printed_as_was_agreed_on() -> None:
    shown = repr(
        Checkup(
            (
                Finding("machine", OK, "Linux x86_64, Cortex-A72, 4 usable cores, 4 GiB"),
                Finding(
                    "meter", NOTE, "auto takes cpu: joules are modelled", "see `ampere meters`"
                ),
                Finding("name", FIX, "another \x1b[31mproject", "pip uninstall ampere"),
            )
        )
    )
    assert f"{shown}\n" == agreed("doctor.txt", f"{shown}\n")
