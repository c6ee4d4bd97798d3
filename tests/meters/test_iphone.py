from __future__ import annotations

import contextlib
import json
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
from ampere.meters.drivers.iphone import IphoneMeter

from .contract import MeterContract
from .phones import Clock, Iphone, opening

Open = Callable[..., IphoneMeter]
QUIET_S = 1000.0  # so long that only readings look


@pytest.fixture
def phone(tmp_path: Path) -> Iphone:
    return Iphone(tmp_path / "tool")


@pytest.fixture
def opened(phone: Iphone) -> Iterator[Open]:
    """Opens meters on the phone, and closes them."""
    with opening(IphoneMeter, {"command": phone.command, "period_s": QUIET_S}) as open_meter:
        yield open_meter


class TestIphone(MeterContract):
    driver = IphoneMeter

    @pytest.fixture(autouse=True)
    def connected(self, phone: Iphone) -> None:
        self.phone = phone

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        return {"command": self.phone.command, "period_s": 0.1}

    def work(self, meter: Any) -> None:
        left = self.phone.state["AppleRawCurrentCapacity"]
        self.phone.show(AppleRawCurrentCapacity=left - 1)

    def test_watches_a_whole_phone_from_outside(self) -> None:
        assert self.driver.outside
        assert self.driver.provenance is Provenance.BATTERY
        assert self.driver.accelerators == ("cpu", "cuda", "mps")


class TestIphoneByCurrent(TestIphone):
    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        return {"command": self.phone.command, "source": "power", "period_s": 0.1}


@pytest.mark.parametrize("voltage", ["Voltage", "AppleRawBatteryVoltage"])
def test_charge_is_worth_the_mean_of_both_voltages(
    phone: Iphone, opened: Open, voltage: str
) -> None:
    phone.show(Voltage=0)
    phone.show(**{voltage: 4000})
    meter = opened()
    assert meter.resolution == Resolution(energy_j=14.4, period_s=20.0)
    before = meter.read()
    phone.show(AppleRawCurrentCapacity=2043, **{voltage: 3800})
    assert meter.read().energy_j - before.energy_j == pytest.approx(2 * 3.6 * 3.9)


@pytest.mark.parametrize("bits", [0, 16, 32, 64])
def test_current_may_be_wrapped(phone: Iphone, opened: Open, clock: Clock, bits: int) -> None:
    wrap = 2**bits if bits else 0
    phone.forget("AppleRawCurrentCapacity")
    phone.show(InstantAmperage=wrap - 500)
    meter = opened()
    before = meter.read()
    clock.pass_s(20)
    phone.show(InstantAmperage=wrap - 1500)
    assert energy_between(before, meter.read()) == Window(
        pytest.approx(1.0 * 4 * 20), pytest.approx(20), 0
    )


@pytest.mark.parametrize("current_ma", [900, 0, 2**40, -90_000, "500", None])
def test_current_that_is_no_discharge_is_bridged_or_a_fault(
    phone: Iphone, opened: Open, clock: Clock, current_ma: object
) -> None:
    meter = opened(source="power", period_s=1.0)
    before = meter.read()
    phone.show(InstantAmperage=current_ma)
    clock.pass_s(5)
    with contextlib.suppress(MeterFault):
        meter.read()
    phone.show(InstantAmperage=-500)
    clock.pass_s(5)
    assert meter.read().energy_j - before.energy_j == pytest.approx(20)
    phone.show(InstantAmperage=current_ma)
    clock.pass_s(20)
    with pytest.raises(MeterFault):
        meter.read()


@pytest.mark.parametrize("key", ["ExternalConnected", "AppleRawExternalConnected", "IsCharging"])
def test_powered_phone_is_refused(phone: Iphone, opened: Open, key: str) -> None:
    meter = opened()
    phone.show(**{key: True})
    with pytest.raises(PluggedIn, match=r"plugged in or charging; unplug it, .* Wi-Fi"):
        meter.read()
    with pytest.raises(PluggedIn, match="lockdown wifi-connections"):
        opened()


def test_phone_that_does_not_say_is_refused(phone: Iphone, opened: Open) -> None:
    phone.forget("ExternalConnected", "AppleRawExternalConnected", "IsCharging")
    with pytest.raises(MeterError, match="does not say whether it is plugged in"):
        opened()


@pytest.mark.parametrize("voltage", [0, 4, 4_000_000, -4000, "4000", None])
def test_voltage_that_cannot_be_true(phone: Iphone, opened: Open, voltage: object) -> None:
    meter = opened()
    phone.show(Voltage=voltage, AppleRawBatteryVoltage=0)
    with pytest.raises(MeterFault, match="battery of the phone shows no charge"):
        meter.read()
    with pytest.raises(MeterError, match="shows none of charge, power"):
        opened()


def test_phone_that_is_not_there(phone: Iphone, opened: Open) -> None:
    meter = opened()
    before = meter.read()
    phone.lose()
    with pytest.raises(MeterFault, match=r"said 'Device is not connected'; .* Wi-Fi") as caught:
        meter.read()
    assert IphoneMeter.obstacle(phone.command) == str(caught.value)
    phone.show(AppleRawCurrentCapacity=2044)
    assert meter.read().energy_j - before.energy_j == pytest.approx(3.6 * 4)


def test_one_of_several_phones(phone: Iphone, opened: Open) -> None:
    opened(udid=phone.UDID, options="--mobdev2 ''")
    assert phone.calls == [f"diagnostics battery single --udid {phone.UDID} --mobdev2 "]
    with pytest.raises(MeterError, match="Device not found"):
        opened(udid="12")
    assert phone.calls[-1].endswith("--udid 12")


def test_command_may_have_several_words(phone: Iphone, opened: Open) -> None:
    opened(command=f"sh '{phone.command}'").read()
    with pytest.raises(MeterError, match="is no command line"):
        opened(command="sh '")


def test_missing_command_is_an_obstacle_at_once(tmp_path: Path) -> None:
    begin_s = time.perf_counter()
    obstacle = IphoneMeter.obstacle(str(tmp_path / "nothing"))
    assert "is not installed here" in (obstacle or "")
    assert time.perf_counter() - begin_s < 1


def test_hanging_command_is_given_up(phone: Iphone, opened: Open) -> None:
    phone.hang()
    begin_s = time.perf_counter()
    with pytest.raises(MeterFault, match=r"did not answer within 0\.2 s"):
        opened(timeout_s=0.2)
    assert time.perf_counter() - begin_s < 5


def test_no_obstacle_where_a_phone_discharges(phone: Iphone) -> None:
    assert IphoneMeter.obstacle(phone.command) is None


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, '{"a": ' + "1" * 5000])
def test_answer_that_is_no_object_is_a_fault(phone: Iphone, opened: Open, text: str) -> None:
    phone.write(text)
    with pytest.raises(MeterFault, match="reached no phone and said"):
        opened()


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.sampled_from([0, 1, 2000, 3900, 2**64 - 500]),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
)
KEYS = (
    "Voltage",
    "AppleRawBatteryVoltage",
    "AppleRawCurrentCapacity",
    "InstantAmperage",
    "ExternalConnected",
    "IsCharging",
)
GOOD = {
    "Voltage": 4000,
    "AppleRawCurrentCapacity": 2000,
    "InstantAmperage": -500,
    "ExternalConnected": False,
}
CHANGES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3)


@settings(max_examples=100)
@given(
    first=CHANGES,
    then=st.one_of(CHANGES.map(lambda changed: json.dumps({**GOOD, **changed})), st.text()),
    error=st.text(max_size=20),
    source=st.sampled_from(["auto", "charge", "power"]),
)
@example(first={}, then=json.dumps(GOOD), error="", source="power")
def test_any_answer_is_joules_or_an_error(
    first: dict[str, Any], then: str, error: str, source: str
) -> None:
    texts = iter([json.dumps({**GOOD, **first}), then, then])

    def answer(command: list[str], timeout_s: float) -> ToolAnswer:
        return ToolAnswer(0, next(texts), error)

    with patch("ampere.meters.drivers.iphone.ask_tool", answer):
        meter = None
        try:
            meter = IphoneMeter(source=source, period_s=QUIET_S)
            for _ in range(2):
                assert 0 <= meter.read().energy_j < 2100  # 50 W for 20 s, twice
        except MeterError as problem:
            assert "\n" not in str(problem)
        finally:
            if meter is not None:
                meter.close()
