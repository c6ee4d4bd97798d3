from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ampere.core.boundary.tool import ToolAnswer
from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Provenance, Resolution, Window, energy_between
from ampere.meters.discharge import PluggedIn
from ampere.meters.drivers.android import SCRIPT, AndroidMeter

from .contract import MeterContract
from .phones import Clock, Phone, opening

Open = Callable[..., AndroidMeter]
QUIET_S = 1000.0  # so long that only readings look


@pytest.fixture
def phone(tmp_path: Path) -> Phone:
    return Phone(tmp_path / "adb")


@pytest.fixture
def opened(phone: Phone) -> Iterator[Open]:
    """Opens meters on the phone, and closes them."""
    with opening(AndroidMeter, {"adb": phone.adb, "period_s": QUIET_S}) as open_meter:
        yield open_meter


class TestAndroid(MeterContract):
    driver = AndroidMeter

    @pytest.fixture(autouse=True)
    def connected(self, phone: Phone) -> None:
        self.phone = phone

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        return {"adb": self.phone.adb, "period_s": 0.1}

    def work(self, meter: Any) -> None:
        self.phone.drain(by_uah=1000)

    def test_watches_a_whole_phone_from_outside(self) -> None:
        assert self.driver.outside
        assert self.driver.provenance is Provenance.BATTERY
        assert self.driver.accelerators == ("cpu", "cuda", "mps")


class TestAndroidByCurrent(TestAndroid):
    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        self.phone.answer_current("-412000")
        return {"adb": self.phone.adb, "source": "power", "period_s": 0.1}


@pytest.mark.parametrize("voltage", [4000, 4_000_000, "4.000"])
@pytest.mark.parametrize("uah", [1, 1000])
def test_counter_times_voltage_in_any_unit(
    phone: Phone, opened: Open, voltage: object, uah: int
) -> None:
    phone.show(voltage=voltage, Charge_counter=3_361_204 // uah)
    meter = opened()
    assert meter.resolution == Resolution(energy_j=14.4, period_s=60.0)
    before = meter.read()
    phone.show(Charge_counter=3_361_204 // uah - 2000 // uah)
    assert meter.read().energy_j - before.energy_j == pytest.approx(2e-3 * 3600 * 4)


@pytest.mark.parametrize("shown", [-500_000, 500_000, -500, 500])
@pytest.mark.parametrize("where", ["service", "samsung", "sysfs", "bms", "fuel gauge"])
def test_current_times_voltage_wherever_it_is_shown(
    phone: Phone, opened: Open, clock: Clock, where: str, shown: int
) -> None:
    def draw(current: int) -> None:
        if where == "service":
            phone.answer_current(str(current))
        elif where == "samsung":
            phone.show(current_now=current)
        else:
            supply = {"sysfs": "battery", "bms": "bms", "fuel gauge": "max1720x_fg"}[where]
            (phone.supplies.path / supply).mkdir(exist_ok=True)
            phone.supplies.write(supply, current_now=current)

    phone.show(Charge_counter=0)
    draw(shown)
    meter = opened()
    before = meter.read()
    clock.pass_s(60)
    draw(3 * shown)
    assert energy_between(before, meter.read()) == Window(
        pytest.approx(1.0 * 4 * 60), pytest.approx(60), 0
    )


def test_sysfs_comes_before_the_service(phone: Phone, opened: Open) -> None:
    phone.supplies.add(
        "battery", charge_counter=3_000_000, voltage_now=3_800_000, current_now=-1000
    )
    phone.supplies.add("bms", charge_counter=1, voltage_now=1, current_now=1)
    meter = opened()
    before = meter.read()
    phone.drain(by_uah=500_000)
    phone.supplies.write("battery", charge_counter=2_999_000)
    assert meter.read().energy_j - before.energy_j == pytest.approx(3.6 * 3.8)


def test_what_a_vendor_adds_does_not_count(phone: Phone, opened: Open) -> None:
    phone.show(technology="Li-ion\n  charge counter: 0\n  status: 2\n  voltage: 3500")
    meter = opened()
    before = meter.read()
    phone.drain(by_uah=1000)
    assert meter.read().energy_j - before.energy_j == pytest.approx(3.6 * 4)


def test_place_that_falls_silent_is_not_replaced(phone: Phone, opened: Open) -> None:
    phone.supplies.add("battery", charge_counter=3_000_000)
    meter = opened()
    phone.supplies.remove("battery", "charge_counter")
    with pytest.raises(MeterFault, match="shows no charge"):
        meter.read()


def test_counter_made_of_percents_gives_way_to_the_current(phone: Phone, opened: Open) -> None:
    phone.show(Charge_counter=84 * 40_000)
    assert opened().resolution.energy_j > 0
    phone.answer_current("-412000")
    assert opened().resolution.energy_j == 0
    assert opened(source="charge").resolution.energy_j > 0
    phone.show(Charge_counter=3_361_204)
    assert opened().resolution.energy_j > 0


@pytest.mark.parametrize(("unit", "expected_w"), [("uA", 0.048), ("mA", 48.0)])
def test_current_of_unclear_unit_needs_the_setting(
    phone: Phone, opened: Open, clock: Clock, unit: str, expected_w: float
) -> None:
    phone.answer_current("-12000")
    with pytest.raises(MeterError, match="-12000 may be mA or µA; set current_unit"):
        opened(source="power")
    opened()  # the counter does
    phone.show(Charge_counter=0)
    with pytest.raises(MeterError, match="set current_unit"):
        opened()
    meter = opened(current_unit=unit)
    before = meter.read()
    clock.pass_s(2)
    assert energy_between(before, meter.read()).energy_j == pytest.approx(2 * expected_w)


@pytest.mark.parametrize("kind", ["AC", "USB", "Wireless", "Dock"])
def test_powered_phone_is_refused(phone: Phone, opened: Open, kind: str) -> None:
    meter = opened()
    phone.show(**{f"{kind}_powered": "true"})
    with pytest.raises(PluggedIn, match=f"{kind} feeds the phone; .*Wi-Fi.*adb tcpip 5555"):
        meter.read()
    with pytest.raises(PluggedIn, match="unplug"):
        opened()


@pytest.mark.parametrize(
    ("status", "word"),
    [(2, "charging"), (4, "not charging"), (5, "full"), (1, "unknown"), (9, "9")],
)
def test_only_a_discharge_is_metered(phone: Phone, opened: Open, status: int, word: str) -> None:
    meter = opened()
    phone.show(status=status)
    with pytest.raises(PluggedIn, match=f"battery is '{word}', not discharging; unplug"):
        meter.read()


def test_faked_state_is_refused(phone: Phone, opened: Open) -> None:
    phone.show(head="Current Battery Service state:\n  (UPDATES STOPPED -- use 'reset' to restart)")
    with pytest.raises(MeterError, match="adb shell dumpsys battery reset"):
        opened()


@pytest.mark.parametrize(
    ("devices", "serial", "complaint"),
    [
        ([], "", "sees no phone; run `adb connect"),
        (["a device"], "b", "no phone of that serial"),
        (["a device", "b device"], "", "several phones; .* setting serial"),
        (["a unauthorized"], "", "allow debugging"),
        (["a offline"], "", "offline; wake it up"),
    ],
)
def test_troubles_of_adb_are_one_clear_line(
    phone: Phone, opened: Open, devices: list[str], serial: str, complaint: str
) -> None:
    phone.devices(*devices)
    with pytest.raises(MeterError, match=complaint) as caught:
        opened(serial=serial)
    assert "\n" not in str(caught.value)
    if not serial:
        assert AndroidMeter.obstacle(phone.adb) == str(caught.value)


@pytest.mark.parametrize("serial", ["b", "0012345678"])
def test_one_of_several_phones(phone: Phone, opened: Open, serial: str) -> None:
    phone.devices("a device", f"{serial} device")
    opened(serial=serial)
    assert phone.calls == [f"-s {serial} shell {SCRIPT}"]


def test_lost_phone_may_come_back(phone: Phone, opened: Open) -> None:
    meter = opened()
    before = meter.read()
    phone.devices()
    phone.drain(by_uah=1000)
    with pytest.raises(MeterError, match="sees no phone"):
        meter.read()
    phone.devices("192.168.1.7:5555 device")
    assert meter.read().energy_j - before.energy_j == pytest.approx(3.6 * 4)


def test_missing_adb_is_an_obstacle_at_once(tmp_path: Path) -> None:
    begin_s = time.perf_counter()
    obstacle = AndroidMeter.obstacle(str(tmp_path / "adb"))
    assert "is not installed here" in (obstacle or "")
    assert time.perf_counter() - begin_s < 1


def test_hanging_adb_is_given_up(phone: Phone, opened: Open) -> None:
    phone.hang()
    begin_s = time.perf_counter()
    with pytest.raises(MeterFault, match=r"did not answer within 0\.2 s"):
        opened(timeout_s=0.2)
    assert time.perf_counter() - begin_s < 5


def test_no_obstacle_where_a_phone_discharges(phone: Phone) -> None:
    assert AndroidMeter.obstacle(phone.adb) is None


@pytest.mark.parametrize(
    ("shown", "complaint"),
    [
        ({"voltage": 4}, "no voltage that can be true"),
        ({"voltage": 0}, "no voltage that can be true"),
        ({"voltage": "nan"}, "no voltage that can be true"),
        ({"Charge_counter": 0}, "shows none of charge, power"),
        ({"Charge_counter": -1000}, "shows none of charge, power"),
        ({"level": 0}, "shows none of charge, power"),
        ({"level": 101}, "shows none of charge, power"),
        ({"Charge_counter": 40_000}, "shows none of charge, power"),
    ],
)
def test_figures_that_no_phone_has_are_refused(
    phone: Phone, opened: Open, shown: dict[str, object], complaint: str
) -> None:
    phone.show(**shown)
    with pytest.raises(MeterError, match=complaint):
        opened()


@pytest.mark.parametrize("shown", [{"voltage": 0}, {"Charge_counter": "?"}, {"level": 0}])
def test_figure_that_goes_bad_is_a_fault(
    phone: Phone, opened: Open, shown: dict[str, object]
) -> None:
    meter = opened()
    phone.show(**shown)
    with pytest.raises(MeterFault, match="battery of the phone shows no charge"):
        meter.read()


def test_wrong_settings_are_refused(opened: Open) -> None:
    with pytest.raises(MeterError, match="current_unit=A must be auto, uA or mA"):
        opened(current_unit="A")
    with pytest.raises(MeterError, match="source=energy is unknown; choose of auto, charge, power"):
        opened(source="energy")


LINES = st.one_of(
    st.builds(
        "  {}: {}".format,
        st.sampled_from(
            ["status", "level", "scale", "voltage", "Charge counter", "USB powered", "current now"]
        ),
        st.one_of(st.integers(-(10**18), 10**18), st.sampled_from([3, 84, 100, 4000, "true", ""])),
    ),
    st.builds("battery/{}:{}".format, st.sampled_from(["current_now", "voltage_now"]), st.text()),
    st.text(),
)
DUMPS = st.lists(LINES, max_size=12).map("\n".join)
GOOD = "\n".join(
    ["Charge counter: 3361204", "status: 3", "level: 84", "voltage: 4000", "current_now: -412000"]
)


@settings(max_examples=100)
@given(
    first=st.one_of(st.just(""), DUMPS),
    then=DUMPS,
    error=st.text(max_size=20),
    source=st.sampled_from(["auto", "charge", "power"]),
)
@example(first="", then="\n" + GOOD, error="", source="power")
def test_any_answer_is_joules_or_an_error(first: str, then: str, error: str, source: str) -> None:
    texts = iter([f"{first}\n{GOOD}", f"{then}\n{GOOD}", then])

    def answer(command: list[str], timeout_s: float) -> ToolAnswer:
        return ToolAnswer(0, next(texts), error)

    with patch("ampere.meters.drivers.android.ask_tool", answer):
        meter = None
        try:
            meter = AndroidMeter(source=source, period_s=QUIET_S)
            for _ in range(2):
                assert 0 <= meter.read().energy_j < 6100  # 50 W for a minute, twice
        except MeterError as problem:
            assert "\n" not in str(problem)
        finally:
            if meter is not None:
                meter.close()
