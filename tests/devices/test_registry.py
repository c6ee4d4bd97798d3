"""Devices as they are written on the command line: every form, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampere.core.workloads import Settings
from ampere.devices.adb import AdbDevice
from ampere.devices.local import LocalDevice
from ampere.devices.physics import simulated_devices
from ampere.devices.recorded import RecordedDevice
from ampere.devices.registry import FORMS, OPTIONS, open_device
from ampere.devices.simulated import SimulatedDevice
from ampere.devices.ssh import SshDevice
from ampere.errors import AmpereError, DeviceError, JournalError
from ampere.profiles.profile import fit
from fakes import exact, plain_model


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "old.ampere"
    fit([exact(plain_model(8))]).save(path)
    return path


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("local", LocalDevice),
        (" local ", LocalDevice),
        ("ssh:pi@raspberrypi", SshDevice),
        ("ssh:pi@raspberrypi,python=/usr/bin/python3,config=/tmp/config", SshDevice),
        ("adb", AdbDevice),
        ("adb:192.168.0.7:5555, python=python3.11, adb=/opt/adb", AdbDevice),
        *((f"simulated:{name}", SimulatedDevice) for name in simulated_devices()),
    ],
)
def test_every_form(text: str, kind: type) -> None:
    """Nothing is reached for before it is used, so all of them can be opened here."""
    device = open_device(text)
    assert type(device) is kind
    device.close()


def test_a_recorded_device_is_a_file(journal: Path) -> None:
    device = open_device(f"recorded:{journal}")
    assert isinstance(device, RecordedDevice)
    assert len(device.networks) == 1


def test_targets_options_settings_and_meters_arrive() -> None:
    settings = Settings(threads=2)
    device = open_device("ssh:pi@host,python=py3", settings, "cpu", {"idle_w": 3.0})
    assert isinstance(device, SshDevice)
    assert (device._host, device._python, device._settings) == ("pi@host", "py3", settings)
    assert device._meter == {"name": "cpu", "settings": {"idle_w": 3.0}}
    phone = open_device("adb:host:5555,adb=/opt/adb")
    assert isinstance(phone, AdbDevice)
    assert (phone._serial, phone._adb) == ("host:5555", ["/opt/adb", "-s", "host:5555"])
    board = open_device("simulated:xavier,seed=3")
    assert board.meter["settings"] == {"seed": 3}
    here = open_device("local", settings, "cpu", {"idle_w": 3.0})
    assert isinstance(here, LocalDevice)
    assert (here._settings, here._meter["name"]) == (settings, "cpu")


def test_every_form_that_is_named_can_be_opened(journal: Path) -> None:
    assert {form.split(":")[0] for form in FORMS.replace(" or", ",").split(", ")} == set(OPTIONS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "unknown device ''"),
        ("abacus", "use local, ssh:user@host"),
        ("Local", "unknown device"),
        ("local:here", "unknown device"),
        ("ssh", "unknown device"),
        ("ssh:", "ssh:user@host"),
        ("ssh:,python=py3", "unknown device"),
        ("ssh:-oProxyCommand=evil", "is no host"),
        ("simulated", "unknown device"),
        ("simulated:abacus", "use one of"),
        ("recorded:", "recorded:file.ampere"),
        ("ssh:host,port=22", "does not take 'port'; its options are: python, config"),
        ("ssh:host,", "does not take ''"),
        ("ssh:host,=3", "does not take ''"),
        ("ssh:host,python=", "give python=value, once"),
        ("ssh:host,python", "give python=value, once"),
        ("ssh:host,python=a,python=b", "give python=value, once"),
        ("simulated:xavier,seed=many", "'many' is not a whole number"),
        ("simulated:xavier,python=py3", "its options are: seed"),
        ("recorded:file,python=py3", "it has no options"),
    ],
)
def test_wrong_forms_are_said_in_a_line(text: str, says: str) -> None:
    with pytest.raises(DeviceError) as caught:
        open_device(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["simulated:xavier", "recorded:{journal}"])
def test_some_bring_their_own_joules(journal: Path, text: str) -> None:
    text = text.format(journal=journal)
    kind = text.partition(":")[0]
    says = f"a {kind} device has a meter and settings of its own"
    with pytest.raises(DeviceError, match=says):
        open_device(text, meter="cpu")
    with pytest.raises(DeviceError, match=says):
        open_device(text, Settings(threads=1))
    open_device(text, Settings()).close()  # what the command line passes when nothing was said


def test_a_journal_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="does not exist"):
        open_device(f"recorded:{tmp_path / 'absent'}")
    with pytest.raises(AmpereError, match="is a directory"):
        open_device(f"recorded:{tmp_path}")
