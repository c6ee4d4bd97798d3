from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Provenance, Resolution, Window, energy_between
from ampere.meters.discharge import PluggedIn
from ampere.meters.drivers.battery import BatteryMeter

from .contract import MeterContract
from .phones import Clock, PowerSupply, opening

Open = Callable[..., BatteryMeter]
QUIET_S = 1000.0  # so long that only readings look
WH = 3600.0


@pytest.fixture
def supplies(tmp_path: Path) -> PowerSupply:
    supplies = PowerSupply(tmp_path / "power_supply")
    supplies.add("AC", type="Mains", online=0)
    return supplies


@pytest.fixture
def opened(supplies: PowerSupply) -> Iterator[Open]:
    """Opens meters on the tree, and closes them."""
    with opening(BatteryMeter, {"root": supplies.root, "period_s": QUIET_S}) as open_meter:
        yield open_meter


class BatteryContract(MeterContract):
    driver = BatteryMeter
    file = ""
    by = 10_000

    @pytest.fixture(autouse=True)
    def tree(self, supplies: PowerSupply) -> None:
        supplies.add_battery(
            energy_now=40_000_000,
            charge_now=3_000_000,
            voltage_now=11_800_000,
            power_now=9_000_000,
            current_now=-760_000,
        )
        self.supplies = supplies

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        source = self.file.partition("_")[0]
        return {"root": self.supplies.root, "source": source, "period_s": 0.05}

    def work(self, meter: Any) -> None:
        self.supplies.drain(file=self.file, by=self.by)

    def test_joules_come_from_a_battery(self) -> None:
        assert self.driver.provenance is Provenance.BATTERY
        assert self.driver.accelerators == ("cpu", "cuda", "mps")


class TestEnergy(BatteryContract):
    file = "energy_now"


class TestCharge(BatteryContract):
    file = "charge_now"
    by = 1000


class TestPower(BatteryContract):
    file = "power_now"
    by = 100_000


def test_energy_is_what_left_the_battery(supplies: PowerSupply, opened: Open) -> None:
    supplies.add_battery(energy_now=40_000_000, charge_now=9, power_now=1, voltage_now=1)
    meter = opened()
    before = meter.read()
    supplies.drain(by=10_000)
    supplies.drain(by=20_000)
    assert energy_between(before, meter.read()).energy_j == pytest.approx(0.03 * WH)


def test_charge_is_worth_the_mean_of_both_voltages(supplies: PowerSupply, opened: Open) -> None:
    supplies.add_battery(charge_now=3_000_000, voltage_now=12_000_000, power_now=1)
    meter = opened()
    before = meter.read()
    supplies.drain(file="charge_now", by=2000)
    supplies.write("BAT0", voltage_now=11_000_000)
    assert meter.read().energy_j - before.energy_j == pytest.approx(0.002 * WH * 11.5)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("shown", ["power", "current"])
def test_power_is_integrated_whatever_its_sign(
    supplies: PowerSupply, opened: Open, clock: Clock, shown: str, sign: int
) -> None:
    def draw(power_w: float) -> None:
        if shown == "power":
            supplies.write("BAT0", power_now=int(sign * power_w * 1e6))
        else:
            supplies.write("BAT0", current_now=int(sign * power_w * 1e6 / 10))

    supplies.add_battery(voltage_now=10_000_000)
    draw(20)
    meter = opened()
    before = meter.read()
    clock.pass_s(10)
    draw(30)
    assert energy_between(before, meter.read()) == Window(pytest.approx(250), pytest.approx(10), 0)


def test_sources_are_taken_in_order(supplies: PowerSupply, opened: Open) -> None:
    supplies.add_battery(
        energy_now=40_000_000, charge_now=3_000_000, voltage_now=12_000_000, power_now=9_000_000
    )
    for source in ("energy", "charge", "power"):
        documented_j = BatteryMeter.documented[source].energy_j
        assert opened().resolution.energy_j == documented_j
        assert opened(source=source).resolution.energy_j == documented_j
        if source != "power":
            supplies.remove("BAT0", f"{source}_now")
    with pytest.raises(MeterError, match="does not show energy; choose of power"):
        opened(source="energy")
    supplies.remove("BAT0", "power_now")
    with pytest.raises(MeterError, match="shows none of energy, charge, power"):
        opened()


def test_both_batteries_of_a_thinkpad_count(supplies: PowerSupply, opened: Open) -> None:
    supplies.add_battery("BAT0", energy_now=20_000_000, status="Not charging")
    supplies.add_battery("BAT1", energy_now=1_000_000)
    meter, alone = opened(), opened(name="BAT1")
    before = meter.read()
    supplies.drain("BAT1", by=1_000_000)
    supplies.write("BAT1", status="Unknown")
    supplies.write("BAT0", status="Discharging")
    supplies.drain("BAT0", by=500_000)
    assert meter.read().energy_j - before.energy_j == pytest.approx(1.5 * WH)
    with pytest.raises(PluggedIn, match="BAT1 says 'Unknown'"):
        alone.read()


def test_idle_battery_draws_nothing(supplies: PowerSupply, opened: Open, clock: Clock) -> None:
    supplies.add_battery("BAT0", power_now=7_000_000, status="Unknown")
    supplies.add_battery("BAT1", power_now=5_000_000)
    meter = opened()
    before = meter.read()
    clock.pass_s(2)
    assert energy_between(before, meter.read()).energy_j == pytest.approx(10)


def test_other_batteries_are_left_out(supplies: PowerSupply, opened: Open) -> None:
    supplies.add_battery("BAT0", energy_now=40_000_000)
    supplies.add_battery("mouse", "Charging", energy_now=1, scope="Device")
    supplies.add("dock", type="USB", online=1, scope="Device")
    supplies.add("BAT9", type="Battery", present=0, status="Unknown")
    meter = opened()
    assert list(meter.look()) == ["BAT0"]
    with pytest.raises(MeterError, match=r"no battery mouse .* there is BAT0"):
        opened(name="mouse")


@pytest.mark.parametrize("kind", ["Mains", "USB", "USB_PD", "Wireless"])
def test_anything_online_is_refused(supplies: PowerSupply, opened: Open, kind: str) -> None:
    supplies.add_battery(energy_now=40_000_000)
    supplies.add("port", type=kind, online=0)
    meter = opened()
    supplies.write("port", online=1)
    with pytest.raises(PluggedIn, match=r"port is online; .* unplug the charger"):
        meter.read()
    with pytest.raises(MeterError, match="unplug"):
        opened()
    assert "unplug" in (BatteryMeter.obstacle(supplies.root) or "")


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging", "Unknown", "nonsense"])
def test_only_a_discharge_is_metered(supplies: PowerSupply, opened: Open, status: str) -> None:
    supplies.add_battery(energy_now=40_000_000)
    meter = opened()
    supplies.write("BAT0", status=status)
    with pytest.raises(PluggedIn, match=f"BAT0 says '{status}'; .* unplug") as caught:
        meter.read()
    assert not isinstance(caught.value, MeterFault)
    with pytest.raises(MeterError, match="unplug"):
        opened()


def test_one_of_two_that_is_charged_is_refused(supplies: PowerSupply, opened: Open) -> None:
    supplies.add_battery("BAT0", energy_now=40_000_000)
    supplies.add_battery("BAT1", energy_now=40_000_000, status="Charging")
    with pytest.raises(PluggedIn, match="BAT1 says 'Charging'"):
        opened()


def test_charged_meanwhile_means_counting_anew(supplies: PowerSupply, opened: Open) -> None:
    supplies.add_battery(energy_now=40_000_000)
    meter = opened()
    supplies.write("BAT0", status="Charging", energy_now=40_100_000)
    with pytest.raises(PluggedIn):
        meter.read()
    supplies.write("BAT0", status="Discharging", energy_now=39_990_000)
    before = meter.read()
    assert before.energy_j == 0  # nobody knows how much it gave and took
    supplies.drain(by=10_000)
    assert meter.read().energy_j - before.energy_j == pytest.approx(36)


def test_charger_that_came_and_went_spoils_one_reading(supplies: PowerSupply, opened: Open) -> None:
    supplies.add_battery(energy_now=40_000_000)
    meter = opened(period_s=0.01)
    supplies.write("AC", online=1)
    time.sleep(0.2)
    supplies.write("AC", online=0)
    time.sleep(0.05)
    with pytest.raises(MeterFault, match="since the last reading: AC is online"):
        meter.read()
    meter.read()


def test_slip_upwards_is_a_fault_and_loses_nothing(supplies: PowerSupply, opened: Open) -> None:
    supplies.add_battery(energy_now=40_000_000)
    meter = opened()
    before = meter.read()
    for left in (40_000_000, 39_980_000):
        supplies.write("BAT0", energy_now=45_000_000)
        with pytest.raises(MeterFault, match=rf"BAT0 went from {left * 0.0036:.0f} to 162000 J"):
            meter.read()
        supplies.write("BAT0", energy_now=left - 20_000)
        meter.read()
    assert meter.read().energy_j - before.energy_j == pytest.approx(0.04 * WH)


@pytest.mark.parametrize("to", [50_000_000, 1_000])
def test_jump_that_stays_is_counted_from(supplies: PowerSupply, opened: Open, to: int) -> None:
    supplies.add_battery(energy_now=40_000_000)
    meter = opened()
    before = meter.read()
    supplies.write("BAT0", energy_now=to)
    for _ in range(2):
        with pytest.raises(MeterFault):
            meter.read()
    supplies.drain(by=100)
    assert meter.read().energy_j - before.energy_j == pytest.approx(0.0001 * WH)


def test_long_sleep_may_take_much(supplies: PowerSupply, opened: Open, clock: Clock) -> None:
    supplies.add_battery(energy_now=40_000_000)
    meter = opened(period_s=3 * QUIET_S)
    before = meter.read()
    clock.pass_s(3600)
    supplies.write("BAT0", energy_now=1_000_000)
    assert energy_between(before, meter.read()).energy_j == pytest.approx(39 * WH)


def test_coarse_gauge_may_fall_far_after_a_while(
    supplies: PowerSupply, opened: Open, clock: Clock
) -> None:
    supplies.add_battery(energy_now=40_000_000)
    meter = opened()
    before = meter.read()
    for _ in range(100):
        clock.pass_s(1)
        meter.read()
    supplies.drain(by=10_000_000)
    assert energy_between(before, meter.read()) == Window(
        pytest.approx(10 * WH), pytest.approx(100), 0
    )


def test_reading_stands_for_the_middle_of_its_look(
    supplies: PowerSupply, opened: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    supplies.add_battery(energy_now=40_000_000)
    meter = opened()
    begin_s, look = clock.now_s, meter.look
    monkeypatch.setattr(meter, "look", lambda: (clock.pass_s(4), look())[1])
    assert meter.read().time_s == begin_s + 2


@pytest.mark.parametrize("content", ["", "many", "nan", "1.5", "0", "-5", "²", "9" * 30, "\0"])
@pytest.mark.parametrize("file", ["energy_now", "charge_now", "voltage_now"])
def test_nonsense_is_a_fault(supplies: PowerSupply, opened: Open, file: str, content: str) -> None:
    shown: dict[str, object] = {"charge_now": 3_000_000, "voltage_now": 12_000_000}
    if file == "energy_now":
        shown = {"energy_now": 40_000_000}
    supplies.add_battery(**shown)
    meter = opened()
    supplies.write("BAT0", **{file: content})
    with pytest.raises(MeterFault, match=r"battery BAT0 shows no (energy|charge)"):
        meter.read()
    with pytest.raises(MeterError, match="shows none of"):
        opened()


@pytest.mark.parametrize("content", ["", "0", "nan", "900000000"])
def test_power_that_cannot_be_true_is_bridged_or_a_fault(
    supplies: PowerSupply, opened: Open, clock: Clock, content: str
) -> None:
    supplies.add_battery(power_now=9_000_000)
    meter = opened(period_s=1.0)
    before = meter.read()
    supplies.write("BAT0", power_now=content)
    clock.pass_s(1)
    with contextlib.suppress(MeterFault):
        meter.read()
    supplies.write("BAT0", power_now=9_000_000)
    clock.pass_s(1)
    assert meter.read().energy_j - before.energy_j == pytest.approx(18)
    supplies.write("BAT0", power_now=content)
    clock.pass_s(20)
    with pytest.raises(MeterFault):
        meter.read()


def test_vanished_battery_is_an_error(supplies: PowerSupply, opened: Open) -> None:
    supplies.add_battery(energy_now=40_000_000)
    meter = opened()
    supplies.remove("BAT0", "energy_now")
    with pytest.raises(MeterFault, match="shows no energy"):
        meter.read()
    supplies.remove("BAT0", "status")
    with pytest.raises(MeterError, match="status cannot be read: the battery is gone"):
        meter.read()


def test_no_battery_is_an_obstacle(supplies: PowerSupply, tmp_path: Path) -> None:
    for root in (supplies.root, str(tmp_path / "nowhere"), "\0"):
        assert "no battery under" in (BatteryMeter.obstacle(root) or "")
    supplies.add_battery(energy_now=40_000_000)
    assert BatteryMeter.obstacle(supplies.root) is None


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"period_s": 0.0}, "period_s=0.0 must be above 0"),
        ({"period_s": float("nan")}, "period_s=nan"),
        ({"source": "level"}, "source=level is unknown; choose of auto, energy, charge, power"),
    ],
)
def test_wrong_settings_are_refused(
    supplies: PowerSupply, opened: Open, given: dict[str, Any], complaint: str
) -> None:
    supplies.add_battery(energy_now=40_000_000)
    with pytest.raises(MeterError, match=complaint):
        opened(**given)


def test_coarse_steps_become_visible(supplies: PowerSupply, opened: Open, clock: Clock) -> None:
    supplies.add_battery(energy_now=40_000_000)
    meter = opened()
    assert meter.resolution == Resolution(energy_j=36.0, period_s=30.0)
    for second in range(50):
        clock.pass_s(1)
        if second % 8 == 0:
            supplies.drain(by=50_000)
        meter.read()
    assert meter.resolution.energy_j == pytest.approx(0.05 * WH)
    assert 6 <= meter.resolution.period_s <= 9


def test_slow_power_becomes_visible(supplies: PowerSupply, opened: Open, clock: Clock) -> None:
    supplies.add_battery(power_now=9_000_000)
    meter = opened(period_s=1.0)
    assert meter.resolution == Resolution(period_s=30.0)
    for second in range(400):
        clock.pass_s(1)
        if second % 60 == 0:
            supplies.write("BAT0", power_now=9_000_000 + second)
        meter.read()
    assert meter.resolution.energy_j == 0
    assert 58 <= meter.resolution.period_s <= 60


def test_thread_learns_between_readings(supplies: PowerSupply, opened: Open) -> None:
    supplies.add_battery(energy_now=40_000_000)
    meter = opened(period_s=0.01)
    for _ in range(8):
        time.sleep(0.05)
        supplies.drain(by=30_000)
    time.sleep(0.05)
    assert meter.resolution.energy_j == pytest.approx(0.03 * WH)
    assert meter.resolution.period_s < 1


FILES = ("type", "present", "scope", "status", "energy_now", "charge_now", "voltage_now")
CONTENTS = st.one_of(
    st.sampled_from(
        ["Battery", "Mains", "1", "0", "Discharging", "Charging", "", "nan", "-1", "1e9"]
    ),
    st.integers(-(10**9), 10**18).map(str),
    st.text(max_size=20),
)
TREES = st.dictionaries(
    st.sampled_from(["BAT0", "BAT1", "AC"]),
    st.dictionaries(
        st.sampled_from([*FILES, "power_now", "current_now", "online"]), CONTENTS, max_size=6
    ),
)


@settings(max_examples=40)
@given(st.lists(TREES, min_size=2, max_size=4), st.sampled_from(["auto", "charge", "power"]))
def test_broken_trees_never_do_worse_than_an_error(
    trees: list[dict[str, dict[str, str]]], source: str
) -> None:
    usable = {"type": "Battery", "status": "Discharging", "energy_now": "40000000"}
    usable.update(charge_now="3000000", voltage_now="12000000", power_now="9000000")
    with tempfile.TemporaryDirectory() as folder:
        supplies = PowerSupply(Path(folder) / "power_supply")
        supplies.add("BAT0", **usable)
        meter = None
        total_j = 0.0
        for tree in trees:
            for name, files in tree.items():
                (supplies.path / name).mkdir(exist_ok=True)
                for file, content in files.items():
                    data = content.encode("utf-8", errors="surrogatepass")
                    (supplies.path / name / file).write_bytes(data)
            try:
                meter = meter or BatteryMeter(supplies.root, source=source, period_s=QUIET_S)
                reading = meter.read()
            except MeterError as error:
                assert "\n" not in str(error)
                continue
            assert total_j <= reading.energy_j < 1e6
            total_j = reading.energy_j
        if meter is not None:
            meter.close()
