from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Provenance, Reading, energy_between
from ampere.meters.drivers.hwmon import HwmonMeter

from .contract import MeterContract
from .windows import window_of


class Hwmon:
    """/sys/class/hwmon in a temporary folder."""

    def __init__(self, root: Path) -> None:
        self.path = root
        root.mkdir(parents=True, exist_ok=True)

    @property
    def root(self) -> str:
        return str(self.path)

    def add(self, folder: str, name: str, **files: int | str) -> Hwmon:
        """A chip of a new driver; `device` leads to its parent, and holds none of its files."""
        (self.path / folder / "device").mkdir(parents=True)
        for file, content in {"name": name, **files}.items():
            self.write(folder, file, content)
        return self

    def add_old(self, folder: str, name: str, **files: int | str) -> Hwmon:
        """A chip of an old driver, whose files lie in `device`."""
        return self.add(f"{folder}/device", name, **files)

    def write(self, folder: str, file: str, content: int | str) -> None:
        (self.path / folder / file).write_text(f"{content}\n", encoding="utf-8")


Open = Callable[..., HwmonMeter]


@pytest.fixture
def hwmon(tmp_path: Path) -> Hwmon:
    return Hwmon(tmp_path / "hwmon")


@pytest.fixture
def open_hwmon(hwmon: Hwmon) -> Iterator[Open]:
    meters = []

    def open_one(**settings: Any) -> HwmonMeter:
        meters.append(HwmonMeter(hwmon.root, **settings))
        return meters[-1]

    yield open_one
    for meter in meters:
        meter.close()


class TestPower(MeterContract):
    driver = HwmonMeter

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        if not (tmp_path / "hwmon").exists():
            Hwmon(tmp_path / "hwmon").add("hwmon0", "power_meter", power1_average=250_000_000)
        return {"root": str(tmp_path / "hwmon"), "period_s": 0.05}


class TestEnergy(MeterContract):
    driver = HwmonMeter

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        self.energy_uj = 10**15
        if not (tmp_path / "hwmon").exists():
            Hwmon(tmp_path / "hwmon").add("hwmon0", "xe", energy1_input=self.energy_uj)
        self.hwmon = Hwmon(tmp_path / "hwmon")
        return {"root": self.hwmon.root, "sensor": "energy1"}

    def work(self, meter: Any) -> None:
        self.energy_uj += 5_000_000
        self.hwmon.write("hwmon0", "energy1_input", self.energy_uj)

    def test_every_reading_has_the_provenance_of_the_class(self, readings: list[Reading]) -> None:
        assert {reading.provenance for reading in readings} == {Provenance.COUNTER}


def watts(meter: HwmonMeter) -> float:
    return window_of(meter, 0.1).power_w


def test_whole_machine_is_taken_without_settings(hwmon: Hwmon, open_hwmon: Open) -> None:
    hwmon.add("hwmon0", "coretemp", temp1_input=40000)
    hwmon.add("hwmon1", "amdgpu", power1_average=9_000_000)
    hwmon.add("hwmon2", "power_meter", power1_average=120_500_000)
    meter = open_hwmon()
    assert HwmonMeter.obstacle(hwmon.root) is None
    assert watts(meter) == pytest.approx(120.5, rel=0.3)
    assert meter.provenance is Provenance.SENSOR


def test_files_of_old_drivers_are_found(hwmon: Hwmon, open_hwmon: Open) -> None:
    hwmon.add_old("hwmon0", "power_meter", power1_average=80_000_000)
    assert watts(open_hwmon()) == pytest.approx(80, rel=0.3)


def test_average_says_how_slow_it_is(hwmon: Hwmon, open_hwmon: Open) -> None:
    hwmon.add("hwmon0", "power_meter", power1_average=1_000_000, power1_average_interval=1000)
    assert open_hwmon(period_s=0.1).resolution.period_s == 1.0
    assert open_hwmon(period_s=2.0).resolution.period_s == 2.0
    hwmon.write("hwmon0", "power1_average_interval", "soon")
    assert open_hwmon(period_s=0.1).resolution.period_s == 0.1


def test_instantaneous_power_comes_before_the_average(hwmon: Hwmon, open_hwmon: Open) -> None:
    hwmon.add("hwmon0", "amdgpu", power1_average=9_000_000, power1_input=3_000_000)
    assert watts(open_hwmon(chip="amdgpu")) == pytest.approx(3, rel=0.3)


@pytest.mark.parametrize(
    ("named", "expected_w"),
    [
        ({"chip": "amdgpu", "sensor": "power1"}, 1),
        ({"chip": "amdgpu", "sensor": "PPT"}, 1),
        ({"sensor": "power2"}, 2),
        ({"chip": "hwmon7"}, 4),
        ({"chip": "power_meter"}, 8),
    ],
)
def test_sensors_can_be_named(
    hwmon: Hwmon, open_hwmon: Open, named: dict[str, str], expected_w: float
) -> None:
    hwmon.add(
        "hwmon1", "amdgpu", power1_input=1_000_000, power1_label="PPT", power2_input=2_000_000
    )
    hwmon.add("hwmon7", "ina238", power1_input=4_000_000)
    hwmon.add("hwmon8", "power_meter", power1_input=8_000_000)
    assert watts(open_hwmon(**named)) == pytest.approx(expected_w, rel=0.3)


def test_parts_of_the_machine_are_listed_and_not_taken(hwmon: Hwmon) -> None:
    hwmon.add("hwmon1", "amdgpu", power1_average=9_000_000, power1_label="PPT")
    hwmon.add("hwmon2", "ina228", power1_input=1, energy1_input=1)
    obstacle = HwmonMeter.obstacle(hwmon.root) or ""
    assert "no sensors of the whole machine" in obstacle
    assert "hwmon:chip=...,sensor=..." in obstacle
    assert (
        "amdgpu/power1 (hwmon1, PPT), ina228/energy1 (hwmon2), ina228/power1 (hwmon2)" in obstacle
    )
    with pytest.raises(MeterError) as caught:
        HwmonMeter(hwmon.root)
    assert str(caught.value) == obstacle


@pytest.mark.parametrize(
    ("named", "complaint"),
    [
        ({}, "2 sensors of the whole machine"),
        ({"chip": "power_meter"}, "2 sensors chip=power_meter,sensor= "),
        ({"chip": "amdgpu"}, "no sensors chip=amdgpu,sensor= "),
        ({"sensor": 1.0}, "no sensors chip=,sensor=1.0 "),
    ],
)
def test_sensor_must_be_one(hwmon: Hwmon, named: dict[str, str], complaint: str) -> None:
    hwmon.add("hwmon1", "power_meter", power1_average=1)
    hwmon.add("hwmon2", "power_meter", power1_average=1)
    with pytest.raises(MeterError, match=complaint) as caught:
        HwmonMeter(hwmon.root, **named)
    assert "power_meter/power1 (hwmon1), power_meter/power1 (hwmon2)" in str(caught.value)


@pytest.mark.parametrize("root", ["hwmon", "nowhere"])
def test_no_sensor_is_an_obstacle(hwmon: Hwmon, tmp_path: Path, root: str) -> None:
    hwmon.add("hwmon0", "coretemp", temp1_input=40000, energy1_label="none", power1_cap=5)
    assert "no power or energy sensor" in (HwmonMeter.obstacle(str(tmp_path / root)) or "")


def test_counter_is_taken_as_it_is(hwmon: Hwmon, open_hwmon: Open) -> None:
    hwmon.add("hwmon0", "xe", energy1_input=2**63)
    meter = open_hwmon(chip="xe")
    before = meter.read()
    hwmon.write("hwmon0", "energy1_input", 2**63 + 1_500_001)
    window = energy_between(before, meter.read())
    assert window.energy_j == 1.500001
    assert meter.provenance is before.provenance is Provenance.COUNTER


def test_idle_power_is_subtracted_from_a_counter(hwmon: Hwmon, open_hwmon: Open) -> None:
    hwmon.add("hwmon0", "xe", energy1_input=0)
    meter = open_hwmon(chip="xe", idle_w=10.0)
    before = meter.read()
    time.sleep(0.01)
    hwmon.write("hwmon0", "energy1_input", 5_000_000)
    window = energy_between(before, meter.read())
    assert window.energy_j == pytest.approx(5 - 10 * window.time_s)


def test_counter_that_falls_is_a_fault_once(hwmon: Hwmon, open_hwmon: Open) -> None:
    hwmon.add("hwmon0", "xe", energy1_input=900)
    meter = open_hwmon(chip="xe")
    hwmon.write("hwmon0", "energy1_input", 100)
    with pytest.raises(MeterFault, match="from 900 to 100 µJ"):
        meter.read()
    before = meter.read()
    hwmon.write("hwmon0", "energy1_input", 1100)
    assert energy_between(before, meter.read()).energy_j == pytest.approx(1e-3)


def test_negative_counter_is_a_fault(hwmon: Hwmon, open_hwmon: Open) -> None:
    hwmon.add("hwmon0", "xe", energy1_input=-5)
    meter = open_hwmon(chip="xe")
    with pytest.raises(MeterFault, match="-5 µJ"):
        meter.read()


def test_dead_sensor_is_a_fault(hwmon: Hwmon, open_hwmon: Open) -> None:
    hwmon.add("hwmon0", "power_meter", power1_average=5_000_000)
    meter = open_hwmon(period_s=0.005)
    hwmon.write("hwmon0", "power1_average", 0)
    time.sleep(0.1)
    with pytest.raises(MeterFault, match="it shows 0 W"):
        meter.read()


@pytest.mark.parametrize("file", ["power1_average", "energy1_input"])
@pytest.mark.parametrize("content", ["", "many", "1.5", "²", "\0", "9" * 400])
def test_nonsense_is_refused(hwmon: Hwmon, file: str, content: str) -> None:
    hwmon.add("hwmon0", "power_meter", **{file: content})
    with pytest.raises(MeterError, match=f"{file} holds .* not a number"):
        HwmonMeter(hwmon.root)


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (PermissionError(13, "Permission denied"), "sudo chmod o\\+r .*power1_average"),
        (FileNotFoundError(2, "No such file"), "does not exist"),
        (OSError(61, "No data available"), "cannot be read now \\(No data available\\)"),
    ],
)
def test_unreadable_sensor_is_an_obstacle(
    hwmon: Hwmon, monkeypatch: pytest.MonkeyPatch, error: OSError, complaint: str
) -> None:
    # Not by chmod: tests that run as root may read everything.
    hwmon.add("hwmon0", "power_meter", power1_average=5_000_000)
    read_text = Path.read_text

    def guarded(path: Path, *args: str, **kwargs: str) -> str:
        if path.name == "power1_average":
            raise error
        return read_text(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", guarded)
    with pytest.raises(MeterError, match=complaint) as caught:
        HwmonMeter(hwmon.root)
    assert isinstance(caught.value, MeterFault) == (error.errno == 61)
    assert HwmonMeter.obstacle(hwmon.root) == str(caught.value)


@pytest.mark.parametrize("file", ["power1_input", "energy1_input"])
def test_idle_power_is_checked(hwmon: Hwmon, file: str) -> None:
    hwmon.add("hwmon0", "power_meter", **{file: 5})
    with pytest.raises(MeterError, match="idle_w=-1"):
        HwmonMeter(hwmon.root, idle_w=-1.0)


FILES = st.sampled_from(
    [
        f"{folder}/{file}"
        for folder in ("hwmon0", "hwmon1/device")
        for file in (
            *("name", "power1_input", "power1_average", "power1_label", "energy1_input"),
            *("power1_average_interval", "power_input", "powerx_average", "energy2_input"),
        )
    ]
)
TEXTS = (
    st.sampled_from(["power_meter", "xe", "1000000\n", "0", "-7", "1e3", "\xff", ""]) | st.text()
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(FILES, TEXTS), st.sampled_from(["", "xe", "hwmon1"]))
def test_broken_trees_give_joules_or_an_error(tree: dict[str, str], chip: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tree.items():
            file = Path(folder) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", errors="replace")
        obstacle = HwmonMeter.obstacle(folder)
        assert obstacle is None or (obstacle and "\n" not in obstacle)
        try:
            meter = HwmonMeter(folder, chip=chip)
        except MeterError:
            return
        try:
            assert abs(meter.read().energy_j) < 1e14
        except MeterError:
            pass
        finally:
            meter.close()
