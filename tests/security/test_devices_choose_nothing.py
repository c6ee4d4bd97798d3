"""What a device says is data: it chooses no meter, opens none and imports nothing on this side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import ampere.meters.registry
from ampere.core.workloads import IDLE
from ampere.devices import worker_device
from ampere.devices.local import START
from ampere.errors import DeviceError
from devices.hostile import METER, HostileDevice, changed

CANARY = "canary"
PHONE = {"name": "iphone", "settings": {"command": f"touch {CANARY}"}}


@pytest.fixture(autouse=True)
def untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every test starts in a folder of its own, and ends with the canary alive."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(worker_device, "RECONNECT_S", (0.0,))
    yield
    assert not Path(CANARY).exists()


class Turncoat(HostileDevice):
    """Hostile at first; when the line is cut, the next worker is one of ampere's own, here."""

    started = 0

    def _command(self) -> Sequence[str]:
        self.started += 1
        hostile = super()._command()
        return hostile if self.started == 1 else [sys.executable, "-u", "-c", START]


def test_a_device_does_not_choose_the_meter_that_is_opened_when_it_comes_back(
    tmp_path: Path,
) -> None:
    with Turncoat(tmp_path, "auto", open=changed("open", meter=PHONE), burst=b"end") as device:
        idle = device.load(IDLE)
        assert device.meter == PHONE  # as it says
        with pytest.raises(DeviceError, match=r"came back with another .*meter"):
            device.burst(idle.handle, 1)
        assert device.started == 2


@pytest.mark.parametrize("meter", ["cpu", "auto"])
def test_every_worker_is_told_the_users_own_words(tmp_path: Path, meter: str) -> None:
    with HostileDevice(tmp_path, meter, burst=b"end") as device:
        idle = device.load(IDLE)
        with pytest.raises(DeviceError, match="the line is dead, and stays so"):
            device.burst(idle.handle, 1)
    assert [row["meter"] for row in device.asked("open")] == 2 * [{"name": meter, "settings": {}}]


@pytest.mark.parametrize("name", ["iphone", "fake", "CPU", "cpu "])
def test_a_meter_that_was_not_asked_for_is_refused(tmp_path: Path, name: str) -> None:
    said = changed("open", meter={"name": name, "settings": {}})
    with (
        HostileDevice(tmp_path, "cpu", open=said) as device,
        pytest.raises(DeviceError, match=r"meter.name must be .*asked for \(cpu\)"),
    ):
        _ = device.meter


def test_settings_that_were_asked_for_are_kept(tmp_path: Path) -> None:
    with HostileDevice(tmp_path) as device:
        device._meter = {"name": "cpu", "settings": {"idle_w": 3.0}}
        with pytest.raises(DeviceError, match=r"settings.idle_w must be 3.0, .* not 2.5"):
            _ = device.meter


def test_a_name_of_a_device_imports_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelly = {"name": "shelly", "settings": {"url": "10.0.0.7", "channel": 1.0}}
    with HostileDevice(tmp_path, "auto", open=changed("open", meter=shelly)) as device:

        def import_drivers() -> Any:
            raise AssertionError("drivers are looked for on a device's word")

        monkeypatch.setattr(ampere.meters.registry, "entry_points", import_drivers)
        assert device.meter == shelly
        assert "10.0.0.7" not in device.fingerprint.identity["meter"]  # an address is left out


def test_an_outside_meter_stays_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plug = type("Plug", (ampere.meters.registry.meter_classes()["fake"],), {"outside": True})
    classes = {"fake": plug}
    monkeypatch.setattr("ampere.devices.outside_meter.meter_classes", lambda: classes)
    with HostileDevice(tmp_path, "fake", open=changed("open", meter=METER)) as device:
        assert device.meter == {"name": "fake", "settings": {}}
        assert device.provenance.value == "simulated"
    assert [row["meter"] for row in device.asked("open")] == [None]
