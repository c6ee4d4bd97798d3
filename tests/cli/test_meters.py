"""`ampere meters`: what can measure here, with a live reading."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ampere
from ampere.cli import meters as doctor
from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Meter, Reading, Resolution
from ampere.meters.drivers.cpu import CpuMeter
from cli.runner import answer, check_bad_line, run


@pytest.fixture
def short_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LOOK_S", 0.02)


def line_of(name: str, text: str) -> str:
    """The line of a meter in the list; what is known of `cpu` stands below."""
    line, *_ = [line for line in text.splitlines() if line.split()[:1] == [name]]
    return line


def test_meters(short_look: None) -> None:
    row = answer(run("meters", "--json"))
    by_name = {meter["name"]: meter for meter in row["meters"]}
    assert set(by_name) >= set(ampere.meters.registry.own_meters())
    assert [meter["name"] for meter in row["meters"] if meter["default"]] == [row["default"]]
    assert by_name["cpu"]["provenance"] == "modelled"
    assert by_name["cpu"]["reading"]["power_w"] == pytest.approx(2.7, rel=0.5)
    assert by_name["cpu"]["reading"]["time_s"] >= 0.02
    assert row["calibration"] is None
    result = run("meters")
    assert result.exit_code == 0
    for name, meter in by_name.items():
        line = line_of(name, result.stdout)
        looked = meter["available"] and name not in ("fake", "replay")
        assert bool(meter["reading"]) == looked, name
        if looked:
            assert {"power_w", "doubt", "failed"} & set(meter["reading"])
        else:
            why = str(meter["obstacle"]).removesuffix("; choose another meter")
            assert meter["available"] or why in line
    assert f"{row['default']} (auto)" in result.stdout
    assert "are assumptions; `ampere calibrate` fits them" in result.stdout


def test_meters_say_what_the_model_was_fitted_to(short_look: None) -> None:
    assert run("calibrate", "--watts", "0=20", "--watts", "4=60").exit_code == 0
    text = run("meters").stdout
    assert "20 W idle and 10 W for each busy core, fitted to watts that were typed in" in text
    row = answer(run("meters", "--json"))
    assert row["calibration"]["active_w"] == pytest.approx(10.0)
    (cpu,) = (meter for meter in row["meters"] if meter["name"] == "cpu")
    assert cpu["reading"]["power_w"] == pytest.approx(20.0, rel=0.6)


@pytest.mark.parametrize("when", [0, 1, 2])  # opening it, the first reading, the second
@pytest.mark.parametrize(
    ("error", "usable"),
    [
        (MeterError("it talks nonsense"), "no"),
        (RuntimeError("bus\nerror"), "no"),
        (MeterFault("it is stuck"), "yes"),  # another look may help
    ],
)
def test_a_meter_that_cannot_be_read_is_said(
    short_look: None, monkeypatch: pytest.MonkeyPatch, when: int, error: Exception, usable: str
) -> None:
    class Broken(CpuMeter):
        readings = 0

        def __init__(self) -> None:
            super().__init__()
            if not when:
                raise error

        def read(self) -> Reading:
            Broken.readings += 1
            if Broken.readings == when:
                raise error
            return super().read()

    opened = ampere.meters.registry.open_meter

    def open_broken(name: str, /, **settings: Any) -> Meter:
        return Broken() if name == "cpu" else opened(name, **settings)

    monkeypatch.setattr("ampere.meters.registry.open_meter", open_broken)
    result = run("meters")
    assert (result.exit_code, "Traceback" in result.stderr) == (0, False)
    line = line_of("cpu", result.stdout)
    assert re.search(rf"modelled +{usable} ", line)
    assert str(error).split()[0] in line
    Broken.readings = 0
    (cpu,) = (m for m in answer(run("meters", "--json"))["meters"] if m["name"] == "cpu")
    assert set(cpu["reading"]) == {"doubt" if usable == "yes" else "failed"}


def test_a_battery_that_has_not_moved_yet_can_be_used(
    short_look: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(CpuMeter):
        __module__ = CpuMeter.__module__  # as if it stood in that file
        resolution = Resolution(energy_j=36.0, period_s=30.0)

        def read(self) -> Reading:
            return replace(super().read(), energy_j=36.0)

    monkeypatch.setattr("ampere.meters.drivers.cpu.CpuMeter", Slow)
    line = line_of("cpu", run("meters").stdout)
    assert re.search(r"modelled +yes +36\.0 J every 30\.0 s +meter did not move", line)


def test_a_damaged_calibration_does_not_hide_the_meters(short_look: None, tmp_path: Path) -> None:
    (tmp_path / "config" / "ampere").mkdir(parents=True)
    (tmp_path / "config" / "ampere" / "cpu.json").write_text("{}")
    result = run("meters")
    assert result.exit_code == 0
    assert re.search(r"modelled +no .*cpu\.json is damaged", line_of("cpu", result.stdout))
    assert answer(run("meters", "--json"))["calibration"] is None


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("meters --accelerator tpu", 2, "cpu, cuda, mps"),
    ],
)
@pytest.mark.usefixtures("files")
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)
