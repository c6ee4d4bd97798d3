"""`ampere survey`: a device is learned for any model, and asked about one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampere.acquisition import surveyor
from ampere.cli import options
from ampere.errors import Busy
from cli.runner import answer, check_bad_line, last_line, run
from fakes import FakeDevice
from surveyed import cost, kept_candidates

LINE = ("survey", "--profile", "s.ampere", "--like", "net.py:Net", "--energy-limit", 8)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, net: Path) -> None:
    """Few networks, that are read already, on a device that knows what calls cost."""
    monkeypatch.setattr(surveyor, "POOL", 8)
    monkeypatch.setattr(surveyor, "START", 6)
    monkeypatch.setattr(surveyor, "candidates", kept_candidates)
    monkeypatch.setattr(options.Machine, "open", lambda self, model=None: FakeDevice(cost))


def test_survey_then_estimate_any_model() -> None:
    done = run(*LINE, "--time-limit", 1e6)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("Survey of fake: ")
    assert "linear" in done.stdout and "update" in done.stdout
    assert "ampere estimate" in done.stdout.splitlines()[-1]
    said = answer(run("estimate", "zoo:lenet5", "--profile", "s.ampere", "--json"))
    assert said["energy_j"] > 0
    operations = {row["operation"]: row for row in said["operations"]}
    assert {"convolution", "linear", "update", "loss"} <= set(operations)
    told = sum(row["energy_j"] for row in said["operations"]) + said["layers"][-1]["energy_j"]
    assert told == pytest.approx(said["energy_j"])
    shown = run("estimate", "zoo:lenet5", "--profile", "s.ampere").stdout
    assert "\noperations  " in shown
    assert run("report", "s.ampere", "-o", "page.html").exit_code == 0
    assert "What operations cost" in Path("page.html").read_text(encoding="utf-8")


def test_a_table_of_widths_needs_a_family() -> None:
    run(*LINE, "--time-limit", 1e6)
    done = run("prune", "zoo:lenet5", "--profile", "s.ampere", "--budget", "50%", "-o", "half")
    assert done.exit_code == 1
    assert "a survey makes no tables" in last_line(done)


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("survey --profile s.ampere --like sound", 1, "vision, mobile, language, recurrent"),
        ("survey --profile s.ampere --like net.py:Nothing", 1, "Nothing"),
        ("survey --profile s.ampere --time-limit 0", 2, "above 0"),
        ("survey --profile s.ampere --tolerance 3", 2, "no share"),
        ("survey --profile s.ampere --dtype float7", 1, "float7"),
        ("survey --profile nowhere/s.ampere --like net.py:Net", 1, "no directory"),
    ],
)
def test_bad_lines(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)
    assert not Path("s.ampere").exists()


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), Busy("the device is busy")])
def test_what_was_measured_is_kept(monkeypatch: pytest.MonkeyPatch, raised: BaseException) -> None:
    bursts = FakeDevice.burst

    def breaks(device: FakeDevice, handle: int, steps: int) -> object:
        if len(device.seen) > 12:
            raise raised
        return bursts(device, handle, steps)

    monkeypatch.setattr(FakeDevice, "burst", breaks)
    done = run(*LINE, "--time-limit", 1e6)
    assert done.exit_code != 0
    assert "the same command goes on" in last_line(done)
    assert Path("s.ampere").stat().st_size > 0
